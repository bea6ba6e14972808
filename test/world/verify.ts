import { availableParallelism } from 'node:os';
import { Command, InvalidArgumentError } from 'commander';
import * as z from 'zod';
import { describeError } from '#shared/kernel/errors.ts';
import { relayFaults } from './relay/relay-faults.ts';
import { replayRelayPlan } from './relay/relay-plans.ts';
import type { RelayPlan } from './relay/relay-run.ts';
import { invariantIds } from './oracles/tally.ts';
import type { FoundViolation, PartReport } from './verify/part.ts';
import { parts } from './verify/parts.ts';
import { runCanary } from './verify/canary.ts';
import { record } from './verify/ledger.ts';
import { writePage } from './verify/page.ts';
import { printReport, printSummary } from './verify/report.ts';
import { replayPath, replayPlan, replaySeed } from './verify/replay.ts';
import { added, runPart } from './verify/run-part.ts';

interface VerifyOptions {
  readonly plans?: true;
  readonly relay?: true;
  readonly swarm?: true;
  readonly explore?: true;
  readonly seed?: number;
  readonly plan?: z.infer<typeof planSchema>;
  readonly relayPlan?: RelayPlan;
  readonly path?: z.infer<typeof pathSchema>;
  readonly short?: true;
  readonly hunt?: true;
  readonly json?: true;
  readonly record?: true;
  readonly jobs: number;
  readonly from: number;
  readonly minutes: number;
}

const planSchema = z.object({
  workload: z.string(),
  strikes: z.array(z.object({ at: z.int().nonnegative(), fault: z.string() })),
});

const relayPlanSchema: z.ZodType<RelayPlan> = z.object({
  workload: z.string(),
  seed: z.int(),
  faults: z.array(
    z.object({ at: z.int().nonnegative(), fault: z.enum(relayFaults.map(({ name }) => name)) }),
  ),
});

const pathSchema = z.object({
  exploration: z.string(),
  scale: z.enum(['short', 'long']),
  choices: z.array(z.int().nonnegative()),
});

const program = new Command('verify')
  .description(
    'Proves the invariants in the simulated world: on the code that ships, under every fault.',
  )
  .option('--plans', 'the long run of fault plans: at most 80 minutes on two cores')
  .option('--relay', 'the long run of the relay under pairs of faults')
  .option('--swarm', 'the long run of random worlds')
  .option('--explore', 'the long run of every interleaving within bounds')
  .option('--short', 'of the parts that are named, what CI runs')
  .option('--seed <number>', 'tell one random world as a story', wholeNumber)
  .option('--plan <json>', 'tell one plan as a story, as a violation names it', parsePlan)
  .option('--relay-plan <json>', 'tell one plan of the relay as a story', parseRelayPlan)
  .option(
    '--path <json>',
    'tell one way through an exploration, as a violation names it',
    parsePath,
  )
  .option('--hunt', 'stop at the first violation')
  .option('--from <number>', 'the first seed', wholeNumber, 1)
  .option('--minutes <number>', 'begin nothing new in a part after so many', wholeNumber, 75)
  .option('--jobs <number>', 'threads', wholeNumber, availableParallelism())
  .option('--record', 'add the runs to the ledger, and make the report anew')
  .option('--json', 'end with one line of JSON')
  .addHelpText('after', '\nExample:\n  npm run verify -- --seed 42');

function wholeNumber(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 0) {
    throw new InvalidArgumentError('it is no whole number');
  }
  return number;
}

function parsePlan(text: string): z.infer<typeof planSchema> {
  return parsed(text, planSchema);
}

function parseRelayPlan(text: string): RelayPlan {
  return parsed(text, relayPlanSchema);
}

function parsePath(text: string): z.infer<typeof pathSchema> {
  return parsed(text, pathSchema);
}

function parsed<T>(text: string, schema: z.ZodType<T>): T {
  try {
    return schema.parse(JSON.parse(text));
  } catch (error) {
    throw new InvalidArgumentError(describeError(error));
  }
}

async function verify(options: VerifyOptions): Promise<boolean> {
  const tell = (line: string): void => void process.stdout.write(`${line}\n`);
  try {
    if (options.seed !== undefined) {
      await replaySeed(options.seed, tell);
      return true;
    }
    if (options.plan !== undefined) {
      await replayPlan(options.plan, tell);
      return true;
    }
    if (options.relayPlan !== undefined) {
      tell(await replayRelayPlan(options.relayPlan));
      return true;
    }
    if (options.path !== undefined) {
      await replayPath(options.path, tell);
      return true;
    }
  } catch (error) {
    tell(describeError(error));
    return false;
  }
  return runParts(options);
}

async function runParts(options: VerifyOptions): Promise<boolean> {
  const named = parts.filter(
    ({ name }) => options[name as 'plans' | 'relay' | 'swarm' | 'explore'] === true,
  );
  const chosen = named.length === 0 ? parts : named;
  let whole: PartReport = { figures: {}, violations: [], evaluated: {}, covered: [] };
  const scale = named.length === 0 || options.short === true ? 'short' : 'long';
  for (const part of chosen) {
    const begunMs = performance.now();
    const report = await runPart(
      part,
      {
        seed: options.from,
        scale,
        isHunt: options.hunt === true,
        minutes: options.minutes,
      },
      options.jobs,
      (text) => showProgress(part.name, text),
    );
    whole = added(whole, report);
    if (options.record === true) {
      record({
        ...summaryOf(report),
        part: part.name,
        scale,
        jobs: options.jobs,
        seconds: (performance.now() - begunMs) / 1000,
        seed: options.from,
      });
    }
    printSummary(part.name, report);
    if (options.hunt === true && report.violations.length > 0) {
      break;
    }
  }
  const isWhole = named.length === 0 && options.hunt !== true;
  const canary = isWhole ? await runCanary() : [];
  if (isWhole) {
    whole = withNeverEvaluated(whole);
    whole = { ...whole, violations: [...whole.violations, ...canary] };
    process.stdout.write(`canary: ${canary[0]?.message ?? 'one guard less is noticed'}\n`);
  }
  if (options.record === true) {
    writePage();
  }
  const mutants = isWhole ? { killed: canary.length === 0 ? 1 : 0, total: 1 } : undefined;
  printReport(whole, { isJson: options.json === true, mutants });
  return whole.violations.length === 0;
}

/** What nobody asked for cannot be said to hold. */
function withNeverEvaluated(report: PartReport): PartReport {
  const missing = invariantIds.filter((id) => report.evaluated[id] === undefined);
  const violations = missing.map((invariant): FoundViolation => ({
    invariant,
    replay: '',
    message: 'it was never evaluated',
  }));
  if (violations.length > 0) {
    process.stdout.write(`never evaluated: ${missing.join(', ')}\n`);
  }
  return { ...report, violations: [...report.violations, ...violations] };
}

function summaryOf({ figures, violations, evaluated, covered }: PartReport) {
  return {
    figures,
    violations: violations.length,
    covered: covered.length,
    evaluated: Object.fromEntries(
      Object.entries(evaluated).map(([id, byWorkload]) => [
        id,
        {
          times: Object.values(byWorkload).reduce((sum, count) => sum + count, 0),
          workloads: Object.keys(byWorkload).length,
        },
      ]),
    ),
  };
}

function showProgress(part: string, text: string): void {
  if (process.stderr.isTTY) {
    process.stderr.write(`\r\u001B[K${part}: ${text}`);
  }
}

// Whoever reads a story need not read it to its end.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) =>
  process.exit(code === 'EPIPE' ? 0 : 1),
);
program.parse();
process.exitCode = (await verify(program.opts<VerifyOptions>())) ? 0 : 1;
