import { describe, expect, test } from 'vitest';
import { compareRules } from '#shared/topology/topology.ts';
import { SimulatedCluster, aSettledCluster, markGone } from './simulated-cluster.ts';

const everybody = ['orders-0', 'orders-1', 'orders-2'];

function removeGracefully(cluster: SimulatedCluster, pod: string): void {
  cluster.deletePod(pod);
  cluster.runUntil(() => cluster.podView(pod)?.phase === 'ended');
  cluster.removePod(pod);
}

describe('a fresh shard', () => {
  test('is claimed first and led afterwards', () => {
    const cluster = new SimulatedCluster();
    for (const name of everybody) {
      cluster.startPod(name);
    }
    const claim = '/multigres/global/databases/postgres/default/0-inf/ShardInitClaim';

    cluster.runUntil(() => cluster.stored.has(claim));
    const primariesAtClaim = cluster.primaries();
    cluster.runUntil(() => cluster.areAllReady());

    expect(primariesAtClaim).toEqual([]);
    expect(cluster.view.rule).toEqual({ term: '1', subterm: '0' });
    expect(cluster.cohort()).toEqual(everybody);
  });

  test('waits for as many members as a write needs', () => {
    const cluster = new SimulatedCluster();
    cluster.startPod('orders-0');

    cluster.runFor(300_000);
    const alone = cluster.view.leader;
    cluster.startPod('orders-1');
    cluster.runUntil(() => cluster.view.leader !== null);

    expect(alone).toBeNull();
    expect(cluster.cohort()).toEqual(['orders-0', 'orders-1']);
  });

  test('of one member leads itself where one is enough', () => {
    const cluster = new SimulatedCluster({ requiredCount: 1 });
    cluster.startPod('orders-0');

    cluster.runUntil(() => cluster.areAllReady());

    expect(cluster.leaderPod()).toBe('orders-0');
  });

  test('takes in a member that came while it was initialised', () => {
    const cluster = new SimulatedCluster();
    cluster.startPod('orders-0');
    cluster.startPod('orders-1');
    cluster.runFor(15_000);

    cluster.startPod('orders-2');
    cluster.runUntil(() => cluster.cohort().length === 3);

    expect(cluster.cohort()).toEqual(everybody);
  });

  test('survives that its claim is there already and its members are others', () => {
    const first = new SimulatedCluster();
    first.startPod('orders-0');
    first.startPod('orders-1');
    first.runFor(10_000);
    const second = new SimulatedCluster();
    for (const [key, { value }] of first.stored) {
      second.put(key, value);
    }

    second.startPod('orders-7');
    second.startPod('orders-8');
    second.runUntil(() => second.view.leader !== null);

    expect(second.cohort()).toEqual(['orders-7', 'orders-8']);
  });
});

describe('the cohort', () => {
  test('loses a stopped member under the next subterm', () => {
    const cluster = aSettledCluster();

    removeGracefully(cluster, cluster.replicaPods()[0] ?? '');
    cluster.runFor(2_000);

    expect(cluster.cohort()).toHaveLength(2);
    expect(cluster.view.rule).toEqual({ term: '1', subterm: '1' });
  });

  test('loses one member a look', () => {
    const cluster = aSettledCluster({ members: 5 });
    const [first = '', second = ''] = cluster.replicaPods();
    const lossesAtMs: number[] = [];
    let size = cluster.cohort().length;

    cluster.deletePod(first);
    cluster.deletePod(second);
    cluster.runUntil(() => {
      const now = cluster.cohort().length;
      lossesAtMs.push(...Array.from({ length: size - now }, () => cluster.elapsedMs));
      size = now;
      return size === 3;
    });

    const [one = 0, other = 0] = lossesAtMs;
    expect(lossesAtMs).toHaveLength(2);
    expect(other - one).toBe(1_000);
  });

  test('keeps a stopped member below the quorum, for ever, and nothing is written', () => {
    const cluster = aSettledCluster();
    const [first = '', second = ''] = cluster.replicaPods();
    removeGracefully(cluster, first);
    cluster.runFor(5_000);
    removeGracefully(cluster, second);
    cluster.runFor(2_000);
    const { lsn } = cluster.state.consensus;

    cluster.runFor(600_000);

    expect(cluster.recordOf(second)?.lifecycle).toBe('shutdown');
    expect(cluster.cohort()).toContain(second);
    expect(cluster.state.consensus.lsn).toBe(lsn);
  });

  test('takes nobody new in below the quorum', () => {
    const cluster = aSettledCluster();
    for (const pod of cluster.replicaPods()) {
      cluster.removePod(pod);
    }

    cluster.startPod('orders-3');
    cluster.runFor(120_000);

    expect(cluster.view.members.find(({ pod }) => pod === 'orders-3')?.role).toBe('replica');
    expect(cluster.cohort()).toEqual(everybody);
  });

  test('keeps a member that is marked gone where nobody else is left to acknowledge', () => {
    const cluster = aSettledCluster();
    const [dead = '', marked = ''] = cluster.replicaPods();
    cluster.removePod(dead);

    markGone(cluster, marked);
    cluster.runFor(60_000);

    expect(cluster.cohort()).toEqual(everybody);
  });

  test('takes a returning member in and lets the stopped one go once there is a quorum again', () => {
    const cluster = aSettledCluster();
    const [first = '', second = ''] = cluster.replicaPods();
    removeGracefully(cluster, first);
    cluster.runFor(5_000);
    removeGracefully(cluster, second);
    cluster.runFor(60_000);

    cluster.startPod(second);
    cluster.runUntil(() => cluster.areAllReady());
    cluster.startPod(first);
    cluster.runUntil(() => cluster.areAllReady());

    expect(cluster.cohort()).toEqual(everybody);
  });

  test('of three keeps a member that may not vote, since the next loss would not be survivable', () => {
    const cluster = aSettledCluster();
    const [broken = ''] = cluster.replicaPods();

    cluster.inject({ kind: 'ineligible', pod: broken });
    cluster.runFor(60_000);

    expect(cluster.cohort()).toEqual(everybody);
  });

  test('of four loses a member that may not vote, and takes it in again when it may', () => {
    const cluster = aSettledCluster({ members: 4 });
    const [broken = ''] = cluster.replicaPods();

    cluster.inject({ kind: 'ineligible', pod: broken });
    cluster.runFor(3_000);
    const without = cluster.cohort();
    cluster.lift('ineligible');
    cluster.runFor(2_000);

    expect(without).toHaveLength(3);
    expect(without).not.toContain(broken);
    expect(cluster.cohort()).toHaveLength(4);
    // One removal and one addition: it was not taken in and put out again in between.
    expect(cluster.view.rule).toEqual({ term: '1', subterm: '2' });
  });

  test('changes in nothing while a proposal is undecided', () => {
    const cluster = aSettledCluster({ members: 4 });
    const [leaving = ''] = cluster.replicaPods();

    cluster.inject({ kind: 'undecidedProposal' });
    cluster.deletePod(leaving);
    cluster.runFor(60_000);
    const meanwhile = cluster.cohort();
    cluster.lift('undecidedProposal');
    cluster.runFor(2_000);

    expect(meanwhile).toContain(leaving);
    expect(cluster.cohort()).not.toContain(leaving);
    expect(cluster.view.rule).toEqual({ term: '1', subterm: '2' });
  });

  test('need not name its leader, whom nobody takes in while it leads', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();

    cluster.inject({ kind: 'leaderOutsideCohort' });
    cluster.runFor(2_000);
    cluster.lift('leaderOutsideCohort');
    cluster.runFor(120_000);

    expect(cluster.leaderPod()).toBe(leader);
    expect(cluster.cohort()).toEqual(cluster.replicaPods().toSorted());
  });

  test('keeps everybody when a record cannot be decoded', () => {
    const cluster = aSettledCluster();
    const [broken = ''] = cluster.replicaPods();

    cluster.inject({ kind: 'undecodableRecord', pod: broken });
    cluster.runFor(60_000);

    expect(cluster.recordOf(broken)).toBeUndefined();
    expect(cluster.stored.has(cluster.keyOf('zone-a', broken))).toBe(true);
    expect(cluster.cohort()).toEqual(everybody);
  });
});

describe('a lost leader', () => {
  test('that was stopped is replaced under a higher term, and leaves the cohort', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();

    removeGracefully(cluster, leader);
    cluster.runUntil(() => cluster.primaries().length === 1);
    cluster.runFor(5_000);

    expect(cluster.view.rule?.term).toBe('2');
    expect(cluster.leaderPod()).not.toBe(leader);
    expect(cluster.cohort()).not.toContain(leader);
  });

  test('that died without a word is replaced after the threshold, and stays in the cohort', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();

    cluster.removePod(leader);
    const took = cluster.runUntil(() => cluster.primaries().length === 2);
    cluster.runFor(60_000);

    expect(took).toBeGreaterThanOrEqual(36_000);
    expect(took).toBeLessThanOrEqual(41_000);
    expect(cluster.recordOf(leader)).toMatchObject({ role: 'primary', serving: 'serving' });
    expect(cluster.cohort()).toContain(leader);
  });

  test('that came back on its data before anybody missed it is replaced by the usual grace', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();

    cluster.removePod(leader);
    cluster.startPod(leader);
    cluster.runUntil(() => cluster.areAllReady());

    expect(cluster.view.rule?.term).toBe('2');
    expect(cluster.cohort()).toEqual(everybody);
  });

  test('that is cut off goes on claiming PRIMARY under its lower rule, and stays ready', () => {
    const cluster = aSettledCluster();
    const old = cluster.leaderPod();

    cluster.inject({ kind: 'cutOff', pod: old, from: 'members' });
    cluster.runUntil(() => cluster.primaries().length === 2);
    cluster.runFor(10_000);

    const [oldRule, newRule] = [old, cluster.view.leader?.name ?? ''].map(
      (name) => cluster.recordOf(name)?.rule ?? { term: '0', subterm: '0' },
    );
    expect(cluster.podView(old)).toMatchObject({ phase: 'running', isReady: true });
    expect(cluster.recordOf(old)).toMatchObject({ role: 'primary', serving: 'serving' });
    expect(oldRule && newRule && compareRules(oldRule, newRule)).toBe(-1);
  });

  test('that is reached again follows the one that was appointed meanwhile', () => {
    const cluster = aSettledCluster();
    const old = cluster.leaderPod();
    cluster.inject({ kind: 'cutOff', pod: old, from: 'everyone' });
    cluster.runUntil(() => cluster.primaries().length === 2);

    cluster.lift('cutOff');
    cluster.runFor(3_000);

    expect(cluster.primaries()).toHaveLength(1);
    expect(cluster.recordOf(old)).toMatchObject({ role: 'replica', serving: 'serving' });
  });

  test('that is reached again in time goes on leading', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();

    cluster.inject({ kind: 'cutOff', pod: leader, from: 'everyone' });
    cluster.runFor(33_000);
    cluster.lift('cutOff');
    cluster.runFor(60_000);

    expect(cluster.leaderPod()).toBe(leader);
    expect(cluster.view.rule?.term).toBe('1');
  });

  test('that is reached again at the last moment goes on leading', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();
    const appointment = () => cluster.state.timers.find(({ task }) => task.kind === 'appoint');
    cluster.inject({ kind: 'cutOff', pod: leader, from: 'everyone' });
    cluster.runUntil(() => appointment() !== undefined);
    cluster.runFor((appointment()?.atMs ?? 0) - cluster.state.nowMs - 1);

    cluster.lift('cutOff');
    cluster.runFor(1);

    expect(cluster.leaderPod()).toBe(leader);
    expect(cluster.view.rule?.term).toBe('1');
  });

  test('that lives but is marked gone is replaced by another, and then follows', () => {
    for (const seed of [1, 2, 3, 4, 5, 6]) {
      const cluster = aSettledCluster({ seed });
      const old = cluster.leaderPod();

      markGone(cluster, old);
      cluster.runUntil(() => cluster.view.rule?.term === '2', 15_000);
      cluster.runFor(5_000);

      expect(cluster.leaderPod()).not.toBe(old);
      expect(cluster.recordOf(old)).toMatchObject({ lifecycle: 'active', role: 'replica' });
    }
  });

  test('that is lost twice is given the whole time each time', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();
    const cut = { kind: 'cutOff', pod: leader, from: 'everyone' } as const;
    cluster.inject(cut);
    cluster.runFor(33_000);
    cluster.lift('cutOff');
    cluster.runFor(1_500);

    cluster.inject(cut);
    const took = cluster.runUntil(() => cluster.primaries().length === 2);

    expect(took).toBeGreaterThanOrEqual(36_000);
  });

  test('is not replaced where too few are left to appoint another', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();
    const [first = ''] = cluster.replicaPods();
    removeGracefully(cluster, first);
    cluster.runFor(5_000);

    cluster.removePod(leader);
    cluster.runFor(300_000);

    expect(cluster.view.rule?.term).toBe('1');
    expect(cluster.view.leader?.name).toBe(leader);
    expect(cluster.view.members.some(({ role }) => role === 'primary')).toBe(false);
  });

  test('leaves a shard leaderless for as long as the fault says, and no longer', () => {
    const cluster = aSettledCluster();

    cluster.inject({ kind: 'noPrimary' });
    cluster.runFor(120_000);
    const meanwhile = cluster.primaries();
    cluster.lift('noPrimary');
    cluster.runUntil(() => cluster.primaries().length === 1, 10_000);

    expect(meanwhile).toEqual([]);
    expect(cluster.view.rule?.term).toBe('2');
  });

  test('is replaced although etcd does not answer: rules are kept by the members', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();
    cluster.isEtcdUp = false;

    cluster.removePod(leader);
    cluster.runFor(60_000);

    expect(cluster.view.rule?.term).toBe('2');
  });

  test('of a shard whose pods all went comes from those that return', () => {
    const cluster = aSettledCluster();
    for (const pod of everybody) {
      cluster.removePod(pod);
    }
    cluster.runFor(10_000);

    for (const pod of everybody) {
      cluster.startPod(pod);
    }
    cluster.runUntil(() => cluster.view.members.length === 3 && cluster.areAllReady());

    expect(cluster.view.rule?.term).toBe('2');
    expect(cluster.primaries()).toHaveLength(1);
  });
});
