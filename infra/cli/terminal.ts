import { setInterval as ticks } from 'node:timers/promises';
import { stripVTControlCharacters, styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

/** Work that takes longer than this says what it is about, in milliseconds. */
const quietMs = 2_000;

/** Coloured only where stdout is a terminal and NO_COLOR is not set. */
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

/** Rows with their columns aligned; colours take no width. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, widthOf(cell));
    });
  }
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell + ' '.repeat((widths[column] ?? 0) - widthOf(cell)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function widthOf(cell: string): number {
  return stripVTControlCharacters(cell).length;
}
