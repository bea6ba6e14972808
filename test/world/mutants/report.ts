import { styleText } from 'node:util';
import type { Count, Hunt, Outcome } from './hunt-all.ts';
import type { Verdict, Violation } from './try-mutant.ts';

/** Wide enough for the ids of the catalogue and of the invariants. */
const idWidth = 42;
const kindWidth = 8;
const invariantWidth = 4;

/** One mutant's row: how it ended, what killed it, after how many runs, in how many seconds. */
export function outcomeLine({ mutant, trial }: Outcome, { done, of }: Count): string {
  const { verdict, seconds } = trial;
  const line = [
    `${done}/${of}`.padStart(`${of}/${of}`.length),
    verdict.kind.padEnd(kindWidth),
    mutant.id.padEnd(idWidth),
    (verdict.kind === 'killed' ? verdict.violation.invariant : '').padEnd(invariantWidth),
    `${seconds.toFixed(1)} s`.padStart(8),
    foundBy(verdict),
  ]
    .join('  ')
    .trimEnd();
  return verdict.kind === 'killed' ? line : styleText('red', line, { stream: process.stdout });
}

/** How many were killed, and each that was not, with what it leaves behind. */
export function summary(hunt: Hunt): string {
  if (hunt.kind === 'unfounded') {
    return `nothing is shown: the verification does not pass on the product as it is: ${whyOf(hunt.trial.verdict)}`;
  }
  const alive = hunt.outcomes.filter(({ trial }) => trial.verdict.kind !== 'killed');
  return [
    '',
    `${hunt.outcomes.length - alive.length} of ${hunt.outcomes.length} killed`,
    ...alive.flatMap(({ mutant, trial }) => [
      `${mutant.id}: ${whyOf(trial.verdict)}`,
      `  ${mutant.breaks} ${mutant.file}, expected ${mutant.expected.join(' or ')}`,
    ]),
  ].join('\n');
}

/** One line for machines. */
export function jsonReport(hunt: Hunt): string {
  if (hunt.kind === 'unfounded') {
    return JSON.stringify({ ok: false, unfounded: hunt.trial.verdict });
  }
  const mutants = hunt.outcomes.map(({ mutant: { id, expected }, trial }) => {
    const { kind, ...rest } = trial.verdict;
    return { id, verdict: kind, expected, ...rest, seconds: Number(trial.seconds.toFixed(1)) };
  });
  const killed = mutants.filter(({ verdict }) => verdict === 'killed').length;
  return JSON.stringify({ ok: killed === mutants.length, killed, of: mutants.length, mutants });
}

/** A mutant as the ledger keeps it: what killed it, how that is seen again, and after how many runs. */
export function ledgerLine({ mutant: { id }, trial: { verdict } }: Outcome) {
  return verdict.kind === 'killed'
    ? {
        id,
        verdict: verdict.kind,
        invariant: verdict.violation.invariant,
        by: replayOf(verdict.violation),
        runs: verdict.runs,
      }
    : { id, verdict: verdict.kind };
}

function foundBy(verdict: Verdict): string {
  if (verdict.kind !== 'killed') {
    return '';
  }
  return `${verdict.runs.toLocaleString('en')} runs, ${replayOf(verdict.violation)}`;
}

function replayOf({ plan, seed }: Violation): string {
  if (seed !== undefined) {
    return `seed ${seed}`;
  }
  return typeof plan === 'string' ? plan : JSON.stringify(plan ?? '');
}

function whyOf(verdict: Verdict): string {
  switch (verdict.kind) {
    case 'killed':
      return `${verdict.violation.invariant}: ${verdict.violation.message}`;
    case 'survived':
      return `nothing was found in ${verdict.runs.toLocaleString('en')} runs`;
    case 'unloaded':
      return `never loaded: ${verdict.files.join(', ')}`;
    case 'broken':
      return verdict.why;
  }
}
