import { setTimeout as delay } from 'node:timers/promises';
import type { AuditedRequest } from '#infra/local/control-plane/audit-log.ts';
import { stepsOf } from '#events/routes.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import {
  claimUids,
  deadLetters,
  drainState,
  expect,
  expectLeft,
  patienceSeconds,
  podsByUid,
  required,
  same,
  setReplicas,
  untilAsked,
  untilIdle,
  untilSteady,
} from './acts.ts';
import { type Wave, makeWave, mixed } from './bad-messages.ts';
import { isWrite } from './meter.ts';
import type { Stage } from './stage.ts';

/** Within so long after its last write a step that is done has looked again, in milliseconds, and would write again. */
const quietMs = 500;

/**
 * Whoever can reach a queue can put anything into it. The same drain is played twice, in peace and with bad messages at
 * each of its moves: what is created and deleted, and what is left, must be the same.
 */
export async function badHints(stage: Stage): Promise<void> {
  expect((await deadLetters(stage)) === 0, 'no dead letter was there before');
  await pourOverSettledShard(stage);

  stage.say('spec.pools[0].replicasPerCell goes from 3 to 2, in peace, for comparison');
  const inPeace = await drain(stage, async () => undefined);
  await setReplicas(stage, 3);
  await untilSteady(stage, 3);

  stage.say('from 3 to 2 again, with such messages at each of three moves of the drain');
  const poured: Poured[] = [];
  const besieged = await drain(stage, async () => {
    poured.push(await pour(stage));
  });

  const { messages, refused } = await collect(stage, poured);
  expect(besieged.touched === inPeace.touched, 'the same objects were created and deleted');
  expect(besieged.left === inPeace.left, 'the shard ended in the same state');
  stage.say(
    `${messages} messages during the drain, ${refused} of them dead letters; ` +
      `created and deleted, in peace and now: ${besieged.touched}`,
  );
  stage.say(
    `in peace ${inPeace.seconds.toFixed(1)} s and ${inPeace.writes} writes, ` +
      `now ${besieged.seconds.toFixed(1)} s and ${besieged.writes} writes`,
  );
}

async function pourOverSettledShard(stage: Stage): Promise<void> {
  await untilQuiet(stage);
  const from = (await writesOfSteps(stage)).length;
  const decided = stage.decisions.all.length;
  stage.say(
    'the shard is settled; into each queue go copies of one hint, hints of last year in the wrong order, ' +
      'forged ones, and garbage',
  );
  const poured = [await pour(stage)];
  await untilIdle(stage);
  const { messages, refused } = await collect(stage, poured);
  const looks = stage.decisions.all.length - decided;
  const writes = (await writesOfSteps(stage)).slice(from);
  expect(writes.length === 0, `no step wrote anything (${writes.map(describe).join(', ')})`);
  expect(looks > 0, 'the hints among them were looked at');
  stage.say(
    `${messages} messages: ${looks} looks, ${writes.length} writes, ` +
      `${refused} dead letters, each byte for byte as it was sent`,
  );
}

/** What was put into the queue of each step. */
type Poured = ReadonlyMap<StepName, Wave>;

/** Puts one wave into the queue of every step, all at the same time. */
async function pour(stage: Stage): Promise<Poured> {
  const { clusterId, namespace } = stage;
  const { name, uid, resourceVersion } = required(
    stage.world.get('Shard', stage.shard),
    'the Shard',
  ).metadata;
  const target = { clusterId, namespace, name, uid, resourceVersion };
  const poured = new Map(
    stepsOf('Shard').map((step) => [step, makeWave(step, target, wallClock())] as const),
  );
  await Promise.all([...poured].map(([step, wave]) => stage.queues.send(step, mixed(wave))));
  return poured;
}

/** Empties the dead-letter queues. They must hold exactly the garbage. */
async function collect(
  stage: Stage,
  poured: readonly Poured[],
): Promise<{ readonly messages: number; readonly refused: number }> {
  let messages = 0;
  let refused = 0;
  for (const step of stepsOf('Shard')) {
    const waves = poured.flatMap((each) => each.get(step) ?? []);
    const garbage = waves.flatMap((wave) => wave.garbage);
    const found = await stage.queues.takeDeadLetters(step);
    expect(
      JSON.stringify(found.toSorted()) === JSON.stringify(garbage.toSorted()),
      `the dead-letter queue of ${step} holds the garbage and nothing else`,
    );
    messages += waves.reduce((total, { hints }) => total + hints.length, garbage.length);
    refused += found.length;
  }
  return { messages, refused };
}

interface Drained {
  /** Which kinds of objects were created and deleted, and how often, Events aside. */
  readonly touched: string;
  /** What is there afterwards. */
  readonly left: string;
  readonly writes: number;
  readonly seconds: number;
}

/** Three members become two; `atEachMove` is run while the drain settles, when it goes on, and once the pod stops. */
async function drain(stage: Stage, atEachMove: () => Promise<void>): Promise<Drained> {
  await untilQuiet(stage);
  const from = (await writesOfSteps(stage)).length;
  const before = podsByUid(stage);
  const claims = claimUids(stage);
  const startedAtMs = performance.now();
  await setReplicas(stage, 2);
  await stage.world.until(
    'the drain has begun',
    patienceSeconds,
    () => drainState(stage) === 'draining',
  );
  await atEachMove();
  await stage.world.until(
    'the drain goes on',
    patienceSeconds,
    () => drainState(stage) !== 'draining',
  );
  await atEachMove();
  await stage.world.until('the pod stops', patienceSeconds, () =>
    [...before.keys()].some((uid) => !isThere(stage, uid)),
  );
  await atEachMove();
  await untilSteady(stage, 2);
  const seconds = (performance.now() - startedAtMs) / 1000;
  await untilQuiet(stage);
  const [left] = [...before.keys()].filter((uid) => !podsByUid(stage).has(uid));
  await expectLeft(stage, before.get(left ?? '') ?? '');
  expect(same(claims, claimUids(stage)), 'no claim came or went');
  const writes = (await writesOfSteps(stage)).slice(from);
  return { touched: touchedBy(writes), left: stateOf(stage), writes: writes.length, seconds };
}

function isThere(stage: Stage, uid: string): boolean {
  return stage.world
    .all('Pod')
    .some(({ metadata }) => metadata.uid === uid && metadata.deletionTimestamp === undefined);
}

function touchedBy(writes: readonly AuditedRequest[]): string {
  const counts = new Map<string, number>();
  for (const { verb, resource = '', name = '', status = 0 } of writes) {
    if (verb !== 'patch' && verb !== 'update' && resource !== 'events' && status < 300) {
      const what = `${verb} ${resource}/${name}`;
      counts.set(what, (counts.get(what) ?? 0) + 1);
    }
  }
  return [...counts]
    .map(([what, count]) => `${count} × ${what}`)
    .toSorted()
    .join(', ');
}

/** Names, claims and conditions; not versions and times, which differ between any two runs. */
function stateOf(stage: Stage): string {
  const conditions = stage.world.get('Shard', stage.shard)?.status?.conditions ?? [];
  return JSON.stringify({
    pods: [...podsByUid(stage).values()].toSorted(),
    claims: [...claimUids(stage)].map(([name, uid]) => `${name} ${uid}`).toSorted(),
    conditions: conditions
      .map(({ type, status, reason, message }) => `${type}=${status} ${reason} ${message}`)
      .toSorted(),
  });
}

/** Nothing is owed, nothing waits, and no step has written anything for a while. */
async function untilQuiet(stage: Stage): Promise<void> {
  let before = -1;
  await untilAsked('the steps have nothing to do', async () => {
    await untilIdle(stage);
    const writes = (await writesOfSteps(stage)).length;
    const isQuiet = writes === before;
    before = writes;
    await delay(isQuiet ? 0 : quietMs);
    return isQuiet;
  });
}

async function writesOfSteps(stage: Stage): Promise<readonly AuditedRequest[]> {
  const agents = new Set(stepNames.map((step) => `millrace/${step}`));
  return (await stage.requests()).filter(
    (request) => isWrite(request) && agents.has(request.userAgent),
  );
}

function describe({ verb, path }: AuditedRequest): string {
  return `${verb} ${path}`;
}
