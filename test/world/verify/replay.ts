import { Tally } from '#test/world/oracles/tally.ts';
import { explorationsOf } from '#test/world/run/explorations.ts';
import { followPath } from '#test/world/run/explorer.ts';
import { type PlanName, beginningOf, strikesOf } from '#test/world/run/plans.ts';
import { runToEnd } from '#test/world/run/run.ts';
import { Chronicle } from '#test/world/run/chronicle.ts';
import { runSeed } from '#test/world/run/swarm.ts';
import { workloadOf } from './workloads.ts';

/** Runs one plan again and tells it. Throws the violation it ends in, if it does. */
export async function replayPlan(plan: PlanName, onLine: (line: string) => void): Promise<void> {
  const workload = await workloadOf(plan);
  const world = await beginningOf(workload, new Tally());
  world.listen(new Chronicle(onLine));
  await runToEnd(world, { workload, strikes: strikesOf(workload, plan) });
}

/** One way through an exploration, by the numbers of its choices. */
export interface PathName {
  readonly exploration: string;
  readonly scale: 'short' | 'long';
  readonly choices: readonly number[];
}

/** Goes one way through an exploration again and tells it. Throws the violation it ends in, if it does. */
export async function replayPath(
  { exploration: name, scale, choices }: PathName,
  onLine: (line: string) => void,
): Promise<void> {
  const exploration = explorationsOf(scale).find((candidate) => candidate.name === name);
  if (exploration === undefined) {
    throw new Error(`there is no exploration ${JSON.stringify(name)}`);
  }
  await followPath(exploration, choices, new Tally(), (world) =>
    world.listen(new Chronicle(onLine)),
  );
}

/** Runs one seed of the swarm again and tells it. */
export async function replaySeed(seed: number, onLine: (line: string) => void): Promise<void> {
  const { violation, traceHash } = await runSeed(seed, new Tally(), onLine);
  onLine(`trace ${traceHash}`);
  if (violation !== undefined) {
    throw new Error(violation.message);
  }
}
