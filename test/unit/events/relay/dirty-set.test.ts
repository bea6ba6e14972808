import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Dirty, DirtySet, type Mark } from '#events/relay/dirty-set.ts';
import { VirtualTimers } from './virtual-timers.ts';

function aMark(uid: string, token: string): Mark {
  return {
    step: 'drain-step',
    cause: 'changed',
    token,
    target: { kind: 'Shard', namespace: 'db', name: uid, uid, resourceVersion: token },
  };
}

/** Five hints at once, then one a second. */
const pace = { burst: 5, everyMs: 1_000 };

function setUp() {
  const timers = new VirtualTimers();
  const held: string[] = [];
  const onHeld = ({ mark }: Dirty) => held.push(mark.target.uid);
  const set = new DirtySet({ timers, pace, onHeld });
  /** Sends what is ready, and the queue takes it. Says whose it was. */
  const send = () =>
    set.take('drain-step', 100).map((dirty) => {
      set.acknowledge(dirty);
      return dirty.mark.target.uid;
    });
  return { timers, set, held, send };
}

/** Sends as many hints of the target as make the next one wait. */
function spend(set: DirtySet, uid: string): void {
  for (let count = 0; count < pace.burst; count += 1) {
    set.mark(aMark(uid, `spent ${count}`));
    set
      .take('drain-step', 100)
      .forEach((dirty) =>
        dirty.mark.target.uid === uid ? set.acknowledge(dirty) : set.giveBack(dirty),
      );
  }
}

describe('the dirty set', () => {
  test('keeps one entry per step and target, with the newest mark and the oldest age', async () => {
    const { timers, set } = setUp();
    await timers.pass(10);
    set.mark(aMark('a', '1'));
    await timers.pass(10);
    set.mark(aMark('a', '2'));

    const taken = set.take('drain-step', 10);

    expect(
      taken.map(({ mark, owedSinceMs, markedMs }) => [mark.token, owedSinceMs, markedMs]),
    ).toEqual([['2', 10, 20]]);
  });

  test('keeps two targets of one name apart by their uids', () => {
    const { set } = setUp();
    set.mark(aMark('first', '1'));
    set.mark(aMark('second', '2'));

    expect(set.size('drain-step')).toBe(2);
  });

  test('keeps the steps apart', () => {
    const { set } = setUp();
    set.mark(aMark('a', '1'));

    expect(set.take('pool-pods', 10)).toEqual([]);
    expect(set.size('drain-step')).toBe(1);
  });

  test('L2: a key that was marked again while its hint was on the way stays after the acknowledgement', async () => {
    const { timers, set } = setUp();
    set.mark(aMark('a', '1'));
    const [first] = set.take('drain-step', 10);
    await timers.pass(5);
    set.mark(aMark('a', '2'));

    const meanwhile = set.take('drain-step', 10);
    set.acknowledge(first as Dirty);
    const afterwards = set.take('drain-step', 10);

    expect(meanwhile).toEqual([]);
    expect(afterwards.map(({ mark, owedSinceMs }) => [mark.token, owedSinceMs])).toEqual([
      ['2', 5],
    ]);
  });

  test('what is given back waits behind the others and keeps its age', async () => {
    const { timers, set } = setUp();
    set.mark(aMark('a', '1'));
    await timers.pass(1);
    set.mark(aMark('b', '1'));
    const [first] = set.take('drain-step', 1);

    set.giveBack(first as Dirty);

    expect(set.oldestMs()).toBe(0);
    expect(set.take('drain-step', 10).map(({ mark }) => mark.target.uid)).toEqual(['b', 'a']);
  });

  test('what is given back does not replace a newer mark', async () => {
    const { timers, set } = setUp();
    set.mark(aMark('a', '1'));
    const [first] = set.take('drain-step', 1);
    await timers.pass(5);
    set.mark(aMark('a', '2'));

    set.giveBack(first as Dirty);

    expect(
      set.take('drain-step', 10).map(({ mark, owedSinceMs }) => [mark.token, owedSinceMs]),
    ).toEqual([['2', 0]]);
  });

  test('what is given back and was marked again is owed once', () => {
    const { set, send } = setUp();
    set.mark(aMark('a', '1'));
    const [first] = set.take('drain-step', 1);
    set.mark(aMark('a', '2'));
    set.giveBack(first as Dirty);

    const sent = [send(), send()];

    expect(sent).toEqual([['a'], []]);
    expect(set.isEmpty()).toBe(true);
  });

  test('is as old as the oldest of all that is owed: ready, held back, or on its way', async () => {
    const { timers, set } = setUp();
    const ages: (number | undefined)[] = [set.oldestMs()];
    await timers.pass(10);
    set.mark(aMark('on its way', '1'));
    const [onItsWay] = set.take('drain-step', 1);
    ages.push(set.oldestMs());
    await timers.pass(10);
    spend(set, 'held back');
    set.mark(aMark('held back', '1'));
    await timers.pass(10);
    set.mark(aMark('ready', '1'));
    set.acknowledge(onItsWay as Dirty);
    ages.push(set.oldestMs());

    expect(ages).toEqual([undefined, 10, 20]);
  });

  test('owes from the moment its relay begins to lead, held back or not', async () => {
    const { timers, set } = setUp();
    set.mark(aMark('a', '1'));
    spend(set, 'b');
    set.mark(aMark('b', '1'));
    await timers.pass(60_000);

    set.oweFromNow();

    set.release('drain-step');
    expect(set.take('drain-step', 10).map(({ owedSinceMs }) => owedSinceMs)).toEqual([
      60_000, 60_000,
    ]);
  });

  test('L8: forgets an old deletion that is held back, and no other mark that is', async () => {
    const { timers, set } = setUp();
    for (const uid of ['went', 'lives']) {
      spend(set, uid);
    }
    set.mark({ ...aMark('went', '1'), cause: 'deleted' });
    set.mark(aMark('lives', '1'));
    await timers.pass(60_000);

    set.forgetDeleted(60_000);

    expect(set.heldSize('drain-step')).toBe(1);
    set.release('drain-step');
    expect(set.take('drain-step', 10).map(({ mark }) => mark.target.uid)).toEqual(['lives']);
  });

  test('L8: forgets deletions that are old, however long their targets were owed before, and nothing else', async () => {
    const { timers, set } = setUp();
    set.mark(aMark('lives', '1'));
    set.mark(aMark('went long ago', '1'));
    set.mark({ ...aMark('went long ago', '2'), cause: 'deleted' });
    set.mark(aMark('just went', '1'));
    await timers.pass(60_000);
    set.mark({ ...aMark('just went', '2'), cause: 'deleted' });

    set.forgetDeleted(60_000);

    expect(set.take('drain-step', 10).map(({ mark }) => mark.target.uid)).toEqual([
      'lives',
      'just went',
    ]);
  });
});

describe('a target that hints too often', () => {
  test('is held back once its burst is spent, and the first hint of any other is not', () => {
    const { set, held, send } = setUp();
    for (let count = 0; count < 5; count += 1) {
      set.mark(aMark('hot', String(count)));
      send();
    }

    set.mark(aMark('hot', '5'));
    set.mark(aMark('quiet', '1'));

    expect(send()).toEqual(['quiet']);
    expect(held).toEqual(['hot']);
    expect([set.size('drain-step'), set.heldSize('drain-step')]).toEqual([1, 1]);
  });

  test('is let go after a second, with its newest mark and its whole age', async () => {
    const { timers, set } = setUp();
    for (let count = 0; count < 6; count += 1) {
      set.take('drain-step', 1).forEach((dirty) => set.acknowledge(dirty));
      set.mark(aMark('hot', String(count)));
    }
    await timers.pass(999);
    set.mark(aMark('hot', 'newest'));
    const early = [set.release('drain-step'), set.readySize('drain-step')];
    await timers.pass(1);

    const late = [set.release('drain-step'), set.readySize('drain-step')];

    expect(early).toEqual([1_000, 0]);
    expect(late).toEqual([undefined, 1]);
    const [taken] = set.take('drain-step', 1);
    expect([taken?.mark.token, taken?.owedSinceMs]).toEqual(['newest', 0]);
  });

  test('is not held back for what is tried again', () => {
    const { set, held } = setUp();
    set.mark(aMark('a', '1'));

    for (let count = 0; count < 100; count += 1) {
      set.take('drain-step', 1).forEach((dirty) => set.giveBack(dirty));
    }

    expect(set.readySize('drain-step')).toBe(1);
    expect(held).toEqual([]);
  });

  test('is held back too when it was marked again while its hint was on the way', () => {
    const { set, held } = setUp();
    set.mark(aMark('hot', '0'));
    for (let count = 1; count <= 5; count += 1) {
      const [dirty] = set.take('drain-step', 1);
      set.mark(aMark('hot', String(count)));
      set.acknowledge(dirty as Dirty);
    }

    expect(held).toEqual(['hot']);
    expect(set.size('drain-step')).toBe(1);
  });

  test('is held back no more once everything has to be sent', () => {
    const { set, held } = setUp();
    for (let count = 0; count < 6; count += 1) {
      set.take('drain-step', 1).forEach((dirty) => set.acknowledge(dirty));
      set.mark(aMark('hot', String(count)));
    }

    set.hurry();
    set.release('drain-step');

    expect(held).toEqual(['hot']);
    expect(set.readySize('drain-step')).toBe(1);
  });
});

describe('over any history', () => {
  test('L2, L7, L8: a key is owed exactly while its newest mark is not acknowledged, held back or not', async () => {
    const uid = fc.constantFrom('a', 'b', 'c', 'd');
    const operation = fc.oneof(
      { weight: 4, arbitrary: fc.record({ do: fc.constant('mark' as const), uid }) },
      fc.record({ do: fc.constant('pass' as const) }),
      fc.record({ do: fc.constant('release' as const) }),
      fc.record({ do: fc.constant('take' as const), limit: fc.integer({ min: 1, max: 3 }) }),
      fc.record({
        do: fc.constantFrom('acknowledge' as const, 'giveBack' as const),
        pick: fc.nat(),
      }),
    );

    await fc.assert(
      fc.asyncProperty(fc.array(operation, { maxLength: 60 }), async (operations) => {
        const { timers, set } = setUp();
        const newest = new Map<string, number>();
        const acknowledged = new Map<string, number>();
        const inFlight: Dirty[] = [];
        for (const [time, operation] of operations.entries()) {
          if (operation.do === 'mark') {
            set.mark(aMark(operation.uid, String(time)));
            newest.set(operation.uid, time);
          } else if (operation.do === 'take') {
            inFlight.push(...set.take('drain-step', operation.limit));
          } else if (operation.do === 'pass') {
            await timers.pass(400);
          } else if (operation.do === 'release') {
            set.release('drain-step');
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
        set.hurry();
        set.release('drain-step');
        inFlight.forEach((dirty) => set.giveBack(dirty));
        const ready = set.take('drain-step', 10);
        expect(ready).toHaveLength(set.size('drain-step'));
        for (const { mark } of ready) {
          expect(Number(mark.token)).toBe(newest.get(mark.target.uid));
        }
      }),
    );
  });
});
