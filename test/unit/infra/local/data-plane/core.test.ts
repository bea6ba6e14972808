import { describe, expect, test } from 'vitest';
import {
  type DataPlaneEvent,
  advance,
  advanceInPlace,
  refuseFault,
} from '#infra/local/data-plane/core.ts';
import { SimulatedCluster, aSettledCluster, start } from './simulated-cluster.ts';

const seeds = Array.from({ length: 12 }, (_, index) => index + 1);
const members = ['orders-0', 'orders-1', 'orders-2'];

/** Runs a scene under several seeds; each result, in milliseconds, must lie in the range. */
function expectRange(scene: (seed: number) => number, [low, high]: readonly [number, number]) {
  for (const seed of seeds) {
    const took = scene(seed);
    expect(took, `seed ${seed}`).toBeGreaterThanOrEqual(low);
    expect(took, `seed ${seed}`).toBeLessThanOrEqual(high);
  }
}

function aFreshShard(seed: number): SimulatedCluster {
  const cluster = new SimulatedCluster({}, seed);
  for (const name of members) {
    cluster.startPod(name);
  }
  return cluster;
}

describe('times are those measured on a real Multigres', { timeout: 60_000 }, () => {
  test('three fresh members have a primary after about 32 s', () => {
    expectRange(
      (seed) => {
        const cluster = aFreshShard(seed);
        return cluster.runUntil(() => cluster.primaries().length === 1);
      },
      [30_000, 34_000],
    );
  });

  test('and are all ready after about 37 s', () => {
    expectRange(
      (seed) => {
        const cluster = aFreshShard(seed);
        return cluster.runUntil(() => cluster.areAllReady());
      },
      [35_000, 39_000],
    );
  });

  test('a stopping replica says STOPPING after 0.05 s, SHUTDOWN after 0.4 s and is gone after 2 s', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    const began = cluster.elapsedMs;

    cluster.deletePod(leaving);
    const stopping = cluster.runUntil(() => cluster.recordOf(leaving)?.lifecycle === 'stopping');
    cluster.runUntil(() => cluster.recordOf(leaving)?.lifecycle === 'shutdown');
    const shutdown = cluster.elapsedMs - began;
    cluster.runUntil(() => cluster.podView(leaving)?.phase === 'ended');

    expect(stopping).toBe(50);
    expect(shutdown).toBe(400);
    expect(cluster.elapsedMs - began).toBe(2_000);
  });

  test('a stopped replica is out of the cohort within a look after its SHUTDOWN', () => {
    expectRange(
      (seed) => {
        const cluster = aSettledCluster({ seed });
        cluster.deletePod(cluster.replicaPods()[0] ?? '');
        return cluster.runUntil(() => cluster.cohort().length === 2);
      },
      [400, 1_400],
    );
  });

  test('a member made again on its claim is back in the cohort after 17 to 38 s', () => {
    expectRange(
      (seed) => {
        const cluster = aSettledCluster({ seed });
        const [leaving = ''] = cluster.replicaPods();
        cluster.deletePod(leaving);
        cluster.runFor(5_000);
        cluster.removePod(leaving);
        cluster.startPod(leaving);
        return cluster.runUntil(() => cluster.cohort().length === 3);
      },
      [17_000, 38_000],
    );
  });

  test('a new fourth member is in the cohort after about 15 s', () => {
    expectRange(
      (seed) => {
        const cluster = aSettledCluster({ seed });
        cluster.startPod('orders-3');
        return cluster.runUntil(() => cluster.cohort().length === 4);
      },
      [13_500, 16_500],
    );
  });

  test('a stopping primary says SHUTDOWN after 2.3 s, and another leads after about 7.5 s', () => {
    expectRange(
      (seed) => {
        const cluster = aSettledCluster({ seed });
        const leader = cluster.leaderPod();
        cluster.deletePod(leader);
        const shutdown = cluster.runUntil(() => cluster.recordOf(leader)?.lifecycle === 'shutdown');
        expect(shutdown).toBe(2_300);
        return shutdown + cluster.runUntil(() => cluster.primaries().length === 1);
      },
      [6_500, 11_500],
    );
  });

  test('a primary cut off from the network has a rival after 36 to 41 s', () => {
    expectRange(
      (seed) => {
        const cluster = aSettledCluster({ seed });
        cluster.inject({ kind: 'cutOff', pod: cluster.leaderPod(), from: 'everyone' });
        return cluster.runUntil(() => cluster.primaries().length === 2);
      },
      [36_000, 41_000],
    );
  });

  test('speed divides every one of them', () => {
    const slow = aFreshShard(3);
    const fast = new SimulatedCluster({ speed: 10 }, 3);
    for (const name of members) {
      fast.startPod(name);
    }

    const slowMs = slow.runUntil(() => slow.areAllReady());
    const fastMs = fast.runUntil(() => fast.areAllReady());

    expect(fastMs / slowMs).toBeCloseTo(0.1, 2);
    expect(fast.view.leader).toEqual(slow.view.leader);
  });
});

/** A cluster to which everything happens once. */
class EventfulCluster extends SimulatedCluster {
  live(): void {
    for (const name of members) {
      this.startPod(name);
    }
    this.runUntil(() => this.areAllReady());
    this.begin('POST', '/api/v1/shards/postgres/default/0-inf/switch-primary');
    this.begin('POST', '/api/v1/shards/postgres/default/0-inf/switch-primary');
    this.runFor(20_000);
    this.inject({ kind: 'cutOff', pod: this.leaderPod(), from: 'members' });
    this.runFor(50_000);
    this.inject({ kind: 'undecidedProposal' });
    this.inject({ kind: 'adminSlow', delayMs: 100 });
    this.begin('GET', '/api/v1/poolers');
    this.lift('cutOff');
    this.inject({ kind: 'topologyPaused' });
    this.deletePod(members[0] ?? '');
    this.runFor(1_000);
    this.tell({ kind: 'resumed', config: this.state.config });
    this.tell({ kind: 'faultLifted' });
    this.runFor(10_000);
    this.removePod(members[0] ?? '');
    this.inject({ kind: 'podDeath', pod: members[1] ?? '', leaves: 'failed' });
    this.startPod(members[0] ?? '', 'zone-b');
    this.runFor(60_000);
  }
}

/** No state that it gives to the core can be written to. */
class FrozenCluster extends EventfulCluster {
  override tell(event: DataPlaneEvent, atMs?: number): void {
    freeze(this.state);
    super.tell(event, atMs);
  }
}

function freeze(value: unknown): void {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(freeze);
  }
}

/** Gives each event to a second state too, which is never copied. */
class DoubleCluster extends EventfulCluster {
  readonly inPlace = structuredClone(this.state);
  readonly differences: unknown[] = [];
  events = 0;

  override tell(event: DataPlaneEvent, atMs = this.state.nowMs): void {
    this.events += 1;
    const { state, outputs } = advance(this.state, atMs, event);
    const inPlace = advanceInPlace(this.inPlace, atMs, event);
    if (JSON.stringify([this.inPlace, inPlace]) !== JSON.stringify([state, outputs])) {
      this.differences.push({ event, inPlace, outputs });
    }
    super.tell(event, atMs);
  }
}

describe('the core', () => {
  test('makes the same of the same seed, and something else of others', () => {
    const run = (seed: number) => {
      const cluster = aFreshShard(seed);
      cluster.runFor(60_000);
      return { writes: cluster.writes, leader: cluster.view.leader?.name };
    };

    const leaders = new Set(seeds.map((seed) => run(seed).leader));

    expect(run(5)).toEqual(run(5));
    expect(leaders.size).toBeGreaterThan(1);
  });

  test('leaves the state it was given as it is, whatever happens', () => {
    const cluster = new FrozenCluster();

    cluster.live();

    expect(cluster.view.leader).not.toBeNull();
  });

  test('changes a state in place into what it makes of a copy', () => {
    const cluster = new DoubleCluster();

    cluster.live();

    expect(cluster.differences).toEqual([]);
    expect(cluster.events).toBeGreaterThan(400);
  });

  test('is plain JSON: a state that was written to a file goes on the same way', () => {
    const cluster = aSettledCluster();
    const copy = aSettledCluster();
    copy.state = JSON.parse(JSON.stringify(copy.state)) as typeof copy.state;

    for (const either of [cluster, copy]) {
      either.deletePod(either.leaderPod());
      either.runFor(30_000);
    }

    expect(copy.state).toEqual(cluster.state);
  });

  test('ignores a clock that steps back', () => {
    const cluster = aSettledCluster();
    const { nowMs } = cluster.state;

    cluster.tell({ kind: 'timePassed' }, start);

    expect(cluster.state.nowMs).toBe(nowMs);
  });

  test('goes on after a pause as if there had been none', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    cluster.deletePod(leaving);
    cluster.runFor(100);

    cluster.tell(
      { kind: 'resumed', config: cluster.state.config },
      cluster.state.nowMs + 3_600_000,
    );
    const shutdown = cluster.runUntil(() => cluster.recordOf(leaving)?.lifecycle === 'shutdown');

    expect(shutdown).toBe(300);
    expect(cluster.view.leader).not.toBeNull();
  });

  test('hands out again after a pause what was not confirmed before it', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    const podUid = cluster.uidOf(leaving);
    const asked = advance(cluster.state, cluster.state.nowMs, {
      kind: 'podDeletionAsked',
      podUid,
      graceMs: 30_000,
    });
    const later = asked.state.nowMs + 60;
    const lost = advance(asked.state, later, { kind: 'timePassed' });

    const again = advance(lost.state, later, { kind: 'resumed', config: lost.state.config });

    const writesOf = ({ outputs }: typeof lost) =>
      outputs.filter(({ kind }) => kind === 'writeRecord');
    expect(writesOf(lost)).toHaveLength(1);
    expect(writesOf(again)).toEqual(writesOf(lost));
  });

  test('hands out one write of a record at a time, so that none overtakes another', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    const asked = advance(cluster.state, cluster.state.nowMs, {
      kind: 'podDeletionAsked',
      podUid: cluster.uidOf(leaving),
      graceMs: 30_000,
    });
    const writesOf = ({ outputs }: typeof asked) =>
      outputs.flatMap((output) => (output.kind === 'writeRecord' ? [output.id] : []));

    const both = advance(asked.state, asked.state.nowMs + 500, { kind: 'timePassed' });
    const [first = 0] = writesOf(both);
    const written = { kind: 'recordWritten', id: first, modRevision: '1000' } as const;
    const next = advance(both.state, both.state.nowMs, written);

    expect(writesOf(both)).toHaveLength(1);
    expect(writesOf(next)).toHaveLength(1);
    expect(writesOf(next)).not.toEqual([first]);
  });

  test('answers no question with what was read before it was asked', () => {
    const cluster = aSettledCluster();
    const { nowMs } = cluster.state;
    const request = { method: 'GET', path: '/api/v1/cells', query: {}, body: '' };
    const ask = (state: typeof cluster.state, id: number) =>
      advance(state, nowMs, { kind: 'adminAsked', request: { ...request, id } });
    const readOf = ({ outputs }: ReturnType<typeof ask>) =>
      outputs.flatMap((output) => (output.kind === 'readTopology' ? [output.id] : []))[0] ?? 0;
    const first = ask(cluster.state, 1);
    const second = ask(first.state, 2);

    const read = (state: typeof cluster.state, id: number) =>
      advance(state, nowMs, { kind: 'topologyRead', id, entries: [] });
    const early = read(second.state, readOf(first));
    const late = read(early.state, readOf(second));

    expect(early.outputs).toMatchObject([{ kind: 'adminReply', requestId: 1 }]);
    expect(late.outputs).toMatchObject([{ kind: 'adminReply', requestId: 2 }]);
  });

  test('shows each member with its role, lifecycle and rule', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();

    const { members: views, rule } = cluster.view;

    expect(views.map(({ pod }) => pod)).toEqual(members);
    expect(views.find(({ pod }) => pod === leader)).toMatchObject({
      namespace: 'db',
      pooler: leader,
      cell: 'zone-a',
      role: 'primary',
      lifecycle: 'active',
      ready: true,
      rule: { term: '1', subterm: '0' },
    });
    expect(rule).toEqual({ term: '1', subterm: '0' });
  });

  test('refuses a one-off fault on a pod that does not run here', () => {
    const cluster = aSettledCluster();
    const death = (pod: string) =>
      refuseFault(cluster.state, { kind: 'podDeath', pod, leaves: 'failed' });

    expect(death('orders-7')).toBe('no pod orders-7 runs here');
    expect(death('orders-0')).toBeUndefined();
    expect(refuseFault(cluster.state, { kind: 'poolerUnreachable', pod: 'orders-7' })).toBe(
      undefined,
    );
  });

  test('lifts one fault, all of a kind, or all there are', () => {
    const cluster = aSettledCluster();
    const pods = ['orders-0', 'orders-1'];
    for (const pod of pods) {
      cluster.inject({ kind: 'poolerUnreachable', pod });
    }
    cluster.inject({ kind: 'adminSlow', delayMs: 1 });
    cluster.inject({ kind: 'adminSlow', delayMs: 2 });
    const injected = cluster.view.faults;

    cluster.tell({ kind: 'faultLifted', fault: 'poolerUnreachable', pod: 'orders-0' });
    const afterOne = cluster.view.faults;
    cluster.tell({ kind: 'faultLifted', fault: 'poolerUnreachable' });
    const afterKind = cluster.view.faults;
    cluster.tell({ kind: 'faultLifted' });

    expect(injected).toHaveLength(3);
    expect(afterOne).toEqual([
      { kind: 'poolerUnreachable', pod: 'orders-1' },
      { kind: 'adminSlow', delayMs: 2 },
    ]);
    expect(afterKind).toEqual([{ kind: 'adminSlow', delayMs: 2 }]);
    expect(cluster.view.faults).toEqual([]);
  });

  test('reports the node as changed when it is lost and when it is back', () => {
    const cluster = aSettledCluster();

    const lost = advance(cluster.state, cluster.state.nowMs, {
      kind: 'faultInjected',
      fault: { kind: 'nodeNotReady' },
    });
    const back = advance(lost.state, lost.state.nowMs, { kind: 'faultLifted' });

    const kinds = ({ outputs }: typeof lost) => outputs.map(({ kind }) => kind);
    expect(kinds(lost)).toEqual(['podChanged', 'podChanged', 'podChanged', 'nodeChanged']);
    expect(kinds(back)).toEqual(['podChanged', 'podChanged', 'podChanged', 'nodeChanged']);
  });
});
