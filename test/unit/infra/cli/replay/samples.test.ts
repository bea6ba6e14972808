import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { stepNames } from '#shared/api/steps.ts';
import { recordedInFile } from '#infra/cli/replay/recorded-in-file.ts';
import { type ChangedDecision, replayDecisions } from '#infra/cli/replay/replay-decisions.ts';
import { runMillrace } from '../run-millrace.ts';

const samples = fileURLToPath(new URL('../../../../../events/samples/decisions', import.meta.url));
const loader = new URL('../../../../world/mutants/load-mutant.ts', import.meta.url).href;

/**
 * Looks that were recorded while `npm start` played. Where a rule is changed on purpose, `millrace replay --decisions` shows what
 * that changes, and `npm run record` records them anew.
 */
describe('the sample decisions', () => {
  test('are decided today as they were', async () => {
    const changed: ChangedDecision[] = [];
    const seen = new Set<string>();

    const counts = await replayDecisions(recordedInFile(samples), {
      isSelected: ({ step }) => {
        seen.add(step);
        return true;
      },
      onChanged: (each) => changed.push(each),
    });

    expect(changed).toEqual([]);
    expect(counts).toEqual({
      compared: counts.same,
      same: counts.same,
      different: 0,
      inWords: 0,
      withoutSnapshot: 0,
      unreadable: 0,
      newer: 0,
      passedOver: 0,
    });
    expect(counts.compared).toBeGreaterThan(40);
    expect([...seen].toSorted()).toEqual(stepNames.toSorted());
  });

  test('notice a settle time that is gone', { timeout: 30_000 }, async () => {
    const { exitCode, stdout, stderr } = await runMillrace(
      ['replay', '--decisions', '--file', samples],
      { MILLRACE_MUTANT: 'drain-settle-zero', NODE_OPTIONS: `--import ${loader}` },
    );

    expect(stderr).toContain('mutant drain-settle-zero is in force in');
    expect(stdout).toMatch(/[1-9]\d* different/);
    expect(exitCode).toBe(1);
  });
});
