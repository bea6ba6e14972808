import { describe, expect, test } from 'vitest';
import { differencesOf } from '#infra/cli/replay/difference.ts';

const decision = {
  outcome: 'waiting' as const,
  reason: 'MembersUnknown',
  message: 'the pods cannot be read',
  wake: { every: 60 },
  effects: [
    { kind: 'applyStatus', status: { conditions: [{ type: 'Ready', message: 'unknown' }] } },
    { kind: 'createObject', object: { kind: 'Pod', name: 'orders-0' }, manifest: { spec: 1 } },
    { kind: 'advance', record: { state: 'waiting', wake: { every: 60 } } },
  ],
};

describe('what two decisions differ in', () => {
  test('is nothing where they are the same, whatever is undefined in one of them', () => {
    expect(differencesOf(decision, { ...decision, needs: undefined })).toEqual([]);
  });

  test('is told field by field', () => {
    const { wake: _, ...settled } = decision;

    const differences = differencesOf(decision, {
      ...settled,
      outcome: 'settled',
      reason: 'MembersReady',
    });

    expect(differences).toEqual([
      { field: 'outcome', was: 'waiting', is: 'settled', isInWords: false },
      { field: 'reason', was: 'MembersUnknown', is: 'MembersReady', isInWords: false },
      { field: 'wake', was: { every: 60 }, isInWords: false },
    ]);
  });

  test('are words where nothing else is done because of them', () => {
    const [status, ...others] = decision.effects;
    const said = { type: 'Ready', message: 'not known' };

    const differences = differencesOf(decision, {
      ...decision,
      message: 'nobody can read the pods',
      effects: [{ ...status, kind: 'applyStatus', status: { conditions: [said] } }, ...others],
    });

    expect(differences.map(({ field, isInWords }) => [field, isInWords])).toEqual([
      ['message', true],
      ['effects[0] applyStatus: status.conditions[0].message', true],
    ]);
  });

  test('holds effects of the same kind about the same object against each other', () => {
    const [status, pod, advance] = decision.effects;
    const event = { kind: 'emitEvent', reason: 'Made' };
    const other = { kind: 'createObject', object: { kind: 'Pod', name: 'orders-1' } };

    const differences = differencesOf(decision, {
      ...decision,
      effects: [
        { ...event },
        { ...status, kind: 'applyStatus' },
        other,
        { ...advance, kind: 'advance', record: { state: 'waiting', wake: { every: 5 } } },
      ],
    });

    expect(differences).toEqual([
      { field: 'effects[0] emitEvent', is: event, isInWords: false },
      { field: 'effects[2] createObject Pod orders-0', was: pod, isInWords: false },
      { field: 'effects[3] createObject Pod orders-1', is: other, isInWords: false },
      { field: 'effects[4] advance: record.wake.every', was: 60, is: 5, isInWords: false },
    ]);
  });
});
