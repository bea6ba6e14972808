import * as z from 'zod';
import { describeError } from '#shared/kernel/errors.ts';
import type { KubeConnection, KubeResponse } from '#shared/kube/connection.ts';
import type { TopologyCredentials } from './access.ts';
import {
  EtcdFailure,
  type EtcdStore,
  type RequestLimits,
  type SwapRequest,
  isAuthError,
  remainingMs,
} from './etcd-store.ts';
import { etcdWords } from './etcd-words.ts';

/** How a gateway is reached. */
export interface GatewayRoute {
  readonly connection: KubeConnection;
  /** What comes before `/v3`; empty for a direct connection. */
  readonly pathPrefix: string;
  /** For messages: where it is. */
  readonly name: string;
  /** Whether the connection ends with the store. */
  readonly isOwned: boolean;
}

/** int64 in proto3 JSON is a string; zero is left out. */
const int64 = z.union([z.string().regex(/^-?\d+$/), z.int().transform(String)]).default('0');
const base64 = z.base64().default('');
const header = z.object({ revision: int64 });

const rangeSchema = z.object({
  header,
  kvs: z.array(z.object({ key: base64, value: base64, mod_revision: int64 })).default([]),
  more: z.boolean().default(false),
});

const txnSchema = z.object({ header, succeeded: z.boolean().default(false) });
const txnOfManySchema = txnSchema.extend({
  responses: z
    .array(
      z.object({
        response_range: z
          .object({ kvs: z.array(z.object({ mod_revision: int64 })).default([]) })
          .optional(),
      }),
    )
    .default([]),
});
const tokenSchema = z.object({ token: z.string().min(1) });

/** etcd's own errors are fixed sentences; nothing else of a refused answer is repeated. */
const errorSchema = z.object({ message: z.string().regex(/^etcdserver: [ -~]{1,200}$/) });
const kubeStatusSchema = z.object({ kind: z.literal('Status'), reason: z.string().default('') });

/** One etcd, or the Service before several, through etcd's JSON gateway: the same calls as plain HTTP. */
export function gatewayStore(route: GatewayRoute, credentials: TopologyCredentials): EtcdStore {
  const call = signedIn(route, credentials);
  return {
    async range(request, limits) {
      const body = {
        key: encode(request.key),
        ...(request.rangeEnd === undefined ? {} : { range_end: encode(request.rangeEnd) }),
        ...(request.limit === undefined ? {} : { limit: String(request.limit) }),
        ...(request.revision === undefined ? {} : { revision: request.revision }),
      };
      const answer = await call({ path: '/kv/range', body, schema: rangeSchema }, limits);
      return {
        revision: request.revision ?? answer.header.revision,
        entries: answer.kvs.map((entry) => ({
          key: Buffer.from(entry.key, 'base64'),
          value: Buffer.from(entry.value, 'base64'),
          modRevision: entry.mod_revision,
        })),
        more: answer.more,
      };
    },
    async swap(request, limits) {
      const body = swapsOf([request]);
      const answer = await call({ path: '/kv/txn', body, schema: txnSchema }, limits);
      return answer.succeeded
        ? { kind: 'swapped', modRevision: answer.header.revision }
        : { kind: 'moved' };
    },
    async swapAll(requests, limits) {
      const looks = requests.map(({ key }) => ({
        request_range: { key: encode(Buffer.from(key)), keys_only: true },
      }));
      const body = { ...swapsOf(requests), failure: looks };
      const answer = await call({ path: '/kv/txn', body, schema: txnOfManySchema }, limits);
      return answer.succeeded
        ? { kind: 'swapped', modRevision: answer.header.revision }
        : {
            kind: 'moved',
            modRevisions: answer.responses.map(
              ({ response_range: found }) => found?.kvs[0]?.mod_revision ?? '0',
            ),
          };
    },
    close() {
      if (route.isOwned) {
        route.connection.close();
      }
    },
  };
}

function swapsOf(requests: readonly SwapRequest[]): object {
  const keyed = requests.map((request) => ({ ...request, key: encode(Buffer.from(request.key)) }));
  return {
    compare: keyed.map(({ key, modRevision }) => ({
      key,
      target: 'MOD',
      result: 'EQUAL',
      mod_revision: modRevision,
    })),
    success: keyed.map(({ key, value }) =>
      value === null
        ? { request_delete_range: { key } }
        : { request_put: { key, value: encode(value) } },
    ),
  };
}

interface Call<T> {
  /** Below `/v3`. */
  readonly path: string;
  readonly body: unknown;
  readonly schema: z.ZodType<T>;
}

/**
 * Makes calls as the user the store knows, where it has users. A token lives for minutes only, so a refused call is
 * made once more with a new one: a refused call did nothing.
 */
function signedIn(route: GatewayRoute, { username, password = '' }: TopologyCredentials) {
  let token: string | undefined;

  async function attempt<T>(made: Call<T>, limits: RequestLimits): Promise<T> {
    token ??= (
      await post(
        route,
        { path: '/auth/authenticate', body: { name: username, password }, schema: tokenSchema },
        limits,
      )
    ).token;
    return post(route, made, limits, tokenHeader(token));
  }

  return async function call<T>(made: Call<T>, limits: RequestLimits): Promise<T> {
    if (username === undefined) {
      return post(route, made, limits);
    }
    const hadToken = token !== undefined;
    try {
      return await attempt(made, limits);
    } catch (error) {
      const isRefused = error instanceof EtcdFailure && error.kind === 'forbidden';
      if (isRefused) {
        token = undefined;
      }
      if (isRefused && hadToken) {
        return attempt(made, limits);
      }
      throw error;
    }
  };
}

async function post<T>(
  route: GatewayRoute,
  { path, body, schema }: Call<T>,
  limits: RequestLimits,
  headers: Readonly<Record<string, string>> = {},
): Promise<T> {
  let response: KubeResponse;
  try {
    response = await route.connection.request({
      method: 'POST',
      path: `${route.pathPrefix}/v3${path}`,
      headers,
      body,
      timeoutMs: remainingMs(limits),
      ...(limits.signal === undefined ? {} : { signal: limits.signal }),
    });
  } catch (error) {
    throw new EtcdFailure('failed', `${route.name}: ${etcdWords(describeError(error))}`, {
      cause: error,
    });
  }
  if (response.status !== 200) {
    throw refusal(response, route.name);
  }
  const parsed = schema.safeParse(response.body);
  if (!parsed.success) {
    throw new EtcdFailure('failed', `${route.name}: the answer is not that of etcd's gateway`);
  }
  return parsed.data;
}

function encode(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}

/** The gateway hands headers with this prefix on to etcd. `authorization` would be taken by the API server's proxy. */
function tokenHeader(token: string): Readonly<Record<string, string>> {
  return { 'grpc-metadata-token': token };
}

function refusal({ status, body }: KubeResponse, name: string): EtcdFailure {
  const kubeStatus = kubeStatusSchema.safeParse(body);
  if (kubeStatus.success) {
    return new EtcdFailure(
      status === 401 || status === 403 ? 'forbidden' : 'failed',
      `${name}: the API server's service proxy answers ${status} ${kubeStatus.data.reason}`.trimEnd(),
    );
  }
  const said = errorSchema.safeParse(body);
  const message = said.success ? said.data.message : '';
  return new EtcdFailure(
    status === 401 || status === 403 || isAuthError(message) ? 'forbidden' : 'failed',
    `${name} answers ${status}${message === '' ? '' : ` ${etcdWords(message)}`}`,
  );
}
