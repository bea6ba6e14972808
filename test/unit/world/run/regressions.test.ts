import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { regressions } from '#test/world/regressions.ts';
import type { PlanName } from '#test/world/run/plans.ts';
import { replayPlan } from '#test/world/verify/replay.ts';

const pathOf = (file: string): string =>
  fileURLToPath(new URL(`../../../world/${file}`, import.meta.url));

/** What a process with the mutant in force says last, and whether it ended well. */
function replayWith(mutant: string, plan: PlanName) {
  const words = ['--import', pathOf('mutants/load-mutant.ts'), pathOf('verify.ts')];
  const { promise, resolve } = Promise.withResolvers<{ isWell: boolean; lastLine: string }>();
  execFile(
    process.execPath,
    [...words, '--plan', JSON.stringify(plan)],
    { env: { ...process.env, MILLRACE_MUTANT: mutant }, maxBuffer: 64 * 1024 * 1024 },
    (error, stdout) =>
      resolve({ isWell: error === null, lastLine: stdout.trim().split('\n').at(-1) ?? '' }),
  );
  return promise;
}

test.each(regressions)('what once was so is so no more: $found', async ({ plan }) => {
  const lines: string[] = [];

  await replayPlan(plan, (line) => void lines.push(line));

  expect(lines.length).toBeGreaterThan(10);
});

const putBack = regressions.flatMap(({ without, ...rest }) =>
  without === undefined ? [] : [{ ...rest, without }],
);

test.each(putBack)('what is put back is noticed: $found', async ({ without, plan }) => {
  const { isWell, lastLine } = await replayWith(without, plan);

  expect(lastLine).toMatch(/^[A-Z]\d+: /);
  expect(isWell).toBe(false);
});
