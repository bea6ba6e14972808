import { describe, expect, test } from 'vitest';
import { type Condition, applyConditions, hasConditions } from '#shared/api/condition.ts';
import { type Instant, parseInstant } from '#shared/kernel/instant.ts';

const now = parseInstant('2026-01-01T00:00:00Z') as Instant;
const earlier = '2025-12-31T12:00:00Z';

const ready: Condition = {
  type: 'Ready',
  status: 'True',
  observedGeneration: 3,
  lastTransitionTime: earlier,
  reason: 'MembersReady',
  message: 'all 3 members are ready',
};
const drained: Condition = { ...ready, type: 'Drained', reason: 'NobodyLeaves', message: '' };

describe("a step's own conditions", () => {
  test('are new at the time of the look where there were none', () => {
    const { type, status, reason, message } = ready;

    const applied = applyConditions([], [{ type, status, reason, message }], 4, now);

    expect(applied).toEqual([
      { ...ready, observedGeneration: 4, lastTransitionTime: '2026-01-01T00:00:00Z' },
    ]);
  });

  test('keep the time of their transition while the status is the same', () => {
    const applied = applyConditions([ready], [{ ...ready, reason: 'Other', message: '' }], 4, now);

    expect(applied).toEqual([{ ...ready, reason: 'Other', message: '', observedGeneration: 4 }]);
  });

  test('have a new time when the status changes', () => {
    const [applied] = applyConditions([ready], [{ ...ready, status: 'Unknown' }], 3, now);

    expect(applied).toMatchObject({
      status: 'Unknown',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    });
  });

  test('are applied alone: what others wrote is not among them', () => {
    const applied = applyConditions([drained, ready], [ready], 3, now);

    expect(applied.map(({ type }) => type)).toEqual(['Ready']);
  });
});

describe('conditions that stand already', () => {
  test('are seen among those of others, in any order', () => {
    expect(hasConditions([drained, ready], [ready])).toBe(true);
    expect(hasConditions([ready], [ready, drained])).toBe(false);
  });

  test('are the same whenever they last changed', () => {
    expect(hasConditions([ready], [{ ...ready, lastTransitionTime: '2026-01-01T00:00:00Z' }])).toBe(
      true,
    );
  });

  test.each([
    { status: 'False' },
    { reason: 'Other' },
    { message: 'other' },
    { observedGeneration: 4 },
  ] as const)('are others with %j', (change) => {
    expect(hasConditions([ready], [{ ...ready, ...change }])).toBe(false);
  });
});
