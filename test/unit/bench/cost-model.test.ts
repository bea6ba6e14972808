import { describe, expect, it } from 'vitest';
import {
  type Measured,
  alwaysOn,
  assumptions,
  monthlyApiRequests,
  monthlyBill,
  prices,
} from '#test/bench/cost-model.ts';

const measured: Measured = {
  resync: { looks: 5, requests: 20 },
  drain: { looks: 40, requests: 100 },
  look: { cpuMs: 2, logBytes: 1_000, metrics: 4 },
};
const stack = { queues: 6, alarms: 27 };
const nobody = { shards: 0, drainsPerShard: 3 };
const hundred = { shards: 100, drainsPerShard: 0 };

function countOf(name: string, fleet: typeof nobody): number {
  return (
    monthlyBill(measured, fleet, stack).find((item) => item.name === name)?.count ?? Number.NaN
  );
}

describe('the bill of a month', () => {
  it('has the polls of empty queues also where there is no shard', () => {
    // 730 hours, 3 polls a minute, 5 at once, 6 queues.
    expect(countOf('polls of queues', nobody)).toBe(730 * 60 * 3 * 5 * 6);
    expect(countOf('hints sent, received, deleted', nobody)).toBe(0);
  });

  it('counts every look of a resync as a hint and an invocation, and the sweeps besides', () => {
    const looks = 730 * 2 * 100 * 5;

    expect(countOf('hints sent, received, deleted', hundred)).toBe(looks * 3);
    expect(countOf('invocations', hundred)).toBe(looks + 730 * 12);
    expect(countOf('logs', hundred)).toBeCloseTo((looks * 1_000) / 1e9);
  });

  it('pays for the time of a look on a part of a processor, and for its waiting', () => {
    const looks = 730 * 2 * 100 * 5;
    const requests = 730 * 2 * 100 * 20;
    const seconds = (looks * 0.002) / assumptions.processorShare + requests * 0.01 + 730 * 12;

    expect(countOf('time of functions', hundred)).toBeCloseTo(seconds * assumptions.memoryGb, 3);
  });

  it('multiplies each count by its price', () => {
    for (const { name, count, dollars } of monthlyBill(measured, hundred, stack)) {
      expect(dollars, name).toBeLessThanOrEqual(count * prices.logGb);
    }
    expect(monthlyBill(measured, hundred, stack).at(-1)).toMatchObject({ count: 27, dollars: 2.7 });
  });

  it('has the metrics of each step also where there is no shard', () => {
    expect(countOf('metrics', nobody)).toBe(6 * 4);
  });

  it('adds the pages of the sweep to what the looks ask of the API server', () => {
    expect(monthlyApiRequests(measured, hundred)).toBe(730 * 2 * 100 * 20 + 730 * 12 * 3);
  });

  it('stands beside two tasks that run all the time', () => {
    expect(alwaysOn()).toBeCloseTo(2 * 730 * (0.25 * 0.03238 + 0.5 * 0.00356));
  });
});
