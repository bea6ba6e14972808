import * as z from 'zod';
import { describeError } from '#shared/kernel/errors.ts';
import { type Read, absent, unknown } from '#shared/kernel/read.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import type { ServiceAddress } from '#shared/topology/access.ts';
import type { PoolerId, ShardKey } from '#shared/topology/topology.ts';
import type { Admin, PoolerStatus, SendResult } from './admin.ts';
import { backupJob, backups, startBackup } from './backups.ts';
import { notFoundSchema, pathSegment, refusals } from './wire.ts';
import { decodePoolerStatus } from './pooler-status.ts';
import { type AdminAnswer, type AdminRoute, type Limits, routeTo } from './route.ts';

/** Where a database's admin service is: its address, or the Service that the API server's service proxy leads to. */
export interface AdminSpec {
  /** `http://host:port`, with a path before the service's own where there is one. */
  readonly url?: string | undefined;
  readonly service?: ServiceAddress | undefined;
}

export interface AdminAccess {
  /** The namespace of the Database object. */
  readonly namespace: string;
  readonly kube?: KubeConnection | undefined;
  /** How long a status may take, in milliseconds; 5,000 when absent. */
  readonly requestTimeoutMs?: number | undefined;
  /** How long a switchover may take to answer, in milliseconds; 9,000 when absent. */
  readonly switchTimeoutMs?: number | undefined;
}

/** A live pooler answers in milliseconds, while one that hangs must not hold up a look at the others. */
const defaultTimeoutMs = 5_000;

/**
 * The real service first waits out a coordinator's backoff of 4 s where there was an election just now, and then needs
 * about 2 s. Stays below the 10 s that the executor reserves.
 */
const defaultSwitchTimeoutMs = 9_000;

/** A job that the service remembers is told at once; one that it asks a pooler for may take as long as a backup. */
const jobTimeoutMs = 3_000;

/** A backup is promised before its pooler is asked. Leaves the executor time to write the answer down. */
const startTimeoutMs = 8_000;

const switchedSchema = z.object({
  oldLeaderId: z.object({ cell: z.string(), name: z.string() }).optional(),
});

/**
 * Connects to the admin service that a database names. Nothing is sent before the first request, and nothing is thrown:
 * a wrong address is an unknown answer, or a refused request. It keeps nothing open that would have to be closed.
 */
export function connectAdmin(spec: AdminSpec, access: AdminAccess): Admin {
  const route = routeTo(spec, access);
  const timeoutMs = access.requestTimeoutMs ?? defaultTimeoutMs;
  const switchTimeoutMs = access.switchTimeoutMs ?? defaultSwitchTimeoutMs;
  return {
    poolerStatus: (pooler, signal) => poolerStatus(route, pooler, { timeoutMs, signal }),
    switchPrimary: (shard, reason, signal) =>
      switchPrimary(route, shard, reason, { timeoutMs: switchTimeoutMs, signal }),
    backupJob: (shard, job, signal) =>
      backupJob(route, shard, job, { timeoutMs: Math.min(timeoutMs, jobTimeoutMs), signal }),
    backups: (shard, signal) => backups(route, shard, { timeoutMs, signal }),
    startBackup: (shard, type, signal) =>
      startBackup(route, shard, type, { timeoutMs: startTimeoutMs, signal }),
  };
}

async function poolerStatus(
  route: AdminRoute,
  pooler: PoolerId,
  limits: Limits,
): Promise<Read<PoolerStatus>> {
  const subject = `the status of pooler ${pooler.cell}/${pooler.name}`;
  if (!pathSegment.test(pooler.cell) || !pathSegment.test(pooler.name)) {
    return unknown('the status of a pooler: its id is not made of valid names');
  }
  let answer: AdminAnswer;
  try {
    answer = await route({
      method: 'GET',
      path: `/api/v1/poolers/${pooler.cell}/${pooler.name}/status`,
      ...limits,
    });
  } catch (error) {
    return unknown(`${subject}: ${describeError(error)}`);
  }
  if (answer.status === 404 && notFoundSchema.safeParse(answer.body).success) {
    return absent;
  }
  if (answer.status !== 200) {
    return unknown(`${subject}: ${answer.from} answers ${answer.status}`);
  }
  return decodePoolerStatus(answer.body, pooler);
}

async function switchPrimary(
  route: AdminRoute,
  shard: ShardKey,
  reason: string,
  limits: Limits,
): Promise<SendResult> {
  const segments = [shard.database, shard.tableGroup, shard.shard];
  if (!segments.every((segment) => pathSegment.test(segment))) {
    return { kind: 'refused', why: 'the shard is not made of valid names' };
  }
  let answer: AdminAnswer;
  try {
    answer = await route({
      method: 'POST',
      path: `/api/v1/shards/${segments.join('/')}/switch-primary`,
      body: { reason },
      ...limits,
    });
  } catch (error) {
    return { kind: 'unknown', why: `asking for a switchover: ${describeError(error)}` };
  }
  return sendResultOf(answer);
}

function sendResultOf(answer: AdminAnswer): SendResult {
  const why = `asking for a switchover: ${answer.from} answers ${answer.status}`;
  if (refusals.has(answer.status)) {
    return { kind: 'refused', why };
  }
  const switched = switchedSchema.safeParse(answer.body);
  if (answer.status !== 200 || !switched.success) {
    return { kind: 'unknown', why };
  }
  const leader = switched.data.oldLeaderId;
  return {
    kind: 'sent',
    detail:
      leader === undefined
        ? 'the leader was asked to resign'
        : `${leader.cell}/${leader.name} was asked to resign`,
  };
}
