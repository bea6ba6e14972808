import { describe, expect, test } from 'vitest';
import { type PointKind, relayFaults } from '#test/world/relay/relay-faults.ts';
import { relayLaws } from '#test/world/relay/relay-oracles.ts';
import { replayRelayPlan, runRelayPlans } from '#test/world/relay/relay-plans.ts';
import { type RelayPlan, type RelayRun, runRelayPlan } from '#test/world/relay/relay-run.ts';
import { relayWorkloads } from '#test/world/relay/relay-workloads.ts';

const seed = 1;
const timeoutMs = 120_000;
const calmPlan: RelayPlan = { workload: 'a shard lives', seed, faults: [] };

describe('the relay that ships, in virtual time', () => {
  test('L1, L2, L5, L6, L8, L9: keeps every promise in every workload when nothing fails', async () => {
    const report = await runRelayPlans({ maxFaults: 0, seed });

    expect(report.violations).toEqual([]);
    expect(report.plans).toBe(relayWorkloads.length);
  });

  test(
    'L1 to L9, F12 to F16, F22, F23: keeps every promise after any single fault while names return',
    async () => {
      const workloads = ['names return'];

      const report = await runRelayPlans({ maxFaults: 1, seed, workloads });

      expect(report.violations).toEqual([]);
      expect(report.counts).toMatchObject([{ workload: 'names return', faults: 1 }]);
      expect(report.counts[0]?.run).toBe(report.counts[0]?.pruned);
      expect(report.plans).toBeGreaterThan(500);
      expect(relayLaws.filter((law) => report.evaluated.get(law) === 0)).toEqual([]);
    },
    timeoutMs,
  );

  test(
    'L1 to L9, F15: keeps every promise in some plans of two faults with two relays and a Lease',
    async () => {
      const workloads = ['restarts, two with a lease'];

      const report = await runRelayPlans({ maxFaults: 2, seed, budgetMs: 6_000, workloads });

      expect(report.violations).toEqual([]);
      expect(report.plans).toBeGreaterThan(1);
    },
    timeoutMs,
  );
});

/** Together they have every kind of point: lists in streams and in pages, bookmarks, a Lease. */
const shapes = ['wakes', 'many targets, in pages', 'a shard lives, two with a lease'];

async function calmRuns(): Promise<readonly RelayRun[]> {
  const runs: RelayRun[] = [];
  for (const workload of shapes) {
    runs.push(await runRelayPlan({ workload, seed, faults: [] }));
  }
  return runs;
}

/** What happened, without the words that a fault was placed. */
function events({ story }: RelayRun): readonly string[] {
  return story.filter((line) => !line.includes(' ! '));
}

test(
  'every fault of the list changes what happens, wherever a plan may put it',
  async () => {
    const runs = await calmRuns();
    const harmless: string[] = [];

    for (const fault of relayFaults) {
      for (const kind of fault.at) {
        const changed = await changeBy(runs, fault.name, kind);
        if (changed === undefined) {
          harmless.push(`${fault.name} at ${kind}`);
        }
      }
    }

    expect(harmless).toEqual([]);
  },
  timeoutMs,
);

/** The first plan with this fault at such a point that goes another way than the same workload without it. */
async function changeBy(
  runs: readonly RelayRun[],
  fault: RelayPlan['faults'][number]['fault'],
  kind: PointKind,
): Promise<RelayPlan | undefined> {
  for (const calm of runs) {
    for (const { index } of calm.points.filter((point) => point.kind === kind).slice(0, 4)) {
      const plan = { ...calm.plan, faults: [{ at: index, fault }] };
      const run = await runRelayPlan(plan);
      if (events(run).join('\n') !== events(calm).join('\n')) {
        return plan;
      }
    }
  }
  return undefined;
}

test('the same plan goes the same way twice, and another seed another way', async () => {
  const plan: RelayPlan = {
    workload: 'wakes, two with a lease',
    seed,
    faults: [
      { at: 30, fault: 'watch broken' },
      { at: 60, fault: 'crash before' },
    ],
  };

  const first = await runRelayPlan(plan);
  const second = await runRelayPlan(plan);
  const other = await runRelayPlan({ ...plan, seed: 2 });

  expect(second.story).toEqual(first.story);
  expect(second.trace).toBe(first.trace);
  expect(other.trace).not.toBe(first.trace);
});

test('a plan is told as a story: what was written, what the relay heard, sent and went through', async () => {
  const plan: RelayPlan = {
    workload: 'a shard lives',
    seed,
    faults: [{ at: 11, fault: 'watch broken' }],
  };

  const story = await replayRelayPlan(plan);

  expect(story.split('\n').slice(0, 1)).toEqual([
    'workload a shard lives, seed 1, watch broken at 11',
  ]);
  expect(story).toContain('2.000 * a pod comes');
  expect(story).toContain('2.000 11 relay-0.1: line Pod a-1 ADDED\n2.000 ! watch broken');
  expect(story).toMatch(/relay-0\.1 is told: ADDED Pod a-1/);
  expect(story).toMatch(/millrace-world-drain-step takes \{/);
});

test('L4: a hunt finds a relay that bears silence for too long, and says by which plan', async () => {
  const limits = { silenceMs: 100_000 };

  const report = await runRelayPlans({
    maxFaults: 1,
    seed,
    workloads: ['a shard lives'],
    isHunt: true,
    limits,
  });

  const [violation] = report.violations;
  expect(violation?.law).toBe('L4');
  expect(violation?.after).toBe(report.plans - 1);
  const again = await runRelayPlan(violation?.plan ?? calmPlan, { limits });
  expect(again.violations[0]?.message).toBe(violation?.message);
  const shipped = await runRelayPlan(violation?.plan ?? calmPlan);
  expect(shipped.violations).toEqual([]);
});
