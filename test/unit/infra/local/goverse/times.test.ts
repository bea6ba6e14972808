import { describe, expect, test } from 'vitest';
import { Outages } from '#infra/local/goverse/outages.ts';
import { leaseSeconds } from '#infra/local/goverse/registration.ts';
import { remainingLeaseMs } from '#infra/local/goverse/start.ts';
import { firstDueMs, nextTickMs } from '#infra/local/goverse/tick-times.ts';

const periodMs = 5_000;

describe('a ticker', () => {
  test('does not drift', () => {
    expect(nextTickMs(5_000, { periodMs, nowMs: 5_030 })).toBe(10_000);
  });

  test('keeps one tick that came due meanwhile, and drops the others', () => {
    expect(nextTickMs(5_000, { periodMs, nowMs: 11_000 })).toBe(10_000);
    expect(nextTickMs(5_000, { periodMs, nowMs: 22_000 })).toBe(20_000);
    expect(nextTickMs(20_000, { periodMs, nowMs: 22_500 })).toBe(25_000);
  });

  test('counts from its start, or by a phase that others share', () => {
    expect(firstDueMs({ startMs: 12_345, periodMs })).toBe(12_345);
    expect(firstDueMs({ startMs: 12_345, periodMs, phase: 0 })).toBe(15_000);
    expect(firstDueMs({ startMs: 12_345, periodMs, phase: 0.5 })).toBe(12_500);
  });
});

describe('a lease', () => {
  test('is as etcd can grant it: whole seconds, two at least', () => {
    expect([1, 2, 5, 10].map(leaseSeconds)).toEqual([15, 8, 3, 2]);
  });

  test('outlives its holder by its length after the last sign of life, and until etcd notices', () => {
    expect(remainingLeaseMs(0, 0, 10)).toBe(1_550);
    expect(remainingLeaseMs(0, 499, 10)).toBe(1_051);
    expect(remainingLeaseMs(0, 500, 10)).toBe(1_550);
  });
});

describe('outages', () => {
  test('are added up for each shard that was out', () => {
    const outages = new Outages(3);

    outages.look(0, true, 1_000);
    outages.look(0, false, 2_000);
    outages.look(0, true, 5_000);
    outages.look(1, true, 4_000);
    outages.look(1, true, 4_500);
    outages.look(0, false, 6_000);

    expect(outages.openCount).toBe(1);
    expect(outages.summary(7_000)).toEqual({ count: 2, meanMs: 2_500, maxMs: 3_000 });
  });

  test('there are none where nothing was out', () => {
    expect(new Outages(2).summary(1_000)).toEqual({ count: 0, meanMs: 0, maxMs: 0 });
  });
});
