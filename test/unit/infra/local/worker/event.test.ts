import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { settle } from '#infra/local/worker/event.ts';

describe('the answer of a function', () => {
  test.each([
    ['null', null],
    ['nothing', undefined],
    ['an empty object', {}],
    ['a null list', { batchItemFailures: null }],
    ['an empty list', { batchItemFailures: [] }],
  ])('is success of the whole batch when it is %s', (_, response) => {
    const settlement = settle(['a', 'b'], response);

    expect(settlement).toEqual({ kind: 'settled', failedIds: new Set() });
  });

  test.each([
    ['a string', 'done'],
    ['an array', []],
    ['a list that is none', { batchItemFailures: 'a' }],
    ['an identifier under another key', { batchItemFailures: [{ messageId: 'a' }] }],
    ['an empty identifier', { batchItemFailures: [{ itemIdentifier: '' }] }],
    ['a null identifier', { batchItemFailures: [{ itemIdentifier: null }] }],
    ['an identifier of no message of the batch', { batchItemFailures: [{ itemIdentifier: 'c' }] }],
    [
      'one right and one wrong identifier',
      { batchItemFailures: [{ itemIdentifier: 'a' }, { itemIdentifier: 'c' }] },
    ],
  ])('fails the whole batch when it holds %s', (_, response) => {
    const settlement = settle(['a', 'b'], response);

    expect(settlement.kind).toBe('refused');
  });

  test('P4: fails exactly the messages it names', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.uuid(), { maxLength: 10 }),
        fc.func(fc.boolean()),
        (ids, isFailed) => {
          const failing = ids.filter((id) => isFailed(id));

          const settlement = settle(ids, {
            batchItemFailures: failing.map((itemIdentifier) => ({ itemIdentifier })),
          });

          expect(settlement).toEqual({ kind: 'settled', failedIds: new Set(failing) });
        },
      ),
    );
  });

  test('Z1: is either settled within the batch or refused, whatever it is', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (response) => {
        const settlement = settle(['a', 'b'], response);

        const failedIds = settlement.kind === 'settled' ? [...settlement.failedIds] : [];
        expect(failedIds.every((id) => ['a', 'b'].includes(id))).toBe(true);
      }),
    );
  });
});
