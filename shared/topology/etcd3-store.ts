import { noop } from 'cockatiel';
import {
  CompareResult,
  CompareTarget,
  Etcd3,
  type IOptions,
  type IRangeRequest,
  type IRequestOp,
  type ITxnRequest,
} from 'etcd3';
import { describeError } from '#shared/kernel/errors.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import type { TopologyCredentials } from './access.ts';
import { type EtcdAddress, hostAndPort } from './address.ts';
import {
  EtcdFailure,
  type EtcdStore,
  type RequestLimits,
  type SwapRequest,
  isAuthError,
  remainingMs,
} from './etcd-store.ts';
import { etcdWords } from './etcd-words.ts';

/** How long signing in may take, in milliseconds. The request that waits for it has a deadline of its own. */
const signInTimeoutMs = 5_000;

type Run<T> = (client: Etcd3, deadline: Date) => Promise<T>;

/**
 * One etcd member over gRPC. Loaded only where it is used: the module reads its protocol files at import.
 *
 * The client's own retries and circuit breaker are off: a write must not be sent twice, and a read that fails says so. What
 * etcd refuses was not done: it is sent once more by a new client, which signs in anew, where the old sign-in may have ended.
 */
export function etcd3Store(address: EtcdAddress, credentials: TopologyCredentials): EtcdStore {
  const { call, close } = callsOf(address, credentials);
  return {
    range(request, limits) {
      return call(limits, async (client, deadline) => {
        const query: IRangeRequest = {
          key: Buffer.from(request.key),
          ...(request.rangeEnd === undefined ? {} : { range_end: Buffer.from(request.rangeEnd) }),
          ...(request.limit === undefined ? {} : { limit: request.limit }),
          ...(request.revision === undefined ? {} : { revision: request.revision }),
        };
        const answer = await client.kv.range(query, { deadline });
        return {
          revision: request.revision ?? answer.header.revision,
          entries: answer.kvs.map((entry) => ({
            key: entry.key,
            value: entry.value,
            modRevision: entry.mod_revision,
          })),
          more: answer.more,
        };
      });
    },
    swap(request, limits) {
      return call(limits, async (client, deadline) => {
        const answer = await client.kv.txn(swapsOf([request]), { deadline });
        return answer.succeeded
          ? { kind: 'swapped', modRevision: answer.header.revision }
          : { kind: 'moved' };
      });
    },
    swapAll(requests, limits) {
      return call(limits, async (client, deadline) => {
        const request = { ...swapsOf(requests), failure: requests.map(revisionOf) };
        const answer = await client.kv.txn(request, { deadline });
        return answer.succeeded
          ? { kind: 'swapped', modRevision: answer.header.revision }
          : {
              kind: 'moved',
              modRevisions: answer.responses.map(
                ({ response_range: found }) => found?.kvs[0]?.mod_revision ?? '0',
              ),
            };
      });
    },
    close,
  };
}

/** Calls of one client, which is made when it is first needed, and anew where that may help. */
function callsOf(address: EtcdAddress, credentials: TopologyCredentials) {
  let client: Etcd3 | undefined;

  async function attempt<T>(limits: RequestLimits, run: Run<T>): Promise<T> {
    let used: Etcd3 | undefined;
    try {
      limits.signal?.throwIfAborted();
      client ??= new Etcd3(optionsOf(address, credentials));
      used = client;
      return await orAborted(run(used, wallDeadline(remainingMs(limits))), limits);
    } catch (error) {
      const failure = failureOf(error, address);
      if (client === used && (failure.kind === 'forbidden' || isWithoutConnection(error))) {
        client = undefined;
        used?.close();
      }
      throw failure;
    }
  }

  async function call<T>(limits: RequestLimits, run: Run<T>): Promise<T> {
    const wasSignedIn = credentials.username !== undefined && client !== undefined;
    try {
      return await attempt(limits, run);
    } catch (error) {
      if (wasSignedIn && error instanceof EtcdFailure && error.kind === 'forbidden') {
        return attempt(limits, run);
      }
      throw error;
    }
  }

  function close(): void {
    client?.close();
    client = undefined;
  }

  return { call, close };
}

function swapsOf(requests: readonly SwapRequest[]): ITxnRequest {
  const keyed = requests.map((request) => ({ ...request, key: Buffer.from(request.key) }));
  return {
    compare: keyed.map(({ key, modRevision }) => ({
      key,
      target: CompareTarget.Mod,
      result: CompareResult.Equal,
      mod_revision: modRevision,
    })),
    success: keyed.map(({ key, value }) =>
      value === null
        ? { request_delete_range: { key } }
        : { request_put: { key, value: Buffer.from(value) } },
    ),
  };
}

function revisionOf({ key }: SwapRequest): IRequestOp {
  return { request_range: { key: Buffer.from(key), keys_only: true } };
}

function optionsOf(address: EtcdAddress, credentials: TopologyCredentials): IOptions {
  const { username, password = '', ca, certificate, key } = credentials;
  return {
    hosts: `${address.scheme}://${hostAndPort(address)}`,
    faultHandling: { global: noop, host: () => noop },
    ...(address.scheme === 'https' && ca !== undefined
      ? {
          credentials: {
            rootCertificate: Buffer.from(ca),
            ...(key === undefined ? {} : { privateKey: Buffer.from(key) }),
            ...(certificate === undefined ? {} : { certChain: Buffer.from(certificate) }),
          },
        }
      : {}),
    ...(username === undefined ? {} : { auth: { username, password } }),
    // Signing in has no deadline of its own.
    defaultCallOptions: () => ({ deadline: wallDeadline(signInTimeoutMs) }),
  };
}

/** gRPC counts by the machine's clock, whichever one a request's limits are counted by. */
function wallDeadline(timeoutMs: number): Date {
  return new Date(wallClock() + timeoutMs);
}

/** gRPC knows deadlines, but no signal: an aborted request goes on unobserved until its deadline. */
async function orAborted<T>(running: Promise<T>, limits: RequestLimits): Promise<T> {
  const timeout = AbortSignal.timeout(remainingMs(limits));
  const ended = limits.signal === undefined ? timeout : AbortSignal.any([limits.signal, timeout]);
  const { promise, reject } = Promise.withResolvers<never>();
  const stop = () => {
    reject(new Error(timeout.aborted ? 'deadline exceeded' : 'aborted'));
  };
  ended.addEventListener('abort', stop, { once: true });
  try {
    return await Promise.race([running, promise]);
  } finally {
    ended.removeEventListener('abort', stop);
    // Where the race is lost the request still fails later, with nobody left to hear it.
    running.catch(() => undefined);
  }
}

/** gRPC waits before it connects again, up to two minutes, and meanwhile does not say why. A new client tries at once. */
function isWithoutConnection(error: unknown): boolean {
  return describeError(error).includes('No connection established');
}

function failureOf(error: unknown, address: EtcdAddress): EtcdFailure {
  const message = describeError(error);
  return new EtcdFailure(
    isAuthError(message) ? 'forbidden' : 'failed',
    `etcd at ${hostAndPort(address)}: ${etcdWords(message)}`,
    { cause: error },
  );
}
