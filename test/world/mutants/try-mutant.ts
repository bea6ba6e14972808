import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import { type Mutant, filesOf, inForcePrefix } from './mutant.ts';

const loader = new URL('load-mutant.ts', import.meta.url).href;
const dieWithParent = fileURLToPath(
  new URL('../../../infra/local/child/die-with-parent.ts', import.meta.url),
);

/** Lines of stderr that a run without a verdict is explained with. */
const keptErrorLines = 20;

/**
 * The program that looks for violations. Its last line on stdout is `{"ok":true,"runs":N}`, and it ends with 0; or
 * `{"ok":false,"violation":{"invariant","message","plan"|"seed"},"runs":N}`, and it ends with 1.
 */
export interface Verification {
  readonly entry: URL;
  readonly words: readonly string[];
  /** How long one mutant may take, in milliseconds: a program that never ends has found nothing. */
  readonly limitMs: number;
}

const violationSchema = z.object({
  invariant: z.string(),
  message: z.string(),
  /** What reproduces it: a plan, or the seed of a random run. */
  plan: z.json().optional(),
  seed: z.number().optional(),
});

const resultSchema = z.discriminatedUnion('ok', [
  z.object({ ok: z.literal(true), runs: z.number() }),
  z.object({ ok: z.literal(false), runs: z.number(), violation: violationSchema }),
]);

export type Violation = z.infer<typeof violationSchema>;

export type Verdict =
  | { readonly kind: 'killed'; readonly violation: Violation; readonly runs: number }
  /** Nothing was found within the program's own budget. */
  | { readonly kind: 'survived'; readonly runs: number }
  /** Nothing was found, and one of its files was never loaded: nothing was looked at. */
  | { readonly kind: 'unloaded'; readonly files: readonly string[] }
  /** The program gave no verdict: it crashed, contradicts itself, or takes too long. */
  | { readonly kind: 'broken'; readonly why: string };

export interface Trial {
  readonly verdict: Verdict;
  readonly seconds: number;
}

/**
 * Runs the verification in a process of its own with the mutant in force; with the product as it is when there is none.
 *
 * Never rejects for what the program does. Nothing is left running: the process and what it started are killed at the
 * limit, and it ends by itself when this process does.
 */
export async function tryMutant(
  mutant: Mutant | undefined,
  verification: Verification,
): Promise<Trial> {
  const startedMs = performance.now();
  const ended = await runToEnd(mutant?.id ?? '', verification);
  return {
    verdict: verdictOf(mutant, ended, verification),
    seconds: (performance.now() - startedMs) / 1000,
  };
}

interface Ended {
  /** `code 1`, `signal SIGKILL`. */
  readonly how: string;
  readonly isOverLimit: boolean;
  readonly lastLine: string;
  readonly errorLines: readonly string[];
  /** What {@link inForcePrefix} stood before. */
  readonly mutatedFiles: ReadonlySet<string>;
}

async function runToEnd(id: string, { entry, words, limitMs }: Verification): Promise<Ended> {
  const child = spawn(
    process.execPath,
    ['--import', dieWithParent, fileURLToPath(entry), ...words],
    {
      env: {
        ...process.env,
        MILLRACE_MUTANT: id,
        NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import=${loader}`.trim(),
      },
      // Of its own group, so that what it started goes with it.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    },
  );
  let lastLine = '';
  createInterface({ input: child.stdout }).on('line', (line) => {
    lastLine = line === '' ? lastLine : line;
  });
  const errorLines: string[] = [];
  const mutatedFiles = new Set<string>();
  createInterface({ input: child.stderr }).on('line', (line) => {
    if (line.startsWith(inForcePrefix(id))) {
      mutatedFiles.add(line.slice(inForcePrefix(id).length));
    } else {
      errorLines.push(line);
      errorLines.splice(0, errorLines.length - keptErrorLines);
    }
  });
  let isOverLimit = false;
  const limit = setTimeout(() => {
    isOverLimit = true;
    killGroup(child);
  }, limitMs);
  const ending = Promise.withResolvers<string>();
  child.once('error', (error) => ending.resolve(error.message));
  // `close` comes when its output has ended as well, so nothing that it said is missed.
  child.once('close', (code, signal) =>
    ending.resolve(signal === null ? `code ${code}` : `signal ${signal}`),
  );
  const how = await ending.promise;
  clearTimeout(limit);
  return { how, isOverLimit, lastLine, errorLines, mutatedFiles };
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) {
    return;
  }
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It ended at the same moment.
  }
}

function verdictOf(
  mutant: Mutant | undefined,
  { how, isOverLimit, lastLine, errorLines, mutatedFiles }: Ended,
  { limitMs }: Verification,
): Verdict {
  if (isOverLimit) {
    return { kind: 'broken', why: `no verdict within ${limitMs / 1000} s` };
  }
  const result = resultSchema.safeParse(jsonOf(lastLine)).data;
  if (result === undefined || how !== (result.ok ? 'code 0' : 'code 1')) {
    return { kind: 'broken', why: [`it ended with ${how}`, ...errorLines].join('\n') };
  }
  const unloaded =
    mutant === undefined ? [] : filesOf(mutant).filter((file) => !mutatedFiles.has(file));
  if (result.ok) {
    return unloaded.length === 0
      ? { kind: 'survived', runs: result.runs }
      : { kind: 'unloaded', files: unloaded };
  }
  return mutant !== undefined && mutatedFiles.size === 0
    ? { kind: 'broken', why: `${result.violation.invariant} failed without the mutant in force` }
    : { kind: 'killed', violation: result.violation, runs: result.runs };
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
