import { describe, expect, test } from 'vitest';
import { recordedAnswers } from './recorded-answers.ts';
import {
  type Answer,
  type SimulatedCluster,
  aRecordedCluster,
  keyPaths,
} from './simulated-cluster.ts';

const leaseKey = '/multigres/global/backups/postgres/default/0-inf/lock';
const query = 'database=postgres&tableGroup=default&shard=0-inf';

type Type = 'full' | 'differential' | 'incremental';

interface Job {
  readonly status: string;
  readonly backupId?: string;
  readonly errorMessage?: string;
}

interface Backup {
  readonly backupId: string;
  readonly type: string;
  readonly jobId: string;
  readonly multipoolerServiceId: string;
}

/** The member of zone1 leads, so that of zone2 is the first replica. */
const leader = 'p-00000001';
const first = 'p-00000002';
const second = 'p-00000003';

function aShard(): SimulatedCluster {
  const cluster = aRecordedCluster('zone1');
  cluster.runFor(20_000);
  return cluster;
}

function requestBody(type: string, more: object = {}): string {
  const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };
  return JSON.stringify({ ...shard, type, ...more });
}

function bodyOf({ reply }: Answer): unknown {
  if (reply === 'dropped') {
    throw new Error('the connection was dropped');
  }
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  return JSON.parse(JSON.stringify(reply.body));
}

function statusOf({ reply }: Answer): number | 'dropped' {
  return reply === 'dropped' ? reply : reply.status;
}

function jobIdOf(answer: Answer): string {
  return (bodyOf(answer) as { jobId: string }).jobId;
}

function post(cluster: SimulatedCluster, type: string = 'full', more: object = {}): string {
  const answer = cluster.ask('POST', '/api/v1/backups', requestBody(type, more));
  return jobIdOf(answer);
}

function askJob(cluster: SimulatedCluster, jobId: string): Answer {
  return cluster.ask('GET', `/api/v1/jobs/${jobId}?${query}`);
}

function job(cluster: SimulatedCluster, jobId: string): Job {
  return bodyOf(askJob(cluster, jobId)) as Job;
}

function askList(cluster: SimulatedCluster, more = ''): Answer {
  return cluster.ask('GET', `/api/v1/backups?${query}${more}`);
}

function list(cluster: SimulatedCluster, more = ''): readonly Backup[] {
  return (bodyOf(askList(cluster, more)) as { backups: readonly Backup[] }).backups;
}

function ids(cluster: SimulatedCluster): readonly string[] {
  return list(cluster).map(({ backupId }) => backupId);
}

/** @returns the id of the backup that came of it */
function backUp(cluster: SimulatedCluster, type: Type = 'full'): string {
  const jobId = post(cluster, type);
  untilEnded(cluster, jobId);
  return job(cluster, jobId).backupId ?? '';
}

/** @returns how long it took, in milliseconds */
function untilEnded(cluster: SimulatedCluster, jobId: string): number {
  return cluster.runUntil(() =>
    ['JOB_STATUS_COMPLETED', 'JOB_STATUS_FAILED'].includes(job(cluster, jobId).status),
  );
}

function leaseAction(cluster: SimulatedCluster): unknown {
  if (!cluster.stored.has(leaseKey)) {
    return undefined;
  }
  const lock = JSON.parse(Buffer.from(cluster.valueOf(leaseKey)).toString()) as { Action: unknown };
  return lock.Action;
}

function kill(cluster: SimulatedCluster, pod: string): void {
  cluster.inject({ kind: 'podDeath', pod, leaves: 'failed' });
}

/** One backup of each of the two replicas: the second steals the lease of the first. */
function theft(cluster: SimulatedCluster): { robbed: string; thief: string } {
  const robbed = post(cluster);
  cluster.runFor(1_000);
  return { robbed, thief: post(cluster, 'full', { forcePrimary: true }) };
}

describe('answers about backups have the shape of the recorded ones', () => {
  test('a request, a job that runs, and one that is complete', () => {
    const cluster = aShard();

    const answer = cluster.ask('POST', '/api/v1/backups', requestBody('full'));
    const jobId = jobIdOf(answer);
    cluster.runFor(100);
    const running = job(cluster, jobId);
    untilEnded(cluster, jobId);
    const completed = job(cluster, jobId);

    expect(keyPaths(bodyOf(answer))).toEqual(keyPaths(recordedAnswers.backupRequest));
    expect(jobId).toMatch(/^20260101-\d{6}\.\d{6}_multipooler-zone2-p-00000002$/);
    expect(running).toEqual({ ...recordedAnswers.runningJob, jobId });
    expect(keyPaths(completed)).toEqual(keyPaths(recordedAnswers.completedJob));
    expect(completed).toMatchObject({
      jobId,
      status: 'JOB_STATUS_COMPLETED',
      backupId: expect.stringMatching(/^20260101-\d{6}F$/),
    });
  });

  test('the list', () => {
    const cluster = aShard();
    backUp(cluster);

    const body = bodyOf(askList(cluster));

    expect(keyPaths(body)).toEqual(keyPaths(recordedAnswers.backups));
    expect(body).toMatchObject({
      backups: [
        { multipoolerServiceId: leader, routingRole: 'ROUTING_ROLE_REPLICA' },
        {
          type: 'full',
          status: 'BACKUP_STATUS_COMPLETE',
          multipoolerServiceId: first,
          routingRole: 'ROUTING_ROLE_REPLICA',
          startTimestamp: expect.stringMatching(/^2026-01-01T\d\d:\d\d:\d\dZ$/),
        },
      ],
    });
  });

  test('a request is understood under both names of its fields', () => {
    const cluster = aShard();

    const jobId = jobIdOf(
      cluster.ask(
        'POST',
        '/api/v1/backups',
        '{"database":"postgres","table_group":"default","type":"full","force_primary":true}',
      ),
    );
    untilEnded(cluster, jobId);

    expect(jobId).toContain(`_multipooler-zone1-${leader}`);
    expect(job(cluster, jobId).status).toBe('JOB_STATUS_COMPLETED');
    expect(list(cluster).at(-1)).toMatchObject({ routingRole: 'ROUTING_ROLE_PRIMARY' });
    expect(
      statusOf(cluster.ask('GET', '/api/v1/backups?database=postgres&table_group=default')),
    ).toBe(200);
  });
});

describe('a backup', () => {
  test('is answered at once, pending, runs its time, and holds the lease as long', () => {
    const cluster = aShard();

    const answer = cluster.ask('POST', '/api/v1/backups', requestBody('full'));
    const jobId = jobIdOf(answer);
    const before = job(cluster, jobId).status;
    cluster.runFor(5);
    const status = job(cluster, jobId).status;
    const held = leaseAction(cluster);
    const tookMs = untilEnded(cluster, jobId);

    expect(answer.afterMs).toBe(0);
    expect([before, status]).toEqual(['JOB_STATUS_PENDING', 'JOB_STATUS_RUNNING']);
    expect(held).toBe(`backup by ${first}`);
    expect(tookMs).toBeGreaterThan(5_990);
    expect(tookMs).toBeLessThanOrEqual(6_000);
    expect(leaseAction(cluster)).toBeUndefined();
  });

  test.each([
    ['differential', 3_000],
    ['incremental', 3_000],
  ] as const)('%s takes half as long', (type, expectedMs) => {
    const cluster = aShard();
    const jobId = post(cluster, type);
    cluster.runFor(5);

    const tookMs = untilEnded(cluster, jobId);

    expect(tookMs).toBeGreaterThan(expectedMs - 10);
    expect(tookMs).toBeLessThanOrEqual(expectedMs);
  });

  test('takes as long as the setting says, divided by the speed', () => {
    const cluster = aRecordedCluster('zone1');
    const backupMs = { full: 40_000, differential: 20_000, incremental: 10_000 };
    cluster.tell({ kind: 'resumed', config: { ...cluster.state.config, speed: 10, backupMs } });
    const jobId = post(cluster);

    const tookMs = untilEnded(cluster, jobId);

    expect(tookMs).toBeGreaterThanOrEqual(4_001);
    expect(tookMs).toBeLessThanOrEqual(4_005);
  });

  test('leaves nothing to do when it has ended', () => {
    const cluster = aShard();

    backUp(cluster);

    expect(cluster.state.timers.map(({ task }) => task.kind)).toEqual(['cycle']);
    expect(cluster.state.outbox).toEqual([]);
    expect(cluster.state.backups.line).toEqual([]);
  });

  test('of a type that there is not is accepted, and fails', () => {
    const cluster = aShard();
    const jobId = post(cluster, 'diff');
    cluster.runFor(5);

    expect(job(cluster, jobId)).toMatchObject({ status: 'JOB_STATUS_FAILED' });
    expect(leaseAction(cluster)).toBeUndefined();
  });

  test('goes on when the data plane is killed and started again', () => {
    const cluster = aShard();
    const jobId = post(cluster);
    cluster.runFor(2_000);

    cluster.tell({ kind: 'resumed', config: cluster.state.config }, cluster.state.nowMs + 60_000);
    const leftMs = untilEnded(cluster, jobId);

    expect(leftMs).toBeGreaterThan(3_900);
    expect(leftMs).toBeLessThanOrEqual(4_005);
    expect(job(cluster, jobId).status).toBe('JOB_STATUS_COMPLETED');
  });

  test('is cut short when its pooler is stopped, and its lease is free at once', () => {
    const cluster = aShard();
    const jobId = post(cluster);
    cluster.runFor(1_000);

    cluster.deletePod(first);
    cluster.runFor(450);

    expect(job(cluster, jobId).status).toBe('JOB_STATUS_FAILED');
    expect(leaseAction(cluster)).toBeUndefined();
  });

  test('whose pooler is killed fails at once, and its lease expires up to 30 s later', () => {
    const cluster = aShard();
    const jobId = post(cluster);
    cluster.runFor(1_000);

    kill(cluster, first);
    const status = job(cluster, jobId).status;
    const held = leaseAction(cluster);
    const leftMs = cluster.runUntil(() => leaseAction(cluster) === undefined);

    expect(status).toBe('JOB_STATUS_FAILED');
    expect(held).toBe(`backup by ${first}`);
    expect(leftMs).toBeGreaterThanOrEqual(20_000);
    expect(leftMs).toBeLessThanOrEqual(30_000);
  });

  test('takes the lease that a killed one left, and keeps it when that would have expired', () => {
    const cluster = aShard();
    post(cluster);
    cluster.runFor(1_000);
    kill(cluster, first);
    cluster.inject({ kind: 'backupHangs' });

    const jobId = post(cluster, 'full', { forcePrimary: true });
    cluster.runFor(40_000);

    expect(job(cluster, jobId).status).toBe('JOB_STATUS_RUNNING');
    expect(leaseAction(cluster)).toBe(`backup by ${leader}`);
  });

  test('of a forced primary ends with its resignation', () => {
    const cluster = aShard();
    const jobId = post(cluster, 'full', { forcePrimary: true });
    cluster.runFor(100);

    cluster.ask('POST', '/api/v1/shards/postgres/default/0-inf/switch-primary', '{}');

    expect(job(cluster, jobId).status).toBe('JOB_STATUS_FAILED');
  });

  test('waits for nothing that a pause keeps from etcd', () => {
    const cluster = aShard();
    cluster.inject({ kind: 'topologyPaused' });

    backUp(cluster);
    cluster.lift('topologyPaused');
    cluster.runFor(1_000);

    expect(cluster.stored.has(leaseKey)).toBe(false);
  });
});

describe('the pooler that is backed up', () => {
  test('is the first SERVING replica in the order of the cells', () => {
    const cluster = aShard();
    cluster.deletePod(first);
    cluster.runFor(5_000);

    expect(post(cluster)).toContain(`_multipooler-zone3-${second}`);
  });

  test('may be one that was killed: its record says SERVING, its job fails within 5 ms', () => {
    const cluster = aShard();
    kill(cluster, first);

    const jobId = post(cluster);
    const tookMs = untilEnded(cluster, jobId);

    expect(jobId).toContain(first);
    expect(tookMs).toBeLessThanOrEqual(5);
    expect(job(cluster, jobId)).toMatchObject({
      status: 'JOB_STATUS_FAILED',
      errorMessage: expect.stringContaining('Unavailable'),
    });
    expect(statusOf(askList(cluster))).toBe(500);
  });

  test('where there is no replica is none, unless the primary may be', () => {
    const cluster = aShard();
    for (const pod of [first, second]) {
      cluster.deletePod(pod);
      cluster.runFor(5_000);
    }

    const refused = cluster.ask('POST', '/api/v1/backups', requestBody('full'));

    expect(refused.reply).toMatchObject({ status: 400, body: { code: 9 } });
    expect(statusOf(askList(cluster))).toBe(404);
    expect(post(cluster, 'full', { forcePrimary: true })).toContain(leader);
  });

  test('is none of another shard, nor for a body that cannot be read', () => {
    const cluster = aShard();

    const other = cluster.ask(
      'POST',
      '/api/v1/backups',
      requestBody('full', { database: 'other' }),
    );
    const unreadable = cluster.ask('POST', '/api/v1/backups', '{');

    expect(other.reply).toMatchObject({ status: 400, body: { code: 9 } });
    expect(unreadable.reply).toMatchObject({ status: 400, body: { code: 3 } });
  });

  test('that leads by the time of its turn is not backed up', () => {
    const cluster = aShard();
    cluster.inject({ kind: 'backupHangs' });
    post(cluster);
    const jobId = post(cluster);
    // Its record is what a request goes by; what it is, it knows itself.
    const member = Object.values(cluster.state.members).find(({ pod }) => pod.name === first);
    if (member !== undefined) {
      member.role = 'primary';
    }

    cluster.lift('backupHangs');
    untilEnded(cluster, jobId);

    expect(job(cluster, jobId).errorMessage).toContain('primary');
  });
});

describe('a second backup', () => {
  test('of the same pooler runs after the first, and both are complete', () => {
    const cluster = aShard();
    const jobs = [post(cluster)];
    cluster.runFor(1_000);
    jobs.push(post(cluster));
    cluster.runFor(5);

    const during = jobs.map((jobId) => job(cluster, jobId).status);
    const tookMs = untilEnded(cluster, jobs[1] ?? '');

    expect(new Set(jobs).size).toBe(2);
    expect(during).toEqual(['JOB_STATUS_RUNNING', 'JOB_STATUS_RUNNING']);
    expect(tookMs).toBeGreaterThan(10_980);
    expect(tookMs).toBeLessThanOrEqual(11_000);
    expect(jobs.map((jobId) => job(cluster, jobId).status)).toEqual([
      'JOB_STATUS_COMPLETED',
      'JOB_STATUS_COMPLETED',
    ]);
    expect(list(cluster).map(({ jobId }) => jobId)).toEqual([expect.any(String), ...jobs]);
  });

  test('of another pooler steals the lease, and the first fails about 10 s later', () => {
    const cluster = aShard();

    const { robbed, thief } = theft(cluster);
    cluster.runFor(5);
    const held = leaseAction(cluster);
    const thiefMs = untilEnded(cluster, thief);
    const robbedMs = thiefMs + untilEnded(cluster, robbed);

    expect(held).toBe(`backup by ${leader}`);
    expect(job(cluster, thief).status).toBe('JOB_STATUS_COMPLETED');
    expect(job(cluster, robbed)).toMatchObject({
      status: 'JOB_STATUS_FAILED',
      errorMessage: expect.stringContaining('exit status 63'),
    });
    expect(robbedMs).toBeGreaterThan(9_400);
    expect(robbedMs).toBeLessThan(10_600);
    expect(list(cluster).map(({ jobId }) => jobId)).not.toContain(robbed);
  });

  test('after a killed one fails at once, until what is left of that is gone after 63 s', () => {
    const cluster = aShard();
    const { robbed } = theft(cluster);
    untilEnded(cluster, robbed);

    cluster.runFor(60_000);
    const early = post(cluster);
    const tookMs = untilEnded(cluster, early);
    cluster.runFor(5_000);

    expect(tookMs).toBeLessThanOrEqual(5);
    expect(job(cluster, early).errorMessage).toContain('[050] unable to acquire lock');
    expect(backUp(cluster)).toMatch(/F$/);
  });

  test('does not meet what was left in a pod that is gone', () => {
    const cluster = aShard();
    const { robbed } = theft(cluster);
    untilEnded(cluster, robbed);

    cluster.removePod(first);
    cluster.startPod(first, 'zone2');
    cluster.runUntil(() => cluster.areAllReady());
    const firstCall = post(cluster);
    untilEnded(cluster, firstCall);

    expect(cluster.state.backups.orphans).toEqual([]);
    // The address of the pod is another one now, which the first call does not know.
    expect(job(cluster, firstCall).status).toBe('JOB_STATUS_FAILED');
    expect(backUp(cluster)).toMatch(/F$/);
  });
});

describe('the repository', () => {
  test('begins with the backup that a fresh shard was made from', () => {
    const cluster = aShard();

    expect(list(cluster)).toMatchObject([{ type: 'full', multipoolerServiceId: leader }]);
  });

  test('lists the oldest first, and of a limit the first ones', () => {
    const cluster = aShard();
    const newer = [backUp(cluster), backUp(cluster)];

    const limited = list(cluster, '&limit=2').map(({ backupId }) => backupId);

    expect(ids(cluster)).toEqual([limited[0], ...newer]);
    expect(limited[1]).toBe(newer[0]);
    expect(ids(cluster)).toEqual(ids(cluster).toSorted());
    expect(list(cluster, '&limit=0')).toHaveLength(3);
    expect(statusOf(askList(cluster, '&limit=many'))).toBe(400);
  });

  test('needs a database and a table group', () => {
    const cluster = aShard();

    expect(statusOf(cluster.ask('GET', '/api/v1/backups'))).toBe(400);
    expect(statusOf(cluster.ask('GET', '/api/v1/backups?database=postgres'))).toBe(400);
  });

  test('names what continues another after the full one that it needs', () => {
    const cluster = aShard();
    const full = backUp(cluster);

    const incremental = backUp(cluster, 'incremental');
    const differential = backUp(cluster, 'differential');
    const onDifferential = backUp(cluster, 'incremental');

    expect(incremental).toMatch(new RegExp(`^${full}_20260101-\\d{6}I$`));
    expect(differential).toMatch(new RegExp(`^${full}_20260101-\\d{6}D$`));
    expect(onDifferential).toMatch(new RegExp(`^${full}_20260101-\\d{6}I$`));
    expect(list(cluster).map(({ type }) => type)).toEqual(['full', 'full', 'incr', 'diff', 'incr']);
  });

  test('makes full what has nothing to continue', () => {
    const cluster = aShard();
    cluster.state.backups = { ...cluster.state.backups, stored: [] };

    expect(backUp(cluster, 'differential')).toMatch(/F$/);
  });

  test('gives two backups of one second two labels', () => {
    const cluster = aRecordedCluster('zone1');
    cluster.tell({ kind: 'resumed', config: { ...cluster.state.config, speed: 100 } });

    const [one, other] = [backUp(cluster), backUp(cluster)];

    expect(other > one).toBe(true);
  });

  test('keeps seven full ones, and with an older one goes what continued it', () => {
    const cluster = aShard();
    const continuing = backUp(cluster, 'incremental');
    const full = Array.from({ length: 6 }, () => backUp(cluster));
    const before = ids(cluster);

    full.push(backUp(cluster));

    expect(before).toHaveLength(8);
    expect(before).toContain(continuing);
    expect(ids(cluster)).toEqual(full);
  });

  test('keeps one differential one, and a full one takes its place', () => {
    const cluster = aShard();
    const onFull = backUp(cluster, 'incremental');
    const one = backUp(cluster, 'differential');
    const onOne = backUp(cluster, 'incremental');
    const before = ids(cluster);

    const two = backUp(cluster, 'differential');
    const after = ids(cluster);
    const full = backUp(cluster);

    expect(before.slice(1)).toEqual([onFull, one, onOne]);
    expect(after.slice(1)).toEqual([onFull, two]);
    expect(ids(cluster).slice(1)).toEqual([onFull, full]);
  });

  test('cannot be asked for while the pooler that is asked backs up', () => {
    const cluster = aShard();
    const jobId = post(cluster);
    cluster.runFor(1_000);

    const { reply, afterMs } = askList(cluster);

    expect(reply).toMatchObject({ status: 200 });
    expect(afterMs).toBeGreaterThan(4_990);
    expect(afterMs).toBeLessThanOrEqual(5_005);
    expect(list(cluster).at(-1)).toMatchObject({ jobId });
  });

  test('asked for at a pooler that dies before its turn fails', () => {
    const cluster = aShard();
    post(cluster);
    cluster.runFor(1_000);
    const request = cluster.begin('GET', `/api/v1/backups?${query}`);

    kill(cluster, first);

    expect(cluster.answerTo(request)).toMatchObject({ reply: { status: 500 } });
  });
});

describe('a job', () => {
  test('of nobody is not found, wherever it is looked for', () => {
    const cluster = aShard();

    expect(statusOf(askJob(cluster, 'other'))).toBe(404);
    expect(statusOf(cluster.ask('GET', '/api/v1/jobs/other'))).toBe(404);
    kill(cluster, first);
    expect(statusOf(askJob(cluster, 'other'))).toBe(404);
  });

  test('is counted by the data plane whatever becomes of it, with the instant it was asked for', () => {
    const cluster = aShard();
    const askedAt = new Date(cluster.state.nowMs).toISOString();

    const jobs = [post(cluster), post(cluster, 'no-such-type')];
    cluster.runFor(20_000);

    expect(cluster.view.backupJobs).toEqual([
      { job: jobs[0], type: 'full', status: 'completed', askedAt },
      { job: jobs[1], type: 'no-such-type', status: 'failed', askedAt },
    ]);
  });

  test('is remembered for a day after its end', () => {
    const cluster = aRecordedCluster('zone1');
    cluster.tell({ kind: 'resumed', config: { ...cluster.state.config, speed: 100 } });
    cluster.inject({ kind: 'backupFails', times: 'once' });
    const jobId = post(cluster);
    untilEnded(cluster, jobId);
    cluster.runFor(863_000);

    const dayBefore = job(cluster, jobId).status;
    cluster.runFor(2_000);

    expect(dayBefore).toBe('JOB_STATUS_FAILED');
    expect(statusOf(askJob(cluster, jobId))).toBe(404);
  });

  test('which ran when multiadmin restarted is not found any more, and no backup comes of it', () => {
    const cluster = aShard();
    const waiting = [post(cluster), post(cluster)];
    cluster.runFor(1_000);

    cluster.inject({ kind: 'adminRestart' });
    cluster.runFor(199);
    const held = leaseAction(cluster);
    cluster.runFor(1);

    expect(held).toBe(`backup by ${first}`);
    expect(leaseAction(cluster)).toBeUndefined();
    cluster.runFor(20_000);
    expect(waiting.map((jobId) => statusOf(askJob(cluster, jobId)))).toEqual([404, 404]);
    expect(list(cluster)).toHaveLength(1);
    expect(cluster.view.faults).toEqual([]);
  });

  test('whose backup was complete before is found by the repository', () => {
    const cluster = aShard();
    const jobId = post(cluster);
    untilEnded(cluster, jobId);
    const before = job(cluster, jobId);

    cluster.inject({ kind: 'adminRestart' });

    expect(job(cluster, jobId)).toEqual(before);
    expect(statusOf(cluster.ask('GET', `/api/v1/jobs/${jobId}`))).toBe(404);
  });

  test('that is looked for in the repository waits for a backup that runs there', () => {
    const cluster = aShard();
    const before = post(cluster);
    untilEnded(cluster, before);
    cluster.inject({ kind: 'adminRestart' });
    post(cluster);
    cluster.runFor(1_000);

    const { reply, afterMs } = askJob(cluster, before);

    expect(reply).toMatchObject({ status: 200, body: { status: 'JOB_STATUS_COMPLETED' } });
    expect(afterMs).toBeGreaterThan(4_990);
  });
});

describe('multiadmin restarted', () => {
  test('leaves an orphan where a backup ran', () => {
    const cluster = aShard();
    post(cluster);
    cluster.runFor(1_000);
    cluster.inject({ kind: 'adminRestart' });
    cluster.runFor(1_000);

    const jobId = post(cluster);
    cluster.runFor(5);

    expect(job(cluster, jobId).errorMessage).toContain('[050]');
  });

  test('resets the connections of all who wait', () => {
    const cluster = aShard();
    post(cluster);
    cluster.runFor(5);
    cluster.inject({ kind: 'adminSlow', delayMs: 5_000 });
    const requests = [
      cluster.begin('GET', `/api/v1/backups?${query}`),
      cluster.begin('GET', '/api/v1/cells'),
      cluster.begin('POST', '/api/v1/shards/postgres/default/0-inf/switch-primary', '{}'),
    ];

    cluster.inject({ kind: 'adminRestart' });
    cluster.runFor(60_000);

    for (const request of requests) {
      expect(cluster.answerTo(request)).toMatchObject({ reply: 'dropped' });
    }
  });
});

describe('the fault', () => {
  test('of a lost reply lets a backup begin without an answer, once', () => {
    const cluster = aShard();
    cluster.inject({ kind: 'lostBackupReply' });

    const lost = cluster.ask('POST', '/api/v1/backups', requestBody('full'));
    cluster.runFor(10_000);

    expect(lost.reply).toBe('dropped');
    expect(list(cluster)).toHaveLength(2);
    expect(post(cluster)).toContain(first);
  });

  test('of a failing backup fails the next one, or all of them', () => {
    const cluster = aShard();

    cluster.inject({ kind: 'backupFails', times: 'once' });
    const once = [backUp(cluster), backUp(cluster)];
    cluster.inject({ kind: 'backupFails', times: 'always' });
    const always = [backUp(cluster), backUp(cluster)];
    cluster.lift('backupFails');

    expect(once).toEqual(['', expect.stringMatching(/F$/)]);
    expect(always).toEqual(['', '']);
    expect(backUp(cluster)).toMatch(/F$/);
    expect(leaseAction(cluster)).toBeUndefined();
  });

  test('of a hanging backup keeps it running until it is lifted', () => {
    const cluster = aShard();
    cluster.inject({ kind: 'backupHangs' });
    const jobId = post(cluster);

    cluster.runFor(3_600_000);
    const hung = job(cluster, jobId).status;
    const held = leaseAction(cluster);
    cluster.lift('backupHangs');

    expect(hung).toBe('JOB_STATUS_RUNNING');
    expect(held).toBe(`backup by ${first}`);
    expect(job(cluster, jobId).status).toBe('JOB_STATUS_COMPLETED');
  });

  test('of a held lease shows somebody else’s, and takes it back from who takes it', () => {
    const cluster = aShard();

    cluster.inject({ kind: 'leaseHeld' });
    const held = leaseAction(cluster);
    const jobId = post(cluster);
    const tookMs = untilEnded(cluster, jobId);
    const heldAfterwards = leaseAction(cluster);
    cluster.lift('leaseHeld');

    expect(held).toBe('backup by somebody-else');
    expect(heldAfterwards).toBe(held);
    expect(job(cluster, jobId).status).toBe('JOB_STATUS_FAILED');
    expect(tookMs).toBeGreaterThan(9_400);
    expect(leaseAction(cluster)).toBeUndefined();
  });

  test('of a held lease robs a backup that runs', () => {
    const cluster = aShard();
    const jobId = post(cluster);
    cluster.runFor(1_000);

    cluster.inject({ kind: 'leaseHeld' });
    untilEnded(cluster, jobId);

    expect(job(cluster, jobId).errorMessage).toContain('exit status 63');
    expect(leaseAction(cluster)).toBe('backup by somebody-else');
  });
});

describe('without backups', () => {
  test('a shard has nothing more to do than before there were any', () => {
    const cluster = aShard();

    expect(cluster.state.timers.map(({ task }) => task.kind)).toEqual(['cycle']);
    expect([...cluster.stored.keys()].filter((key) => key.includes('/backups/'))).toEqual([]);
  });
});
