import { describe, expect, test } from 'vitest';
import { canAppoint, canCommit, isRemovalSafe } from '#infra/local/data-plane/quorum.ts';

const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => ({ cell: 'zone-a', name })) as [
  { cell: string; name: string },
  { cell: string; name: string },
  { cell: string; name: string },
  { cell: string; name: string },
];

const ofThree = { requiredCount: 2, cohort: [a, b, c] };
const ofTwo = { requiredCount: 2, cohort: [a, b] };
const alone = { requiredCount: 1, cohort: [a] };

describe('a write', () => {
  test('counts once the leader and enough followers in the cohort have it', () => {
    expect(canCommit(ofThree, a, [b])).toBe(true);
    expect(canCommit(ofThree, a, [])).toBe(false);
  });

  test('is not acknowledged by a follower outside the cohort', () => {
    expect(canCommit(ofTwo, a, [c])).toBe(false);
  });

  test('is acknowledged for a leader outside the cohort by the members inside', () => {
    expect(canCommit(ofTwo, d, [a])).toBe(true);
    expect(canCommit(ofTwo, d, [])).toBe(false);
  });

  test('needs nobody else where one member is enough', () => {
    expect(canCommit(alone, a, [])).toBe(true);
  });
});

describe('a leader can be appointed', () => {
  test('from those that overlap with every quorum of the old one', () => {
    expect(canAppoint(ofThree, b, [b, c])).toBe(true);
    expect(canAppoint(ofThree, b, [b])).toBe(false);
    expect(canAppoint({ requiredCount: 2, cohort: [a, b, c, d] }, b, [b, c])).toBe(false);
  });

  test('only where it could commit afterwards', () => {
    expect(canAppoint(ofTwo, b, [b])).toBe(false);
    expect(canAppoint(ofTwo, b, [a, b])).toBe(true);
  });
});

describe('the removal of an ineligible member', () => {
  test('is refused where three members need two, since the leader could then not be lost', () => {
    expect(isRemovalSafe(ofThree, c, a, [b, c])).toBe(false);
  });

  test('is safe where another loss is survivable', () => {
    const cohort = [a, b, c, d];

    expect(isRemovalSafe({ requiredCount: 2, cohort }, d, a, [b, c, d])).toBe(true);
    expect(isRemovalSafe({ requiredCount: 2, cohort }, d, a, [b, d])).toBe(false);
  });
});
