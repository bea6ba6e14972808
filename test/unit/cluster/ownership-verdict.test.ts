import { describe, expect, test } from 'vitest';
import { keysOf, shardKey } from '#shared/goverse/keys.ts';
import { parseInstant } from '#shared/kernel/instant.ts';
import { retirePooler } from '#shared/topology/pooler-record.ts';
import type { JournalEntry } from '#test/cluster/etcd-journal.ts';
import { type Evidence, type OwnerWrite, judge } from '#test/cluster/ownership-verdict.ts';
import type { RecordedTxn } from '#test/cluster/recorded-etcd.ts';
import { recordedPoolers } from '#test/unit/shared/topology/recorded-records.ts';

const now = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();
const keys = keysOf('/goverse');
const seven = shardKey(keys, 7);
const dead = '/zone/poolers/multipooler-zone-gone/Pooler';
const alive = '/zone/poolers/multipooler-zone-pod/Pooler';
const live = Buffer.from(recordedPoolers.replica.value, 'base64');
const marked = markedRecord();

function markedRecord(): Buffer {
  const result = retirePooler(live, now);
  return result.kind === 'retired' ? Buffer.from(result.value) : expect.unreachable();
}

type Value = string | Buffer | null;

const bytesOf = (value: Value) => (typeof value === 'string' ? Buffer.from(value) : value);

/** A run in which one key is written after the other, each write a revision. */
class Story {
  readonly #entries: JournalEntry[] = [];
  readonly #transactions: RecordedTxn[] = [];
  readonly #ownerWrites: OwnerWrite[] = [];
  #atMs = now as number;

  /** What stands there by somebody else's write. */
  stands(key: string, value: Value): this {
    return this.#write(key, value);
  }

  /** What its owner writes, the test in that place. */
  begins(key: string, value: Buffer | string): this {
    this.#ownerWrites.push({ key, value: Buffer.from(value), askedAtMs: this.#atMs });
    return this.#write(key, value);
  }

  after(ms: number): this {
    this.#atMs += ms;
    return this;
  }

  weWrite(key: string, value: Value, asked: Partial<RecordedTxn> | 'lost' = {}): this {
    const bytes = bytesOf(value);
    const compared = this.#entries.findLast((entry) => entry.key === key)?.revision ?? 0;
    this.#write(key, value);
    this.#transactions.push({
      atMs: this.#atMs,
      member: 'a',
      compares: new Map([[key, String(compared)]]),
      unguarded: [],
      writes: new Map([[key, bytes]]),
      writesElse: [],
      isTold: asked !== 'lost',
      ...(asked === 'lost'
        ? {}
        : { answer: { succeeded: true, revision: this.#entries.length }, ...asked }),
    });
    return this;
  }

  violations(): readonly string[] {
    return this.#judge().violations;
  }

  counts(): Readonly<Record<string, number>> {
    return this.#judge().counts;
  }

  #judge() {
    const evidence: Evidence = {
      entries: this.#entries,
      transactions: this.#transactions,
      ownerWrites: this.#ownerWrites,
      keys,
      shardCount: 16,
      deadPoolers: new Set([dead]),
      quietMs: 5_000,
      deleteAfterMs: 6_000,
    };
    return judge(evidence);
  }

  #write(key: string, value: Value): this {
    const last = this.#entries.findLast((entry) => entry.key === key);
    const before =
      last === undefined || last.value === null
        ? undefined
        : { value: last.value, modRevision: last.revision };
    const revision = this.#entries.length + 1;
    this.#entries.push({ revision, key, value: bytesOf(value), before, atMs: this.#atMs });
    return this;
  }
}

describe('the verdict on a run', () => {
  test('has nothing against a hand-over, nor against a record that is marked and deleted in its time', () => {
    const story = new Story()
      .begins(seven, 'a:1,a:1,f=kept')
      .weWrite(seven, 'b:1,a:1,f=kept,f=pinned,f=millrace-x')
      .stands(seven, 'b:1,,f=kept,f=pinned,f=millrace-x')
      .stands(seven, 'b:1,b:1,f=kept,f=pinned,f=millrace-x')
      .weWrite(seven, 'b:1,b:1,f=kept')
      .begins(dead, live)
      .after(5_000)
      .weWrite(dead, marked)
      .after(6_000)
      .weWrite(dead, null);

    expect(story.violations()).toEqual([]);
    expect(story.counts()).toMatchObject({
      retargets: 1,
      'pins set': 1,
      'pins taken off': 1,
      'records marked': 1,
      'records deleted': 1,
    });
  });

  test.each([
    ['changed the owner', 'a:1,a:1', 'a:1,'],
    ['changed flags of others', 'a:1,a:1,f=kept', 'b:1,a:1'],
    ['somebody else has pinned', 'a:1,a:1,f=pinned', 'b:1,a:1,f=pinned'],
    ['made, deleted or garbled', 'a:1,a:1', null],
  ])('finds that we %s', (what, was, is) => {
    const story = new Story().begins(seven, was).weWrite(seven, is);

    expect(story.violations().join()).toContain(what);
  });

  test('finds a write that overwrote another revision than it compared, or compared none', () => {
    const old = new Story()
      .stands(seven, 'a:1,a:1')
      .weWrite(seven, 'b:1,a:1', { compares: new Map([[seven, '99']]) });
    const blind = new Story()
      .stands(seven, 'a:1,a:1')
      .weWrite(seven, 'b:1,a:1', { compares: new Map() });

    expect(old.violations().join()).toContain('compared revision 99 and overwrote 1');
    expect(blind.violations().join()).toContain('in another way than by its mod revision');
  });

  test('knows a write of ours whose answer was lost, and one that was not done', () => {
    const done = new Story().stands(seven, 'a:1,a:1').weWrite(seven, 'a:1,', 'lost');
    const refused = new Story()
      .stands(seven, 'a:1,a:1')
      .weWrite(seven, 'a:1,', { answer: { succeeded: false, revision: 1 } });

    expect(done.violations().join()).toContain('we changed the owner');
    expect(refused.violations().join()).toContain('no node of GoVerse writes that');
  });

  test.each([
    ['a living pooler’s record is marked', alive, 5_000, 6_000, 'has a pod'],
    ['a record is marked too soon', dead, 4_999, 6_000, 'marked it 4999 ms'],
    ['a record is deleted too soon', dead, 5_000, 5_999, 'deleted it 5999 ms'],
  ])('finds that %s', (_, key, quietMs, restMs, what) => {
    const story = new Story()
      .begins(key, live)
      .after(quietMs)
      .weWrite(key, marked)
      .after(restMs)
      .weWrite(key, null);

    expect(story.violations().join()).toContain(what);
  });

  test('finds a record that is deleted without the mark, and a key that is none of ours', () => {
    const unmarked = new Story().begins(dead, live).after(60_000).weWrite(dead, null);
    const other = new Story().stands('/goverse/leader', 'a:1').weWrite('/goverse/leader', 'b:1');

    expect(unmarked.violations().join()).toContain('was not marked');
    expect(other.violations().join()).toContain('neither a shard nor a record');
  });

  test('finds flags that GoVerse cannot have changed, and a record that somebody else wrote', () => {
    const flags = new Story().stands(seven, 'a:1,a:1').stands(seven, 'a:1,a:1,f=pinned');
    const record = new Story().begins(dead, live).stands(dead, marked);

    expect(flags.violations().join()).toContain('changed flags');
    expect(record.violations().join()).toContain('somebody else wrote the record');
  });
});
