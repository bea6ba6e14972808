import { fromTheEpoch, simulate } from '#test/unit/functions/backup-trigger/simulated-time.ts';
import { type Figure, figure } from './figure.ts';
import { type Part, scaled } from './part.ts';

const goalSlots = 100_000;

/** Each begins with a shard that nobody has seen. */
const minutesPerRun = 24 * 60;

/**
 * Whether any of a hundred thousand slots is started twice, or beside another, or when it must not be, or ends not at all or
 * twice. The step's own code and the executor run in virtual time under crashes, lost requests and replies, wrong clocks,
 * two handlers at once, suspensions and drains; a seed does the same each time.
 */
export const backups: Part = {
  name: 'backups',
  title: 'a hundred thousand slots of backups under faults: double starts, slots unaccounted for',
  async measure(options): Promise<readonly Figure[]> {
    const wanted = scaled(goalSlots, options);
    let slots = 0;
    let starts = 0;
    let violations = 0;
    let unaccounted = 0;
    for (let seed = 0; slots < wanted; seed += 1) {
      const run = await simulate(seed, minutesPerRun, fromTheEpoch);
      slots += run.slots;
      starts += run.shard.starts.size;
      violations += run.shard.violations.length;
      unaccounted += run.unaccounted.length;
      for (const text of [...run.shard.violations, ...run.unaccounted]) {
        options.log(`seed ${seed}: ${text}`);
      }
      options.log(`${slots} of ${wanted} slots`);
    }
    return [
      figure('backups: simulated slots', slots, 'slots'),
      figure('backups: starts', starts, 'starts'),
      figure('backups: starts twice, beside another or forbidden', violations, 'starts', {
        goal: 0,
      }),
      figure('backups: schedules with slots unaccounted for', unaccounted, 'schedules', {
        goal: 0,
      }),
    ];
  },
};
