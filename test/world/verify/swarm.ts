import { Tally } from '#test/world/oracles/tally.ts';
import { runSeed } from '#test/world/run/swarm.ts';
import { type FoundViolation, type Part, timeLimit } from './part.ts';

const seeds = { short: 300, long: 100_000 };

/** The first so many seeds are run twice: the same seed must give the same history, bit by bit. */
const repeated = 20;

/** Runs drawn from seeds, one after the other. */
export const swarmPart: Part = {
  name: 'swarm',
  async run(options, onProgress) {
    const { seed, scale, share, isHunt } = options;
    const isTimeUp = timeLimit(options);
    const tally = new Tally();
    const figures = {
      sims: 0,
      beyondRepair: 0,
      notReached: 0,
      operations: 0,
      virtualSeconds: 0,
      mostDeliveriesToConverge: 0,
    };
    const violations: FoundViolation[] = [];
    for (let index = share.index; index < seeds[scale]; index += share.of) {
      if (isTimeUp()) {
        figures.notReached += 1;
        continue;
      }
      const run = await runSeed(seed + index, tally);
      const replay = `--seed ${run.seed}`;
      if (run.violation !== undefined) {
        violations.push({ ...run.violation, replay });
      }
      if (index < repeated) {
        const again = await runSeed(seed + index, tally);
        if (again.traceHash !== run.traceHash) {
          const message = 'the same seed went another way the second time';
          violations.push({ invariant: 'defect', replay, message });
        }
      }
      figures.sims += 1;
      figures.beyondRepair += run.isBeyondRepair ? 1 : 0;
      figures.operations += run.operations;
      figures.virtualSeconds += Math.round(run.virtualSeconds);
      figures.mostDeliveriesToConverge = Math.max(
        figures.mostDeliveriesToConverge,
        run.deliveriesToConverge,
      );
      onProgress(`${figures.sims} runs`);
      if (isHunt && violations.length > 0) {
        break;
      }
    }
    return { figures, violations, evaluated: tally.toJson(), covered: [] };
  },
};
