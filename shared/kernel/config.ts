import * as z from 'zod';
import { plainIssue } from './plain-issue.ts';

/** What a process was told wrongly. The message names every problem at once and never repeats a value. */
export class ConfigurationError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
    super(
      `the configuration has ${count}:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`,
    );
    this.name = 'ConfigurationError';
    this.problems = problems;
  }
}

/**
 * Reads a process's configuration from its environment: one zod schema per process, keyed by variable name.
 * An empty variable counts as absent. Throws {@link ConfigurationError} with every problem named.
 */
export function readConfig<T>(
  schema: z.ZodType<T>,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): T {
  const given = Object.fromEntries(
    Object.entries(environment).filter(([, value]) => value !== undefined && value !== ''),
  );
  const parsed = schema.safeParse(given, { error: plainIssue });
  if (!parsed.success) {
    throw new ConfigurationError(
      parsed.error.issues.map(
        (issue) => `${issue.path.join('.') || 'configuration'}: ${issue.message}`,
      ),
    );
  }
  return parsed.data;
}

/**
 * For the `when` of a check over several variables: otherwise it waits until every variable has its form, and problems
 * come out one batch at a time.
 */
export const always = (): boolean => true;

/** `a, b` → `['a','b']`; absent → `[]`. */
export const commaList = z
  .string()
  .default('')
  .transform((text) =>
    text
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  );

export const logLevel = z
  .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
  .default('info');
