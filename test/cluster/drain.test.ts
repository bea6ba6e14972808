import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { AuditedRequest } from '#infra/local/control-plane/audit-log.ts';
import { drainState, prepare, setReplicas, untilSteady } from '#infra/local/show/acts.ts';
import { startMillrace } from '#infra/local/show/millrace-process.ts';
import { seeded } from '#test/unit/events/relay/seeded.ts';
import { useStage } from './a-stage.ts';

/** Seeded moments at which something is killed; `MILLRACE_KILLS=100` for a long run by hand. */
const kills = Number(process.env['MILLRACE_KILLS'] ?? 10);

/** Drains take about this long here, in milliseconds; a kill falls somewhere within. */
const drainMs = 11_000;

const stageUnderTest = useStage();

/** Creates and deletes that took effect, by kind: what must be the same whatever is killed. */
function made(requests: readonly AuditedRequest[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { verb, resource, status = 0 } of requests) {
    if ((verb === 'create' || verb === 'delete') && status < 300 && resource !== 'events') {
      const key = `${verb} ${resource}`;
      counts[key] = (counts[key] ?? 0) + 1;
    }
  }
  return counts;
}

const victims = ['relay', 'worker', 'queue', 'apiServer', 'etcd', 'topology'] as const;

async function kill(victim: (typeof victims)[number]): Promise<void> {
  switch (victim) {
    case 'relay':
    case 'worker':
    case 'queue':
      return stageUnderTest().stage.millrace.killAndAwaitRestart(victim);
    case 'apiServer':
    case 'etcd':
      await stageUnderTest().controlPlane.kill(victim);
      return stageUnderTest().controlPlane.restart(victim);
    case 'topology':
      await stageUnderTest().topologyEtcd.kill();
      return stageUnderTest().topologyEtcd.restart();
  }
}

async function looks(step: string, count: number): Promise<void> {
  const { decisions, patchShard } = stageUnderTest();
  const seen = () => decisions.filter((decision) => decision.step === step).length;
  const before = seen();
  for (let token = 0; token < count; token += 1) {
    const wanted = seen() + 1;
    await patchShard({
      metadata: { annotations: { 'millrace.dev/reconcile': `${step}-${before}-${token}` } },
    });
    await expect.poll(seen, { timeout: 30_000 }).toBeGreaterThanOrEqual(wanted);
  }
}

describe('a drain on a real API server', () => {
  test('brings a shard up, and a converged one costs no write and at most five reads a look (X7)', async () => {
    const { decisions } = stageUnderTest();
    await prepare(stageUnderTest().stage);
    await looks('drain-step', 1);
    await looks('pool-pods', 1);
    decisions.length = 0;

    const requests = await stageUnderTest().during(() => looks('drain-step', 5));
    const drainLooks = decisions.filter(({ step }) => step === 'drain-step').length;
    const poolLooks = decisions.filter(({ step }) => step === 'pool-pods').length;

    const of = (agent: string) =>
      requests.filter(({ userAgent }) => userAgent === `millrace/${agent}`);
    const writes = requests.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb));
    expect(writes).toEqual([]);
    expect(drainLooks).toBeGreaterThanOrEqual(5);
    expect(poolLooks).toBeGreaterThan(0);
    // When the last decision is told, one more look of each step may have read already.
    expect(of('drain-step').length).toBeLessThanOrEqual(4 * (drainLooks + 1));
    expect(of('pool-pods').length).toBeLessThanOrEqual(5 * (poolLooks + 1));
  });

  test('takes at most twelve writes of drain-step besides Events', async () => {
    await prepare(stageUnderTest().stage);

    const requests = await stageUnderTest().during(async () => {
      await setReplicas(stageUnderTest().stage, 2);
      await untilSteady(stageUnderTest().stage, 2);
    });

    const writes = requests.filter(
      ({ userAgent, verb, resource }) =>
        userAgent === 'millrace/drain-step' &&
        !['get', 'list', 'watch'].includes(verb) &&
        resource !== 'events',
    );
    expect(
      writes.length,
      JSON.stringify(writes.map(({ verb, resource, status }) => [verb, resource, status])),
    ).toBeLessThanOrEqual(12);
    expect(made(requests)).toEqual({ 'delete pods': 1 });
  });

  test.each(Array.from({ length: kills }, (_, seed) => seed))(
    'ends the same when something is killed in its middle, seed %i (D10)',
    async (seed) => {
      await prepare(stageUnderTest().stage);
      const random = seeded(seed);
      const victim = victims[Math.floor(random() * victims.length)] ?? 'relay';
      const atMs = random() * drainMs;

      const down = await stageUnderTest().during(async () => {
        const { stage } = stageUnderTest();
        await Promise.all([
          delay(atMs).then(() => kill(victim)),
          setReplicas(stage, 2).then(() => untilSteady(stage, 2)),
        ]);
      });
      const up = await stageUnderTest().during(() => prepare(stageUnderTest().stage));

      expect(made(down), `${victim} killed after ${(atMs / 1000).toFixed(1)} s`).toEqual({
        'delete pods': 1,
      });
      expect(made(up)).toEqual({ 'create pods': 1 });
    },
  );

  test('ends the same when two workers act on the same hints (P1)', async () => {
    await prepare(stageUnderTest().stage);
    const second = await startMillrace({
      kubeconfig: join(stageUnderTest().folder, 'kubeconfig'),
      namespace: stageUnderTest().stage.namespace,
      dataDir: join(stageUnderTest().folder, 'second'),
      onDecision: () => undefined,
      onRemark: () => undefined,
    });

    const requests = await stageUnderTest().during(async () => {
      const { stage } = stageUnderTest();
      await setReplicas(stage, 2);
      await stage.world.until('the drain has begun', 60, () => drainState(stage) !== undefined);
      await untilSteady(stage, 2);
      await prepare(stage);
    });
    await second.stop();

    const { 'create pods': created, 'delete pods': deleted, ...rest } = made(requests);
    expect(created).toBe(1);
    // Both may send the delete of the same uid; the second finds the pod already going.
    expect(deleted).toBeGreaterThanOrEqual(1);
    expect(
      new Set(
        requests
          .filter(({ verb, resource }) => verb === 'delete' && resource === 'pods')
          .map(({ name }) => name),
      ).size,
    ).toBe(1);
    expect(rest).toEqual({});
  });
});
