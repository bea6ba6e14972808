import * as z from 'zod';
import { always, commaList } from '#shared/kernel/config.ts';
import {
  type SqsSender,
  connectSqsSender,
  embeddedQueueUrlPrefix,
} from '#shared/queue/sqs-sender.ts';

const dnsLabel = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** What whoever sends hints is told by its environment: for whom, about which namespaces, and where the queues are. */
export const sendingSchema = z.object({
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
});

type SendingConfig = z.infer<typeof sendingSchema>;

/** Whether one of the two variables says where the queues are, for a schema's `refine` with {@link queuesMissing}. */
export function knowsQueues(
  config: Pick<SendingConfig, 'MILLRACE_QUEUE_ENDPOINT' | 'MILLRACE_QUEUE_URL_PREFIX'>,
): boolean {
  return (
    config.MILLRACE_QUEUE_ENDPOINT !== undefined || config.MILLRACE_QUEUE_URL_PREFIX !== undefined
  );
}

const regionalHost = /^https:\/\/sqs\.([a-z0-9-]+)\.amazonaws\./;

/** The region in the queues' URLs; `undefined` where it is not there to see. */
export function regionOfQueues(urlPrefix: string): string | undefined {
  return regionalHost.exec(urlPrefix)?.[1];
}

/** Whether the queues are in the region that requests are signed for, for a schema's `refine` with {@link regionsDiffer}. */
export function isInQueuesRegion(config: {
  readonly AWS_REGION?: string | undefined;
  readonly MILLRACE_QUEUE_URL_PREFIX?: string | undefined;
}): boolean {
  const region = regionOfQueues(config.MILLRACE_QUEUE_URL_PREFIX ?? '');
  return region === undefined || config.AWS_REGION === undefined || region === config.AWS_REGION;
}

export const regionsDiffer = {
  path: ['AWS_REGION'],
  error: 'is not the region in MILLRACE_QUEUE_URL_PREFIX: queues are asked in their own',
  when: always,
};

export const queuesMissing = {
  path: ['MILLRACE_QUEUE_URL_PREFIX'],
  error: 'is missing, and so is MILLRACE_QUEUE_ENDPOINT: one of them says where the queues are',
  when: always,
};

/**
 * Connects to the queues. Nothing is sent before the first batch.
 *
 * @param requestTimeoutMs how long a request may take before it counts as not answered; the sender's own limit if absent
 */
export function openQueues(config: SendingConfig, requestTimeoutMs?: number): SqsSender {
  const { AWS_REGION, MILLRACE_QUEUE_ENDPOINT, MILLRACE_QUEUE_URL_PREFIX } = config;
  return connectSqsSender(
    {
      region: AWS_REGION,
      ...(MILLRACE_QUEUE_ENDPOINT === undefined ? {} : { endpoint: MILLRACE_QUEUE_ENDPOINT }),
      ...(requestTimeoutMs === undefined ? {} : { requestTimeoutMs }),
    },
    MILLRACE_QUEUE_URL_PREFIX ?? embeddedQueueUrlPrefix(MILLRACE_QUEUE_ENDPOINT ?? ''),
  );
}
