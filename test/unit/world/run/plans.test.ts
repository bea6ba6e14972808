import { describe, expect, test } from 'vitest';
import { Tally, Violation } from '#test/world/oracles/tally.ts';
import { Chronicle } from '#test/world/run/chronicle.ts';
import { PlanSearch, type PlanName, beginningOf, strikesOf } from '#test/world/run/plans.ts';
import { runToEnd } from '#test/world/run/run.ts';
import type { Workload } from '#test/world/run/workload.ts';
import type { Witness } from '#test/world/run/world.ts';
import { everyWorkload } from '#test/world/verify/workloads.ts';

const workloads = await everyWorkload();

function named(name: string): Workload {
  const found = workloads.find((workload) => workload.name === name);
  if (found === undefined) {
    throw new Error(`there is no workload ${name}`);
  }
  return found;
}

async function traceOf(plan: PlanName): Promise<string> {
  const workload = named(plan.workload);
  const world = await beginningOf(workload, new Tally());
  const chronicle = new Chronicle(undefined);
  world.listen(chronicle);
  await runToEnd(world, { workload, strikes: strikesOf(workload, plan) });
  return chronicle.digest();
}

test.each(workloads.map(({ name }) => name))(
  'the workload "%s" reaches its goal without a fault, and then nothing is written any more (X7, X8)',
  async (name) => {
    const search = new PlanSearch(named(name), { tally: new Tally(), seed: 1, pairsPerFault: 0 });

    const candidates = await search.candidates();

    expect(search.report.violations).toEqual([]);
    expect(candidates.length).toBeGreaterThan(100);
  },
);

describe('a plan', () => {
  const plan: PlanName = {
    workload: '3 to 2',
    strikes: [
      { at: 12, fault: 'F2 crash after' },
      { at: 40, fault: 'F11 zombie' },
    ],
  };

  test('goes the same way every time, bit by bit', async () => {
    expect(await traceOf(plan)).toBe(await traceOf(plan));
  });

  test('goes another way than the one without its faults', async () => {
    expect(await traceOf(plan)).not.toBe(await traceOf({ ...plan, strikes: [] }));
  });

  test('with an unknown fault is refused', () => {
    const unknown: PlanName = { workload: '3 to 2', strikes: [{ at: 1, fault: 'F99 flood' }] };

    expect(() => strikesOf(named('3 to 2'), unknown)).toThrow('there is no fault "F99 flood"');
  });
});

test('a workload brings its own checks, which see every write (CONTRIBUTING.md)', async () => {
  const seen: string[] = [];
  const watch: Witness = {
    told: () => undefined,
    sent: () => undefined,
    ended: () => undefined,
    wrote: ({ commit }) => {
      seen.push(commit.kind);
      if (commit.kind === 'Pod' && commit.after === null) {
        throw new Violation('D1', 'no pod may go');
      }
    },
    fork: () => watch,
  };
  const workload: Workload = { ...named('3 to 2'), witnesses: [() => watch] };
  const search = new PlanSearch(workload, { tally: new Tally(), seed: 1, pairsPerFault: 0 });

  await search.candidates();

  expect(seen).toContain('Shard');
  expect(search.report.violations).toMatchObject([{ invariant: 'D1' }]);
});
