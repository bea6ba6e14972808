import { Tally } from '#test/world/oracles/tally.ts';
import { explorationsOf } from '#test/world/run/explorations.ts';
import { explore } from '#test/world/run/explorer.ts';
import { type FoundViolation, type Part, timeLimit, untaken } from './part.ts';

/**
 * States after which the search in one exploration is cut. In CI every exploration is meant to end before; what was cut is
 * counted as such. With 43 bytes a state in the table of those visited, 64 while it grows, and at most a gigabyte and a
 * half for handlers and objects, a worker stays below 2 GB.
 */
const maxStates = { short: 2_000_000, long: 3_000_000 };

/** Violations of one exploration that are told; they mostly are one defect seen from many sides. */
const maxViolations = 3;

/** Every interleaving within stated bounds. Workers share explorations out among them, so no state counts twice. */
export const explorePart: Part = {
  name: 'explore',
  async run(options, onProgress) {
    const { scale, isHunt } = options;
    const isTimeUp = timeLimit(options);
    const tally = new Tally();
    const figures = { states: 0, transitions: 0, mostDepth: 0, ends: 0, exhausted: 0, cut: 0 };
    const violations: FoundViolation[] = [];
    for (const exploration of untaken(explorationsOf(scale), options)) {
      const report = await explore(exploration, {
        tally,
        maxStates: maxStates[scale],
        isTimeUp,
        maxViolations: isHunt ? 1 : maxViolations,
        onProgress: (states) => onProgress(`${exploration.name}: ${states} states`),
      });
      figures.states += report.states;
      figures.transitions += report.transitions;
      figures.mostDepth = Math.max(figures.mostDepth, report.depth);
      figures.ends += report.ends;
      figures.exhausted += Number(report.isExhausted);
      figures.cut += Number(!report.isExhausted);
      violations.push(
        ...report.violations.map(({ invariant, message, choices }) => {
          const path = { exploration: exploration.name, scale, choices };
          return { invariant, replay: `--path '${JSON.stringify(path)}'`, message };
        }),
      );
      if (isHunt && violations.length > 0) {
        break;
      }
    }
    return { figures, violations, evaluated: tally.toJson(), covered: [] };
  },
};
