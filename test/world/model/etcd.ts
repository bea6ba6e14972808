import { type Instant, plusSeconds } from '#shared/kernel/instant.ts';

/** One key as it was written. Never changed once stored, so forks share it. */
export interface Entry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  readonly createRevision: number;
  readonly modRevision: number;
  /** Writes since the key was created: 1 for a new key. */
  readonly version: number;
  /** The lease it ends with: int64 as a decimal string, `0` for none. */
  readonly lease: string;
}

export interface RangeRequest {
  readonly key: Uint8Array;
  /** Exclusive; absent or empty for one key, a single zero byte for every key from `key` on. */
  readonly rangeEnd?: Uint8Array;
  /** 0 or absent: no limit. */
  readonly limit?: number;
  /** 0 or absent: the newest. */
  readonly revision?: number;
}

export interface RangeAnswer {
  readonly kind: 'range';
  /** The newest revision when it was read, whichever one was asked for. */
  readonly revision: number;
  /** In the order of their keys' bytes. */
  readonly entries: readonly Entry[];
  /** Whether the limit cut the answer short. */
  readonly more: boolean;
  /** Keys in the range, those beyond the limit included. */
  readonly count: number;
}

export interface PutRequest {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  /** `0` or absent: none. */
  readonly lease?: string;
  /** Keeps the key's present value, or lease. */
  readonly ignoreValue?: boolean;
  readonly ignoreLease?: boolean;
}

export interface PutAnswer {
  readonly kind: 'put';
  readonly revision: number;
  readonly previous: Entry | undefined;
}

export interface DeleteRequest {
  readonly key: Uint8Array;
  /** As in {@link RangeRequest}. */
  readonly rangeEnd?: Uint8Array;
}

export interface DeleteAnswer {
  readonly kind: 'delete';
  readonly revision: number;
  readonly deleted: readonly Entry[];
}

/** One comparison of a transaction; `value` is what the key's own is compared with. */
export type Compare = {
  readonly key: Uint8Array;
  readonly result: 'EQUAL' | 'GREATER' | 'LESS' | 'NOT_EQUAL';
} & (
  | { readonly target: 'VERSION' | 'CREATE' | 'MOD'; readonly value: number }
  | { readonly target: 'VALUE'; readonly value: Uint8Array }
);

export type Operation =
  | ({ readonly kind: 'range' } & RangeRequest)
  | ({ readonly kind: 'put' } & PutRequest)
  | ({ readonly kind: 'delete' } & DeleteRequest);

export type OperationAnswer = RangeAnswer | PutAnswer | DeleteAnswer;

export interface TransactionAnswer {
  readonly kind: 'transaction';
  readonly revision: number;
  /** Whether every comparison held, and so the first of the two lists was carried out. */
  readonly succeeded: boolean;
  readonly answers: readonly OperationAnswer[];
}

/** Why nothing was done. */
export type Refusal =
  | 'compacted'
  | 'duplicateKey'
  | 'emptyKey'
  | 'futureRevision'
  | 'keyNotFound'
  | 'leaseExists'
  | 'leaseNotFound'
  | 'leaseProvided'
  | 'leaseTooLong'
  | 'tooManyOperations'
  | 'valueProvided';

export interface Refused {
  readonly kind: 'refused';
  readonly why: Refusal;
}

/** Keys written under it are deleted when it ends. */
export interface Lease {
  readonly kind: 'lease';
  /** int64 as a decimal string. */
  readonly id: string;
  readonly ttlSeconds: number;
  readonly endsAt: Instant;
}

/** What a key was from one revision on; `undefined` where that write deleted it. */
interface Version {
  readonly revision: number;
  readonly entry: Entry | undefined;
  readonly older: Version | undefined;
}

/** etcd's default for `--max-txn-ops`; comparisons and each of the two lists count apart. */
const maxOperations = 128;

/** The shortest lease with etcd's default election timeout, and the longest it grants at all. */
const minLeaseSeconds = 2;
const maxLeaseSeconds = 9_000_000_000;

/**
 * etcd's key-value store as one healthy member serves it: revisions and their history, ranges, transactions, leases
 * and compaction. test/world/conformance/etcd-rows.ts compares it with etcd 3.6, over its JSON gateway.
 *
 * Simpler than the real one: a lease ends at the very instant its time is over, where etcd takes up to a second more,
 * and the ids of leases count up. There are no users, watches, nested transactions, sorting or comparisons of ranges.
 *
 * Keys are ordered by their bytes. What is stored is never changed, and a fork copies the maps only when either side
 * writes, so forking costs next to nothing.
 */
export class Etcd {
  #revision = 1;
  #compacted = -1;
  #leasesGranted = 0;
  /** Every key that has a history, by its bytes as latin-1 text: that order is the order of the bytes. */
  #versions = new Map<string, Version>();
  /** The keys of {@link #versions}, sorted. */
  #names: string[] = [];
  #leases = new Map<string, Lease>();
  /** Whether a fork uses the same maps. */
  #isShared = false;

  get revision(): number {
    return this.#revision;
  }

  /** Stands for what is stored: as long as it and the revision are the same, so is that. */
  get identity(): object {
    return this.#versions;
  }

  /** A store that goes its own way from here on. */
  fork(): Etcd {
    const fork = new Etcd();
    fork.#revision = this.#revision;
    fork.#compacted = this.#compacted;
    fork.#leasesGranted = this.#leasesGranted;
    fork.#versions = this.#versions;
    fork.#names = this.#names;
    fork.#leases = this.#leases;
    fork.#isShared = true;
    this.#isShared = true;
    return fork;
  }

  /** The newest write of one key, for who stands beside the store. */
  read(key: string): Entry | undefined {
    return this.#versions.get(nameOf(Buffer.from(key)))?.entry;
  }

  /** The newest writes of all keys that begin with the prefix, in their order. */
  list(prefix: string): readonly Entry[] {
    const start = nameOf(Buffer.from(prefix));
    const found: Entry[] = [];
    for (let index = this.#firstFrom(start); index < this.#names.length; index += 1) {
      const name = this.#names[index] ?? '';
      if (!name.startsWith(start)) {
        break;
      }
      const entry = this.#versions.get(name)?.entry;
      if (entry !== undefined) {
        found.push(entry);
      }
    }
    return found;
  }

  /**
   * Writes one key, for who stands beside the store.
   *
   * @returns its mod revision, as the wire has it
   * @throws Error where etcd would refuse it
   */
  put(key: string, value: Uint8Array, lease = '0'): string {
    const answer = this.apply({ kind: 'put', key: Buffer.from(key), value, lease });
    if (answer.kind === 'refused') {
      throw new Error(`the put of ${key} is refused: ${answer.why}`);
    }
    return String(answer.revision);
  }

  /** Deletes one key, for who stands beside the store. Says whether it was there. */
  delete(key: string): boolean {
    const answer = this.apply({ kind: 'delete', key: Buffer.from(key) });
    return answer.kind === 'delete' && answer.deleted.length > 0;
  }

  /** One operation outside of a transaction. */
  apply(operation: Operation): OperationAnswer | Refused {
    if (operation.kind === 'range') {
      return this.range(operation);
    }
    const answer = this.txn([], [operation], []);
    return answer.kind === 'refused' ? answer : firstOf(answer.answers);
  }

  range(request: RangeRequest): RangeAnswer | Refused {
    const { revision = 0 } = request;
    if (request.key.length === 0) {
      return refused('emptyKey');
    }
    if (revision > this.#revision) {
      return refused('futureRevision');
    }
    if (revision > 0 && revision < this.#compacted) {
      return refused('compacted');
    }
    return this.#range(request, this.#revision);
  }

  /**
   * Carries out `success` where all comparisons hold, else `failure`: everything at one revision, or nothing at all.
   *
   * The order of the checks is etcd's: the whole request first, then only the list that is carried out.
   */
  txn(
    compares: readonly Compare[],
    success: readonly Operation[],
    failure: readonly Operation[],
  ): TransactionAnswer | Refused {
    const flaw = flawOf(compares, success, failure);
    if (flaw !== undefined) {
      return refused(flaw);
    }
    const succeeded = compares.every((compare) => this.#holds(compare));
    const operations = succeeded ? success : failure;
    for (const operation of operations) {
      const why = this.#whyNot(operation);
      if (why !== undefined) {
        return refused(why);
      }
    }
    const next = this.#revision + 1;
    let isChanged = false;
    const answers = operations.map((operation): OperationAnswer => {
      if (operation.kind === 'range') {
        return this.#range(operation, isChanged ? next : this.#revision);
      }
      if (operation.kind === 'put') {
        isChanged = true;
        return { kind: 'put', revision: next, previous: this.#write(operation, next) };
      }
      const deleted = this.#erase(operation, next);
      isChanged ||= deleted.length > 0;
      return { kind: 'delete', revision: isChanged ? next : this.#revision, deleted };
    });
    if (isChanged) {
      this.#revision = next;
    }
    return { kind: 'transaction', revision: this.#revision, succeeded, answers };
  }

  /** Forgets what was overwritten or deleted before this revision. Reads of older ones are refused from then on. */
  compact(revision: number): Refused | undefined {
    if (revision <= this.#compacted) {
      return refused('compacted');
    }
    if (revision > this.#revision) {
      return refused('futureRevision');
    }
    this.#ownMaps();
    this.#compacted = revision;
    for (const name of this.#names) {
      const kept = cutAt(this.#versions.get(name), revision);
      if (kept === undefined) {
        this.#versions.delete(name);
      } else {
        this.#versions.set(name, kept);
      }
    }
    this.#names = this.#names.filter((name) => this.#versions.has(name));
    return undefined;
  }

  /** @param id `0`: etcd chooses one */
  grantLease(ttlSeconds: number, now: Instant, id = '0'): Lease | Refused {
    this.expireLeases(now);
    if (ttlSeconds > maxLeaseSeconds) {
      return refused('leaseTooLong');
    }
    if (this.#leases.has(id)) {
      return refused('leaseExists');
    }
    this.#ownMaps();
    this.#leasesGranted += 1;
    const granted = Math.max(minLeaseSeconds, ttlSeconds);
    const lease: Lease = {
      kind: 'lease',
      // As long as etcd's own, so that whoever reads an id as a double loses digits here too.
      id: id === '0' ? `7587${String(this.#leasesGranted).padStart(15, '0')}` : id,
      ttlSeconds: granted,
      endsAt: plusSeconds(now, granted),
    };
    this.#leases.set(lease.id, lease);
    return lease;
  }

  /** Begins the lease's time anew. */
  keepAlive(id: string, now: Instant): Lease | Refused {
    const lease = this.lease(id, now);
    if (lease === undefined) {
      return refused('leaseNotFound');
    }
    this.#ownMaps();
    const renewed = { ...lease, endsAt: plusSeconds(now, lease.ttlSeconds) };
    this.#leases.set(id, renewed);
    return renewed;
  }

  lease(id: string, now: Instant): Lease | undefined {
    this.expireLeases(now);
    return this.#leases.get(id);
  }

  /** The newest writes that end with this lease, in the order of their keys. */
  entriesOf(lease: string): readonly Entry[] {
    return this.#names
      .map((name) => this.#versions.get(name)?.entry)
      .filter((entry) => entry !== undefined)
      .filter((entry) => entry.lease === lease);
  }

  /** Ends a lease: its keys are deleted at one revision. */
  revoke(id: string): Refused | undefined {
    if (!this.#leases.has(id)) {
      return refused('leaseNotFound');
    }
    this.#ownMaps();
    this.#leases.delete(id);
    const attached = this.entriesOf(id);
    const next = this.#revision + 1;
    for (const { key } of attached) {
      this.#erase({ key }, next);
    }
    if (attached.length > 0) {
      this.#revision = next;
    }
    return undefined;
  }

  /** Ends the leases whose time is over, the earliest first. Says which. */
  expireLeases(now: Instant): readonly string[] {
    if (this.#leases.size === 0) {
      return [];
    }
    const over = [...this.#leases.values()]
      .filter(({ endsAt }) => endsAt <= now)
      .toSorted((a, b) => a.endsAt - b.endsAt);
    for (const { id } of over) {
      this.revoke(id);
    }
    return over.map(({ id }) => id);
  }

  /** When the next lease ends if nobody keeps it alive; `undefined` where there is none. */
  nextExpiry(): Instant | undefined {
    let next: Instant | undefined;
    for (const { endsAt } of this.#leases.values()) {
      next = next === undefined || endsAt < next ? endsAt : next;
    }
    return next;
  }

  #range(request: RangeRequest, newest: number): RangeAnswer {
    const { revision = 0, limit = 0 } = request;
    const entries: Entry[] = [];
    let count = 0;
    for (const name of this.#namesIn(request)) {
      const entry = this.#entryAt(name, revision > 0 ? revision : newest);
      if (entry !== undefined) {
        count += 1;
        if (limit <= 0 || count <= limit) {
          entries.push(entry);
        }
      }
    }
    return { kind: 'range', revision: newest, entries, more: count > entries.length, count };
  }

  #namesIn({ key, rangeEnd }: DeleteRequest): readonly string[] {
    const first = nameOf(key);
    if (rangeEnd === undefined || rangeEnd.length === 0) {
      return this.#versions.has(first) ? [first] : [];
    }
    const end = nameOf(rangeEnd);
    return this.#names.slice(
      this.#firstFrom(first),
      end === zeroByte ? undefined : this.#firstFrom(end),
    );
  }

  /** The index of the first name that is not before this one. */
  #firstFrom(name: string): number {
    let low = 0;
    let high = this.#names.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#names[middle] ?? '') < name) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  #entryAt(name: string, revision: number): Entry | undefined {
    let version = this.#versions.get(name);
    while (version !== undefined && version.revision > revision) {
      version = version.older;
    }
    return version?.entry;
  }

  #holds({ key, ...compare }: Compare): boolean {
    const entry = this.#versions.get(nameOf(key))?.entry;
    if (compare.target === 'VALUE') {
      // A key that is not there has no value, so nothing holds of it.
      return (
        entry !== undefined && holds(Buffer.compare(entry.value, compare.value), compare.result)
      );
    }
    const own = {
      VERSION: entry?.version ?? 0,
      CREATE: entry?.createRevision ?? 0,
      MOD: entry?.modRevision ?? 0,
    }[compare.target];
    return holds(own - compare.value, compare.result);
  }

  /** What only the state of the store can tell against an operation, before any of them is carried out. */
  #whyNot(operation: Operation): Refusal | undefined {
    if (operation.kind === 'range') {
      const { revision = 0 } = operation;
      if (revision > this.#revision) {
        return 'futureRevision';
      }
      return revision !== 0 && revision < this.#compacted ? 'compacted' : undefined;
    }
    if (operation.kind === 'put') {
      const { lease = '0' } = operation;
      const keepsPart = operation.ignoreValue === true || operation.ignoreLease === true;
      if (keepsPart && this.#versions.get(nameOf(operation.key))?.entry === undefined) {
        return 'keyNotFound';
      }
      return lease !== '0' && !this.#leases.has(lease) ? 'leaseNotFound' : undefined;
    }
    return undefined;
  }

  /** @returns what it replaced */
  #write(request: PutRequest, revision: number): Entry | undefined {
    const previous = this.#versions.get(nameOf(request.key))?.entry;
    this.#push(request.key, revision, {
      key: request.key,
      value:
        request.ignoreValue === true && previous !== undefined ? previous.value : request.value,
      createRevision: previous?.createRevision ?? revision,
      modRevision: revision,
      version: (previous?.version ?? 0) + 1,
      lease: (request.ignoreLease === true ? previous?.lease : request.lease) ?? '0',
    });
    return previous;
  }

  /** @returns what was there */
  #erase(request: DeleteRequest, revision: number): readonly Entry[] {
    const deleted = this.#namesIn(request)
      .map((name) => this.#versions.get(name)?.entry)
      .filter((entry) => entry !== undefined);
    for (const { key } of deleted) {
      this.#push(key, revision, undefined);
    }
    return deleted;
  }

  #push(key: Uint8Array, revision: number, entry: Entry | undefined): void {
    this.#ownMaps();
    const name = nameOf(key);
    const older = this.#versions.get(name);
    if (older === undefined) {
      this.#names.splice(this.#firstFrom(name), 0, name);
    }
    this.#versions.set(name, { revision, entry, older });
  }

  #ownMaps(): void {
    if (this.#isShared) {
      this.#versions = new Map(this.#versions);
      this.#names = [...this.#names];
      this.#leases = new Map(this.#leases);
      this.#isShared = false;
    }
  }
}

const zeroByte = '\0';

function firstOf([first]: readonly OperationAnswer[]): OperationAnswer {
  if (first === undefined) {
    throw new Error('an operation was carried out and has no answer');
  }
  return first;
}

function nameOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

function refused(why: Refusal): Refused {
  return { kind: 'refused', why };
}

function holds(difference: number, result: Compare['result']): boolean {
  switch (result) {
    case 'EQUAL':
      return difference === 0;
    case 'NOT_EQUAL':
      return difference !== 0;
    case 'GREATER':
      return difference > 0;
    case 'LESS':
      return difference < 0;
  }
}

/** What is wrong with a transaction whatever the store holds. */
function flawOf(
  compares: readonly Compare[],
  success: readonly Operation[],
  failure: readonly Operation[],
): Refusal | undefined {
  if (Math.max(compares.length, success.length, failure.length) > maxOperations) {
    return 'tooManyOperations';
  }
  if (compares.some(({ key }) => key.length === 0)) {
    return 'emptyKey';
  }
  for (const operation of [...success, ...failure]) {
    const flaw = flawOfOperation(operation);
    if (flaw !== undefined) {
      return flaw;
    }
  }
  return writesTwice(success) || writesTwice(failure) ? 'duplicateKey' : undefined;
}

function flawOfOperation(operation: Operation): Refusal | undefined {
  if (operation.key.length === 0) {
    return 'emptyKey';
  }
  if (operation.kind !== 'put') {
    return undefined;
  }
  if (operation.ignoreValue === true && operation.value.length > 0) {
    return 'valueProvided';
  }
  return operation.ignoreLease === true && (operation.lease ?? '0') !== '0'
    ? 'leaseProvided'
    : undefined;
}

/** Whether one key is put twice, or put and deleted. Deleting twice is allowed. */
function writesTwice(operations: readonly Operation[]): boolean {
  const puts = operations
    .filter((operation) => operation.kind === 'put')
    .map(({ key }) => nameOf(key));
  if (puts.length === 0) {
    return false;
  }
  return (
    new Set(puts).size < puts.length ||
    operations.some(
      (operation) =>
        operation.kind === 'delete' && puts.some((name) => isPlainlyWithin(name, operation)),
    )
  );
}

/** As etcd looks at it here: a range that is open to the end is taken for an empty one, and such a put is not seen. */
function isPlainlyWithin(name: string, { key, rangeEnd }: DeleteRequest): boolean {
  const first = nameOf(key);
  return rangeEnd === undefined || rangeEnd.length === 0
    ? name === first
    : first <= name && name < nameOf(rangeEnd);
}

/** The chain without what was overwritten by, or deleted at or before, this revision. */
function cutAt(newest: Version | undefined, revision: number): Version | undefined {
  if (newest === undefined) {
    return undefined;
  }
  if (newest.revision <= revision) {
    return newest.entry === undefined ? undefined : { ...newest, older: undefined };
  }
  return { ...newest, older: cutAt(newest.older, revision) };
}
