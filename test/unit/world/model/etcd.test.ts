import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Instant, parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import { Etcd, type Lease, type Operation } from '#test/world/model/etcd.ts';

const now = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();

function bytes(text: string): Uint8Array {
  return Buffer.from(text);
}

/** Everything the store holds, as text. */
function contents(etcd: Etcd): Record<string, string> {
  return Object.fromEntries(
    etcd
      .list('')
      .map(({ key, value }) => [
        Buffer.from(key).toString('utf8'),
        Buffer.from(value).toString('utf8'),
      ]),
  );
}

function granted(etcd: Etcd, ttlSeconds: number, from: Instant): Lease {
  const lease = etcd.grantLease(ttlSeconds, from);
  return lease.kind === 'lease' ? lease : expect.unreachable(lease.why);
}

/** The value of a key at a revision, or why it cannot be read. */
function valueAt(etcd: Etcd, key: string, revision: number): string | undefined {
  const answer = etcd.range({ key: bytes(key), revision });
  if (answer.kind === 'refused') {
    return answer.why;
  }
  const [entry] = answer.entries;
  return entry === undefined ? undefined : Buffer.from(entry.value).toString('utf8');
}

describe('a fork of etcd', () => {
  test('begins with what the store held, history and leases included', () => {
    const etcd = new Etcd();
    etcd.put('a', bytes('1'));
    etcd.put('a', bytes('2'));
    const { id } = granted(etcd, 10, now);

    const fork = etcd.fork();

    expect(fork.revision).toBe(etcd.revision);
    expect(valueAt(fork, 'a', 2)).toBe('1');
    expect(valueAt(fork, 'a', 0)).toBe('2');
    expect(fork.lease(id, now)).toEqual(etcd.lease(id, now));
  });

  test('and its origin see nothing of what the other writes, deletes, grants and compacts', () => {
    const origin = new Etcd();
    origin.put('a', bytes('1'));
    origin.put('b', bytes('1'));

    const fork = origin.fork();
    origin.put('a', bytes('origin'));
    const lease = granted(origin, 10, now);
    fork.put('c', bytes('fork'));
    fork.delete('b');
    fork.compact(4);

    expect(contents(origin)).toEqual({ a: 'origin', b: '1' });
    expect(contents(fork)).toEqual({ a: '1', c: 'fork' });
    expect([origin.revision, fork.revision]).toEqual([4, 5]);
    expect(valueAt(origin, 'a', 2)).toBe('1');
    expect(valueAt(fork, 'a', 3)).toBe('compacted');
    expect(fork.lease(lease.id, now)).toBeUndefined();
  });

  test('of a fork is as good as the first', () => {
    const origin = new Etcd();
    origin.put('a', bytes('1'));

    const first = origin.fork();
    const second = first.fork();
    first.put('a', bytes('first'));
    second.put('a', bytes('second'));

    expect([origin, first, second].map((etcd) => contents(etcd)['a'])).toEqual([
      '1',
      'first',
      'second',
    ]);
  });
});

describe('leases', () => {
  test('end at the instant their time is over, and each at a revision of its own', () => {
    const etcd = new Etcd();
    const late = granted(etcd, 9, now);
    const early = granted(etcd, 5, now);
    etcd.put('late', bytes(''), late.id);
    etcd.put('early', bytes(''), early.id);
    etcd.put('kept', bytes(''));

    const tooSoon = etcd.expireLeases((plusSeconds(now, 5) - 1) as Instant);
    const next = etcd.nextExpiry();
    const over = etcd.expireLeases(plusSeconds(now, 9));

    expect(tooSoon).toEqual([]);
    expect(next).toBe(plusSeconds(now, 5));
    expect(over).toEqual([early.id, late.id]);
    expect(contents(etcd)).toEqual({ kept: '' });
    expect(etcd.revision).toBe(6);
    expect(etcd.nextExpiry()).toBeUndefined();
  });

  test('go on from when they were kept alive last', () => {
    const etcd = new Etcd();
    const { id } = granted(etcd, 5, now);

    etcd.keepAlive(id, plusSeconds(now, 4));

    expect(etcd.lease(id, plusSeconds(now, 8))).toMatchObject({ endsAt: plusSeconds(now, 9) });
    expect(etcd.keepAlive(id, plusSeconds(now, 9))).toEqual({
      kind: 'refused',
      why: 'leaseNotFound',
    });
  });

  test('can be granted again under an id whose time is over', () => {
    const etcd = new Etcd();
    etcd.grantLease(5, now, '4711');

    const early = etcd.grantLease(5, plusSeconds(now, 4), '4711');
    const late = etcd.grantLease(5, plusSeconds(now, 5), '4711');

    expect(early).toEqual({ kind: 'refused', why: 'leaseExists' });
    expect(late).toMatchObject({ kind: 'lease', id: '4711', endsAt: plusSeconds(now, 10) });
  });

  test('have ids that no double can hold', () => {
    const etcd = new Etcd();

    const { id } = granted(etcd, 5, now);

    expect(String(Number(id))).not.toBe(id);
  });
});

describe('who stands beside etcd', () => {
  test('reads, lists and deletes by keys that are text', () => {
    const etcd = new Etcd();
    const revision = etcd.put('ä/1', bytes('1'));
    etcd.put('ä/2', bytes('2'));
    etcd.put('ö', bytes('3'));

    const wasThere = [etcd.delete('ä/2'), etcd.delete('ä/2')];

    expect(etcd.read('ä/1')).toMatchObject({ modRevision: Number(revision), version: 1 });
    expect(etcd.list('ä/').map(({ key }) => Buffer.from(key).toString('utf8'))).toEqual(['ä/1']);
    expect(wasThere).toEqual([true, false]);
  });

  test('is told when a put cannot be', () => {
    const etcd = new Etcd();

    expect(() => etcd.put('a', bytes(''), '4711')).toThrow('leaseNotFound');
  });
});

/** A map of every revision's contents: what the store has to answer, kept the slow way. */
class History {
  readonly states: Record<string, string>[] = [{}, {}];

  apply(operations: readonly Operation[]): void {
    const next = { ...this.states.at(-1) };
    let isChanged = false;
    for (const operation of operations) {
      const key = Buffer.from(operation.key).toString('utf8');
      if (operation.kind === 'put') {
        next[key] = Buffer.from(operation.value).toString('utf8');
        isChanged = true;
      } else if (key in next) {
        delete next[key];
        isChanged = true;
      }
    }
    if (isChanged) {
      this.states.push(next);
    }
  }
}

const operation = fc
  .record({ key: fc.constantFrom('a', 'b', 'c', 'd'), value: fc.option(fc.nat(99)) })
  .map(({ key, value }): Operation =>
    value === null
      ? { kind: 'delete', key: bytes(key) }
      : { kind: 'put', key: bytes(key), value: bytes(String(value)) },
  );

const transactions = fc.array(
  fc.uniqueArray(operation, { selector: ({ key }) => Buffer.from(key).toString(), maxLength: 3 }),
  { maxLength: 30 },
);

test('every revision that was not compacted is read as it was', () => {
  fc.assert(
    fc.property(transactions, fc.nat(30), (all, cut) => {
      const etcd = new Etcd();
      const history = new History();
      for (const one of all) {
        etcd.txn([], one, []);
        history.apply(one);
      }
      const compactedAt = Math.min(cut, etcd.revision);
      etcd.compact(compactedAt);

      expect(etcd.revision).toBe(history.states.length - 1);
      for (let revision = Math.max(1, compactedAt); revision <= etcd.revision; revision += 1) {
        const answer = etcd.range({ key: bytes('a'), rangeEnd: bytes('z'), revision });
        const read = answer.kind === 'range' ? answer.entries : expect.unreachable(answer.why);
        expect(
          Object.fromEntries(
            read.map(({ key, value }) => [
              Buffer.from(key).toString('utf8'),
              Buffer.from(value).toString('utf8'),
            ]),
          ),
        ).toEqual(history.states[revision]);
      }
    }),
  );
});
