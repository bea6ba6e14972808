import { createInterface } from 'node:readline/promises';
import { setInterval as ticks } from 'node:timers/promises';
import { styleText } from 'node:util';
import { columnsOf, layOutSentences, layOutTable } from './layout.ts';

type Style = Parameters<typeof styleText>[0];

/** Work that takes longer than this says what it is about, in milliseconds. */
const quietMs = 2_000;

/** Coloured where stdout is a terminal, unless NO_COLOR is set, and everywhere where FORCE_COLOR is. */
export function paint(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout });
}

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value));
}

/** For progress and remarks, which are no part of a command's output. */
export function remark(text: string): void {
  process.stderr.write(`${text}\n`);
}

const reading = new AbortController();

/** Aborts once nobody reads stdout any more, as in `millrace … | head`. What would run on for ever stops by it. */
export const readerGone: AbortSignal = reading.signal;

/**
 * To be called before anything is written. A reader that leaves early is no failure: a command that ends by itself does
 * so as if it had been read to the end. An output that cannot be written for another reason, as on a full disk, ends
 * the process: what would be read there later is not what the command said.
 */
export function heedReaders(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (!isReaderGone(error)) {
      process.stderr.write(`millrace: the output cannot be written: ${error.message}\n`);
      process.exit(1);
    }
    reading.abort();
  });
  // Remarks are no part of the output, and there is nowhere left to say that they are lost.
  process.stderr.on('error', () => undefined);
}

function isReaderGone({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EPIPE' || code === 'ERR_STREAM_DESTROYED';
}

/**
 * Asks whoever sits at the terminal. Only a yes is one; the end of the input is a no. Ctrl-C ends the process, as
 * it does everywhere else.
 */
export async function confirm(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  terminal.once('SIGINT', () => {
    terminal.close();
    process.kill(process.pid, 'SIGINT');
  });
  try {
    const answer = await terminal.question(`${question} [y/N] `);
    return /^y(es)?$/i.test(answer.trim());
  } catch (error) {
    if (error instanceof Error && error.name === 'AbortError') {
      remark('');
      return false;
    }
    throw error;
  } finally {
    terminal.close();
  }
}

/** Says on stderr what is going on, every two seconds for as long as it takes. */
export async function withProgress<T>(what: string, work: Promise<T>): Promise<T> {
  const done = new AbortController();
  const telling = tell(what, done.signal);
  try {
    return await work;
  } finally {
    done.abort();
    await telling;
  }
}

async function tell(what: string, signal: AbortSignal): Promise<void> {
  let seconds = 0;
  try {
    for await (const _ of ticks(quietMs, undefined, { signal })) {
      seconds += quietMs / 1000;
      remark(`${what} … ${seconds} s`);
    }
  } catch {
    // The work has ended.
  }
}

/** Rows with their columns aligned. On a terminal the widest cells are cut, so that each row is one line. */
export function table(rows: readonly (readonly string[])[]): string {
  return layOutTable(rows, columnsOf(process.stdout));
}

/** Rows whose last cells are sentences, which are told in full. */
export function sentences(rows: readonly (readonly string[])[]): string {
  return layOutSentences(rows, columnsOf(process.stdout));
}
