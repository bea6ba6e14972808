import { expect, test } from 'vitest';
import { fromTheEpoch, onTheWall, simulate } from './simulated-time.ts';

/** `npm run bench -- backups` runs a hundred thousand slots of the same. */
test.each([
  ['in the night in which London’s clocks change', 0, 8, onTheWall],
  ['in a day', 1, 24, fromTheEpoch],
  ['in another', 2, 24, fromTheEpoch],
  ['in a third', 3, 24, fromTheEpoch],
])(
  'of hundreds of slots under faults each ends once, and none starts twice or beside another, %s (B1, B2, B3, B8)',
  async (_, seed, hours, schedules) => {
    const { shard, slots, unaccounted } = await simulate(seed, hours * 60, schedules);

    expect(shard.violations).toEqual([]);
    expect(unaccounted).toEqual([]);
    expect(shard.kube.all('Job')).toEqual([]);
    expect(slots).toBeGreaterThan(700);
    expect(shard.begun.get('hourly')).toBeGreaterThan(1);
    expect(shard.begun.get('often')).toBeGreaterThan(20);
    expect(shard.begun.get('own')).toBeGreaterThan(20);
    expect(shard.results.get('succeeded')).toBeGreaterThan(50);
    expect(shard.results.get('failed')).toBeGreaterThan(0);
    expect(shard.results.get('unknown')).toBeGreaterThan(0);
  },
);
