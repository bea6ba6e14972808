import { type Clock, type Instant, wallClock } from '#shared/kernel/instant.ts';

/** One key as etcd holds it. */
export interface StoredValue {
  readonly key: string;
  readonly value: Uint8Array;
  /** int64, as a decimal string. */
  readonly modRevision: string;
}

interface RangeRequest {
  readonly key: Uint8Array;
  /** Exclusive; absent for one key. */
  readonly rangeEnd?: Uint8Array;
  /** 0 or absent: no limit. */
  readonly limit?: number;
  /** Absent: the newest, as agreed by a quorum. */
  readonly revision?: string;
}

interface RangePage {
  /** The revision the page was read at: the one asked for, or the newest. */
  readonly revision: string;
  readonly entries: readonly (Omit<StoredValue, 'key'> & { readonly key: Uint8Array })[];
  /** Whether the limit cut the answer short. */
  readonly more: boolean;
}

export interface SwapRequest {
  readonly key: string;
  /** `null` deletes the key. */
  readonly value: Uint8Array | null;
  /** The key is written only while this is its mod revision. */
  readonly modRevision: string;
}

type SwapAnswer =
  | { readonly kind: 'swapped'; readonly modRevision: string }
  | { readonly kind: 'moved' };

type SwapAllAnswer =
  | { readonly kind: 'swapped'; readonly modRevision: string }
  /** `modRevisions`: those that the keys have, in the order of the requests; 0 where a key is not there. */
  | { readonly kind: 'moved'; readonly modRevisions: readonly string[] };

/** When an answer must be there, and who may end the request sooner. */
export interface RequestLimits {
  /** By `clock`. */
  readonly deadline: Instant;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
}

export function within(
  timeoutMs: number,
  signal: AbortSignal | undefined,
  clock: Clock = wallClock,
): RequestLimits {
  return { deadline: (clock() + Math.ceil(timeoutMs)) as Instant, clock, signal };
}

/** Whole milliseconds left, at least 1: an expired request fails by its timeout as any other. */
export function remainingMs({ deadline, clock }: RequestLimits): number {
  return Math.max(1, Math.ceil(deadline - clock()));
}

/**
 * One etcd member, over one of its transports. Reads are linearizable. A failure throws {@link EtcdFailure}; after a
 * failed `swap` or `swapAll` the writes may or may not have happened. Nothing is retried.
 */
export interface EtcdStore {
  range(request: RangeRequest, limits: RequestLimits): Promise<RangePage>;
  swap(request: SwapRequest, limits: RequestLimits): Promise<SwapAnswer>;
  /** All of them in one transaction, or none. etcd takes 128 when it is not told otherwise. */
  swapAll(requests: readonly SwapRequest[], limits: RequestLimits): Promise<SwapAllAnswer>;
  /** Ends the connections. Idempotent. */
  close(): void;
}

/** `forbidden`: etcd, or who stands before it, refused the request, so nothing was done. `failed`: anything else. */
export class EtcdFailure extends Error {
  readonly kind: 'forbidden' | 'failed';

  constructor(kind: 'forbidden' | 'failed', message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'EtcdFailure';
    this.kind = kind;
  }
}

/** Entries per page: records are about 300 bytes, 4 KiB would still fit: gRPC answers are refused from 4 MiB on. */
const pageSize = 1_000;

/** A prefix with more entries is not read to its end: no topology has as many, and memory is bounded. */
const maxEntries = 50_000;

/** Reads one key; `undefined` where there is none. */
export async function readKey(
  store: EtcdStore,
  key: string,
  limits: RequestLimits,
): Promise<StoredValue | undefined> {
  const { entries } = await store.range({ key: Buffer.from(key) }, limits);
  const entry = entries[0];
  return entry === undefined ? undefined : { ...entry, key };
}

/** Reads every key with the prefix, in their order. */
export async function readPrefix(
  store: EtcdStore,
  prefix: string,
  limits: RequestLimits,
): Promise<readonly StoredValue[]> {
  return (await readPrefixAt(store, prefix, limits, pageSize)).entries;
}

/**
 * Reads every key with the prefix, in their order, all pages at the revision of the first.
 *
 * @param limit entries per page
 * @throws EtcdFailure also when the revision was compacted away between two pages: a part is never returned
 */
export async function readPrefixAt(
  store: EtcdStore,
  prefix: string,
  limits: RequestLimits,
  limit: number,
): Promise<{ readonly revision: string; readonly entries: readonly StoredValue[] }> {
  const rangeEnd = prefixEnd(prefix);
  const found: StoredValue[] = [];
  let key: Uint8Array = Buffer.from(prefix);
  let revision: string | undefined;
  for (;;) {
    const page = await store.range(
      { key, rangeEnd, limit, ...(revision === undefined ? {} : { revision }) },
      limits,
    );
    found.push(
      ...page.entries.map((entry) => ({ ...entry, key: Buffer.from(entry.key).toString('utf8') })),
    );
    const last = page.entries.at(-1);
    revision ??= page.revision;
    if (!page.more || last === undefined) {
      return { revision, entries: found };
    }
    if (found.length >= maxEntries) {
      throw new EtcdFailure('failed', `there are more than ${maxEntries} keys`);
    }
    key = Buffer.concat([last.key, Buffer.of(0)]);
  }
}

/** The first key after all that begin with the prefix. Prefixes are ASCII here, so the last byte can always grow. */
function prefixEnd(prefix: string): Uint8Array {
  const end = Buffer.from(prefix);
  end[end.length - 1] = (end[end.length - 1] ?? 0) + 1;
  return end;
}

/**
 * The members of one etcd cluster as one store: reads go to the member that answered last, then to the others.
 *
 * A swap goes to one member only: when its answer is lost, the caller looks before anything is written again.
 */
export function anyMember(members: readonly [EtcdStore, ...EtcdStore[]]): EtcdStore {
  if (members.length === 1) {
    return members[0];
  }
  let preferred = members[0];
  return {
    async range(request, limits) {
      const order = [preferred, ...members.filter((member) => member !== preferred)];
      let failure: unknown;
      for (const [index, member] of order.entries()) {
        // A member that hangs must leave time for those behind it.
        const timeoutMs = remainingMs(limits) / (order.length - index);
        try {
          const page = await member.range(request, within(timeoutMs, limits.signal, limits.clock));
          preferred = member;
          return page;
        } catch (error) {
          failure = error;
          if (isRefusal(error) || limits.signal?.aborted === true) {
            break;
          }
        }
      }
      throw failure;
    },
    swap(request, limits) {
      return preferred.swap(request, limits);
    },
    swapAll(requests, limits) {
      return preferred.swapAll(requests, limits);
    },
    close() {
      for (const member of members) {
        member.close();
      }
    },
  };
}

/** Every member would refuse as well: they share their users. */
function isRefusal(error: unknown): boolean {
  return error instanceof EtcdFailure && error.kind === 'forbidden';
}

/** Whether etcd's own words are about who asks. Some of these come as a plain "invalid argument". */
export function isAuthError(message: string): boolean {
  return /user name is empty|authentication failed|invalid auth token|permission denied|auth store is old|unauthenticated/i.test(
    message,
  );
}
