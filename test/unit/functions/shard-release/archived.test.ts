import { expect, test } from 'vitest';
import { shardRelease } from '#functions/shard-release/step.ts';
import { archivedSoundly } from '#test/unit/shared/archive/an-archive.ts';
import { SimulatedRelease } from './simulated-release.ts';

test('the decision over an archived snapshot is that over the snapshot', async () => {
  const run = await SimulatedRelease.settled();
  const seen = new Set<string>();
  const look = async () => {
    const { decision } = await archivedSoundly(shardRelease, run.snapshot(), run.now);
    seen.add(decision.reason);
  };

  run.deletePod('c');
  for (let turn = 0; turn < 60; turn += 1) {
    await run.run(0.5);
    await look();
  }
  run.isEtcdGone = true;
  await look();
  run.isEtcdGone = false;
  run.join('d');
  run.ask('a');
  for (let turn = 0; turn < 120; turn += 1) {
    await run.run(1);
    await look();
  }

  expect(seen.size).toBeGreaterThan(5);
});
