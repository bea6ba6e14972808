import * as z from 'zod';
import { commaList, logLevel } from '#shared/kernel/config.ts';

/** `<namespace>/<name>` of a Lease: a DNS label and a DNS subdomain. */
const leaseName =
  /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)\/(?=.{1,253}$)([a-z0-9]([a-z0-9.-]*[a-z0-9])?)$/;

const dnsLabel = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** Without it these checks wait until every variable has its form, and problems come out one batch at a time. */
const always = (): boolean => true;

/** Which Lease relays agree by. */
export const leaseSchema = z
  .string()
  .regex(leaseName, 'must be the namespace and the name of a Lease, with a slash between')
  .transform((text) => {
    const [namespace = '', name = ''] = text.split('/');
    return { namespace, name };
  });

/** How the relay's environment must look. What each variable means: README.md beside this file. */
export const relayConfigSchema = z
  .object({
    MILLRACE_CLUSTER_ID: z
      .string('is missing: the id under which this cluster sends its hints')
      .max(100, 'has more than 100 characters'),
    MILLRACE_STAGE: z
      .string('is missing: the part of the queues’ names between millrace- and the step')
      .regex(/^[A-Za-z0-9_-]{1,40}$/, 'must be at most 40 letters, digits, - and _'),
    MILLRACE_NAMESPACES: commaList.pipe(
      z.array(z.string().regex(dnsLabel, 'must be names of namespaces, separated by commas')),
    ),
    MILLRACE_QUEUE_ENDPOINT: z.url('must be a URL').optional(),
    MILLRACE_QUEUE_URL_PREFIX: z
      .url('must be a URL')
      .transform((url) => `${url.replace(/\/+$/, '')}/`)
      .optional(),
    AWS_REGION: z.string('is missing: the region of the queues'),
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
    MILLRACE_LOG_LEVEL: logLevel,
  })
  .refine(
    (config) =>
      config.MILLRACE_QUEUE_ENDPOINT !== undefined ||
      config.MILLRACE_QUEUE_URL_PREFIX !== undefined,
    {
      path: ['MILLRACE_QUEUE_URL_PREFIX'],
      error: 'is missing, and so is MILLRACE_QUEUE_ENDPOINT: one of them says where the queues are',
      when: always,
    },
  )
  .refine(
    (config) => config.KUBECONFIG !== undefined || config.KUBERNETES_SERVICE_HOST !== undefined,
    {
      path: ['KUBECONFIG'],
      error: 'is missing, and this process runs in no pod',
      when: always,
    },
  );

export type RelayConfig = z.infer<typeof relayConfigSchema>;
