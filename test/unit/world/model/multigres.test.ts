import { describe, expect, test } from 'vitest';
import { SmallCluster, aSettledCluster, members } from './small-cluster.ts';

const switchPrimary = {
  method: 'POST',
  path: '/api/v1/shards/postgres/default/0-inf/switch-primary',
  body: { reason: 'a drain' },
};

function aFreshShard(seed: number): SmallCluster {
  const cluster = new SmallCluster(seed);
  for (const name of members) {
    cluster.createMember(name);
  }
  return cluster;
}

function poolerStatus(cluster: SmallCluster, pod: string) {
  const { id } = cluster.record(pod) ?? { id: { cell: '', name: '' } };
  return cluster.ask({ method: 'GET', path: `/api/v1/poolers/${id.cell}/${id.name}/status` });
}

describe('a fresh shard of three', () => {
  test('has a primary after about 32 s, and is ready after about 37 s', () => {
    for (const seed of [1, 2, 3, 4]) {
      const cluster = aFreshShard(seed);

      const led = cluster.runUntil(() =>
        members.some((name) => cluster.record(name)?.role === 'primary'),
      );
      const ready = cluster.runUntil(() => members.every((name) => cluster.isReady(name)));

      expect(led).toBeGreaterThan(30_000);
      expect(led).toBeLessThan(34_000);
      expect(led + ready).toBeGreaterThan(35_000);
      expect(led + ready).toBeLessThan(39_000);
    }
  });

  test('puts its cell, its database and its members into etcd', () => {
    const cluster = aSettledCluster();

    const keys = cluster.etcd.list('/multigres/').map(({ key }) => Buffer.from(key).toString());

    expect(keys).toContain('/multigres/global/cells/zone-a/Cell');
    expect(keys).toContain('/multigres/global/databases/postgres/Database');
    expect(keys.filter((key) => key.endsWith('/Pooler'))).toHaveLength(3);
    expect(members.map((name) => cluster.record(name)?.lifecycle)).toEqual([
      'active',
      'active',
      'active',
    ]);
  });
});

describe('one seed', () => {
  test('makes one history, others make others', () => {
    const history = (seed: number) => {
      const cluster = aSettledCluster(seed);
      cluster.deletePod(cluster.leaderPod());
      cluster.runFor(30_000);
      return { state: cluster.multigres.state, commits: cluster.commits };
    };
    const leaderUnder = (seed: number) => aSettledCluster(seed).leaderPod();

    const first = history(7);
    const second = history(7);
    const leaders = new Set([1, 2, 3, 4, 5, 6, 7, 8].map(leaderUnder));

    expect(second).toEqual(first);
    expect(leaders.size).toBeGreaterThan(1);
  });

  test('makes the same history whether every instant is passed or many at once', () => {
    const often = aFreshShard(3);
    const once = aFreshShard(3);

    often.runFor(60_000);
    once.pass();
    once.multigres.pass(once, often.now);

    expect(once.multigres.state).toEqual(often.multigres.state);
    expect(once.api.list('Pod')).toEqual(often.api.list('Pod'));
  });
});

describe('a fork', () => {
  test('goes its own way, and its origin goes on as if there were none', () => {
    const origin = aSettledCluster();
    const twin = aSettledCluster();
    const leader = origin.leaderPod();
    const fork = origin.fork();
    const second = fork.fork();

    fork.deletePod(leader);
    fork.runFor(30_000);
    origin.runFor(30_000);
    twin.runFor(30_000);
    second.runFor(30_000);

    expect(fork.leaderPod()).not.toBe(leader);
    expect(fork.record(leader)?.lifecycle).toBe('shutdown');
    expect(origin.leaderPod()).toBe(leader);
    expect(origin.multigres.state).toEqual(twin.multigres.state);
    expect(second.multigres.state).toEqual(twin.multigres.state);
  });

  test('taken at any instant of a failover ends as its origin does', () => {
    const origin = aSettledCluster(2);
    origin.deletePod(origin.leaderPod());
    const end = origin.now + 40_000;
    const forks: SmallCluster[] = [];
    origin.pass();
    while (origin.multigres.nextDue() <= end) {
      forks.push(origin.fork());
      origin.now = origin.multigres.nextDue();
      origin.pass();
    }

    for (const fork of forks) {
      fork.runFor(end - fork.now);
    }
    origin.runFor(end - origin.now);

    expect(forks.length).toBeGreaterThan(40);
    for (const fork of forks) {
      expect(fork.multigres.state).toEqual(origin.multigres.state);
      expect(fork.commits).toEqual(origin.commits);
    }
  });

  test('answers what was asked before it was made', () => {
    const origin = aSettledCluster();
    const id = origin.multigres.ask(switchPrimary, origin, origin.now);
    const fork = origin.fork();

    origin.runUntil(() => origin.answers.length > 0);
    fork.runUntil(() => fork.answers.length > 0);

    expect(origin.answers).toMatchObject([{ id, reply: { status: 200 } }]);
    expect(fork.answers).toEqual(origin.answers);
  });
});

describe('what is still to come when a fork is made', () => {
  test('comes in both: a write of the node', () => {
    const origin = aSettledCluster();
    const [dead = ''] = origin.replicaPods();
    origin.multigres.inject({ kind: 'podDeath', pod: dead, leaves: 'failed' }, origin, origin.now);
    const fork = origin.fork();

    fork.pass();
    origin.pass();

    expect(fork.pod(dead)?.status?.phase).toBe('Failed');
    expect(origin.pod(dead)?.status?.phase).toBe('Failed');
  });

  test('comes in both: an answer that nobody has taken, and no later one has its id', () => {
    const origin = aSettledCluster();
    const question = { method: 'GET', path: '/api/v1/cells' };
    const first = origin.multigres.ask(question, origin, origin.now);
    const fork = origin.fork();

    const second = fork.multigres.ask(question, fork, fork.now);
    const ofFork = fork.multigres.takeReplies();
    const ofOrigin = origin.multigres.takeReplies();

    expect(ofFork.map(({ id }) => id)).toEqual([first, second]);
    expect(ofOrigin.map(({ id }) => id)).toEqual([first]);
    expect(second).not.toBe(first);
  });

  test('comes in both: the end of an outage of etcd', () => {
    const origin = aSettledCluster();
    const [leaving = ''] = origin.replicaPods();
    origin.multigres.isTopologyReachable = false;
    origin.deletePod(leaving);
    origin.runFor(1_000);
    const fork = origin.fork();

    fork.runFor(5_000);
    const still = fork.record(leaving)?.lifecycle;
    fork.multigres.isTopologyReachable = true;
    fork.pass();

    expect(still).toBe('active');
    expect(fork.record(leaving)?.lifecycle).toBe('shutdown');
    expect(origin.record(leaving)?.lifecycle).toBe('active');
  });
});

describe('the admin service', () => {
  test('answers a read at once, with what is so now', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();
    const before = cluster.now;

    const reply = poolerStatus(cluster, leader);

    expect(reply).toMatchObject({ status: 200, body: { status: { poolerType: 'PRIMARY' } } });
    expect(cluster.now).toBe(before);
  });

  test('understands a query in the path or beside it', () => {
    const cluster = aSettledCluster();
    const [{ metadata } = { metadata: { name: '' } }] = cluster.api.list('Pod');

    const inPath = cluster.ask({ method: 'GET', path: '/api/v1/poolers?cells=zone-b' });
    const beside = cluster.ask({
      method: 'GET',
      path: '/api/v1/poolers',
      query: { cells: 'zone-a' },
    });

    expect(inPath).toEqual({ status: 200, body: {} });
    expect(JSON.stringify(beside)).toContain(metadata.name);
  });

  test('answers a switchover when the leader has resigned, after 1.9 s, and another leads later', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();
    const began = cluster.now;

    const reply = cluster.ask(switchPrimary);
    const answered = cluster.now - began;
    const roles = members.map((name) => cluster.record(name)?.role);
    cluster.runUntil(() => members.some((name) => cluster.record(name)?.role === 'primary'));

    expect(reply).toMatchObject({
      status: 200,
      body: { oldLeaderId: { component: 'MULTIPOOLER', cell: 'zone-a' } },
    });
    expect(answered).toBe(1_890);
    expect(roles).not.toContain('primary');
    expect(cluster.record(leader)?.role).toBe('replica');
  });

  test('drops the connection while it is down, and answers 503 while etcd cannot be reached', () => {
    const cluster = aSettledCluster();
    const question = { method: 'GET', path: '/api/v1/cells' };

    cluster.multigres.inject({ kind: 'adminDown' }, cluster, cluster.now);
    const down = cluster.ask(question);
    cluster.multigres.lift({}, cluster, cluster.now);
    cluster.multigres.isTopologyReachable = false;
    const unreachable = cluster.ask(question);

    expect(down).toBe('dropped');
    expect(unreachable).toMatchObject({ status: 503 });
  });

  test('answers late while it is slow, with what was true when it was asked', () => {
    const cluster = aSettledCluster();
    cluster.multigres.inject({ kind: 'adminSlow', delayMs: 4_000 }, cluster, cluster.now);
    const began = cluster.now;

    const reply = cluster.ask({ method: 'GET', path: '/api/v1/cells' });

    expect(reply).toEqual({ status: 200, body: { names: ['zone-a'] } });
    expect(cluster.now - began).toBe(4_000);
  });
});

describe('while etcd is away', () => {
  test('nobody learns that a pooler stopped; its last record arrives when etcd is back', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();
    const { revision } = cluster.etcd;

    cluster.multigres.isTopologyReachable = false;
    cluster.deletePod(leaving);
    cluster.runFor(10_000);
    const during = { revision: cluster.etcd.revision, pod: cluster.pod(leaving) };
    cluster.multigres.isTopologyReachable = true;
    cluster.runFor(2_000);

    expect(during.revision).toBe(revision);
    expect(during.pod).toBeDefined();
    expect(cluster.record(leaving)?.lifecycle).toBe('shutdown');
    expect(cluster.pod(leaving)).toBeUndefined();
    expect(cluster.cohort()).toHaveLength(2);
  });

  test('a pooler that waited too long ends without its last record', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();

    cluster.multigres.isTopologyReachable = false;
    cluster.deletePod(leaving);
    cluster.runUntil(() => cluster.pod(leaving) === undefined);
    cluster.multigres.isTopologyReachable = true;
    cluster.runFor(10_000);

    expect(cluster.record(leaving)?.lifecycle).toBe('active');
    expect(cluster.cohort()).toHaveLength(3);
  });

  test('a paused topology is written to when the fault is lifted', () => {
    const cluster = aSettledCluster();
    const [leaving = ''] = cluster.replicaPods();

    cluster.multigres.inject({ kind: 'topologyPaused' }, cluster, cluster.now);
    cluster.deletePod(leaving);
    cluster.runFor(5_000);
    const during = cluster.record(leaving)?.lifecycle;
    cluster.multigres.lift({ kind: 'topologyPaused' }, cluster, cluster.now);
    cluster.runFor(2_000);

    expect(during).toBe('active');
    expect(cluster.record(leaving)?.lifecycle).toBe('shutdown');
  });
});

describe('a data plane that is still', () => {
  test('has a leader and all its members in the cohort, and nothing under way', () => {
    const cluster = aFreshShard(1);
    cluster.runFor(20_000);
    const during = cluster.multigres.isStill;

    cluster.runUntil(() => cluster.multigres.isStill);
    const ready = members.map((name) => cluster.isReady(name));
    cluster.deletePod(cluster.leaderPod());
    cluster.pass();
    const leaving = cluster.multigres.isStill;

    expect(during).toBe(false);
    expect(ready).toEqual([true, true, true]);
    expect(leaving).toBe(false);
  });

  test('is after a jump where it would be had the time passed, and answers to events as before', () => {
    const passed = aSettledCluster(3);
    const jumped = passed.fork();

    passed.runFor(3_600_000);
    jumped.now = passed.now;
    jumped.multigres.jump(jumped, jumped.now);
    jumped.pass();
    const leader = jumped.leaderPod();
    jumped.deletePod(leader);
    jumped.runFor(60_000);

    expect(leader).toBe(passed.leaderPod());
    expect(jumped.leaderPod()).not.toBe(leader);
    expect(jumped.record(leader)?.lifecycle).toBe('shutdown');
    expect(jumped.cohort()).toHaveLength(2);
  });
});

describe('a fault', () => {
  test('that makes no sense is refused with the reason, and does nothing', () => {
    const cluster = aSettledCluster();

    const refusal = cluster.multigres.inject(
      { kind: 'podDeath', pod: 'orders-9', leaves: 'failed' },
      cluster,
      cluster.now,
    );

    expect(refusal).toBe('no pod orders-9 runs here');
  });

  test('of an undecodable record reaches etcd', () => {
    const cluster = aSettledCluster();
    const [pod = ''] = cluster.replicaPods();
    expect(cluster.record(pod)).toBeDefined();

    cluster.multigres.inject({ kind: 'undecodableRecord', pod }, cluster, cluster.now);

    expect(cluster.record(pod)).toBeUndefined();
  });
});
