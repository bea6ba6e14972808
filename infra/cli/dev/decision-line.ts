import * as z from 'zod';
import { paint } from '../terminal.ts';

const decisionSchema = z.object({
  msg: z.literal('decision'),
  at: z.string(),
  step: z.string(),
  target: z.string(),
  outcome: z.enum(['settled', 'waiting', 'acting', 'blocked']),
  reason: z.string(),
  message: z.string(),
  effects: z.array(z.string()),
});

/** One decision as `dev --json` prints it. */
export type DecisionLine = Omit<z.infer<typeof decisionSchema>, 'msg'>;

/** A function's log line, parsed where it tells a decision; `undefined` for any other. */
export function parseDecision(line: string): DecisionLine | undefined {
  const parsed = decisionSchema.safeParse(parseJson(line));
  if (!parsed.success) {
    return undefined;
  }
  const { at, step, target, outcome, reason, message, effects } = parsed.data;
  return { at, step, target, outcome, reason, message, effects };
}

const colours = { settled: 'green', waiting: 'cyan', acting: 'yellow', blocked: 'red' } as const;

/** One line for people: when, who, on what, and what was decided and done. */
export function describeDecision(decision: DecisionLine): string {
  const { at, step, target, outcome, reason, message, effects } = decision;
  const done = effects.length === 0 ? '' : paint('dim', ` [${effects.join(', ')}]`);
  const time = paint('dim', at.slice(11, 19));
  return `${time} ${step.padEnd(10)} ${target} ${paint(colours[outcome], outcome)} ${paint('bold', reason)}: ${message}${done}`;
}

const logLineSchema = z.looseObject({
  level: z.enum(['warn', 'error', 'fatal']),
  msg: z.string(),
  why: z.string().optional(),
});

/** Fields of a log line that say nothing new to whoever reads the lines of one cluster's children. */
const usualFields: ReadonlySet<string> = new Set([
  'level',
  'msg',
  'at',
  'why',
  'cluster',
  'component',
  'process',
  'requestId',
  'version',
]);

/** A child's log line for people, where it is a warning or worse or no log line at all. */
export function describeTrouble(child: string, line: string): string | undefined {
  const body = parseJson(line);
  if (body === undefined) {
    return harmless(`${child}: ${line}`);
  }
  const parsed = logLineSchema.safeParse(body);
  if (!parsed.success) {
    return undefined;
  }
  const { msg, why } = parsed.data;
  const fields = Object.entries(parsed.data).flatMap(([name, value]) =>
    usualFields.has(name)
      ? []
      : [`${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`],
  );
  // The rest of a stack is in the log at its source; here it would bury the next line.
  const cause = why === undefined ? [] : [`(${why.split('\n', 1)[0]})`];
  return harmless([`${child}: ${msg}`, ...fields, ...cause].join(' '));
}

/** Half a screen. */
const longestTrouble = 500;

/** What a stranger's message is quoted with must neither steer the terminal nor fill it. */
function harmless(text: string): string {
  const printable = text.replaceAll(/\p{Cc}+/gu, ' ');
  return printable.length > longestTrouble ? `${printable.slice(0, longestTrouble)}…` : printable;
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
