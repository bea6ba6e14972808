import { setTimeout as delay } from 'node:timers/promises';
import {
  deadLetters,
  drainState,
  expect,
  expectLeft,
  isPodDelete,
  patienceSeconds,
  podsByUid,
  setReplicas,
  untilIdle,
  untilSteady,
} from './acts.ts';
import { isWrite } from './meter.ts';
import { type Part, partNames } from './millrace-process.ts';
import type { Stage } from './stage.ts';

/** Of real time, whatever the speed of the data plane. */
const outageSeconds = 10;

/** How soon after the outage a step must look again, in seconds: the longest pause of relay and worker is 5. */
const resumeSeconds = 10;

/**
 * The queue hangs in the middle of a drain: it takes connections and answers nobody. It is frozen and not killed,
 * because `millrace dev` would have a dead one running again within a second.
 */
export async function queueDown(stage: Stage): Promise<void> {
  const before = podsByUid(stage);
  const from = (await stage.requests()).length;
  const pids = pidsOf(stage);
  stage.say(
    `spec.pools[0].replicasPerCell goes from 3 to 2; the queue hangs for ${outageSeconds} s in the middle of the drain`,
  );
  await setReplicas(stage, 2);
  await stage.world.until(
    'the drain has begun',
    patienceSeconds,
    () => drainState(stage) === 'draining',
  );
  await untilIdle(stage);
  expect(isUnderWay(stage), 'the drain has begun and is not over');

  await spendOutage(stage);

  const backAtMs = performance.now();
  const decided = stage.decisions.all.length;
  stage.say('the queue goes on where it stood');
  await stage.decisions.changes.until(
    'a step looks again',
    resumeSeconds,
    () => stage.decisions.all.length > decided,
  );
  const lookedMs = performance.now() - backAtMs;
  await untilSteady(stage, 2);
  const endedMs = performance.now() - backAtMs;
  await untilIdle(stage);

  const after = podsByUid(stage);
  const [left] = [...before].filter(([uid]) => !after.has(uid)).map(([, name]) => name);
  const deletes = (await stage.requests()).slice(from).filter(isPodDelete);
  expect(after.size === 2, 'two members are left');
  expect(deletes.length === 1 && deletes[0]?.name === left, 'exactly one pod was deleted, once');
  await expectLeft(stage, left ?? '');
  expect((await deadLetters(stage)) === 0, 'no hint ended as a dead letter');
  expect(
    partNames.every((part) => pids[part] === stage.millrace.pidOf(part)),
    'relay, worker and queue are the processes they were',
  );
  stage.say(
    `first look ${seconds(lookedMs)} s after it came back, drain over after ${seconds(endedMs)} s; ` +
      `pods deleted: ${deletes.length}, hints owed: ${(await stage.relay()).owed}`,
  );
}

async function spendOutage(stage: Stage): Promise<void> {
  await using outage = new AsyncDisposableStack();
  outage.use(await stage.millrace.freeze('queue'));
  const from = (await stage.requests()).length;
  const decided = stage.decisions.all.length;
  stage.say('the queue is frozen (SIGSTOP): it takes connections and answers nobody');
  const halfMs = (outageSeconds * 1000) / 2;
  const [hasAnswered, decidedFirst] = await Promise.all([
    stage.queues.hasAnswered(AbortSignal.timeout(2 * halfMs)),
    // Whoever had a message in hand when the queue froze may end that look.
    delay(halfMs).then(() => stage.decisions.all.length),
  ]);
  expect(!hasAnswered, `the queue answered nobody for ${outageSeconds} s`);
  const decidedLast = stage.decisions.all.length;
  const relay = await stage.relay();
  const requests = (await stage.requests()).slice(from);
  expect(decidedLast === decidedFirst, 'nothing was decided while the queue was out');
  expect(!requests.some(isPodDelete), 'no pod was deleted while the queue was out');
  expect(isUnderWay(stage), 'the drain stands where it stood');
  expect(relay.owed > 0, 'the relay owes the hints it could not send');
  stage.say(
    `${outageSeconds} s later: decisions ${decidedLast - decided}, writes ${requests.filter(isWrite).length}; ` +
      `hints owed by the relay: ${relay.owed}, the oldest for ${relay.oldestOwedSeconds.toFixed(1)} s ` +
      `(failed sends: ${relay.failedBatches})`,
  );
}

/** A member was picked to leave and has not left yet. */
function isUnderWay(stage: Stage): boolean {
  return drainState(stage) !== undefined;
}

function pidsOf(stage: Stage): Readonly<Record<Part, number>> {
  const { millrace } = stage;
  return {
    relay: millrace.pidOf('relay'),
    worker: millrace.pidOf('worker'),
    queue: millrace.pidOf('queue'),
  };
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}
