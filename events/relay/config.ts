import * as z from 'zod';
import {
  isInQueuesRegion,
  knowsQueues,
  queuesMissing,
  regionsDiffer,
  sendingSchema,
} from '#events/sending.ts';
import { placeSchema } from '#shared/archive/config.ts';
import { always, logLevel } from '#shared/kernel/config.ts';

/** `<namespace>/<name>` of a Lease: a DNS label and a DNS subdomain. */
const leaseName =
  /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)\/(?=.{1,253}$)([a-z0-9]([a-z0-9.-]*[a-z0-9])?)$/;

/** Which Lease relays agree by. */
export const leaseSchema = z
  .string()
  .regex(leaseName, 'must be the namespace and the name of a Lease, with a slash between')
  .transform((text) => {
    const [namespace = '', name = ''] = text.split('/');
    return { namespace, name };
  });

/** How the relay's environment must look. What each variable means: README.md beside this file. */
export const relayConfigSchema = sendingSchema
  .extend({
    KUBECONFIG: z.string().optional(),
    MILLRACE_KUBE_CONTEXT: z.string().optional(),
    KUBERNETES_SERVICE_HOST: z.string().optional(),
    MILLRACE_RELAY_HOST: z.string().optional(),
    MILLRACE_RELAY_PORT: z.coerce
      .number('must be a port')
      .int('must be a port')
      .min(0, 'must be a port')
      .max(65_535, 'must be a port')
      .default(8080),
    MILLRACE_LEASE: leaseSchema.optional(),
    MILLRACE_LEASE_SECONDS: z.coerce
      .number('must be whole seconds')
      .int('must be whole seconds')
      .min(3, 'must be at least 3: there has to be time to renew')
      .max(300, 'must be at most 300: so long nobody sends after a relay was killed')
      .default(15),
    MILLRACE_ARCHIVE: placeSchema.optional(),
    MILLRACE_LOG_LEVEL: logLevel,
  })
  .refine(knowsQueues, queuesMissing)
  .refine(isInQueuesRegion, regionsDiffer)
  .refine(
    (config) => config.KUBECONFIG !== undefined || config.KUBERNETES_SERVICE_HOST !== undefined,
    {
      path: ['KUBECONFIG'],
      error: 'is missing, and this process runs in no pod',
      when: always,
    },
  );

export type RelayConfig = z.infer<typeof relayConfigSchema>;
