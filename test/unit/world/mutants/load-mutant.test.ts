import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const loader = new URL('../../../world/mutants/load-mutant.ts', import.meta.url).href;
const program = fileURLToPath(new URL('fixtures/settle-time.ts', import.meta.url));

function settleTimesUnder(mutant: string) {
  const { stdout, stderr, status } = spawnSync(process.execPath, [program], {
    encoding: 'utf8',
    env: { ...process.env, NODE_OPTIONS: `--import=${loader}`, MILLRACE_MUTANT: mutant },
  });
  return { settleTimes: stdout, stderr, status };
}

describe('a process with a mutant', { timeout: 30_000 }, () => {
  test('runs it in every thread and in the processes it starts, and says so', () => {
    const { settleTimes, stderr } = settleTimesUnder('drain-settle-zero');

    expect(settleTimes).toBe('[0,0,0]');
    expect(
      stderr
        .split('\n')
        .filter(
          (line) =>
            line ===
            'mutant drain-settle-zero is in force in functions/drain-step/before-return.ts',
        ),
    ).toHaveLength(3);
  });

  test('runs the product as it is where no mutant is named', () => {
    const { settleTimes, stderr } = settleTimesUnder('');

    expect(settleTimes).toBe('[5,5,5]');
    expect(stderr).not.toContain('in force');
  });

  test('says nothing of a mutant whose file is never loaded', () => {
    const { settleTimes, stderr } = settleTimesUnder('relay-watchdog-off');

    expect(settleTimes).toBe('[5,5,5]');
    expect(stderr).not.toContain('in force');
  });

  test('does not start with a mutant that nobody knows', () => {
    const { settleTimes, stderr, status } = settleTimesUnder('drain-settel-zero');

    expect(settleTimes).toBe('');
    expect(status).not.toBe(0);
    expect(stderr).toContain('there is no mutant drain-settel-zero in the catalogue');
  });
});
