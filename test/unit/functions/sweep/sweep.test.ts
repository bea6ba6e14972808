import { describe, expect, test } from 'vitest';
import { twoRoutes } from '#test/builders/two-steps.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { Sample } from '#shared/api/metrics.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { type Read, absent, present, unknown } from '#shared/kernel/read.ts';
import type { KubePages } from '#shared/kube/kube.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { type SweepParts, runSweep } from '#functions/sweep/sweep.ts';
import { aShard } from '#test/builders/shard.ts';
import { RecordingQueue } from '#test/unit/events/relay/recording-queue.ts';
import { LineLog } from '#test/unit/infra/local/worker/line-log.ts';

const now = Date.parse('2026-01-01T00:00:30Z') as Instant;
const tick = { time: '2026-01-01T00:00:00Z' };

type Page = Read<readonly KubeObject<'Shard'>[]>;

/** Nothing was ever said of them. */
function newShards(count: number, prefix = 'shard'): KubeObject<'Shard'>[] {
  return Array.from({ length: count }, (_, index) =>
    aShard(`${prefix}-${index}`).withUid(`uid-${prefix}-${index}`).withPool(1).build(),
  );
}

/** Every step has said what it found. */
function aConvergedShard(name: string): KubeObject<'Shard'> {
  return twoRoutes.routes
    .flatMap(({ ownConditions }) => ownConditions)
    .reduce(
      (shard, type) => shard.withCondition({ type, status: 'True', reason: 'AllIsWell' }),
      aShard(name).withUid(`uid-${name}`).withPool(1),
    )
    .build();
}

/** A sweep over these pages, by namespace where they differ, and all that it did. */
function aSweep(
  pages: readonly Page[] | ((namespace: string | undefined) => readonly Page[]),
  changes: Partial<SweepParts> = {},
) {
  const log = new LineLog();
  const queue = new RecordingQueue();
  const lists: string[] = [];
  const deadlines: number[] = [];
  /** Hints that were taken when each page was asked for. */
  const takenBefore: number[] = [];
  const kube: KubePages = {
    async *pages(kind, { namespace }) {
      lists.push(`${kind} ${namespace ?? 'everywhere'}`);
      for (const page of typeof pages === 'function' ? pages(namespace) : pages) {
        takenBefore.push(queue.taken.length);
        yield page as Read<never>;
      }
    },
  };
  const parts: SweepParts = {
    clock: () => now,
    deadlineIn: (delayMs) => {
      deadlines.push(delayMs);
      return new AbortController().signal;
    },
    logger: createLogger('info', {}, { write: log.add }),
    config: { MILLRACE_CLUSTER_ID: 'prod-eu', MILLRACE_STAGE: 'test', MILLRACE_NAMESPACES: [] },
    pages: kube,
    queues: queue,
    routing: twoRoutes,
    ...changes,
  };
  const run = (event: unknown = tick) => runSweep(event, () => 30_000, parts);
  return { run, queue, log, lists, deadlines, takenBefore };
}

describe('a sweep tells its numbers', () => {
  test.each([
    ['whole', [present(newShards(2))]],
    ['part', [present(newShards(2)), unknown('410 Expired')]],
  ])('when it is %s', async (result, pages) => {
    const told: Sample[] = [];
    const telemetry = {
      monotonicMs: () => 0,
      wallMs: () => 0,
      tell: (samples: readonly Sample[]) => void told.push(...samples),
    };

    await aSweep(pages, { telemetry })
      .run()
      .catch(() => undefined);

    expect(told).toEqual([
      { metric: 'millrace_sweeps_total', labels: { result }, value: 1 },
      { metric: 'millrace_sweep_hints_total', labels: { result: 'sent' }, value: 4 },
      { metric: 'millrace_sweep_hints_total', labels: { result: 'failed' }, value: 0 },
      { metric: 'millrace_sweep_targets', labels: {}, value: 2 },
    ]);
  });
});

describe('a sweep', () => {
  test('sends one hint for each step and target, in the public form, by the tick', async () => {
    const { run, queue } = aSweep([present([aShard().withPool(1).build()])]);

    await run();

    const { uid } = aShard().build().metadata;
    expect(queue.taken.map(({ queue: name, group }) => [name, group])).toEqual([
      ['millrace-test-drain-step', uid],
      ['millrace-test-pool-pods', uid],
    ]);
    expect(queue.taken[0]?.hint).toEqual({
      specversion: '1.0',
      id: `${uid}/1767225600000/drain-step`,
      source: 'prod-eu',
      type: 'dev.millrace.hint.wake',
      subject: 'shards/db/orders',
      time: '2026-01-01T00:00:30Z',
      datacontenttype: 'application/json',
      data: { kind: 'Shard', namespace: 'db', name: 'orders', uid, resourceVersion: '1' },
    });
  });

  test('F31: that is told of one tick twice sends the same ids', async () => {
    const { run, queue } = aSweep([present(newShards(3))]);

    await run();
    const first = queue.taken.splice(0).map(({ hint }) => hint.id);
    await run();

    expect(queue.taken.map(({ hint }) => hint.id)).toEqual(first);
  });

  test.each([
    ['an empty one', {}],
    ['one of another form', { time: 5 }],
    ['one whose time is none', { time: 'now' }],
    ['null', null],
  ])('takes its own clock for the tick where it is given %s', async (_, event) => {
    const { run, queue } = aSweep([present(newShards(1))]);

    await run(event);

    expect(queue.taken[0]?.hint.id).toBe('uid-shard-0/1767225630000/drain-step');
  });

  test('sends nothing for a target that every step has looked at, and says what it saw', async () => {
    const shards = [aConvergedShard('done'), ...newShards(2)];
    const { run, queue, log } = aSweep([present(shards)]);

    const swept = await run();

    const words = ['shard-0', 'shard-1'];
    expect(queue.words).toEqual([
      ...words.map((name) => `drain-step wake ${name}`),
      ...words.map((name) => `pool-pods wake ${name}`),
    ]);
    expect(swept).toEqual({
      targets: 3,
      overdue: { 'drain-step': 2, 'pool-pods': 2 },
      sent: 4,
      failed: 0,
      seconds: 0,
    });
    expect(log.lines).toMatchObject([{ level: 'info', msg: 'swept', ...swept }]);
  });

  test('of nothing is complete', async () => {
    const { run, queue } = aSweep([present([])]);

    const swept = await run();

    expect(swept).toMatchObject({ targets: 0, sent: 0, failed: 0 });
    expect(queue.batches).toEqual([]);
  });

  test('asks for every kind of target everywhere, or in the allowed namespaces alone', async () => {
    const everywhere = aSweep([present([])]);
    const allowed = aSweep([present([])], {
      config: {
        MILLRACE_CLUSTER_ID: 'prod-eu',
        MILLRACE_STAGE: 'test',
        MILLRACE_NAMESPACES: ['a', 'b'],
      },
    });

    await everywhere.run();
    await allowed.run();

    expect(everywhere.lists).toEqual(['Shard everywhere']);
    expect(allowed.lists).toEqual(['Shard a', 'Shard b']);
  });

  test('L8: holds one page at a time: its hints are gone before the next is asked for', async () => {
    const pages = [newShards(25, 'a'), newShards(25, 'b'), newShards(3, 'c')];
    const { run, takenBefore } = aSweep(pages.map(present));

    await run();

    expect(takenBefore).toEqual([0, 50, 100]);
  });

  test('sends batches of ten at most, and eight at a time at most', async () => {
    const { run, queue } = aSweep([present(newShards(104))]);
    queue.latency = () => new Promise((resolve) => setImmediate(resolve));

    await run();

    expect(queue.batches).toHaveLength(22);
    expect(Math.max(...queue.batches)).toBe(10);
    expect(queue.busiest).toBeLessThanOrEqual(8);
    expect(new Set(queue.taken.map(({ hint }) => hint.id)).size).toBe(208);
  });

  test('P6: keeps a second of its time to answer', async () => {
    const { run, deadlines } = aSweep([present([])]);

    await run();

    expect(deadlines).toEqual([29_000]);
  });
});

describe('a sweep that cannot read or send everything', () => {
  test('F8: sends what it knows of a list that breaks off, then fails', async () => {
    const { run, queue, log } = aSweep([
      present(newShards(2)),
      unknown('listing shards: 410 Expired'),
    ]);

    const end = run();

    await expect(end).rejects.toThrow(
      'the sweep is incomplete: all namespaces: listing shards: 410 Expired',
    );
    expect(queue.taken).toHaveLength(4);
    expect(log.lines).toMatchObject([
      { level: 'error', msg: 'swept in part', targets: 2, sent: 4, failed: 0 },
    ]);
  });

  test('reads the other namespaces where one is refused', async () => {
    const pages = (namespace: string | undefined): readonly Page[] =>
      namespace === 'secret'
        ? [unknown('listing shards: 403 Forbidden')]
        : [present(newShards(1, namespace))];
    const { run, queue } = aSweep(pages, {
      config: {
        MILLRACE_CLUSTER_ID: 'prod-eu',
        MILLRACE_STAGE: 'test',
        MILLRACE_NAMESPACES: ['secret', 'open'],
      },
    });

    const end = run();

    await expect(end).rejects.toThrow('secret: listing shards: 403 Forbidden');
    expect(queue.words).toEqual(['drain-step wake open-0', 'pool-pods wake open-0']);
  });

  test('fails where the definitions are not installed', async () => {
    const { run } = aSweep([absent]);

    await expect(run()).rejects.toThrow('the API server serves no shards');
  });

  test('sends to the other queues where one does not answer, which it soon asks no more', async () => {
    const queue = new RecordingQueue();
    const asked: string[] = [];
    const { run, log } = aSweep([present(newShards(500)), present(newShards(500, 'more'))], {
      queues: {
        async send(name, entries) {
          asked.push(name);
          if (name === 'millrace-test-drain-step') {
            throw new Error('connection refused');
          }
          return queue.send(name, entries);
        },
      },
    });

    const end = run();

    await expect(end).rejects.toThrow(
      'the sweep is incomplete: 1000 hints of drain-step were not sent: connection refused',
    );
    expect(queue.taken).toHaveLength(1000);
    expect(asked.filter((name) => name === 'millrace-test-drain-step').length).toBeLessThan(20);
    expect(log.lines).toMatchObject([
      {
        targets: 1000,
        overdue: { 'drain-step': 1000, 'pool-pods': 1000 },
        sent: 1000,
        failed: 1000,
      },
    ]);
  });

  test('counts what a queue refused of a batch, and sends the rest', async () => {
    const { run, queue, log } = aSweep([present(newShards(10))]);
    queue.refuses = (hint) => hint.id === 'uid-shard-3/1767225600000/pool-pods';

    const end = run();

    await expect(end).rejects.toThrow('1 hints of pool-pods were not sent: InternalError');
    expect(queue.taken).toHaveLength(19);
    expect(log.lines).toMatchObject([{ sent: 19, failed: 1 }]);
  });

  test('F3: counts hints as failed whose answer was lost: another sweep sends them again', async () => {
    const { run, queue } = aSweep([present(newShards(1))]);
    queue.losesAnswers = true;

    await expect(run()).rejects.toThrow('1 hints of drain-step were not sent: socket hang up');
  });

  test('P6: sends nothing once its time is over', async () => {
    const { run, queue } = aSweep([present(newShards(1))], {
      deadlineIn: () => AbortSignal.abort(),
    });

    await expect(run()).rejects.toThrow('no time was left');
    expect(queue.batches).toEqual([]);
  });
});
