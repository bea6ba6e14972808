import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  backupJobName,
  budgetName,
  claimName,
  fnv1a32,
  podBaseName,
  podName,
  poolerName,
  serviceName,
  sharedBackupClaimName,
} from '#shared/api/names.ts';

const dnsLabel = /^[a-z]([-a-z0-9]*[a-z0-9])?$/;

/** Names as the API admits them: DNS labels of a limited length. */
function label(maxLength: number): fc.Arbitrary<string> {
  const unit = fc.constantFrom('a', 'b', 'z', '0', '9', '-');
  return fc
    .string({ unit, minLength: 1, maxLength })
    .filter((name) => /^[^-](.*[^-])?$/.test(name));
}

const parts = fc.tuple(label(30), label(25), label(30));

describe('the hash', () => {
  test.each([
    [[], '811c9dc5'],
    [[''], '050c5d1f'],
    [['a'], '2b24d044'],
    [['foobar'], '0c1c9eb8'],
    [['ä', '日本'], '43329986'],
  ])('of %j is FNV-1a with a zero byte after each part', (given, expected) => {
    expect(fnv1a32(...given)).toBe(expected);
  });

  test('tells apart where one part ends and the next begins', () => {
    expect(fnv1a32('a', 'bc')).not.toBe(fnv1a32('ab', 'c'));
  });
});

describe('the names of one pool', () => {
  test('are those of every version before', () => {
    const base = podBaseName('orders', 'main', 'zone-a');

    expect(base).toBe('orders-main-zone-a-0df9c5c5');
    expect(podName(base, 2)).toBe('orders-main-zone-a-0df9c5c5-2');
    expect(claimName(podName(base, 2))).toBe('data-orders-main-zone-a-0df9c5c5-2');
    expect(budgetName(base)).toBe('orders-main-zone-a-0df9c5c5');
    expect(serviceName('orders')).toBe('orders-36e79584');
    expect(sharedBackupClaimName('orders')).toBe('backup-data-orders');
  });

  test('are cut with a mark where they would be too long', () => {
    const shard = 'a23456789012345678901234567890';
    const pool = 'p234567890123456789012345';

    const base = podBaseName(shard, pool, 'z23456789012345678901234567890');

    expect(base).toBe('a23456789012345678901234567890-p23456789012345678---c1e5550e');
    expect(base).toHaveLength(60);
  });

  test('begin with a letter and hold nothing a DNS label does not', () => {
    expect(podBaseName('0-orders', 'Main_1', 'zone.a')).toBe('x0-orders-main-1-zone-a-ab546a3d');
  });

  test('differ where only the place of a hyphen does', () => {
    expect(podBaseName('orders', 'main-zone', 'a')).toBe('orders-main-zone-a-2518567f');
    expect(podBaseName('orders', 'main', 'zone-a')).toBe('orders-main-zone-a-0df9c5c5');
  });

  test('fit Kubernetes for all parts that the API admits, and for any others', () => {
    const anyParts = fc.tuple(fc.string(), fc.string({ unit: 'binary' }), fc.string());

    fc.assert(
      fc.property(fc.oneof(parts, anyParts), fc.integer({ min: 0, max: 99 }), (given, index) => {
        const base = podBaseName(...given);
        const pod = podName(base, index);

        expect(base.length).toBeLessThanOrEqual(60);
        expect(pod).toMatch(dnsLabel);
        expect(pod.length).toBeLessThanOrEqual(63);
        expect(budgetName(base)).toMatch(dnsLabel);
        expect(claimName(pod).length).toBeLessThanOrEqual(253);
        expect(serviceName(given[0])).toMatch(dnsLabel);
        expect(serviceName(given[0]).length).toBeLessThanOrEqual(63);
      }),
    );
  });

  test('are different for different pools, also where the long ones are cut', () => {
    const long = fc.tuple(fc.constant('a'.repeat(30)), fc.constant('b'.repeat(25)), label(30));

    fc.assert(
      fc.property(fc.oneof(parts, long), fc.oneof(parts, long), (one, other) => {
        fc.pre(one.join('/') !== other.join('/'));

        expect(podBaseName(...one)).not.toBe(podBaseName(...other));
      }),
    );
  });

  test('for the claim of a Shard’s backups fit as they are, and are no data claim’s', () => {
    fc.assert(
      fc.property(label(30), parts, (shard, given) => {
        const shared = sharedBackupClaimName(shard);

        expect(shared).toMatch(dnsLabel);
        expect(shared.length).toBeLessThanOrEqual(63);
        expect(shared).not.toBe(claimName(podName(podBaseName(...given), 0)));
      }),
    );
  });

  test.each([-1, 100, 1.5, Number.NaN])('have no index %d', (index) => {
    expect(() => podName('orders', index)).toThrow(RangeError);
  });
});

describe("the name of a backup's Job", () => {
  test('is that of every version before', () => {
    expect(backupJobName('orders', 'nightly', '2026-01-01T02:00:00Z', 0)).toBe(
      'orders-nightly-2026-01-01t02-00-00z-0-ac9bdf8b',
    );
  });

  test('leaves room for what its pod gets behind it, also where it is cut, and each attempt has its own', () => {
    const attempt = fc.tuple(label(30), label(20), fc.integer({ min: 0, max: 9 }));

    fc.assert(
      fc.property(attempt, ([shard, schedule, tries]) => {
        const name = backupJobName(shard, schedule, '2026-01-01T02:00:00Z', tries);

        expect(`${name}-abcde`).toMatch(dnsLabel);
        expect(`${name}-abcde`.length).toBeLessThanOrEqual(63);
        expect(backupJobName(shard, schedule, '2026-01-01T02:00:00Z', tries + 1)).not.toBe(name);
        expect(backupJobName(shard, schedule, '2026-01-01T02:00:10Z', tries)).not.toBe(name);
      }),
    );
  });
});

describe('the service id of a pooler', () => {
  test("is the pod's name as long as PostgreSQL can hold it with the cell", () => {
    expect(poolerName('zone-a', 'p'.repeat(56))).toBe('p'.repeat(56));
  });

  test('is a hash of it from one byte more on', () => {
    expect(poolerName('zone-a', 'p'.repeat(57))).toBe(`p-${fnv1a32('p'.repeat(57))}`);
    expect(poolerName('eu-west-1a', 'customer-orders-production-main-eu-west-1---0a1b2c3d-0')).toBe(
      'p-da678efa',
    );
  });

  test('fits with the cell for all parts that the API admits', () => {
    fc.assert(
      fc.property(parts, fc.nat(99), (given, index) => {
        const pooler = poolerName(given[2], podName(podBaseName(...given), index));

        expect(Buffer.byteLength(`${given[2]}_${pooler}`)).toBeLessThanOrEqual(63);
      }),
    );
  });
});
