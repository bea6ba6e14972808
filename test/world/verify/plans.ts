import { Tally } from '#test/world/oracles/tally.ts';
import { type Candidate, PlanSearch } from '#test/world/run/plans.ts';
import { Random } from '#test/world/run/random.ts';
import type { FoundViolation, Part, PartOptions, PartReport } from './part.ts';
import { everyWorkload } from './workloads.ts';

/** Second faults tried after each first one: none in CI, all that are left after pruning in the long run. */
const pairsPerFault = { short: 0, long: 1_000 };

/** In CI faults that strike the same kind of question in the same state of all records count as one. */
const isPruned = { short: true, long: false };

/** Plans tried before a hunt gives up. */
const huntedPlans = 2_000;

/** Every plan with one fault, and pairs of faults, for every workload. */
export const plansPart: Part = {
  name: 'plans',
  run: (options, onProgress) => (options.isHunt ? hunt(options) : exploreAll(options, onProgress)),
};

async function exploreAll(
  { seed, scale, share }: PartOptions,
  onProgress: (text: string) => void,
): Promise<PartReport> {
  const tally = new Tally();
  const searches: PlanSearch[] = [];
  for (const workload of await everyWorkload()) {
    const search = new PlanSearch(workload, {
      tally,
      seed,
      pairsPerFault: pairsPerFault[scale],
      isPruned: isPruned[scale],
    });
    searches.push(search);
    const candidates = await search.candidates();
    for (const [place, candidate] of candidates.entries()) {
      if (place % share.of === share.index) {
        await search.explore(candidate);
        onProgress(`${workload.name}: ${place} of ${candidates.length} first faults`);
      }
    }
  }
  return reportOf(searches, tally);
}

/** Plans of all workloads in a random order: what one guard too few breaks is seen soon, wherever it is. */
async function hunt({ seed, share }: PartOptions): Promise<PartReport> {
  const tally = new Tally();
  const searches: PlanSearch[] = [];
  const all: { readonly search: PlanSearch; readonly candidate: Candidate }[] = [];
  for (const workload of await everyWorkload()) {
    const search = new PlanSearch(workload, { tally, seed, pairsPerFault: 0 });
    searches.push(search);
    all.push(...(await search.candidates()).map((candidate) => ({ search, candidate })));
    if (search.report.violations.length > 0) {
      return reportOf(searches, tally);
    }
  }
  const tried = new Random(seed + share.index).sample(all, Math.ceil(huntedPlans / share.of));
  for (const { search, candidate } of tried) {
    await search.explore(candidate);
    if (search.report.violations.length > 0) {
      break;
    }
  }
  return reportOf(searches, tally);
}

function reportOf(searches: readonly PlanSearch[], tally: Tally): PartReport {
  const reports = searches.map(({ report }) => report);
  const sum = (figure: (report: PlanSearch['report']) => number): number =>
    reports.reduce((total, report) => total + figure(report), 0);
  return {
    figures: {
      plans: sum(({ plans }) => plans),
      rawPlans: sum(({ raw }) => raw),
      operations: sum(({ operations }) => operations),
      virtualSeconds: Math.round(sum(({ virtualSeconds }) => virtualSeconds)),
      mostDeliveries: Math.max(...reports.map(({ mostDeliveries }) => mostDeliveries)),
    },
    violations: reports.flatMap(({ violations }) =>
      violations.map(({ invariant, plan, message }): FoundViolation => ({
        invariant,
        replay: `--plan '${JSON.stringify(plan)}'`,
        message,
      })),
    ),
    evaluated: tally.toJson(),
    covered: [...new Set(reports.flatMap(({ covered }) => [...covered]))],
  };
}
