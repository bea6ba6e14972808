import { type GoverseKeys, shardNumber } from '#shared/goverse/keys.ts';
import { type ShardValue, marksOf, parseShard, pinOf } from '#shared/goverse/shard-value.ts';
import { decodePooler } from '#shared/topology/pooler-record.ts';
import { isRetired } from '#shared/topology/topology.ts';
import type { JournalEntry } from './etcd-journal.ts';
import type { RecordedTxn } from './recorded-etcd.ts';

/** A key that the test itself wrote, in the place of whoever owns it. */
export interface OwnerWrite {
  readonly key: string;
  readonly value: Buffer;
  /** Right before it was asked for: etcd has done it later. */
  readonly askedAtMs: number;
}

/** All that was written down of one run. */
export interface Evidence {
  readonly entries: readonly JournalEntry[];
  /** What Millrace asked of etcd; nobody else goes that way. */
  readonly transactions: readonly RecordedTxn[];
  readonly ownerWrites: readonly OwnerWrite[];
  readonly keys: GoverseKeys;
  readonly shardCount: number;
  /** Records that stand for a pooler that was killed; all others under the same prefix are of poolers with a pod. */
  readonly deadPoolers: ReadonlySet<string>;
  readonly quietMs: number;
  readonly deleteAfterMs: number;
}

/** What was found, and how much was looked at: a rule that never had a case has proven nothing. */
export interface Verdict {
  readonly violations: readonly string[];
  readonly counts: Readonly<Record<string, number>>;
}

/** Judges the journal of a run by what may never have been written, whoever died when. */
export function judge(evidence: Evidence): Verdict {
  const violations: string[] = [];
  const ours = attribute(evidence, violations);
  const history = new PoolerHistory(evidence);
  const counts: Record<string, number> = {
    written: evidence.entries.length,
    ours: ours.size,
    'ours, and Millrace was not told': [...ours.values()].filter(({ isTold }) => !isTold).length,
    refused: evidence.transactions.filter(({ answer }) => answer?.succeeded === false).length,
  };
  const count = (what: string) => void (counts[what] = (counts[what] ?? 0) + 1);
  evidence.transactions.forEach((txn) => violations.push(...unguardedParts(txn)));
  for (const entry of evidence.entries) {
    const txn = ours.get(entry);
    const found =
      txn === undefined
        ? foreignWrite(entry, evidence, count)
        : ourWrite(entry, txn, evidence, history, count);
    violations.push(...found.map((what) => `${describeEntry(entry)}: ${what}`));
    history.take(entry, txn);
  }
  return { violations, counts };
}

/** One line of the journal, for people. */
export function describeEntry({ revision, key, value, before, atMs }: JournalEntry): string {
  const isText = key.includes('/shard/') || key.includes('/nodes/') || key.endsWith('/leader');
  const show = (bytes: Buffer | null | undefined) =>
    bytes === null || bytes === undefined
      ? 'nothing'
      : isText
        ? bytes.toString('utf8')
        : `${bytes.length} bytes`;
  return `${new Date(atMs).toISOString()} revision ${revision}, ${key}: ${show(before?.value)} → ${show(value)}`;
}

/** Which writes of the journal are those of which transaction. */
function attribute({ entries, transactions }: Evidence, violations: string[]) {
  const byRevision = Map.groupBy(entries, ({ revision }) => revision);
  const byWrite = Map.groupBy(entries, ({ key, before }) => `${key} ${before?.modRevision ?? 0}`);
  const ours = new Map<JournalEntry, RecordedTxn>();
  for (const txn of transactions) {
    const written =
      txn.answer === undefined
        ? withoutAnswer(txn, byWrite, byRevision)
        : txn.answer.succeeded
          ? (byRevision.get(txn.answer.revision) ?? [])
          : [];
    const isExpected = txn.answer?.succeeded === true || written.length > 0;
    if (isExpected && !isWhole(txn, written)) {
      violations.push(
        `a transaction of ${[...txn.writes.keys()].join(', ')} at ${txn.answer?.revision} is not in the journal as it was asked for`,
      );
    }
    written.forEach((entry) => ours.set(entry, txn));
  }
  return ours;
}

/** Its member died before it answered, or its client before it was told: the journal knows whether it was done. */
function withoutAnswer(
  txn: RecordedTxn,
  byWrite: ReadonlyMap<string, readonly JournalEntry[]>,
  byRevision: ReadonlyMap<number, readonly JournalEntry[]>,
): readonly JournalEntry[] {
  const [first] = txn.writes;
  if (first === undefined) {
    return [];
  }
  const [key, value] = first;
  const [match] = (byWrite.get(`${key} ${txn.compares.get(key) ?? ''}`) ?? []).filter((entry) =>
    isSame(entry.value, value),
  );
  const together = match === undefined ? [] : (byRevision.get(match.revision) ?? []);
  return isWhole(txn, together) ? together : [];
}

function isWhole({ writes }: RecordedTxn, written: readonly JournalEntry[]): boolean {
  return (
    written.length === writes.size &&
    written.every(({ key, value }) => {
      const asked = writes.get(key);
      return asked !== undefined && isSame(asked, value);
    })
  );
}

function isSame(one: Buffer | null, other: Buffer | null): boolean {
  return one === null || other === null ? one === other : one.equals(other);
}

/** H1: nothing is written but under a comparison of its own mod revision, and nothing that is not there is made. */
function unguardedParts(txn: RecordedTxn): string[] {
  const unguarded = [...txn.writes.keys()].filter((key) =>
    ['0', undefined].includes(txn.compares.get(key)),
  );
  return [...unguarded, ...txn.unguarded, ...txn.writesElse].map(
    (key) => `a transaction writes or compares ${key} in another way than by its mod revision`,
  );
}

type Count = (what: string) => void;

function ourWrite(
  entry: JournalEntry,
  txn: RecordedTxn,
  evidence: Evidence,
  history: PoolerHistory,
  count: Count,
): string[] {
  const { key, before } = entry;
  const overwritten = String(before?.modRevision ?? 0);
  const compared = txn.compares.get(key);
  const found =
    compared === overwritten
      ? []
      : [`we compared revision ${compared} and overwrote ${overwritten}`];
  if (shardOf(entry, evidence) !== undefined) {
    count('our writes of shards');
    return [...found, ...ourShardWrite(entry, count)];
  }
  if (isPoolerKey(key)) {
    return [...found, ...ourPoolerWrite(entry, txn, evidence, history, count)];
  }
  return [...found, 'we wrote a key that is neither a shard nor a record of a pooler'];
}

/** H2, H5: the owner stays, and so does what others have said of the shard; theirs alone is one that they have pinned. */
function ourShardWrite({ value, before }: JournalEntry, count: Count): string[] {
  const was = valueOf(before?.value ?? null);
  const is = valueOf(value);
  if (was === undefined || is === undefined) {
    return ['we made, deleted or garbled a shard'];
  }
  if (was.target !== is.target) {
    count('retargets');
  }
  if (pinOf(was) !== pinOf(is)) {
    count(pinOf(is) === 'ours' ? 'pins set' : 'pins taken off');
  }
  if (flagsOfOthers(was).length > 0) {
    count('our writes beside flags of others');
  }
  return [
    ...(was.current === is.current ? [] : ['we changed the owner']),
    ...(String(flagsOfOthers(was)) === String(flagsOfOthers(is))
      ? []
      : ['we changed flags of others']),
    ...(pinOf(was) === 'foreign' ? ['we wrote a shard that somebody else has pinned'] : []),
  ];
}

/** The flags but for our mark and the pin that belongs to it. */
function flagsOfOthers(value: ShardValue): string[] {
  const marks = new Set(marksOf(value).map((id) => `millrace-${id}`));
  const isOurPin = pinOf(value) === 'ours';
  return value.flags.filter((flag) => !marks.has(flag) && !(isOurPin && flag === 'pinned'));
}

function ourPoolerWrite(
  entry: JournalEntry,
  txn: RecordedTxn,
  { deadPoolers, quietMs, deleteAfterMs }: Evidence,
  history: PoolerHistory,
  count: Count,
): string[] {
  if (!deadPoolers.has(entry.key)) {
    return ['we wrote the record of a pooler that has a pod (G5)'];
  }
  const restMs = txn.atMs - history.lastWrittenMs(entry.key);
  const wasMarked = entry.before !== undefined && isMarked(entry.before.value);
  if (entry.value === null) {
    count('records deleted');
    return [
      ...(wasMarked ? [] : ['we deleted a record that was not marked']),
      ...(restMs >= deleteAfterMs ? [] : [`we deleted it ${restMs} ms after it was written`]),
    ];
  }
  count('records marked');
  return [
    ...(isMarked(entry.value) && !wasMarked
      ? []
      : ['we changed a record otherwise than to mark it']),
    ...(restMs >= quietMs ? [] : [`we marked it ${restMs} ms after it was written`]),
  ];
}

/** GoVerse's nodes and the poolers write only what is theirs, else something of ours would look like theirs. */
function foreignWrite(entry: JournalEntry, evidence: Evidence, count: Count): string[] {
  const { key, value, before } = entry;
  const isOwners = evidence.ownerWrites.some(
    (write) => write.key === key && isSame(write.value, value),
  );
  if (isOwners) {
    count('written by the test in an owner’s place');
    return [];
  }
  if (evidence.deadPoolers.has(key)) {
    return ['somebody else wrote the record of a dead pooler'];
  }
  if (shardOf(entry, evidence) === undefined) {
    return [];
  }
  const was = valueOf(before?.value ?? null);
  const is = valueOf(value);
  if (is === undefined) {
    return ['somebody deleted or garbled a shard'];
  }
  count('writes of shards by GoVerse');
  const hadFlags = was?.flags ?? [];
  return [
    ...(String(hadFlags) === String(is.flags) ? [] : ['somebody else changed flags']),
    ...(was === undefined || isOfGoverse(was, is) ? [] : ['no node of GoVerse writes that']),
  ];
}

/** A retarget leaves the owner alone; an owner comes where the shard is meant for it, and goes where it is not. */
function isOfGoverse(was: ShardValue, is: ShardValue): boolean {
  if (was.current === is.current) {
    return true;
  }
  const isClaim = is.current === is.target;
  const isRelease = is.current === '' && is.target !== was.current;
  return was.target === is.target && (isClaim || isRelease);
}

function shardOf({ key }: JournalEntry, { keys, shardCount }: Evidence): number | undefined {
  return key.startsWith(keys.shards) ? shardNumber(keys, key, shardCount) : undefined;
}

function valueOf(value: Buffer | null): ShardValue | undefined {
  return value === null ? undefined : parseShard(value.toString('utf8'));
}

export function isPoolerKey(key: string): boolean {
  return /\/poolers\/[^/]+\/Pooler$/.test(key);
}

function isMarked(value: Buffer): boolean {
  const decoded = decodePooler(value);
  return decoded.kind === 'decoded' && isRetired(decoded.record);
}

/** When each record was last written, by a clock that errs only to the side of whoever waits. */
class PoolerHistory {
  readonly #ownerWrites: readonly OwnerWrite[];
  readonly #lastMs = new Map<string, number>();

  constructor({ ownerWrites }: Evidence) {
    this.#ownerWrites = ownerWrites;
  }

  take(entry: JournalEntry, txn: RecordedTxn | undefined): void {
    if (!isPoolerKey(entry.key)) {
      return;
    }
    const asked = this.#ownerWrites.findLast(
      ({ key, value, askedAtMs }) =>
        key === entry.key && isSame(value, entry.value) && askedAtMs <= entry.atMs,
    );
    this.#lastMs.set(entry.key, txn?.atMs ?? asked?.askedAtMs ?? entry.atMs);
  }

  lastWrittenMs(key: string): number {
    return this.#lastMs.get(key) ?? 0;
  }
}
