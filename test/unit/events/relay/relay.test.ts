import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Relay, type RelayNews, relayLimits } from '#events/relay/relay.ts';
import { type Routing, routing } from '#events/routes.ts';
import type { ReflectorSink } from '#events/relay/reflector.ts';
import type { WatchedObject } from '#events/relay/watched-object.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import { aDatabase, aPod, aRecord, aShard, listAll, written } from './objects.ts';
import { RecordingQueue } from './recording-queue.ts';
import { VirtualTimers } from './virtual-timers.ts';
import { threeRoutes } from '#test/builders/two-steps.ts';

function setUp(namespaces: string[] = [], routing: Routing = threeRoutes) {
  const timers = new VirtualTimers();
  const queue = new RecordingQueue();
  const news: RelayNews[] = [];
  const start = () => {
    const relay = new Relay({
      routing,
      clusterId: 'test',
      stage: 'test',
      namespaces,
      queues: queue,
      timers,
      random: () => 0.5,
      report: (item) => news.push(item),
    });
    const sinks = new Map(relay.sources.map(({ resource, sink }) => [resource.kind, sink]));
    const sink = (kind: ResourceKind): ReflectorSink => {
      const found = sinks.get(kind);
      if (found === undefined) {
        throw new Error(`${kind} is not reflected`);
      }
      return found;
    };
    return { relay, sink };
  };
  return { timers, queue, news, start };
}

const both = (why: string, name: string) => [
  `drain-step ${why} ${name}`,
  `pool-pods ${why} ${name}`,
];

describe('the relay', () => {
  test('asks for shards and databases whole, and for pods by label and metadata alone', () => {
    const { start } = setUp();

    const resources = start().relay.sources.map(({ resource }) => resource);

    expect(resources).toEqual([
      { kind: 'Shard', isMetadataOnly: false },
      { kind: 'Database', isMetadataOnly: false },
      { kind: 'Pod', isMetadataOnly: true, label: 'millrace.dev/shard' },
    ]);
  });

  test('asks for pods once for each label, because labels are selected by all or none', () => {
    const { relay } = setUp([], routing).start();

    const pods = relay.sources.map(({ resource }) => resource).filter(({ kind }) => kind === 'Pod');

    expect(pods).toEqual([
      { kind: 'Pod', isMetadataOnly: true, label: 'millrace.dev/shard' },
      { kind: 'Pod', isMetadataOnly: true, label: 'millrace.dev/goverse' },
    ]);
  });

  test('asks for each namespace on its own where they are named', () => {
    const { start } = setUp(['a', 'b']);

    const places = start().relay.sources.map(
      ({ resource }) => `${resource.kind} ${resource.namespace}`,
    );

    expect(places).toEqual(['Shard a', 'Shard b', 'Database a', 'Database b', 'Pod a', 'Pod b']);
  });

  test('hints at every target once when it starts, although nothing changed', async () => {
    const { timers, queue, start } = setUp();
    const { sink } = start();
    listAll(sink('Database'), [aDatabase('orders')]);
    listAll(sink('Pod'), [aPod('p-0', 'a'), aPod('p-1', 'a')]);
    listAll(sink('Shard'), [aShard('a'), aShard('b')]);

    await timers.pass(1_000);

    expect(queue.words.toSorted()).toEqual(
      ['backup-config resync orders', ...both('resync', 'a'), ...both('resync', 'b')].toSorted(),
    );
  });

  test('L1: hints at every target again within half an hour, and again', async () => {
    const { timers, queue, start } = setUp();
    listAll(start().sink('Shard'), [aShard('a')]);
    await timers.pass(1_000);

    await timers.pass(2 * relayLimits.resyncMs);

    expect(queue.words.filter((word) => word === 'drain-step resync a')).toHaveLength(3);
  });

  test('F13: a change that only a new list tells of is a gap and yields a hint', async () => {
    const { timers, queue, news, start } = setUp();
    const shard = aShard('a');
    const { sink } = start();
    listAll(sink('Shard'), [shard, aShard('b')]);
    await timers.pass(1_000);
    queue.taken.length = 0;

    listAll(sink('Shard'), [written(shard, { generation: 2 })]);
    await timers.pass(1_000);

    const gaps = news.flatMap((item) => (item.kind === 'listed' ? [item.gaps] : []));
    expect(gaps).toEqual([0, 2]);
    expect(queue.words.toSorted()).toEqual(
      [...both('changed', 'a'), ...both('deleted', 'b')].toSorted(),
    );
    expect(queue.taken.find(({ hint }) => hint.type.endsWith('deleted'))?.hint.data.uid).toBe(
      'uid-b',
    );
  });

  test('L9, F14: a new relay honours the wakes that records hold, the overdue ones at once', async () => {
    const { timers, queue, start } = setUp();
    const { sink } = start();
    listAll(sink('Shard'), [
      aShard('a', { annotations: aRecord('drain-step', { every: 5 }) }),
      aShard('b', { annotations: aRecord('pool-pods', { at: '2025-12-01T00:00:00Z' }) }),
    ]);

    await timers.pass(11_000);

    expect(queue.words.filter((word) => word.includes('wake')).toSorted()).toEqual([
      'drain-step wake a',
      'drain-step wake a',
      'pool-pods wake b',
    ]);
    expect(queue.taken.filter(({ hint }) => hint.data.name === 'b')).toHaveLength(2);
  });

  test('L9: an instant months away is not fired early', async () => {
    const { timers, queue, start } = setUp();
    const annotations = aRecord('drain-step', { at: '2026-03-01T00:00:00Z' });
    listAll(start().sink('Shard'), [aShard('a', { annotations })]);

    await timers.pass(3_600_000);

    expect(queue.words).not.toContain('drain-step wake a');
  });

  test('F26: a wall clock that is set back holds up no periodic wake', async () => {
    const { timers, queue, start } = setUp();
    const annotations = aRecord('drain-step', { every: 300 });
    listAll(start().sink('Shard'), [aShard('a', { annotations })]);
    await timers.pass(90_000);

    timers.setClock(-3_600_000);
    await timers.pass(600_000);

    expect(queue.words).toContain('drain-step wake a');
  });

  test('a wake’s hint carries the instant it was due as its tick', async () => {
    const { timers, queue, start } = setUp();
    const annotations = aRecord('drain-step', { at: '2026-01-01T00:01:00Z' });
    listAll(start().sink('Shard'), [aShard('a', { annotations })]);

    await timers.pass(61_000);

    const wake = queue.taken.find(({ hint }) => hint.type === 'dev.millrace.hint.wake');
    expect(wake?.hint.id).toBe(`uid-a/${Date.parse('2026-01-01T00:01:00Z')}/drain-step`);
  });

  test('a deleted target is no longer woken', async () => {
    const { timers, queue, start } = setUp();
    const shard = aShard('a', { annotations: aRecord('drain-step', { every: 5 }) });
    const { sink } = start();
    listAll(sink('Shard'), [shard]);
    sink('Shard').removed(shard);

    await timers.pass(60_000);

    expect(queue.words.toSorted()).toEqual(both('deleted', 'a').toSorted());
  });

  test('stopping sends what is owed and leaves no timer', async () => {
    const { timers, queue, start } = setUp();
    const { relay, sink } = start();
    listAll(sink('Shard'), [aShard('a', { annotations: aRecord('drain-step', { every: 5 }) })]);

    const stopped = relay.stop(10_000);
    await timers.pass(0);

    expect(await stopped).toBe(true);
    expect(queue.taken).toHaveLength(2);
    expect(timers.pending).toBe(0);
  });

  test('is ready when everything was listed, until it hears nothing for ninety seconds', async () => {
    const { timers, start } = setUp();
    const { relay, sink } = start();
    const before = relay.notReady();
    for (const kind of ['Shard', 'Pod', 'Database'] as const) {
      listAll(sink(kind), []);
    }
    const listed = relay.notReady();
    await timers.pass(60_000);
    for (const { resource, report } of relay.sources) {
      if (resource.kind !== 'Pod') {
        report({ kind: 'heard' });
      }
    }

    await timers.pass(31_000);

    expect(before).toHaveLength(3);
    expect(listed).toEqual([]);
    expect(relay.notReady()).toEqual(['Pod in all namespaces: heard nothing for 91 s']);
  });

  test('does not call a pod unknown before all pods were listed', () => {
    const { start } = setUp();
    const { relay, sink } = start();
    const before = relay.mirrorOf('Pod', 'db', 'p-0');

    listAll(sink('Pod'), []);

    expect(before.kind).toBe('unknown');
    expect(relay.mirrorOf('Pod', 'db', 'p-0').kind).toBe('absent');
  });
});

/** One write to the cluster and the steps it concerns, as this test's own understanding of the routes has it. */
const writes: Record<
  string,
  { change: (object: WatchedObject) => WatchedObject; wakes: string[] }
> = {
  spec: {
    change: (shard) => written(shard, { generation: (shard.metadata.generation ?? 0) + 1 }),
    wakes: ['drain-step', 'pool-pods'],
  },
  drainRecord: {
    change: (shard) => withToken(shard, 'step.millrace.dev/drain-step'),
    wakes: ['drain-step', 'pool-pods'],
  },
  poolRecord: {
    change: (shard) => withToken(shard, 'step.millrace.dev/pool-pods'),
    wakes: ['pool-pods'],
  },
  force: { change: (shard) => withToken(shard, 'millrace.dev/force-drain'), wakes: ['drain-step'] },
  foreign: { change: (shard) => withToken(shard, 'example.com/note'), wakes: [] },
  drained: {
    change: (shard) =>
      written(
        shard,
        {},
        { status: { conditions: [{ type: 'Drained', message: shard.metadata.resourceVersion }] } },
      ),
    wakes: ['pool-pods'],
  },
  ready: {
    change: (shard) => {
      const drained = shard.status?.conditions?.filter(({ type }) => type === 'Drained') ?? [];
      const ready = { type: 'Ready', message: shard.metadata.resourceVersion };
      return written(shard, {}, { status: { conditions: [...drained, ready] } });
    },
    wakes: [],
  },
};

function withToken(object: WatchedObject, key: string): WatchedObject {
  const annotations = { ...object.metadata.annotations, [key]: object.metadata.resourceVersion };
  return written(object, { annotations });
}

/** A cluster of shards and pods whose watch can be cut, and the hints it is known to owe. */
class Cluster {
  readonly shards = new Map<string, WatchedObject>();
  readonly pods = new Map<string, WatchedObject>();
  isCut = false;
  #incarnations = 0;
  readonly #sink: (kind: ResourceKind) => ReflectorSink;
  /** Counts the operations. */
  turn = 0;
  /** `<step> <uid>` → the turn in which the relay was last told of something that concerns the step. */
  readonly owed = new Map<string, number>();
  /** What nobody could tell it, because the watch was cut. */
  readonly #unseen = new Set<string>();
  /** The pods as the relay was last told of them. */
  readonly #told = new Map<string, WatchedObject>();
  /** The uids of the shards that the relay was ever told of. */
  readonly #seen = new Set<string>();

  constructor(sink: (kind: ResourceKind) => ReflectorSink) {
    this.#sink = sink;
  }

  writeShard(name: string, write: string): void {
    const shard = this.shards.get(name);
    const { change, wakes } = writes[write] ?? { change: () => aShard(name), wakes: [] };
    if (shard === undefined) {
      this.#incarnations += 1;
      const created = aShard(name, { uid: `${name}-${this.#incarnations}` });
      this.shards.set(name, created);
      this.#owe(created, ['drain-step', 'pool-pods']);
      this.#tell(() => this.#sink('Shard').changed(created));
      return;
    }
    const changed = change(shard);
    this.shards.set(name, changed);
    this.#owe(changed, wakes);
    this.#tell(() => this.#sink('Shard').changed(changed));
  }

  deleteShard(name: string): void {
    const shard = this.shards.get(name);
    if (shard !== undefined) {
      this.shards.delete(name);
      const gone = written(shard, {});
      if (this.isCut && !this.#seen.has(gone.metadata.uid)) {
        // It came and went while nobody looked: no relay can ever know.
        this.#unseen.delete(`drain-step ${gone.metadata.uid}`);
        this.#unseen.delete(`pool-pods ${gone.metadata.uid}`);
        return;
      }
      this.#owe(gone, ['drain-step', 'pool-pods']);
      this.#tell(() => this.#sink('Shard').removed(gone));
    }
  }

  writePod(name: string, shardName: string): void {
    const pod = this.pods.get(name);
    const changed =
      pod === undefined
        ? aPod(name, shardName)
        : written(pod, { labels: { 'millrace.dev/shard': shardName } });
    this.pods.set(name, changed);
    this.#tell(() => {
      this.#oweOwners(changed);
      this.#sink('Pod').changed(changed);
    });
  }

  /** The watch is back: everything is listed anew, in an order of no meaning. */
  relist(): void {
    this.isCut = false;
    for (const pod of this.pods.values()) {
      if (pod !== this.#told.get(pod.metadata.name)) {
        this.#oweOwners(pod);
      }
    }
    listAll(this.#sink('Pod'), [...this.pods.values()]);
    listAll(this.#sink('Shard'), [...this.shards.values()]);
    for (const key of this.#unseen) {
      this.owed.set(key, this.turn);
    }
    this.#unseen.clear();
    for (const { metadata } of this.shards.values()) {
      this.#seen.add(metadata.uid);
    }
  }

  /** Shards it was in since the relay was last told, and has left again, no relay can ever know. */
  #oweOwners(pod: WatchedObject): void {
    const owners = [this.#told.get(pod.metadata.name), pod].map(
      (each) => each?.metadata.labels?.['millrace.dev/shard'] ?? '',
    );
    for (const owner of new Set(owners)) {
      const shard = this.shards.get(owner);
      if (shard !== undefined) {
        this.#owe(shard, ['drain-step', 'pool-pods']);
      }
    }
    this.#told.set(pod.metadata.name, pod);
  }

  #owe(shard: WatchedObject, steps: string[]): void {
    for (const step of steps) {
      const key = `${step} ${shard.metadata.uid}`;
      if (this.isCut) {
        this.#unseen.add(key);
      } else {
        this.#seen.add(shard.metadata.uid);
        this.owed.set(key, this.turn);
      }
    }
  }

  #tell(news: () => void): void {
    if (!this.isCut) {
      news();
    }
  }
}

const shardName = fc.constantFrom('a', 'b', 'c');
const operation = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('write' as const),
      shardName,
      write: fc.constantFrom(...Object.keys(writes)),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), shardName }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('pod' as const),
      shardName,
      pod: fc.constantFrom('p', 'q'),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('pass' as const),
      ms: fc.constantFrom(0, 30, 200, 5_000),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'cut' as const,
        'relist' as const,
        'down' as const,
        'up' as const,
        'refuse' as const,
        'lose' as const,
        'hold' as const,
      ),
    }),
  },
);
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

async function apply(
  operation: Operation,
  cluster: Cluster,
  queue: RecordingQueue,
  timers: VirtualTimers,
): Promise<void> {
  switch (operation.do) {
    case 'write':
      return cluster.writeShard(operation.shardName, operation.write);
    case 'delete':
      return cluster.deleteShard(operation.shardName);
    case 'pod':
      return cluster.writePod(operation.pod, operation.shardName);
    case 'pass':
      return timers.pass(operation.ms);
    case 'cut':
      cluster.isCut = true;
      return;
    case 'relist':
      return cluster.relist();
    case 'down':
      queue.isDown = true;
      return;
    case 'refuse':
      queue.refuses = (hint) => hint.data.name === 'a';
      return;
    case 'lose':
      queue.losesAnswers = true;
      return;
    case 'hold':
      queue.isHeld = true;
      return;
    case 'up':
      heal(queue);
  }
}

function heal(queue: RecordingQueue): void {
  queue.isDown = false;
  queue.losesAnswers = false;
  queue.refuses = () => false;
  queue.release();
}

describe('over any history of writes, lost watches and queue outages', () => {
  test('L1, L2, L7: whatever concerns a step is owed until the queue has a hint that was sent after it', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { maxLength: 80 }), async (operations) => {
        const { timers, queue, start } = setUp();
        const { relay, sink } = start();
        const cluster = new Cluster(sink);
        cluster.relist();
        const isMissing = ([key, turn]: [string, number]): boolean =>
          !queue.taken.some((taken) => {
            const step = taken.queue.replace('millrace-test-', '');
            return `${step} ${taken.hint.data.uid}` === key && taken.turn > turn;
          });

        for (const operation of operations) {
          cluster.turn += 1;
          queue.turn = cluster.turn;
          await apply(operation, cluster, queue, timers);
          const dirty = relay.state().dirty;
          for (const step of ['drain-step', 'pool-pods'] as const) {
            const missing = [...cluster.owed]
              .filter(([key]) => key.startsWith(step))
              .filter(isMissing);
            expect(dirty.get(step)).toBeGreaterThanOrEqual(missing.length);
          }
        }
        heal(queue);
        cluster.relist();
        queue.turn += 1;
        await timers.pass(60_000);

        expect([...cluster.owed].filter(isMissing)).toEqual([]);
        expect([...relay.state().dirty.values()].filter((size) => size > 0)).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test('a step gets no hint for writes that do not concern it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom(...Object.keys(writes)), { maxLength: 30 }),
        async (names) => {
          const { timers, queue, start } = setUp();
          const cluster = new Cluster(start().sink);
          cluster.writeShard('a', '');
          await timers.pass(1_000);
          queue.taken.length = 0;
          const expected: string[] = [];

          for (const name of names) {
            cluster.writeShard('a', name);
            expected.push(...(writes[name]?.wakes ?? []).map((step) => `${step} changed a`));
            await timers.pass(1_000);
          }

          expect(queue.words.toSorted()).toEqual(expected.toSorted());
        },
      ),
    );
  });
});
