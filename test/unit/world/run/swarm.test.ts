import { expect, test } from 'vitest';
import { Tally } from '#test/world/oracles/tally.ts';
import { runSeed } from '#test/world/run/swarm.ts';

test('a seed gives the same history every time, and another seed another one', async () => {
  const once = await runSeed(7, new Tally());
  const again = await runSeed(7, new Tally());
  const other = await runSeed(8, new Tally());

  expect(again).toEqual(once);
  expect(other.traceHash).not.toBe(once.traceHash);
});

test('the first seeds come to rest as they are wanted (X8)', async () => {
  for (let seed = 1; seed <= 5; seed += 1) {
    const { violation, deliveries } = await runSeed(seed, new Tally());

    expect(violation).toBeUndefined();
    expect(deliveries).toBeGreaterThan(0);
  }
});
