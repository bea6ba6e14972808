import * as z from 'zod';
import { describeError } from '#shared/kernel/errors.ts';
import { type Read, absent, unknown } from '#shared/kernel/read.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import type { ServiceAddress } from '#shared/topology/access.ts';
import type { PoolerId, ShardKey } from '#shared/topology/topology.ts';
import type { Admin, PoolerStatus, SendResult } from './admin.ts';
import { decodePoolerStatus } from './pooler-status.ts';
import { type AdminAnswer, type AdminRoute, routeTo } from './route.ts';

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

/** Names from records are put into a path only when they look like names: no slash, no dots alone. */
const pathSegment = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?$/;

/** gRPC's code 5 as the REST interface and as Connect write it. A 404 of somebody else has another body. */
const notFoundSchema = z.object({ code: z.union([z.literal(5), z.literal('not_found')]) });
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
  };
}

interface Limits {
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
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

/**
 * Answers after which the leader was surely not asked: a redirect, a request that was refused or found no route, and
 * the service's own checks (not found, failed precondition), all of which it makes first. Any other failure may come
 * after the leader was asked, a server error of the service proxy included.
 */
const refusals: ReadonlySet<number> = new Set([
  301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 412,
]);

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
