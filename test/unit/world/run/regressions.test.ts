import { expect, test } from 'vitest';
import { regressions } from '#test/world/regressions.ts';
import { replayPlan, replaySeed } from '#test/world/verify/replay.ts';

test.each(regressions)('what once was so is so no more: $found', async (regression) => {
  const lines: string[] = [];
  const tell = (line: string): void => void lines.push(line);

  await ('plan' in regression
    ? replayPlan(regression.plan, tell)
    : replaySeed(regression.seed, tell));

  expect(lines.length).toBeGreaterThan(10);
});
