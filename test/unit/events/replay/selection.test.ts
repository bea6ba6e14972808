import { describe, expect, test } from 'vitest';
import {
  everything,
  isSelected,
  nameOfTarget,
  parseMoment,
  parseTargetName,
} from '#events/replay/selection.ts';
import { plusSeconds } from '#shared/kernel/instant.ts';
import { start } from './letter-world.ts';

const target = { kind: 'Shard', namespace: 'db', name: 'orders-0' } as const;
const traits = { step: 'pool-pods', target, at: start } as const;

describe('a selection', () => {
  test('that names nothing leaves nothing out', () => {
    expect(isSelected(everything, traits)).toBe(true);
    expect(isSelected(everything, { ...traits, at: undefined })).toBe(true);
  });

  test.each([
    ['another target', { targets: [{ ...target, name: 'orders-1' }] }],
    ['another namespace', { namespaces: ['web'] }],
    ['another step', { steps: ['drain-step'] as const }],
    ['a reason that is not known', { reasons: ['TargetUnknown'] }],
    ['a later time', { since: plusSeconds(start, 1) }],
    ['a time that ends with this moment', { until: start }],
  ])('that asks for %s leaves it out', (_, changes) => {
    expect(isSelected({ ...everything, ...changes }, traits)).toBe(false);
  });

  test('with a time leaves out what has none', () => {
    expect(isSelected({ ...everything, since: start }, { ...traits, at: undefined })).toBe(false);
    expect(isSelected({ ...everything, since: start }, traits)).toBe(true);
  });
});

describe('a target', () => {
  test.each([
    ['shd/db/orders-0', undefined, target],
    ['shd/orders-0', 'db', target],
    ['mdb/web/main', 'db', { kind: 'Database', namespace: 'web', name: 'main' }],
    ['shd/orders-0', undefined, undefined],
    ['pod/db/orders-0', undefined, undefined],
    ['shd/db/', undefined, undefined],
    ['shd//orders-0', undefined, undefined],
    ['shd/a/b/c', undefined, undefined],
    ['shd', 'db', undefined],
  ])('%s in %s', (text, namespace, wanted) => {
    expect(parseTargetName(text, namespace)).toEqual(wanted);
  });

  test('is written as it is read', () => {
    expect(parseTargetName(nameOfTarget(target), undefined)).toEqual(target);
  });
});

test.each([
  ['30m', plusSeconds(start, -1800)],
  ['2h', plusSeconds(start, -7200)],
  ['3d', plusSeconds(start, -3 * 86_400)],
  ['2026-01-01T00:00:00Z', start],
  ['2026-01-01', undefined],
  ['yesterday', undefined],
  ['-2h', undefined],
  ['2w', undefined],
])('the moment %s', (text, wanted) => {
  expect(parseMoment(text, start)).toBe(wanted);
});
