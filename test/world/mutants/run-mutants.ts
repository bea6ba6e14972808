import { availableParallelism } from 'node:os';
import { Command, InvalidArgumentError } from 'commander';
import { describeError } from '#shared/kernel/errors.ts';
import { catalogue } from './catalogue.ts';
import { type Mutant, filesOf, mutantOf } from './mutant.ts';
import { jsonReport, ledgerLine, outcomeLine, summary } from './report.ts';
import { type Outcome, huntAll } from './hunt-all.ts';
import { record } from '#test/world/verify/ledger.ts';
import { writePage } from '#test/world/verify/page.ts';

interface Options {
  readonly jobs: number;
  readonly limitSeconds: number;
  readonly base: boolean;
  readonly json?: true;
  readonly record?: true;
}

const program = new Command('mutants')
  .description('Takes the guards off one at a time, and shows that the verification notices each.')
  .argument('[id...]', 'mutants of the catalogue; all when none is named')
  .option('--jobs <number>', 'mutants at a time', positiveNumber, availableParallelism())
  .option('--limit-seconds <number>', 'how long one may take', positiveNumber, 900)
  .option('--no-base', 'begin with the mutants: the product as it is has been verified')
  .option('--record', 'add the run to the ledger, and make the report anew')
  .option('--json', 'end with one line of JSON')
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
  .addHelpText(
    'after',
    `
Exit code 0 when each was killed, 1 when one was not, 2 when nothing could be shown.

Example:
  node test/world/mutants/run-mutants.ts drain-settle-zero kube-delete-unguarded`,
  );

function positiveNumber(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) {
    throw new InvalidArgumentError('it is no whole number above zero');
  }
  return number;
}

/** @returns the exit code */
async function run(ids: readonly string[], options: Options): Promise<number> {
  const tell = (line: string): void => void process.stdout.write(`${line}\n`);
  let mutants: readonly Mutant[];
  try {
    mutants = ids.length === 0 ? catalogue : ids.map((id) => mutantOf(catalogue, id));
  } catch (error) {
    process.stderr.write(`mutants: ${describeError(error)}\n`);
    return 2;
  }
  if (options.base) {
    process.stderr.write('mutants: first the product as it is, which must pass\n');
  }
  const begunMs = performance.now();
  const hunt = await huntAll(mutants, {
    jobs: options.jobs,
    isBaseFirst: options.base,
    verificationOf: (mutant) => ({
      entry: new URL('../verify.ts', import.meta.url),
      words: ['--hunt', '--json', '--short', ...wordsFor(mutant, options.jobs)],
      limitMs: options.limitSeconds * 1000,
    }),
    onOutcome: (outcome, count) => tell(outcomeLine(outcome, count)),
  });
  tell(summary(hunt));
  if (options.json === true) {
    tell(jsonReport(hunt));
  }
  if (hunt.kind === 'unfounded') {
    return 2;
  }
  if (options.record === true) {
    recordHunt(hunt.outcomes, options.jobs, (performance.now() - begunMs) / 1000);
  }
  return hunt.outcomes.every(({ trial }) => trial.verdict.kind === 'killed') ? 0 : 1;
}

/** The relay's parts are seen by its own plans, everything else by the others. One thread each: mutants share them. */
function wordsFor(mutant: Mutant | undefined, jobs: number): readonly string[] {
  if (mutant === undefined) {
    return ['--jobs', String(jobs)];
  }
  const isRelay = filesOf(mutant).every((file) => file.startsWith('events/relay/'));
  return ['--jobs', '1', ...(isRelay ? ['--relay'] : ['--plans', '--explore', '--swarm'])];
}

function recordHunt(outcomes: readonly Outcome[], jobs: number, seconds: number): void {
  record({
    part: 'mutants',
    scale: 'long',
    jobs,
    seconds,
    seed: 1,
    figures: {
      mutants: outcomes.length,
      killed: outcomes.filter(({ trial }) => trial.verdict.kind === 'killed').length,
    },
    violations: 0,
    evaluated: {},
    covered: 0,
    mutants: outcomes.map(ledgerLine),
  });
  writePage();
}

program.parse();
process.exitCode = await run(program.args, program.opts<Options>());
