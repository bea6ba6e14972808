import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  DeleteMessageCommand,
  ReceiveMessageCommand,
  SQSClient,
  SendMessageCommand,
} from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { deadLetterQueueName, hintSchema, queueName } from '#events/hint.ts';
import { everything } from '#events/replay/selection.ts';
import { DeadLetters } from '#infra/cli/replay/dead-letters.ts';
import { connectQueues } from '#infra/cli/replay/queue-place.ts';
import { readConfig } from '#shared/kernel/config.ts';
import { embeddedQueueUrlPrefix } from '#shared/queue/sqs-sender.ts';

const config = readConfig(
  z.object({
    BENCH_CONTENDER: z.enum(['millrace', 'naive']),
    BENCH_QUEUE: z.url(),
    BENCH_STAGE: z.string(),
    BENCH_CLUSTER: z.string(),
    BENCH_LETTERS: z.coerce.number(),
    BENCH_FOLDER: z.string(),
  }),
);

const step = 'pool-pods';
const region = 'us-east-1';
const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
const { BENCH_QUEUE: endpoint, BENCH_STAGE: stage } = config;

/** How often it is looked at what is in use. */
const looks = 10;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const usedMib: number[] = [];

console.log(JSON.stringify({ ready: true }));
const startedMs = performance.now();
const cpuBefore = process.cpuUsage();
const letters = config.BENCH_CONTENDER === 'millrace' ? await replay() : await loop();
const seconds = (performance.now() - startedMs) / 1000;
const { user, system } = process.cpuUsage(cpuBefore);
const cpuSeconds = (user + system) / 1e6;
const peakMib = process.resourceUsage().maxRSS / 1024;
console.log(JSON.stringify({ letters, seconds, cpuSeconds, peakMib, usedMib }));

/** What is in use once everything that nobody refers to is gone; what a process has in all tells little of that. */
function look(seen: number): void {
  if (seen >= ((usedMib.length + 1) * config.BENCH_LETTERS) / looks) {
    collect();
    usedMib.push(process.memoryUsage().heapUsed / 2 ** 20);
  }
}

/** As `millrace replay` does it, but for its limit of hints a second. */
async function replay(): Promise<number> {
  const urlPrefix = embeddedQueueUrlPrefix(endpoint);
  const queues = connectQueues({ stage, region, urlPrefix, endpoint, credentials });
  const desk = new DeadLetters({
    ...queues,
    stage,
    cluster: config.BENCH_CLUSTER,
    dataFolder: config.BENCH_FOLDER,
  });
  const { counts, error } = await desk.replay(
    {
      steps: [step],
      selection: everything,
      rate: Infinity,
      onProgress: ({ seen }) => look(seen),
    },
    new AbortController().signal,
  );
  queues.close();
  if (error !== undefined) {
    throw error;
  }
  return counts.sent;
}

/** What somebody writes who has a dead-letter queue to empty and ten minutes for it. */
async function loop(): Promise<number> {
  const client = new SQSClient({ endpoint, region, credentials, useQueueUrlAsEndpoint: false });
  const urlPrefix = embeddedQueueUrlPrefix(endpoint);
  const from = `${urlPrefix}${deadLetterQueueName(stage, step)}`;
  const to = `${urlPrefix}${queueName(stage, step)}`;
  for (let sent = 0; ; sent += 1) {
    const { Messages: [message] = [] } = await client.send(
      new ReceiveMessageCommand({ QueueUrl: from, WaitTimeSeconds: 1 }),
    );
    if (message === undefined) {
      client.destroy();
      return sent;
    }
    const hint = hintSchema.parse(JSON.parse(message.Body ?? ''));
    const body = JSON.stringify({ ...hint, type: 'dev.millrace.hint.replay' });
    await client.send(
      new SendMessageCommand({ QueueUrl: to, MessageBody: body, MessageGroupId: hint.data.uid }),
    );
    await client.send(
      new DeleteMessageCommand({ QueueUrl: from, ReceiptHandle: message.ReceiptHandle }),
    );
  }
}
