import { isInQueuesRegion, regionOfQueues, regionsDiffer, sendingSchema } from '#events/sending.ts';
import { ConfigurationError } from '#shared/kernel/config.ts';
import type { LetterQueues } from '#shared/queue/queue.ts';
import { connectSqsLetters } from '#shared/queue/sqs-letters.ts';
import {
  type SqsSender,
  connectSqsSender,
  embeddedQueueUrlPrefix,
} from '#shared/queue/sqs-sender.ts';
import type { Running } from '../dev/running.ts';

/** Where the queues of a stage are, and as whom they are asked. */
export interface QueuePlace {
  readonly stage: string;
  readonly region: string;
  /** Put before a queue's name for its URL. */
  readonly urlPrefix: string;
  /** The server that is asked. */
  readonly endpoint: string;
  /** For an embedded queue, which takes any; found by the SDK's usual chain when absent. */
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string };
  /** Where the `millrace dev` whose queues they are records decisions, if it does. */
  readonly archive?: string;
}

export interface QueueFlags {
  readonly stage?: string;
  readonly queueUrlPrefix?: string;
  readonly queueEndpoint?: string;
  readonly region?: string;
}

const stageName = sendingSchema.shape.MILLRACE_STAGE;

/** The embedded queue checks none, and none of the user's may be taken by accident. */
const embeddedCredentials = { accessKeyId: 'local', secretAccessKey: 'local' };

/**
 * Where the queues are: what an option says, else a variable, else the `millrace dev` that runs for this cluster.
 *
 * @throws ConfigurationError where nothing says it, or two settings contradict each other
 */
export function placeQueues(
  flags: QueueFlags,
  environment: Readonly<Record<string, string>>,
  running: Running | undefined,
): QueuePlace {
  const prefix = flags.queueUrlPrefix ?? environment['MILLRACE_QUEUE_URL_PREFIX'];
  const endpoint = flags.queueEndpoint ?? environment['MILLRACE_QUEUE_ENDPOINT'];
  const stage = flags.stage ?? environment['MILLRACE_STAGE'];
  if (stage !== undefined && !stageName.safeParse(stage).success) {
    throw new ConfigurationError(['--stage: must be at most 40 letters, digits, - and _']);
  }
  if (prefix === undefined && endpoint === undefined) {
    if (running === undefined) {
      throw new ConfigurationError([
        'nothing says where the queues are: run `millrace dev` for this cluster, or give --queue-url-prefix (the stack’s output QueueUrlPrefix)',
      ]);
    }
    return {
      stage: stage ?? running.stage,
      region: running.region,
      urlPrefix: embeddedQueueUrlPrefix(running.queue),
      endpoint: running.queue,
      credentials: embeddedCredentials,
      ...(running.archive === undefined ? {} : { archive: running.archive }),
    };
  }
  const problems = [
    ...problemOf('--queue-url-prefix', prefix),
    ...problemOf('--queue-endpoint', endpoint),
  ];
  const urlPrefix =
    prefix === undefined
      ? embeddedQueueUrlPrefix(endpoint ?? '')
      : `${prefix.replace(/\/+$/, '')}/`;
  const given = flags.region ?? environment['AWS_REGION'];
  const region = given ?? regionOfQueues(urlPrefix);
  if (region === undefined) {
    problems.push('--region: is missing, and so is AWS_REGION: the region of the queues');
  }
  const regions = { AWS_REGION: given, MILLRACE_QUEUE_URL_PREFIX: urlPrefix };
  if (!isInQueuesRegion(regions)) {
    const name = flags.region === undefined ? 'AWS_REGION' : '--region';
    problems.push(`${name}: ${regionsDiffer.error}`);
  }
  if (problems.length > 0) {
    throw new ConfigurationError(problems);
  }
  return {
    stage: stage ?? 'local',
    region: region ?? '',
    urlPrefix,
    endpoint: endpoint ?? new URL(urlPrefix).origin,
    ...(prefix === undefined && environment['AWS_ACCESS_KEY_ID'] === undefined
      ? { credentials: embeddedCredentials }
      : {}),
  };
}

function problemOf(option: string, url: string | undefined): readonly string[] {
  return url === undefined || URL.canParse(url) ? [] : [`${option}: is no URL`];
}

/** Both sides of the queues. Nothing is asked before the first call. */
export function connectQueues(place: QueuePlace): {
  readonly letters: LetterQueues;
  readonly sender: SqsSender;
  close(): void;
} {
  const { region, endpoint, urlPrefix, credentials } = place;
  const access = { region, endpoint, ...(credentials === undefined ? {} : { credentials }) };
  const letters = connectSqsLetters(access, urlPrefix);
  const sender = connectSqsSender(access, urlPrefix);
  return {
    letters,
    sender,
    close() {
      letters.close();
      sender.close();
    },
  };
}
