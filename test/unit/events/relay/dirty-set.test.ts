import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Dirty, DirtySet, type Mark } from '#events/relay/dirty-set.ts';
import type { Instant } from '#shared/kernel/instant.ts';

function aMark(uid: string, token: string): Mark {
  return {
    step: 'drain-step',
    cause: 'changed',
    token,
    target: { kind: 'Shard', namespace: 'db', name: uid, uid, resourceVersion: token },
  };
}

const at = (ms: number) => ms as Instant;

describe('the dirty set', () => {
  test('keeps one entry per step and target, with the newest mark and the oldest age', () => {
    const set = new DirtySet();
    set.mark(aMark('a', '1'), at(10));
    set.mark(aMark('a', '2'), at(20));

    const taken = set.take('drain-step', 10);

    expect(taken.map(({ mark, since, markedAt }) => [mark.token, since, markedAt])).toEqual([
      ['2', 10, 20],
    ]);
  });

  test('keeps two targets of one name apart by their uids', () => {
    const set = new DirtySet();
    set.mark(aMark('first', '1'), at(0));
    set.mark(aMark('second', '2'), at(0));

    expect(set.size('drain-step')).toBe(2);
  });

  test('keeps the steps apart', () => {
    const set = new DirtySet();
    set.mark(aMark('a', '1'), at(0));

    expect(set.take('pool-pods', 10)).toEqual([]);
    expect(set.size('drain-step')).toBe(1);
  });

  test('L2: a key that was marked again while its hint was on the way stays after the acknowledgement', () => {
    const set = new DirtySet();
    set.mark(aMark('a', '1'), at(0));
    const [first] = set.take('drain-step', 10);
    set.mark(aMark('a', '2'), at(5));

    const meanwhile = set.take('drain-step', 10);
    set.acknowledge(first as Dirty);
    const afterwards = set.take('drain-step', 10);

    expect(meanwhile).toEqual([]);
    expect(afterwards.map(({ mark, since }) => [mark.token, since])).toEqual([['2', 5]]);
  });

  test('what is given back waits behind the others and keeps its age', () => {
    const set = new DirtySet();
    set.mark(aMark('a', '1'), at(0));
    set.mark(aMark('b', '1'), at(1));
    const [first] = set.take('drain-step', 1);

    set.giveBack(first as Dirty);

    expect(set.oldest()).toBe(0);
    expect(set.take('drain-step', 10).map(({ mark }) => mark.target.uid)).toEqual(['b', 'a']);
  });

  test('what is given back does not replace a newer mark', () => {
    const set = new DirtySet();
    set.mark(aMark('a', '1'), at(0));
    const [first] = set.take('drain-step', 1);
    set.mark(aMark('a', '2'), at(5));

    set.giveBack(first as Dirty);

    expect(set.take('drain-step', 10).map(({ mark, since }) => [mark.token, since])).toEqual([
      ['2', 0],
    ]);
  });

  test('L2, L7, L8: over any history a key is owed exactly while its newest mark is not acknowledged', () => {
    const uid = fc.constantFrom('a', 'b', 'c', 'd');
    const operation = fc.oneof(
      { weight: 4, arbitrary: fc.record({ do: fc.constant('mark' as const), uid }) },
      fc.record({ do: fc.constant('take' as const), limit: fc.integer({ min: 1, max: 3 }) }),
      fc.record({
        do: fc.constantFrom('acknowledge' as const, 'giveBack' as const),
        pick: fc.nat(),
      }),
    );

    fc.assert(
      fc.property(fc.array(operation, { maxLength: 60 }), (operations) => {
        const set = new DirtySet();
        const newest = new Map<string, number>();
        const acknowledged = new Map<string, number>();
        const inFlight: Dirty[] = [];
        for (const [time, operation] of operations.entries()) {
          if (operation.do === 'mark') {
            set.mark(aMark(operation.uid, String(time)), at(time));
            newest.set(operation.uid, time);
          } else if (operation.do === 'take') {
            inFlight.push(...set.take('drain-step', operation.limit));
          } else {
            const [dirty] = inFlight.splice(operation.pick % Math.max(1, inFlight.length), 1);
            if (dirty !== undefined && operation.do === 'acknowledge') {
              set.acknowledge(dirty);
              acknowledged.set(dirty.mark.target.uid, Number(dirty.mark.token));
            } else if (dirty !== undefined) {
              set.giveBack(dirty);
            }
          }
          const owed = [...newest].filter(([key, mark]) => (acknowledged.get(key) ?? -1) < mark);
          expect(set.size('drain-step')).toBe(owed.length);
          expect(set.isEmpty()).toBe(owed.length === 0);
          const uidsInFlight = inFlight.map(({ mark }) => mark.target.uid);
          expect(new Set(uidsInFlight).size).toBe(uidsInFlight.length);
        }
      }),
    );
  });
});
