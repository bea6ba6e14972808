import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { catalogue } from '#test/world/mutants/catalogue.ts';
import { type Hunt, type Outcome, huntAll } from '#test/world/mutants/hunt-all.ts';
import { mutantOf } from '#test/world/mutants/mutant.ts';
import { jsonReport, outcomeLine, summary } from '#test/world/mutants/report.ts';
import { type Verification, tryMutant } from '#test/world/mutants/try-mutant.ts';

const settle = mutantOf(catalogue, 'drain-settle-zero');
/** In the same file as the settle time, which it leaves as it is. */
const unnoticed = mutantOf(catalogue, 'drain-asked-again-at-once');
const unloaded = mutantOf(catalogue, 'relay-watchdog-off');

function aVerification(
  fixture: 'verify-settle-time' | 'verify-badly',
  ...words: readonly string[]
): Verification {
  return {
    entry: new URL(`fixtures/${fixture}.ts`, import.meta.url),
    words,
    limitMs: 60_000,
  };
}

function verdictsOf(hunt: Hunt) {
  return hunt.kind === 'hunted' ? hunt.outcomes.map(({ trial }) => trial.verdict) : hunt;
}

describe('hunting mutants', { timeout: 60_000 }, () => {
  test('tells the killed from those that survive and those that were never loaded', async () => {
    const ended: string[] = [];

    const hunt = await huntAll([settle, unnoticed, unloaded], {
      jobs: 2,
      isBaseFirst: true,
      verificationOf: () => aVerification('verify-settle-time'),
      onOutcome: ({ mutant }, { done, of }) => ended.push(`${mutant.id} ${done}/${of}`),
    });

    expect(verdictsOf(hunt)).toEqual([
      {
        kind: 'killed',
        violation: { invariant: 'D4', seed: 7, message: 'settled after 0 s' },
        runs: 3,
      },
      { kind: 'survived', runs: 3 },
      { kind: 'unloaded', files: ['events/relay/reflector.ts'] },
    ]);
    expect(ended).toHaveLength(3);
    expect(ended.at(-1)).toMatch(/ 3\/3$/);
  });

  test.each([
    ['crashes', /^it ended with code 1\n[\s\S]*the simulation has a defect/],
    ['says-no-but-ends-well', /^it ended with code 0$/],
  ])('takes no verdict from a verification that %s', async (how, why) => {
    const hunt = await huntAll([settle], {
      jobs: 1,
      isBaseFirst: true,
      verificationOf: () => aVerification('verify-badly', how),
      onOutcome: () => {},
    });

    expect(verdictsOf(hunt)).toEqual([{ kind: 'broken', why: expect.stringMatching(why) }]);
  });

  test('ends a verification that takes longer than it may', async () => {
    const verification = aVerification('verify-badly', 'never-ends');

    const trial = await tryMutant(settle, { ...verification, limitMs: 1_000 });

    expect(trial.verdict).toEqual({ kind: 'broken', why: 'no verdict within 1 s' });
  });

  test('shows nothing where the product as it is does not pass', async () => {
    const ended: Outcome[] = [];

    const hunt = await huntAll([settle], {
      jobs: 1,
      isBaseFirst: true,
      verificationOf: () => ({ ...aVerification('verify-settle-time'), limitMs: 1 }),
      onOutcome: (outcome) => ended.push(outcome),
    });

    expect(hunt).toMatchObject({
      kind: 'unfounded',
      trial: { verdict: { kind: 'broken', why: 'no verdict within 0.001 s' } },
    });
    expect(ended).toEqual([]);
  });
});

describe('the report', () => {
  const killed: Outcome = {
    mutant: settle,
    trial: {
      verdict: {
        kind: 'killed',
        violation: { invariant: 'D4', plan: 'drain F1@3', message: 'settled after 0 s' },
        runs: 1_200,
      },
      seconds: 3.21,
    },
  };
  const survived: Outcome = {
    mutant: unnoticed,
    trial: { verdict: { kind: 'survived', runs: 5_000 }, seconds: 60 },
  };

  test('has a row for each mutant: what killed it, after how many runs and seconds', () => {
    const line = stripVTControlCharacters(outcomeLine(killed, { done: 9, of: 10 }));

    expect(line).toMatch(/^ 9\/10 +killed +drain-settle-zero +D4 +3\.2 s +1,200 runs, drain F1@3$/);
  });

  test('names each mutant that lives on, and what it leaves behind', () => {
    const text = summary({ kind: 'hunted', outcomes: [killed, survived] });

    expect(text).toContain('1 of 2 killed');
    expect(text).toContain('drain-asked-again-at-once: nothing was found in 5,000 runs');
    expect(text).toContain(unnoticed.breaks);
    expect(text).not.toContain('drain-settle-zero');
  });

  test('is one line of JSON for machines, and right only when all were killed', () => {
    const mixed: unknown = JSON.parse(jsonReport({ kind: 'hunted', outcomes: [killed, survived] }));
    const all: unknown = JSON.parse(jsonReport({ kind: 'hunted', outcomes: [killed] }));

    expect(mixed).toMatchObject({ ok: false, killed: 1, of: 2 });
    expect(all).toEqual({
      ok: true,
      killed: 1,
      of: 1,
      mutants: [
        {
          id: 'drain-settle-zero',
          verdict: 'killed',
          expected: ['D4'],
          violation: { invariant: 'D4', plan: 'drain F1@3', message: 'settled after 0 s' },
          runs: 1_200,
          seconds: 3.2,
        },
      ],
    });
  });

  test('says that nothing is shown where the product as it is does not pass', () => {
    const unfounded: Hunt = { kind: 'unfounded', trial: killed.trial };

    expect(summary(unfounded)).toBe(
      'nothing is shown: the verification does not pass on the product as it is: D4: settled after 0 s',
    );
    expect(JSON.parse(jsonReport(unfounded))).toMatchObject({ ok: false });
  });
});
