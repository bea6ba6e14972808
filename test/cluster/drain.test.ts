import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { type AuditedRequest, readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import type { DecisionLine } from '#infra/cli/dev/decision-line.ts';
import { drainState, prepare, setReplicas, untilSteady } from '#infra/local/show/acts.ts';
import { type BuiltStage, buildStage } from '#infra/local/show/build-stage.ts';
import { startMillrace } from '#infra/local/show/millrace-process.ts';
import type { Screen } from '#infra/local/show/screen.ts';
import { missingControlPlane } from './local-control-plane.ts';

/** Seeded moments at which something is killed; `MILLRACE_KILLS=100` for a long run by hand. */
const kills = Number(process.env['MILLRACE_KILLS'] ?? 10);

/** How much faster than measured the data plane runs. Millrace's own waits are not shortened. */
const speed = 8;

/** Drains take about this long here, in milliseconds; a kill falls somewhere within. */
const drainMs = 11_000;

let folder: string;
let built: BuiltStage;
const decisions: DecisionLine[] = [];

const silent: Screen = {
  progress: () => undefined,
  scene: () => undefined,
  say: () => undefined,
  decision: (decision) => decisions.push(decision),
  members: () => undefined,
  result: () => undefined,
  summary: () => undefined,
  close: () => undefined,
};

beforeAll(async () => {
  if (missingControlPlane !== undefined) {
    process.stderr.write(`skipped, since ${missingControlPlane}\n`);
    return;
  }
  folder = await mkdtemp(join(tmpdir(), 'millrace-drain-'));
  built = await buildStage({ folder, speed, screen: silent, signal: new AbortController().signal });
});

beforeEach((context) => {
  context.skip(missingControlPlane !== undefined, missingControlPlane);
});

afterAll(async () => {
  await built?.[Symbol.asyncDispose]();
  await (folder === undefined ? undefined : rm(folder, { recursive: true, force: true }));
});

/** What Millrace did to the API server while the work ran, once nothing new is written to the log any more. */
async function during(work: () => Promise<void>): Promise<readonly AuditedRequest[]> {
  const from = (await audited()).length;
  await work();
  return (await audited()).slice(from);
}

/** The audit log may lag its requests: it is read until a marker request of ours shows in it. */
async function audited(): Promise<readonly AuditedRequest[]> {
  const marker = `/version?marker=${Math.random()}`;
  await built.stage.connection.request({
    method: 'GET',
    path: '/version',
    query: { marker: marker.split('=')[1] ?? '' },
  });
  for (;;) {
    const log = await readAuditLog(built.controlPlane.auditLogPath);
    if (log.some(({ path }) => path === marker)) {
      return log.filter(({ user }) => user === built.millraceUser);
    }
  }
}

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

/** A small seeded generator (mulberry32): the same seed, the same moment and victim. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const victims = ['relay', 'worker', 'queue', 'apiServer', 'etcd', 'topology'] as const;

async function kill(victim: (typeof victims)[number]): Promise<void> {
  switch (victim) {
    case 'relay':
    case 'worker':
    case 'queue':
      return built.stage.millrace.killAndAwaitRestart(victim);
    case 'apiServer':
    case 'etcd':
      await built.controlPlane.kill(victim);
      return built.controlPlane.restart(victim);
    case 'topology':
      await built.topologyEtcd.kill();
      return built.topologyEtcd.restart();
  }
}

async function looks(step: string, count: number): Promise<void> {
  const { stage } = built;
  const seen = () => decisions.filter((decision) => decision.step === step).length;
  const before = seen();
  for (let token = 0; token < count; token += 1) {
    const wanted = seen() + 1;
    await stage.connection.request({
      method: 'PATCH',
      path: `${collectionPath('Shard', stage.namespace)}/${stage.shard}`,
      contentType: 'application/merge-patch+json',
      body: {
        metadata: { annotations: { 'millrace.dev/reconcile': `${step}-${before}-${token}` } },
      },
    });
    await expect.poll(seen, { timeout: 30_000 }).toBeGreaterThanOrEqual(wanted);
  }
}

describe('a drain on a real API server', () => {
  test('brings a shard up, and a converged one costs no write and at most four reads a look (X7)', async () => {
    await prepare(built.stage);
    await looks('drain-step', 1);
    await looks('pool-pods', 1);
    decisions.length = 0;

    const requests = await during(() => looks('drain-step', 5));
    const drainLooks = decisions.filter(({ step }) => step === 'drain-step').length;
    const poolLooks = decisions.filter(({ step }) => step === 'pool-pods').length;

    const of = (agent: string) =>
      requests.filter(({ userAgent }) => userAgent === `millrace/${agent}`);
    const writes = requests.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb));
    expect(writes).toEqual([]);
    expect(drainLooks).toBeGreaterThanOrEqual(5);
    expect(poolLooks).toBeGreaterThan(0);
    expect(of('drain-step').length / drainLooks).toBeLessThanOrEqual(4);
    expect(of('pool-pods').length / poolLooks).toBeLessThanOrEqual(4);
  });

  test('takes at most twelve writes of drain-step besides Events', async () => {
    await prepare(built.stage);

    const requests = await during(async () => {
      await setReplicas(built.stage, 2);
      await untilSteady(built.stage, 2);
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
      await prepare(built.stage);
      const random = seeded(seed);
      const victim = victims[Math.floor(random() * victims.length)] ?? 'relay';
      const atMs = random() * drainMs;

      const down = await during(async () => {
        const killed = new Promise((resolve) => setTimeout(resolve, atMs)).then(() => kill(victim));
        await setReplicas(built.stage, 2);
        await Promise.all([killed, untilSteady(built.stage, 2)]);
      });
      const up = await during(() => prepare(built.stage));

      expect(made(down), `${victim} killed after ${(atMs / 1000).toFixed(1)} s`).toEqual({
        'delete pods': 1,
      });
      expect(made(up)).toEqual({ 'create pods': 1 });
    },
  );

  test('ends the same when two workers act on the same hints (P1)', async () => {
    await prepare(built.stage);
    const second = await startMillrace({
      kubeconfig: join(folder, 'kubeconfig'),
      namespace: built.stage.namespace,
      dataDir: join(folder, 'second'),
      onDecision: (decision) => decisions.push(decision),
      onRemark: () => undefined,
    });

    const requests = await during(async () => {
      await setReplicas(built.stage, 2);
      await built.stage.world.until(
        'the drain has begun',
        60,
        () => drainState(built.stage) !== undefined,
      );
      await untilSteady(built.stage, 2);
      await prepare(built.stage);
    }).finally(() => second.stop());

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
