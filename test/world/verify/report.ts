import type { PartReport } from './part.ts';

const maxShown = 20;

/** What one part found, for people. */
export function printSummary(name: string, { figures, violations }: PartReport): void {
  const numbers = Object.entries(figures)
    .map(([figure, value]) => `${figure} ${value.toLocaleString('en')}`)
    .join(', ');
  print(`${name}: ${numbers}; violations ${violations.length}`);
  for (const { invariant, replay, message } of violations.slice(0, maxShown)) {
    print(`  ${invariant}: ${message.split('\n')[0]}`);
    print(`    npm run verify -- ${replay}`);
  }
}

interface ReportOptions {
  readonly isJson: boolean;
  /** Of those that were tried in this run. */
  readonly mutants: { readonly killed: number; readonly total: number } | undefined;
}

/** How often each invariant was evaluated, and, where asked for, everything as one line of JSON. */
export function printReport(report: PartReport, { isJson, mutants }: ReportOptions): void {
  for (const [id, byWorkload] of Object.entries(report.evaluated)) {
    const total = Object.values(byWorkload).reduce((sum, count) => sum + count, 0);
    print(
      `${id.padEnd(4)} ${total.toLocaleString('en').padStart(12)} in ${Object.keys(byWorkload).length} workloads`,
    );
  }
  if (isJson) {
    const { figures, violations } = report;
    const [violation] = violations;
    print(
      JSON.stringify({
        ok: violations.length === 0,
        plans: figures['plans'] ?? 0,
        states: figures['states'] ?? 0,
        sims: figures['sims'] ?? 0,
        violations: violations.length,
        mutants: mutants ?? { killed: 0, total: 0 },
        ...(violation === undefined
          ? {}
          : {
              violation: {
                invariant: violation.invariant,
                plan: violation.replay,
                message: violation.message.split('\n')[0],
              },
            }),
        runs: (figures['plans'] ?? 0) + (figures['sims'] ?? 0),
      }),
    );
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
