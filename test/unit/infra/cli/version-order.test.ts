import { describe, expect, test } from 'vitest';
import { compareVersions } from '#infra/cli/version-order.ts';

describe('of two releases', () => {
  test.each([
    ['0.2.0', '0.1.9'],
    ['0.10.0', '0.9.0'],
    ['1.0.0', '0.99.99'],
    ['0.2.0', '0.2.0-rc.1'],
    ['0.2.0-rc.2', '0.2.0-rc.1'],
  ])('%s is newer than %s', (newer, older) => {
    expect(compareVersions(newer, older)).toBeGreaterThan(0);
    expect(compareVersions(older, newer)).toBeLessThan(0);
  });

  test('a release is as new as itself', () => {
    expect(compareVersions('0.1.0', '0.1.0')).toBe(0);
  });

  test('none is the newer one where one of them is no version', () => {
    expect(compareVersions('unknown', '0.1.0')).toBeUndefined();
  });
});
