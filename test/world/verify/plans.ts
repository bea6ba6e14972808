import { Tally } from '#test/world/oracles/tally.ts';
import { type Candidate, PlanSearch } from '#test/world/run/plans.ts';
import { Random } from '#test/world/run/random.ts';
import type { Workload } from '#test/world/run/workload.ts';
import { regressions } from '#test/world/regressions.ts';
import {
  type FoundViolation,
  type Part,
  type PartOptions,
  type PartReport,
  timeLimit,
} from './part.ts';
import { everyWorkload, workloadOf } from './workloads.ts';

/** Second faults tried after each first one: none in CI, so many of those left after pruning, drawn by seed, in the long run. */
const pairsPerFault = { short: 0, long: 20 };

/** In CI faults that strike the same kind of question in the same state of all records count as one. */
const isPruned = { short: true, long: false };

/** Plans that a worker takes at a time: neighbours come to the same moments, and those are known in one worker only. */
const blockLength = 100;

/** Every plan with one fault, and pairs of faults, for every workload. */
export const plansPart: Part = {
  name: 'plans',
  run: (options, onProgress) => (options.isHunt ? hunt(options) : exploreAll(options, onProgress)),
};

async function exploreAll(
  options: PartOptions,
  onProgress: (text: string) => void,
): Promise<PartReport> {
  const { seed, scale, share } = options;
  const isTimeUp = timeLimit(options);
  const tally = new Tally();
  const searches: PlanSearch[] = [];
  const blocks: Block[] = [];
  for (const workload of await everyWorkload()) {
    const search = new PlanSearch(workload, {
      tally,
      seed,
      pairsPerFault: pairsPerFault[scale],
      isPruned: isPruned[scale],
    });
    searches.push(search);
    const found = await search.candidates();
    const candidates = scale === 'short' ? drawn(found, workload, seed) : found;
    for (let from = 0; from < candidates.length; from += blockLength) {
      blocks.push({ search, candidates: candidates.slice(from, from + blockLength) });
    }
  }
  // In an order of chance, so that whatever the time is enough for is of all workloads.
  const order = new Random(seed).sample(blocks, blocks.length);
  const ours = order.filter((_block, place) => place % share.of === share.index);
  const of = ours.reduce((sum, { candidates }) => sum + candidates.length, 0);
  let done = 0;
  for (const { search, candidates } of ours) {
    for (const candidate of candidates) {
      if (!isTimeUp()) {
        await search.explore(candidate);
        done += 1;
        onProgress(`${done} of ${of} first faults`);
      }
    }
  }
  const report = reportOf(searches, tally);
  return { ...report, figures: { ...report.figures, firstFaultsNotReached: of - done } };
}

/** Candidates that are run one after the other by one worker. */
interface Block {
  readonly search: PlanSearch;
  readonly candidates: readonly Candidate[];
}

/**
 * First what once found a defect. Then plans of all workloads, the most different ones first: of each kind of question,
 * fault and step one that is drawn by seed, then a second of each, and so on. What one guard too few breaks is seen soon,
 * wherever it is.
 */
async function hunt({ seed, share }: PartOptions): Promise<PartReport> {
  const tally = new Tally();
  const searches: PlanSearch[] = [];
  const byKind = new Map<string, Hunted[]>();
  const random = new Random(seed);
  const searchIn = (workload: Workload): PlanSearch => {
    const search = new PlanSearch(workload, { tally, seed, pairsPerFault: 0, isPruned: true });
    searches.push(search);
    return search;
  };
  for (const { plan } of regressions) {
    const search = searchIn(await workloadOf(plan));
    await search.again(plan);
    if (search.report.violations.length > 0) {
      return reportOf(searches, tally);
    }
  }
  for (const workload of await everyWorkload()) {
    const search = searchIn(workload);
    for (const candidate of drawn(await search.candidates(), workload, seed, drawnInHunt)) {
      const kind = kindOf(candidate);
      byKind.set(kind, [...(byKind.get(kind) ?? []), { search, candidate }]);
    }
    if (search.report.violations.length > 0) {
      return reportOf(searches, tally);
    }
  }
  const shuffled = [...byKind.values()].map((all) => random.sample(all, all.length));
  const rounds = Math.max(...shuffled.map(({ length }) => length));
  const order = Array.from({ length: rounds }, (_, round) =>
    random.sample(
      shuffled.flatMap((all) => all[round] ?? []),
      shuffled.length,
    ),
  ).flat();
  const ours = order.filter((_each, place) => place % share.of === share.index);
  for (const { search, candidate } of ours) {
    await search.explore(candidate);
    if (search.report.violations.length > 0) {
      break;
    }
  }
  return reportOf(searches, tally);
}

/** As many times as in CI: what one guard too few breaks may show in one moment in a thousand. */
const drawnInHunt = 4;

/** All of them, or those of a workload that is drawn from. */
function drawn(
  found: readonly Candidate[],
  { firstFaultsInCi }: Workload,
  seed: number,
  times = 1,
): readonly Candidate[] {
  return firstFaultsInCi === undefined
    ? found
    : new Random(seed).sample(found, firstFaultsInCi * times);
}

interface Hunted {
  readonly search: PlanSearch;
  readonly candidate: Candidate;
}

function kindOf({ moment: { operation, isFirst }, fault }: Candidate): string {
  const { by, call } = operation;
  return [by.step, call.name, by.writes > 0, isFirst, fault.name].join('/');
}

function reportOf(searches: readonly PlanSearch[], tally: Tally): PartReport {
  const reports = searches.map(({ report }) => report);
  const sum = (figure: (report: PlanSearch['report']) => number): number =>
    reports.reduce((total, report) => total + figure(report), 0);
  return {
    figures: {
      plans: sum(({ plans }) => plans),
      rawPlans: sum(({ raw }) => raw),
      sharedEnds: sum(({ known }) => known),
      operations: sum(({ operations }) => operations),
      virtualSeconds: Math.round(sum(({ virtualSeconds }) => virtualSeconds)),
      mostDeliveries: Math.max(...reports.map(({ mostDeliveries }) => mostDeliveries)),
      mostWritesPerFault: Math.max(...reports.map(({ mostWritesPerFault }) => mostWritesPerFault)),
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
