import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pLimit from 'p-limit';
import * as z from 'zod';
import { deadLetterQueueName, makeHint, queueName } from '#events/hint.ts';
import { launch } from '#infra/local/child/launch.ts';
import { startQueue } from '#infra/local/queue/start.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { maxBatchEntries } from '#shared/queue/queue.ts';
import { connectSqsSender, embeddedQueueUrlPrefix } from '#shared/queue/sqs-sender.ts';
import { countMessages, openQueueClient } from '../cluster/queue-contents.ts';
import { figure } from './figure.ts';
import { type Part, type PartOptions, scaled } from './part.ts';

const step = 'pool-pods';
const region = 'us-east-1';
const cluster = 'bench';

/** The peer takes its letters one by one; its rate does not depend on how many there are. */
const peerShare = 50;

/** 200 letters a second. */
const secondsPerThousand = 5;

/** What is in use may differ by so much between any two moments, in MiB: bounded is what does not grow with the letters. */
const mostMib = 8;

const endSchema = z.object({
  letters: z.number(),
  seconds: z.number(),
  cpuSeconds: z.number(),
  peakMib: z.number(),
  /** In use after each tenth of the letters, without what can be collected. */
  usedMib: z.array(z.number()),
});
type End = z.infer<typeof endSchema>;

export const replay: Part = {
  name: 'replay',
  title: '100,000 dead letters replayed, beside a loop that takes them one by one',
  async measure(options) {
    const letters = scaled(100_000, options);
    const peerLetters = Math.max(1, Math.round(letters / peerShare));
    const peer = await run('naive', peerLetters, options);
    const own = await run('millrace', letters, options);
    return [
      figure('replay: 1,000 letters', perThousand(own, own.seconds), 's', {
        goal: secondsPerThousand,
        peer: perThousand(peer, peer.seconds),
      }),
      figure('replay: processor time of 1,000 letters', perThousand(own, own.cpuSeconds), 's', {
        peer: perThousand(peer, peer.cpuSeconds),
      }),
      figure('replay: letters a second', own.letters / own.seconds, '1/s', {
        peer: peer.letters / peer.seconds,
      }),
      figure('replay: most memory', own.peakMib, 'MiB', { peer: peer.peakMib }),
      figure('replay: in use, the most', Math.max(...own.usedMib), 'MiB'),
      figure('replay: in use, more after all letters than after a tenth', growth(own), 'MiB', {
        goal: mostMib,
      }),
    ];
  },
};

function perThousand({ letters }: End, seconds: number): number {
  return (1000 * seconds) / letters;
}

function growth({ usedMib }: End): number {
  return (usedMib.at(-1) ?? Number.NaN) - (usedMib[0] ?? Number.NaN);
}

/** A process of its own over a queue of its own. Fails where a letter is left, or a hint did not arrive. */
async function run(
  contender: 'millrace' | 'naive',
  letters: number,
  { log }: PartOptions,
): Promise<End> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-replay-'));
  const stage = `bench-${contender}`;
  const queue = await startQueue({
    dataDir: join(folder, 'queue'),
    port: 0,
    stage,
    region,
    visibilitySeconds: 180,
  });
  const endpoint = queue.announced.url;
  try {
    log(`${letters.toLocaleString('en')} letters are put into a queue`);
    await fill(endpoint, stage, letters);
    log(`${contender} replays them`);
    const { promise, resolve } = Promise.withResolvers<End>();
    const child = await launch({
      name: contender,
      entry: new URL('replay/main.ts', import.meta.url),
      environment: {
        BENCH_CONTENDER: contender,
        BENCH_QUEUE: endpoint,
        BENCH_STAGE: stage,
        BENCH_CLUSTER: cluster,
        BENCH_LETTERS: String(letters),
        BENCH_FOLDER: join(folder, 'state'),
      },
      announcement: z.object({}),
      readyTimeoutMs: 60_000,
      onLine: (line) => {
        const parsed = endSchema.safeParse(JSON.parse(line));
        if (parsed.success) {
          resolve(parsed.data);
        }
      },
    });
    const end = await Promise.race([
      promise,
      child.exited.then((why) => Promise.reject(new Error(`${contender} ended with ${why}`))),
    ]);
    await expectMoved(endpoint, stage, letters);
    return end;
  } finally {
    await queue.stop(5_000);
    await rm(folder, { recursive: true, force: true });
  }
}

async function fill(endpoint: string, stage: string, letters: number): Promise<void> {
  const sender = connectSqsSender(
    { region, endpoint, credentials: { accessKeyId: 'local', secretAccessKey: 'local' } },
    embeddedQueueUrlPrefix(endpoint),
  );
  const batches = Array.from({ length: Math.ceil(letters / maxBatchEntries) }, (_, batch) => batch);
  await pLimit(8).map(batches, async (batch) => {
    const first = batch * maxBatchEntries;
    const entries = Array.from(
      { length: Math.min(maxBatchEntries, letters - first) },
      (_, place) => {
        const name = `orders-${first + place}`;
        const target = { kind: 'Shard', plural: 'shards', namespace: 'db', name, uid: name };
        const at = wallClock();
        const hint = makeHint({ step, cause: 'changed', source: cluster, target, token: '1', at });
        return { id: String(place), body: JSON.stringify(hint), group: name };
      },
    );
    await sender.send(deadLetterQueueName(stage, step), entries);
  });
  sender.close();
}

async function expectMoved(endpoint: string, stage: string, letters: number): Promise<void> {
  const client = openQueueClient(endpoint);
  const left = await countMessages(client, endpoint, deadLetterQueueName(stage, step));
  const arrived = await countMessages(client, endpoint, queueName(stage, step));
  client.destroy();
  if (left !== 0 || arrived !== letters) {
    throw new Error(`${left} letters are left, and ${arrived} of ${letters} hints arrived`);
  }
}
