import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';

const path = fileURLToPath(new URL('../ledger.jsonl', import.meta.url));

const entrySchema = z.object({
  /** RFC 3339. */
  at: z.string(),
  /** What was verified: a commit, `+` where more than it was in the tree. */
  commit: z.string(),
  part: z.string(),
  scale: z.enum(['short', 'long']),
  jobs: z.number(),
  seconds: z.number(),
  /** The first seed. */
  seed: z.number(),
  figures: z.record(z.string(), z.number()),
  violations: z.number(),
  /** Evaluations by invariant, and in how many workloads. */
  evaluated: z.record(z.string(), z.object({ times: z.number(), workloads: z.number() })),
  /** Pairs of a record's state and a fault that were struck. */
  covered: z.number(),
  /** Of a run over the mutants: each with what killed it, and after how many runs. */
  mutants: z
    .array(
      z.object({
        id: z.string(),
        verdict: z.string(),
        invariant: z.string().optional(),
        by: z.string().optional(),
        runs: z.number().optional(),
      }),
    )
    .optional(),
});

/** One run of one part, as it is kept. */
export type LedgerEntry = z.infer<typeof entrySchema>;

/** Adds a run at the end. What stands there is never changed. */
export function record(entry: Omit<LedgerEntry, 'at' | 'commit'>): void {
  const whole: LedgerEntry = { at: new Date().toISOString(), commit: commitNow(), ...entry };
  appendFileSync(path, `${JSON.stringify(whole)}\n`);
}

/** Every run that was kept, the oldest first. Throws for a line that is none. */
export function readLedger(): readonly LedgerEntry[] {
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => entrySchema.parse(JSON.parse(line)));
}

function commitNow(): string {
  const git = (...words: string[]): string =>
    execFileSync('git', words, {
      encoding: 'utf8',
      cwd: fileURLToPath(new URL('.', import.meta.url)),
    });
  const isChanged = git('status', '--porcelain').trim() !== '';
  return `${git('rev-parse', '--short', 'HEAD').trim()}${isChanged ? '+' : ''}`;
}
