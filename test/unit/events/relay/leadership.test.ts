import { describe, expect, test } from 'vitest';
import type { ReflectorSink } from '#events/relay/reflector.ts';
import { Relay, type RelayNews, relayLimits } from '#events/relay/relay.ts';
import type { WatchedObject } from '#events/relay/watched-object.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import { twoRoutes, twoSteps } from '#test/builders/two-steps.ts';
import { aRecord, aShard, written } from './objects.ts';
import { RecordingQueue } from './recording-queue.ts';
import { VirtualTimers } from './virtual-timers.ts';

/** Relays that watch the same cluster, of which one leads. */
function setUp() {
  const timers = new VirtualTimers();
  let leader: string | undefined = 'a';
  const start = (name: string) => {
    const queue = new RecordingQueue();
    const news: RelayNews[] = [];
    const relay = new Relay({
      routing: twoRoutes,
      clusterId: 'test',
      stage: 'test',
      namespaces: [],
      queues: queue,
      timers,
      random: () => 0,
      isLeading: () => leader === name,
      report: (item) => news.push(item),
    });
    const sinkOf = (kind: ResourceKind): ReflectorSink => {
      const source = relay.sources.find(({ resource }) => resource.kind === kind);
      if (source === undefined) {
        throw new Error(`${kind} is not reflected`);
      }
      return source.sink;
    };
    const list = (objects: readonly WatchedObject[]) => {
      for (const kind of ['Shard', 'Pod', 'Database'] as const) {
        sinkOf(kind).began();
        for (const object of kind === 'Shard' ? objects : []) {
          sinkOf(kind).listed(object);
        }
        sinkOf(kind).completed('stream');
      }
    };
    return { relay, queue, news, sink: sinkOf('Shard'), list };
  };
  const relays = [start('a'), start('b')] as const;
  const lead = (name: string | undefined) => {
    leader = name;
    relays.forEach(({ relay }) => relay.leadershipChanged());
  };
  return { timers, a: relays[0], b: relays[1], lead };
}

const resyncs = ({ news }: { news: RelayNews[] }) =>
  news.filter(({ kind }) => kind === 'resync').length;

describe('a relay that stands by', () => {
  test('knows everything, sends nothing, and is ready', async () => {
    const { timers, b } = setUp();
    b.list([aShard('s'), aShard('t', { annotations: aRecord('drain-step', { every: 5 }) })]);

    await timers.pass(60_000);

    expect(b.queue.batches).toEqual([]);
    expect(b.relay.notReady()).toEqual([]);
    expect(b.relay.state()).toMatchObject({ wakes: 1, oldestUnsentSeconds: 0 });
    expect(twoSteps.map((step) => b.relay.state().dirty.get(step))).toEqual([2, 2]);
  });

  test('L5: doubles no hint', async () => {
    const { timers, a, b } = setUp();
    const shard = aShard('s');
    for (const { list, sink } of [a, b]) {
      list([shard]);
      sink.changed(written(shard, { generation: 2 }));
    }

    await timers.pass(1_000);

    expect(a.queue.words).toEqual(['drain-step changed s', 'pool-pods changed s']);
    expect(b.queue.words).toEqual([]);
  });

  test('F14: owes every target a look when it takes over, also what was deleted meanwhile', async () => {
    const { timers, b, lead } = setUp();
    const gone = aShard('gone');
    b.list([aShard('s'), gone]);
    b.sink.removed(gone);
    await timers.pass(60_000);

    lead('b');
    await timers.pass(1_000);

    expect(b.queue.words.toSorted()).toEqual([
      'drain-step deleted gone',
      'drain-step resync s',
      'pool-pods deleted gone',
      'pool-pods resync s',
    ]);
  });

  test('counts the ages of what it owes from when it took over', async () => {
    const { timers, b, lead } = setUp();
    b.queue.isDown = true;
    b.list([aShard('s')]);
    await timers.pass(600_000);

    lead('b');
    await timers.pass(7_000);

    expect(b.relay.state().oldestUnsentSeconds).toBe(7);
  });

  test('L9: owes a look for each wake that was due meanwhile, and wakes on when it took over', async () => {
    const { timers, b, lead } = setUp();
    b.list([aShard('s', { annotations: aRecord('drain-step', { every: 5 }) })]);
    await timers.pass(62_000);

    lead('b');
    await timers.pass(12_000);

    const wakes = b.queue.words.filter((word) => word === 'drain-step wake s');
    expect(wakes).toHaveLength(3);
  });

  test('L8: remembers the deleted for the resync period and not for ever', async () => {
    const { timers, b } = setUp();
    b.list([aShard('s')]);
    const dirty = () => b.relay.state().dirty.get('drain-step');
    for (let count = 0; count < 100; count += 1) {
      const shard = aShard(`brief-${count}`);
      b.sink.changed(shard);
      b.sink.removed(shard);
    }
    await timers.pass(relayLimits.resyncMs - 1);
    const before = dirty();

    await timers.pass(relayLimits.resyncMs);

    expect([before, dirty()]).toEqual([101, 1]);
  });

  test('resyncs when it takes over after more than the resync period', async () => {
    const { timers, b, lead } = setUp();
    b.list([aShard('s')]);
    await timers.pass(relayLimits.resyncMs);

    lead('b');

    expect(resyncs(b)).toBe(1);
  });
});

describe('a lead that changes hands over and over', () => {
  test('costs no more than one look at everything by each relay, and a look for each change', async () => {
    const { timers, a, b, lead } = setUp();
    const shards = Array.from({ length: 50 }, (_, index) => aShard(`s${index}`));
    a.list(shards);
    b.list(shards);
    const changed = written(shards[0] as WatchedObject, { generation: 2 });
    for (let turn = 0; turn < 40; turn += 1) {
      lead(turn % 2 === 0 ? 'b' : 'a');
      await timers.pass(15_000);
    }
    const quiet = a.queue.taken.length + b.queue.taken.length;

    for (const { sink } of [a, b]) {
      sink.changed(changed);
    }
    await timers.pass(15_000);
    lead('b');
    await timers.pass(15_000);

    expect(quiet).toBe(2 * 100);
    expect(a.queue.taken.length + b.queue.taken.length).toBe(quiet + 4);
    expect(resyncs(a) + resyncs(b)).toBe(0);
  });

  test('F15, L1: leaves no last change without a hint that was sent after it', async () => {
    const { timers, a, b, lead } = setUp();
    let shard = aShard('s');
    a.list([shard]);
    b.list([shard]);
    for (let turn = 0; turn < 60; turn += 1) {
      const isLate = turn % 3 === 0;
      shard = written(shard, { generation: turn + 2 });
      // One hears of it before the lead changes hands and the other one after, in turns.
      (isLate ? a : b).sink.changed(shard);
      lead(['a', 'b', undefined][turn % 3]);
      await timers.pass(turn % 7 === 0 ? 3 : 40);
      (isLate ? b : a).sink.changed(shard);
      await timers.pass(turn % 5 === 0 ? 2 : 30);
    }

    lead('a');
    await timers.pass(1_000);

    const seen = a.queue.taken
      .concat(b.queue.taken)
      .filter(({ queue }) => queue.endsWith('drain-step'))
      .map(({ hint }) => hint.data.resourceVersion);
    expect(seen).toContain(shard.metadata.resourceVersion);
    expect([...a.relay.state().dirty.values()].filter((size) => size > 0)).toEqual([]);
  });
});
