import { describe, expect, test } from 'vitest';
import { SmallCluster, aSettledCluster, members } from './small-cluster.ts';

function readinessOfNode(cluster: SmallCluster, name = 'millrace-node'): string | undefined {
  const node = cluster.api.get('Node', undefined, name);
  return node?.status?.conditions?.find(({ type }) => type === 'Ready')?.status;
}

function namesOf(cluster: SmallCluster): readonly string[] {
  return cluster.api.list('Pod').map(({ metadata }) => metadata.name);
}

describe('a pod that is created', () => {
  test('is bound, its claim too, and reported Pending until its containers run', () => {
    const cluster = new SmallCluster();
    cluster.createMember('orders-0');

    cluster.pass();
    const early = cluster.pod('orders-0');
    cluster.runFor(2_000);
    const late = cluster.pod('orders-0');

    expect(early?.spec?.nodeName).toBe('millrace-node');
    expect(early?.status?.phase).toBe('Pending');
    expect(cluster.api.get('PersistentVolumeClaim', 'db', 'data-orders-0')?.status?.phase).toBe(
      'Bound',
    );
    expect(late?.status?.phase).toBe('Running');
    expect(late?.status?.podIP).toMatch(/^10\.244\./);
    expect(cluster.isReady('orders-0')).toBe(false);
  });

  test('waits for its claim', () => {
    const cluster = new SmallCluster();
    cluster.createPod('orders-0');

    cluster.runFor(10_000);
    const without = Object.keys(cluster.multigres.state.members);
    cluster.createClaim('orders-0');
    cluster.pass();

    expect(without).toEqual([]);
    expect(Object.keys(cluster.multigres.state.members)).toHaveLength(1);
  });

  test('stays unbound while it has a scheduling gate', () => {
    const cluster = new SmallCluster();
    cluster.createPod('orders-0', 'orders', ['millrace.dev/wait']);

    cluster.runFor(3_000);

    expect(cluster.pod('orders-0')?.spec?.nodeName).toBeUndefined();
  });
});

describe('a node that is told which shard is its own', () => {
  test('leaves the pods of others alone', () => {
    const cluster = new SmallCluster(1, 'orders');
    cluster.createMember('orders-0');
    cluster.createClaim('users-0');
    cluster.createPod('users-0', 'users');

    cluster.runFor(3_000);

    expect(cluster.pod('orders-0')?.spec?.nodeName).toBe('millrace-node');
    expect(cluster.pod('users-0')?.spec?.nodeName).toBeUndefined();
    expect(Object.keys(cluster.multigres.state.members)).toHaveLength(1);
  });
});

describe('a look at a cluster in which nothing changed', () => {
  test('writes nothing', () => {
    const cluster = aSettledCluster();
    const before = cluster.commits.length;

    cluster.runFor(60_000);

    expect(cluster.commits.length).toBe(before);
  });
});

describe('a pod that is deleted', () => {
  test('stops in order: it is Terminating until its record says SHUTDOWN, and is then gone', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();

    cluster.deletePod(leaving);
    const took = cluster.runUntil(() => cluster.pod(leaving) === undefined);

    expect(took).toBe(2_000);
    expect(cluster.record(leaving)).toMatchObject({ lifecycle: 'shutdown', serving: 'disabled' });
    expect(Object.keys(cluster.multigres.state.members)).toHaveLength(2);
  });

  test('is not ready from the moment its pooler begins to stop', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();

    cluster.deletePod(leaving);
    cluster.pass();

    expect(cluster.pod(leaving)?.metadata.deletionTimestamp).toBeDefined();
    expect(cluster.isReady(leaving)).toBe(false);
  });

  test('goes at once without a word where the deletion has no grace', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    const before = cluster.record(leaving);

    cluster.deletePod(leaving, 0);
    cluster.runFor(5_000);

    expect(cluster.pod(leaving)).toBeUndefined();
    expect(cluster.record(leaving)).toEqual(before);
    expect(cluster.record(leaving)?.lifecycle).toBe('active');
  });

  test('and made again on its claim comes back with its data, under another uid', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    const before = cluster.pod(leaving)?.metadata.uid;
    cluster.deletePod(leaving);
    cluster.runUntil(() => cluster.pod(leaving) === undefined);

    cluster.createPod(leaving);
    const took = cluster.runUntil(() => cluster.cohort().length === 3 && cluster.isReady(leaving));

    expect(cluster.pod(leaving)?.metadata.uid).not.toBe(before);
    expect(took).toBeGreaterThan(17_000);
  });

  test('before it was started is gone at once', () => {
    const cluster = new SmallCluster();
    cluster.createPod('orders-0');
    cluster.pass();

    cluster.deletePod('orders-0');
    cluster.pass();

    expect(cluster.pod('orders-0')).toBeUndefined();
  });

  test('stays with its finalizer when its processes are gone, and nothing more is written', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    cluster.send({
      method: 'PATCH',
      path: `/api/v1/namespaces/db/pods/${leaving}`,
      contentType: 'application/merge-patch+json',
      body: { metadata: { finalizers: ['example.com/keep'] } },
    });

    cluster.deletePod(leaving);
    cluster.runFor(10_000);
    const written = cluster.commits.length;
    cluster.runFor(10_000);

    expect(cluster.pod(leaving)?.metadata.deletionTimestamp).toBeDefined();
    expect(cluster.record(leaving)?.lifecycle).toBe('shutdown');
    expect(cluster.commits.length).toBe(written);
  });
});

describe('a pod whose processes are killed', () => {
  test('is Failed, stays so, and its record says nothing of it', () => {
    const cluster = aSettledCluster();
    const [dead = ''] = cluster.replicaPods();
    const before = cluster.record(dead);

    cluster.multigres.inject(
      { kind: 'podDeath', pod: dead, leaves: 'failed' },
      cluster,
      cluster.now,
    );
    cluster.runFor(60_000);

    expect(cluster.pod(dead)?.status?.phase).toBe('Failed');
    expect(cluster.isReady(dead)).toBe(false);
    expect(cluster.record(dead)).toEqual(before);
  });

  test('vanishes where nothing of it is left', () => {
    const cluster = aSettledCluster();
    const [dead = ''] = cluster.replicaPods();

    cluster.multigres.inject(
      { kind: 'podDeath', pod: dead, leaves: 'nothing' },
      cluster,
      cluster.now,
    );
    cluster.pass();

    expect(cluster.pod(dead)).toBeUndefined();
    expect(cluster.record(dead)?.lifecycle).toBe('active');
  });
});

describe('a node that is lost', () => {
  test('leaves its pods unready, and Terminating for ever when they are deleted', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();

    cluster.multigres.inject({ kind: 'nodeNotReady' }, cluster, cluster.now);
    cluster.pass();
    cluster.deletePod(leaving);
    cluster.runFor(600_000);

    expect(readinessOfNode(cluster)).toBe('Unknown');
    expect(members.map((name) => cluster.isReady(name))).toEqual([false, false, false]);
    expect(cluster.pod(leaving)?.metadata.deletionTimestamp).toBeDefined();
    expect(cluster.record(leaving)?.lifecycle).toBe('active');
  });

  test('goes on where it ended when it is back', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    cluster.multigres.inject({ kind: 'nodeNotReady' }, cluster, cluster.now);
    cluster.pass();
    cluster.deletePod(leaving);
    cluster.runFor(60_000);

    cluster.multigres.lift({ kind: 'nodeNotReady' }, cluster, cluster.now);
    cluster.runFor(5_000);

    expect(readinessOfNode(cluster)).toBe('True');
    expect(namesOf(cluster)).toEqual(members.filter((name) => name !== leaving));
    expect(namesOf(cluster).every((name) => cluster.isReady(name))).toBe(true);
    expect(cluster.record(leaving)?.lifecycle).toBe('shutdown');
  });

  test('makes its object again when somebody removed it while it was ready', () => {
    const cluster = aSettledCluster();

    cluster.send({ method: 'DELETE', path: '/api/v1/nodes/millrace-node' });
    cluster.pass();

    expect(readinessOfNode(cluster)).toBe('True');
  });
});

describe('a machine that is taken away', () => {
  test('ends everything without a word; its object goes at once, its pods after the quarantine', () => {
    const cluster = aSettledCluster();

    cluster.multigres.takeNodeAway(cluster, cluster.now);
    const running = Object.keys(cluster.multigres.state.members);
    cluster.pass();
    const left = namesOf(cluster);
    const ready = left.filter((name) => cluster.isReady(name));
    const nodes = cluster.api.list('Node');
    const took = cluster.runUntil(() => namesOf(cluster).length === 0);

    expect(running).toEqual([]);
    expect(nodes).toEqual([]);
    expect([left, ready]).toEqual([members, []]);
    expect(took).toBe(40_000);
    expect(members.map((name) => cluster.record(name)?.lifecycle)).toEqual([
      'active',
      'active',
      'active',
    ]);
  });

  test('leaves a pod with a finalizer Failed and Terminating, and writes nothing more', () => {
    const cluster = aSettledCluster();
    cluster.send({
      method: 'PATCH',
      path: '/api/v1/namespaces/db/pods/orders-0',
      contentType: 'application/merge-patch+json',
      body: { metadata: { finalizers: ['example.com/keep'] } },
    });

    cluster.multigres.takeNodeAway(cluster, cluster.now);
    cluster.runFor(60_000);
    const written = cluster.commits.length;
    cluster.runFor(60_000);

    expect(namesOf(cluster)).toEqual(['orders-0']);
    expect(cluster.pod('orders-0')?.status).toMatchObject({ phase: 'Failed' });
    expect(cluster.pod('orders-0')?.metadata.deletionTimestamp).toBeDefined();
    expect(cluster.commits.length).toBe(written);
  });

  test('is followed by another under its own name, on which waiting pods start', () => {
    const cluster = aSettledCluster();
    cluster.multigres.takeNodeAway(cluster, cluster.now);
    cluster.runFor(60_000);
    for (const name of members) {
      cluster.createPod(name);
    }
    cluster.runFor(10_000);
    const bound = members.map((name) => cluster.pod(name)?.spec?.nodeName);

    cluster.multigres.bringNode();
    cluster.runUntil(() => members.every((name) => cluster.isReady(name)));

    expect(bound).toEqual([undefined, undefined, undefined]);
    expect(cluster.pod('orders-0')?.spec?.nodeName).toBe('millrace-node-2');
    expect(readinessOfNode(cluster, 'millrace-node-2')).toBe('True');
    expect(cluster.record(cluster.leaderPod())).toMatchObject({ role: 'primary' });
  });
});
