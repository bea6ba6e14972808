import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { twoSteps } from '#test/builders/two-steps.ts';
import type { FaultyProxy, ProxiedRequest, Treatment } from './faulty-proxy.ts';
import type { HintLedger } from './hint-ledger.ts';
import { missingControlPlane } from './local-control-plane.ts';
import { messagesIn, useQueueProcess } from './queue-contents.ts';
import { RelayScene, eventually, useCluster } from './relay-scene.ts';

/**
 * What can happen between the relay and its queues, on a real queue server behind a proxy that fails, and what the
 * relay does about it. Each row is played for seconds and for minutes: hundreds of changes are made while it lasts, it
 * heals, and then the count of final states without a hint must be 0 (L7). Meanwhile, for every row, `dirty` must grow
 * to the number of targets and no further (L8), `oldest_unsent_seconds` with the outage, and `send_failures_total`.
 */
interface QueueFault {
  readonly fault: string;
  /** What the relay does. */
  readonly reaction: string;
  /** What its log line `send failed` gives as the reason. */
  readonly why: RegExp;
  readonly begin: (queue: FaultyProxy) => void;
  /** Whether the queue takes messages meanwhile, which the relay then sends again. */
  readonly takesMessages?: true;
}

const faults: readonly QueueFault[] = [
  {
    fault: 'refuses connections',
    reaction: 'keeps what is owed and tries again after 0.1 s to 5 s',
    why: /ECONNREFUSED|ECONNRESET|hang up/,
    begin: (queue) => queue.refuse(),
  },
  {
    fault: 'hangs: takes connections and never answers',
    reaction: 'gives each call up after 10 s and tries again',
    why: /did not answer within 10 s/,
    begin: (queue) => queue.fallSilent(),
  },
  {
    fault: 'throttles',
    reaction: 'keeps what is owed and tries again after 0.1 s to 5 s',
    why: /throttl/i,
    begin: (queue) => queue.treat(() => throttled),
  },
  {
    fault: 'fails with 503',
    reaction: 'keeps what is owed and tries again after 0.1 s to 5 s',
    why: /503|unavailable/i,
    begin: (queue) => queue.treat(() => unavailable),
  },
  {
    fault: 'takes messages and loses its answers (F14)',
    reaction: 'sends again what it was not told about: duplicates, and nothing else',
    why: /ECONNRESET|hang up/,
    begin: (queue) => queue.treat(() => ({ kind: 'loseReply' })),
    takesMessages: true,
  },
];

/** How long it lasts, in seconds: the longer first, so that the shorter ones fill the gaps. */
const durations = [75, 5];

const outages = durations.flatMap((seconds) => faults.map((row) => ({ ...row, seconds })));

/** How soon after its end everything must be sent, in seconds: one call's limit of 10 s, one wait of 5 s, and sending. */
const recoverySeconds = 20;

const stage = 'queue-faults';
const targets = 30;
const changes = 330;

/** The changes come in so many portions over the whole outage. */
const portions = 11;

const ledgers: HintLedger[] = [];
const recoveries: string[] = [];

describe.skipIf(missingControlPlane !== undefined)('between relay and queue', () => {
  const queue = useQueueProcess(stage);
  const controlPlane = useCluster();

  afterAll(() => {
    process.stderr.write(`${recoveries.join('\n')}\n`);
  });

  const open = (namespace: string) =>
    RelayScene.open({
      controlPlane: controlPlane(),
      queueUrl: queue().url,
      stage,
      namespace,
      targets,
      relay: 'asInProduction',
    });

  test.concurrent.for(outages)(
    'L7, L8: a queue that $fault for $seconds s: the relay $reaction',
    { timeout: 300_000 },
    async (row) => {
      await using scene = await open(
        `outage-${faults.findIndex(({ fault }) => fault === row.fault)}-${row.seconds}`,
      );
      await outage(scene, row, row.seconds);
    },
  );

  test.concurrent(
    'F28: a queue that refuses every third message of a batch: the relay sends exactly those again',
    { timeout: 120_000 },
    async () => {
      await using scene = await open('partly');
      await partialFailures(scene);
    },
  );

  test('every hint that was counted is in the queue, and no other', async () => {
    const counted = ledgers.reduce((sum, { hints }) => sum + hints.length, 0);

    expect(await messagesIn(queue().url, stage)).toBe(counted);
    expect(counted).toBeGreaterThan(0);
  });
});

async function outage(scene: RelayScene, row: QueueFault, seconds: number): Promise<void> {
  const { ledger, relay, queue, herd } = scene;
  ledgers.push(ledger);
  await scene.untilCalm();
  const written = ledger.writes;
  const received = ledger.hints.length;
  const failures = await relay.metric('send_failures_total');

  row.begin(queue);
  const startMs = performance.now();
  const owed: number[] = [];
  for (let portion = 1; portion <= portions; portion += 1) {
    await herd.change(changes / portions);
    await (portion === 1 ? herd.turnOver() : undefined);
    owed.push(...(await dirty(scene)));
    // An outage takes its time; the changes are spread over it.
    await delay(Math.max(0, startMs + (portion * seconds * 1000) / portions - performance.now()));
  }
  // Whatever the queue takes meanwhile, the relay has not been told so.
  const owedAtEnd = await eventually(
    'every target is owed a look, those that are gone included',
    () => dirty(scene),
    (each) => each.every((size) => size === ledger.targets),
  );
  const oldest = await relay.metric('oldest_unsent_seconds');
  const lastedSeconds = (performance.now() - startMs) / 1000;
  const receivedMeanwhile = ledger.hints.length - received;
  await queue.heal();
  const healedMs = performance.now();
  await scene.untilCalm();
  const recovered = (performance.now() - healedMs) / 1000;
  recoveries.push(`${row.fault}, ${seconds} s: all sent ${recovered.toFixed(1)} s after it healed`);

  const statesWithoutHint = ledger.withoutHint().length;
  expect(statesWithoutHint).toBe(0);
  expect(ledger.falselyDeleted()).toEqual([]);
  expect(ledger.writes - written).toBeGreaterThanOrEqual(300);
  expect(Math.max(...owed, ...owedAtEnd)).toBeLessThanOrEqual(ledger.targets);
  expect(oldest).toBeGreaterThan(0.8 * lastedSeconds - 1);
  expect(await relay.metric('send_failures_total')).toBeGreaterThan(failures);
  expect(await relay.metric('oldest_unsent_seconds')).toBe(0);
  expect(recovered).toBeLessThan(recoverySeconds);
  expect(receivedMeanwhile > 0).toBe(row.takesMessages === true);
  expect(ledger.duplicates > 0).toBe(row.takesMessages === true);
  const reasons = relay.log
    .where({ msg: 'send failed' })
    .map((line) => JSON.stringify(line['why']));
  expect(
    reasons.filter((why) => row.why.test(why)),
    reasons.join('; '),
  ).not.toEqual([]);
}

async function partialFailures(scene: RelayScene): Promise<void> {
  const { ledger, relay, queue, herd } = scene;
  ledgers.push(ledger);
  await scene.untilCalm();
  const failures = await relay.metric('send_failures_total');
  const before = ledger.hints.length;
  const refused = new Set<string>();

  queue.treat((request) => (isBatch(request) ? withoutEveryThird(request, refused) : undefined));
  await herd.change(changes);
  await herd.turnOver();
  // Some are refused again and again, until by chance they are not every third any more.
  await scene.untilCalm();
  await queue.heal();

  const statesWithoutHint = ledger.withoutHint().length;
  expect(statesWithoutHint).toBe(0);
  expect(ledger.falselyDeleted()).toEqual([]);
  expect(refused.size).toBeGreaterThan(0);
  expect(ledger.hints.length - before).toBeGreaterThan(2 * targets);
  expect(ledger.duplicates).toBe(0);
  expect(await relay.metric('send_failures_total')).toBeGreaterThan(failures);
  const reasons = relay.log.where({ msg: 'send failed' }).map((line) => line['why']);
  expect(new Set(reasons)).toEqual(new Set(['InternalError']));
}

/** What the relay owes each step. */
function dirty({ relay }: RelayScene): Promise<number[]> {
  return Promise.all(twoSteps.map((step) => relay.metric(`dirty{step="${step}"}`)));
}

/** As SQS says it: an error of its JSON protocol, with the older name in a header (SQS API Reference, "Common errors"). */
const throttled: Treatment = {
  kind: 'answer',
  status: 400,
  headers: {
    'content-type': 'application/x-amz-json-1.0',
    'x-amzn-query-error': 'RequestThrottled;Sender',
  },
  body: { __type: 'com.amazonaws.sqs#RequestThrottled', message: 'Request is throttled.' },
};

const unavailable: Treatment = {
  kind: 'answer',
  status: 503,
  headers: { 'content-type': 'application/x-amz-json-1.0' },
  body: { __type: 'com.amazonaws.sqs#ServiceUnavailable', message: '503 Service Unavailable' },
};

const batchSchema = z.looseObject({ Entries: z.array(z.looseObject({ Id: z.string() })) });

const answerSchema = z.looseObject({ Failed: z.array(z.unknown()).optional() });

function isBatch({ headers }: ProxiedRequest): boolean {
  return headers['x-amz-target'] === 'AmazonSQS.SendMessageBatch';
}

/** The real queue gets the others; the answer names these as failed, with the code of a fault on the queue's side. */
function withoutEveryThird({ body }: ProxiedRequest, refused: Set<string>): Treatment | undefined {
  const batch = batchSchema.parse(JSON.parse(body));
  const isRefused = (_: unknown, place: number): boolean => place % 3 === 2;
  const failed = batch.Entries.filter(isRefused);
  if (failed.length === 0) {
    return undefined;
  }
  failed.forEach((entry) => refused.add(JSON.stringify(entry)));
  const Entries = batch.Entries.filter((entry, place) => !isRefused(entry, place));
  const Failed = failed.map(({ Id }) => ({ Id, SenderFault: false, Code: 'InternalError' }));
  return {
    kind: 'amend',
    request: () => JSON.stringify({ ...batch, Entries }),
    answer: (text) => JSON.stringify({ ...answerSchema.parse(JSON.parse(text)), Failed }),
  };
}
