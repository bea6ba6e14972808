import { describe, expect, test } from 'vitest';
import recordedPrimary from '#test/unit/shared/admin/recorded-primary.json' with { type: 'json' };
import recordedReplica from '#test/unit/shared/admin/recorded-replica.json' with { type: 'json' };
import { decodePoolerStatus } from '#shared/admin/pooler-status.ts';
import { recordedAnswers } from './recorded-answers.ts';
import {
  type Answer,
  type SimulatedCluster,
  aRecordedCluster,
  aSettledCluster,
  keyPaths,
} from './simulated-cluster.ts';

const switchPath = '/api/v1/shards/postgres/default/0-inf/switch-primary';

function bodyOf({ reply }: Answer): unknown {
  if (reply === 'dropped') {
    throw new Error('the connection was dropped');
  }
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  // As it travels: what JSON leaves out is not there.
  return JSON.parse(JSON.stringify(reply.body));
}

function statusOf({ reply }: Answer): number | 'dropped' {
  return reply === 'dropped' ? reply : reply.status;
}

function askStatus(cluster: SimulatedCluster, name: string): Answer {
  return cluster.ask('GET', `/api/v1/poolers/zone-a/${name}/status`);
}

describe('answers have the shape of the recorded ones', () => {
  test.each([
    ['/api/v1/cells', recordedAnswers.cells],
    ['/api/v1/cells/zone1', recordedAnswers.cell],
    ['/api/v1/databases', recordedAnswers.databases],
    ['/api/v1/databases/postgres', recordedAnswers.database],
    ['/api/v1/gateways', recordedAnswers.gateways],
    ['/api/v1/orchs', recordedAnswers.orchs],
    ['/api/v1/poolers', recordedAnswers.poolers],
  ])('%s', (path, recorded) => {
    const cluster = aRecordedCluster('zone1');

    const body = bodyOf(cluster.ask('GET', path));

    expect(keyPaths(body)).toEqual(keyPaths(recorded));
  });

  test('names, the cell and the pooler records say the same as the recorded ones', () => {
    const cluster = aRecordedCluster('zone1');

    expect(bodyOf(cluster.ask('GET', '/api/v1/cells'))).toEqual(recordedAnswers.cells);
    expect(bodyOf(cluster.ask('GET', '/api/v1/cells/zone1'))).toEqual(recordedAnswers.cell);
    expect(bodyOf(cluster.ask('GET', '/api/v1/databases'))).toEqual(recordedAnswers.databases);
    const [primary, replica] = recordedAnswers.poolers.poolers;
    const local = { portMap: expect.anything(), poolerDir: expect.any(String) };
    const dated = {
      ...local,
      pgDataDir: expect.any(String),
      lifecycleStatus: { ...primary.lifecycleStatus, updated: expect.stringMatching(/Z$/) },
    };
    expect(bodyOf(cluster.ask('GET', '/api/v1/poolers?cells=zone1'))).toEqual({
      poolers: [{ ...primary, ...dated }],
    });
    expect(bodyOf(cluster.ask('GET', '/api/v1/poolers?cells=zone2'))).toEqual({
      poolers: [{ ...replica, ...dated }],
    });
  });

  test('the status of the leader', () => {
    const cluster = aRecordedCluster('zone1');

    const body = bodyOf(cluster.ask('GET', '/api/v1/poolers/zone1/p-00000001/status'));

    expect(keyPaths(body)).toEqual(keyPaths(recordedPrimary));
  });

  test('the status of a follower', () => {
    const cluster = aRecordedCluster('zone1');

    const body = bodyOf(cluster.ask('GET', '/api/v1/poolers/zone2/p-00000002/status'));

    expect(keyPaths(body)).toEqual(keyPaths(recordedReplica));
  });

  test('a switchover', () => {
    const cluster = aRecordedCluster('zone1');

    const body = bodyOf(cluster.ask('POST', switchPath, '{"reason":"claim c"}'));

    expect(body).toEqual({
      oldLeaderId: { component: 'MULTIPOOLER', cell: 'zone1', name: 'p-00000001' },
    });
  });
});

describe('a status', () => {
  test('carries the decided cohort under its rule, int64 as strings, zero left out', () => {
    const cluster = aSettledCluster();
    cluster.deletePod(cluster.replicaPods()[0] ?? '');
    cluster.runFor(5_000);
    const leader = cluster.leaderPod();

    const body = bodyOf(askStatus(cluster, leader));

    expect(body).toMatchObject({
      consensusStatus: {
        currentPosition: {
          position: {
            decision: {
              ruleNumber: { coordinatorTerm: '1', leaderSubterm: '1' },
              cohortMembers: [expect.anything(), expect.anything()],
            },
          },
        },
      },
    });
    const read = decodePoolerStatus(body, { cell: 'zone-a', name: leader });
    expect(read).toMatchObject({
      kind: 'present',
      value: { role: 'primary', isReady: true, proposal: null },
    });
  });

  test('shows a proposal beside the decision, on the leader alone', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();
    const [replica = ''] = cluster.replicaPods();

    cluster.inject({ kind: 'undecidedProposal' });

    const read = (name: string) =>
      decodePoolerStatus(bodyOf(askStatus(cluster, name)), { cell: 'zone-a', name });
    expect(read(leader)).toMatchObject({
      value: { proposal: { rule: { term: '1', subterm: '1' } } },
    });
    expect(read(replica)).toMatchObject({ value: { proposal: null } });
  });

  test('of a pooler that nobody registered is not found', () => {
    expect(statusOf(askStatus(aSettledCluster(), 'orders-9'))).toBe(404);
  });

  test('of a live pooler without a record is not found either', () => {
    const cluster = aSettledCluster();
    cluster.stored.delete(cluster.keyOf('zone-a', 'orders-0'));

    expect(statusOf(askStatus(cluster, 'orders-0'))).toBe(404);
  });

  test('of a stopped, a killed, an unreachable and a cut-off pooler fails', () => {
    const cluster = aSettledCluster({ members: 5 });
    const [stopped = '', killed = '', unreachable = '', cutOff = ''] = cluster.replicaPods();

    cluster.deletePod(stopped);
    cluster.runFor(5_000);
    cluster.removePod(stopped);
    cluster.removePod(killed);
    cluster.inject({ kind: 'poolerUnreachable', pod: unreachable });
    cluster.inject({ kind: 'cutOff', pod: cutOff, from: 'everyone' });

    for (const name of [stopped, killed, unreachable, cutOff]) {
      expect(askStatus(cluster, name).reply, name).toMatchObject({ status: 500 });
    }
    cluster.lift('poolerUnreachable');
    expect(statusOf(askStatus(cluster, unreachable))).toBe(200);
  });

  test('of a pooler whose record cannot be decoded fails', () => {
    const cluster = aSettledCluster();
    cluster.inject({ kind: 'undecodableRecord', pod: 'orders-0' });

    expect(statusOf(askStatus(cluster, 'orders-0'))).toBe(500);
    expect(statusOf(cluster.ask('GET', '/api/v1/poolers'))).toBe(500);
  });

  test('fails once after its pod was made again, since the address is another', () => {
    const cluster = aSettledCluster();
    const [name = ''] = cluster.replicaPods();
    cluster.removePod(name);
    cluster.startPod(name);
    cluster.runUntil(() => cluster.areAllReady());

    const answers = [askStatus(cluster, name), askStatus(cluster, name)];

    expect(answers.map(statusOf)).toEqual([500, 200]);
  });

  test('of a pooler without PostgreSQL claims no role', () => {
    const cluster = aSettledCluster();
    cluster.startPod('orders-3');
    cluster.runFor(3_000);

    const body = bodyOf(askStatus(cluster, 'orders-3'));

    expect(decodePoolerStatus(body, { cell: 'zone-a', name: 'orders-3' })).toMatchObject({
      value: { role: 'unknown', isReady: false, decision: null },
    });
  });

  test('of a follower says that it streams, and no longer does once the leader is down', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();
    const [follower = ''] = cluster.replicaPods();
    const isStreaming = () => {
      const body = bodyOf(askStatus(cluster, follower));
      const read = decodePoolerStatus(body, { cell: 'zone-a', name: follower });
      return read.kind === 'present' && read.value.isStreaming;
    };

    const before = isStreaming();
    cluster.deletePod(leader);
    cluster.runFor(2_300);

    expect(before).toBe(true);
    expect(isStreaming()).toBe(false);
  });

  test('may claim PRIMARY twice: by the old rule and by the new one', () => {
    const cluster = aSettledCluster();
    const old = cluster.leaderPod();
    cluster.inject({ kind: 'cutOff', pod: old, from: 'members' });
    cluster.runUntil(() => cluster.primaries().length === 2);

    const claims = [old, cluster.view.leader?.name ?? ''].map((name) =>
      decodePoolerStatus(bodyOf(askStatus(cluster, name)), { cell: 'zone-a', name }),
    );

    expect(claims).toMatchObject([
      { value: { role: 'primary', decision: { rule: { term: '1' } } } },
      { value: { role: 'primary', decision: { rule: { term: '2' } } } },
    ]);
  });
});

describe('the service', () => {
  test('knows no other path', () => {
    const cluster = aSettledCluster();

    expect(statusOf(cluster.ask('POST', '/api/v1/backups/expire', '{}'))).toBe(404);
    expect(statusOf(cluster.ask('GET', switchPath))).toBe(404);
  });

  test('refuses to list a shard without its table group', () => {
    const cluster = aSettledCluster();

    expect(statusOf(cluster.ask('GET', '/api/v1/poolers?shard=0-inf'))).toBe(400);
    expect(statusOf(cluster.ask('GET', '/api/v1/poolers?tableGroup=default&shard=0-inf'))).toBe(
      200,
    );
  });

  test('says nothing of a cell, a database or poolers that are not there', () => {
    const cluster = aSettledCluster();

    expect(statusOf(cluster.ask('GET', '/api/v1/cells/zone-z'))).toBe(404);
    expect(statusOf(cluster.ask('GET', '/api/v1/databases/other'))).toBe(404);
    expect(bodyOf(cluster.ask('GET', '/api/v1/poolers?database=other'))).toEqual({});
  });

  test('fails while etcd does not answer', () => {
    const cluster = aSettledCluster();
    cluster.isEtcdUp = false;

    expect(statusOf(askStatus(cluster, 'orders-0'))).toBe(503);
  });

  test('sees what was written to etcd before it was asked', () => {
    const cluster = aSettledCluster();
    const key = '/multigres/global/cells/zone-a/Cell';
    cluster.stored.delete(key);

    expect(statusOf(cluster.ask('GET', '/api/v1/cells/zone-a'))).toBe(404);
  });

  test('is reset, late or refuses credentials as the faults say', () => {
    const cluster = aSettledCluster();

    cluster.inject({ kind: 'adminDown' });
    const down = askStatus(cluster, 'orders-0');
    cluster.lift('adminDown');
    cluster.inject({ kind: 'adminUnauthorized' });
    const refused = askStatus(cluster, 'orders-0');
    cluster.lift('adminUnauthorized');
    cluster.inject({ kind: 'adminSlow', delayMs: 7_000 });
    const late = askStatus(cluster, 'orders-0');

    expect(down.reply).toBe('dropped');
    expect(refused.reply).toMatchObject({ status: 401 });
    expect(late).toMatchObject({ reply: { status: 200 }, afterMs: 7_000 });
  });

  test('when slow is slow by the clock of its caller, whatever the speed', () => {
    const cluster = aSettledCluster({ config: { speed: 10 } });

    cluster.inject({ kind: 'adminSlow', delayMs: 7_000 });

    expect(askStatus(cluster, 'orders-0').afterMs).toBe(7_000);
  });
});

describe('a switchover', { timeout: 30_000 }, () => {
  test('is answered after 1.9 s without any PRIMARY; the next leads 4.5 to 9 s later', () => {
    for (let seed = 1; seed <= 12; seed++) {
      const cluster = aSettledCluster({ seed });
      const old = cluster.leaderPod();

      const { afterMs } = cluster.ask('POST', switchPath, '{"reason":"a test"}');
      const primariesAtAnswer = cluster.primaries();
      const leaderless = cluster.runUntil(() => cluster.primaries().length === 1);

      expect(afterMs).toBeGreaterThanOrEqual(1_850);
      expect(afterMs).toBeLessThanOrEqual(1_950);
      expect(primariesAtAnswer).toEqual([]);
      expect(leaderless).toBeGreaterThanOrEqual(4_500);
      expect(leaderless).toBeLessThanOrEqual(9_000);
      expect(cluster.leaderPod()).not.toBe(old);
      expect(cluster.view.rule).toEqual({ term: '2', subterm: '0' });
    }
  });

  test('takes the old leader from SERVING over DRAINING and DISABLED to a follower', () => {
    const cluster = aSettledCluster();
    const old = cluster.leaderPod();
    const seen: string[] = [];

    cluster.begin('POST', switchPath, '{}');
    cluster.runUntil(() => {
      const record = cluster.recordOf(old);
      const line = `${record?.serving} ${record?.role}`;
      if (seen.at(-1) !== line) {
        seen.push(line);
      }
      return cluster.recordOf(old)?.role === 'replica' && record?.serving === 'serving';
    });

    expect(seen).toEqual([
      'serving primary',
      'draining primary',
      'disabled primary',
      'disabled replica',
      'serving replica',
    ]);
  });

  test('repeated at once finds no PRIMARY', () => {
    const cluster = aSettledCluster();
    cluster.ask('POST', switchPath, '{}');

    const again = cluster.ask('POST', switchPath, '{}');

    expect(again.reply).toMatchObject({
      status: 404,
      body: { code: 5, message: 'no PRIMARY pooler found' },
    });
  });

  test('repeated later moves the leader again', () => {
    const cluster = aSettledCluster();
    cluster.ask('POST', switchPath, '{}');
    cluster.runUntil(() => cluster.primaries().length === 1);
    cluster.runFor(10_000);
    const second = cluster.leaderPod();

    cluster.ask('POST', switchPath, '{}');
    cluster.runUntil(() => cluster.primaries().length === 1);

    expect(cluster.leaderPod()).not.toBe(second);
    expect(cluster.view.rule?.term).toBe('3');
  });

  test('just after an election waits 4 s longer', () => {
    const cluster = aSettledCluster();
    cluster.ask('POST', switchPath, '{}');
    cluster.runUntil(() => cluster.primaries().length === 1);

    const { afterMs } = cluster.ask('POST', switchPath, '{}');

    expect(afterMs).toBeGreaterThanOrEqual(5_850);
    expect(afterMs).toBeLessThanOrEqual(5_950);
  });

  test('asked twice at the same time moves the leader once', () => {
    const cluster = aSettledCluster();

    const first = cluster.begin('POST', switchPath, '{}');
    cluster.runFor(500);
    const second = cluster.ask('POST', switchPath, '{}');
    cluster.runFor(30_000);

    expect(statusOf(second)).toBe(200);
    expect(cluster.answerTo(first)).toMatchObject({ reply: { status: 200 } });
    expect(cluster.view.rule?.term).toBe('2');
  });

  test('with nothing but stopped members beside the leader resigns the only live node', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();
    for (const pod of cluster.replicaPods()) {
      cluster.deletePod(pod);
      cluster.runFor(5_000);
      cluster.removePod(pod);
    }

    const answer = cluster.ask('POST', switchPath, '{}');
    cluster.runFor(300_000);

    expect(statusOf(answer)).toBe(200);
    expect(cluster.primaries()).toEqual([]);
    expect(cluster.recordOf(leader)?.role).toBe('replica');
  });

  test('is refused where no other record is there', () => {
    const cluster = aSettledCluster({ members: 1, config: { requiredCount: 1 } });

    const answer = cluster.ask('POST', switchPath, '{}');

    expect(answer.reply).toMatchObject({ status: 400, body: { code: 9 } });
    expect(cluster.primaries()).toHaveLength(1);
  });

  test('fails and changes nothing where the leader is not reached', () => {
    const cluster = aSettledCluster();
    const leader = cluster.leaderPod();
    cluster.inject({ kind: 'poolerUnreachable', pod: leader });

    const answer = cluster.ask('POST', switchPath, '{}');
    cluster.runFor(60_000);

    expect(statusOf(answer)).toBe(500);
    expect(cluster.leaderPod()).toBe(leader);
  });

  test('whose leader dies under it fails', () => {
    const cluster = aSettledCluster();
    const request = cluster.begin('POST', switchPath, '{}');
    cluster.runFor(500);

    cluster.inject({ kind: 'podDeath', pod: cluster.leaderPod(), leaves: 'nothing' });

    expect(cluster.answerTo(request)).toMatchObject({ reply: { status: 500 } });
    expect(cluster.state.switchover).toBeNull();
  });

  test('may happen without an answer, once', () => {
    const cluster = aSettledCluster();
    const old = cluster.leaderPod();
    cluster.inject({ kind: 'lostSwitchReply' });

    const lost = cluster.ask('POST', switchPath, '{}');
    cluster.runFor(30_000);
    const next = cluster.ask('POST', switchPath, '{}');

    expect(lost.reply).toBe('dropped');
    expect(cluster.recordOf(old)?.role).toBe('replica');
    expect(statusOf(next)).toBe(200);
  });

  test('is of this shard only, and needs a readable body', () => {
    const cluster = aSettledCluster();

    const other = cluster.ask(
      'POST',
      '/api/v1/shards/postgres/default/80-inf/switch-primary',
      '{}',
    );
    const unreadable = cluster.ask('POST', switchPath, '{');

    expect(statusOf(other)).toBe(404);
    expect(statusOf(unreadable)).toBe(400);
    expect(cluster.primaries()).toHaveLength(1);
  });
});
