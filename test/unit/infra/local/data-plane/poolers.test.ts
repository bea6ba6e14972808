import { describe, expect, test } from 'vitest';
import { aSettledCluster, markGone } from './simulated-cluster.ts';

describe('a pooler', () => {
  test('that stops writes STOPPING, then SHUTDOWN without a role, and nothing more', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    const before = cluster.writes.length;
    const seen: unknown[] = [];

    cluster.deletePod(leaving);
    cluster.runUntil(() => {
      const record = cluster.recordOf(leaving);
      const line = `${record?.lifecycle} ${record?.serving} ${record?.role}`;
      if (seen.at(-1) !== line) {
        seen.push(line);
      }
      return cluster.podView(leaving)?.phase === 'ended';
    });

    expect(seen).toEqual([
      'active serving replica',
      'stopping disabled replica',
      'shutdown disabled none',
    ]);
    const key = cluster.keyOf('zone-a', leaving);
    expect(cluster.writes.slice(before).filter((write) => write.key === key)).toHaveLength(2);
  });

  test('is not ready as soon as it says that it stops', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();

    cluster.deletePod(leaving);
    cluster.runFor(50);

    expect(cluster.podView(leaving)).toMatchObject({ phase: 'running', isReady: false });
  });

  test('that is killed writes nothing, and its record stays for minutes', () => {
    const cluster = aSettledCluster();
    const [dying = ''] = cluster.replicaPods();
    const key = cluster.keyOf('zone-a', dying);
    const before = cluster.stored.get(key);

    cluster.inject({ kind: 'podDeath', pod: dying, leaves: 'failed' });
    cluster.runFor(300_000);

    expect(cluster.stored.get(key)).toEqual(before);
    expect(cluster.recordOf(dying)).toMatchObject({
      lifecycle: 'active',
      serving: 'serving',
      role: 'replica',
    });
    expect(cluster.cohort()).toContain(dying);
    expect(cluster.podView(dying)).toMatchObject({ phase: 'failed', isReady: false });
  });

  test('that is killed during its stop leaves what it had written by then', () => {
    const cluster = aSettledCluster();
    const [dying = ''] = cluster.replicaPods();

    cluster.deletePod(dying);
    cluster.runFor(200);
    cluster.removePod(dying);
    cluster.runFor(60_000);

    expect(cluster.recordOf(dying)?.lifecycle).toBe('stopping');
    expect(cluster.cohort()).toContain(dying);
  });

  test('whose grace is shorter than its stop dies without its last record', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();

    cluster.deletePod(leader, 1_000);
    const endedAfter = cluster.runUntil(() => cluster.podView(leader)?.phase === 'ended');
    cluster.runFor(10_000);

    expect(endedAfter).toBe(1_000);
    expect(cluster.recordOf(leader)).toMatchObject({ lifecycle: 'stopping', role: 'primary' });
  });

  test('that cannot write its last record waits 20 s for it and then ends all the same', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    cluster.inject({ kind: 'topologyPaused' });

    cluster.deletePod(leaving, 60_000);
    const endedAfter = cluster.runUntil(() => cluster.podView(leaving)?.phase === 'ended');
    cluster.lift('topologyPaused');
    cluster.runFor(30_000);

    expect(endedAfter).toBeGreaterThanOrEqual(20_000);
    expect(endedAfter).toBeLessThan(21_000);
    expect(cluster.recordOf(leaving)?.lifecycle).toBe('active');
  });

  test('writes what etcd missed once it takes writes again', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    cluster.inject({ kind: 'topologyPaused' });
    cluster.deletePod(leaving);
    cluster.runFor(5_000);
    const meanwhile = cluster.recordOf(leaving)?.lifecycle;

    cluster.lift('topologyPaused');
    cluster.runUntil(() => cluster.podView(leaving)?.phase === 'ended');

    expect(meanwhile).toBe('active');
    expect(cluster.recordOf(leaving)?.lifecycle).toBe('shutdown');
  });

  test('does not heal a record that somebody overwrote, until it has something to say itself', () => {
    const cluster = aSettledCluster();
    const [victim = ''] = cluster.replicaPods();

    markGone(cluster, victim);
    const evictedAfter = cluster.runUntil(() => cluster.cohort().length === 2);
    cluster.runFor(120_000);

    expect(evictedAfter).toBeLessThanOrEqual(1_000);
    expect(cluster.recordOf(victim)?.lifecycle).toBe('shutdown');
    expect(cluster.view.members.find(({ pod }) => pod === victim)?.lifecycle).toBe('active');
    expect(cluster.cohort()).not.toContain(victim);
  });

  test('does not heal it when others change, the leader for one', () => {
    const cluster = aSettledCluster({ members: 4 });
    const [victim = ''] = cluster.replicaPods();
    markGone(cluster, victim);
    cluster.runFor(5_000);

    cluster.deletePod(cluster.leaderPod());
    cluster.runUntil(() => cluster.view.rule?.term === '2');
    cluster.runFor(10_000);

    expect(cluster.recordOf(victim)?.lifecycle).toBe('shutdown');
  });

  test('is back after a mistaken mark once its pod was made again', () => {
    const cluster = aSettledCluster();
    const [victim = ''] = cluster.replicaPods();
    markGone(cluster, victim);
    cluster.runFor(5_000);

    cluster.removePod(victim);
    cluster.startPod(victim);
    cluster.runUntil(() => cluster.areAllReady());

    expect(cluster.recordOf(victim)?.lifecycle).toBe('active');
    expect(cluster.cohort()).toContain(victim);
  });

  test('does not make a deleted record again, and the cohort keeps the ghost', () => {
    const cluster = aSettledCluster();
    const [victim = ''] = cluster.replicaPods();

    cluster.stored.delete(cluster.keyOf('zone-a', victim));
    cluster.runFor(70_000);

    expect(cluster.recordOf(victim)).toBeUndefined();
    expect(cluster.cohort()).toContain(victim);
  });

  test('keeps its data on its claim: a pod of another name on it knows the rule', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    cluster.deletePod(leaving);
    cluster.runFor(5_000);
    cluster.removePod(leaving);

    cluster.startPod('heir', 'zone-a', { volume: `claim-of-${leaving}` });

    expect(cluster.view.members.find(({ pod }) => pod === 'heir')?.rule?.term).toBe('1');
  });

  test('registers under the same record when its pod is made again', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    cluster.deletePod(leaving);
    cluster.runFor(5_000);
    cluster.removePod(leaving);
    const keys = cluster.stored.size;

    cluster.startPod(leaving);
    cluster.runFor(2_000);

    expect(cluster.stored.size).toBe(keys);
    expect(cluster.recordOf(leaving)).toMatchObject({
      lifecycle: 'starting',
      serving: 'disabled',
      role: 'none',
    });
  });

  test('gets another address each time its pod is made', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    const before = cluster.podView(leaving)?.ip;
    cluster.removePod(leaving);

    cluster.startPod(leaving);

    expect(cluster.podView(leaving)?.ip).not.toBe(before);
  });

  test('whose pod is deleted before it runs has nothing to stop', () => {
    const cluster = aSettledCluster();
    cluster.startPod('orders-3');

    cluster.deletePod('orders-3');
    cluster.runFor(30_000);

    expect(cluster.podView('orders-3')?.phase).toBe('ended');
    expect(cluster.recordOf('orders-3')).toBeUndefined();
  });

  test('that is stopped twice stops once', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();

    cluster.deletePod(leaving);
    cluster.runFor(300);
    cluster.deletePod(leaving);
    const shutdown = cluster.runUntil(() => cluster.recordOf(leaving)?.lifecycle === 'shutdown');

    expect(shutdown).toBe(100);
  });
});
