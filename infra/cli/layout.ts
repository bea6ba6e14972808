import sliceAnsi from 'slice-ansi';
import stringWidth from 'string-width';

/** A terminal that says it is narrower does not know its width. */
const narrowestColumns = 40;

/** A column that is cut keeps this much, so that what is in it is still known. */
const narrowestCell = 8;

/** Between two columns. */
const gap = 2;

type Row = readonly string[];

/** How wide a line may be: any length where it is no terminal, as what reads there is a program. */
export function columnsOf(stream: { readonly isTTY?: boolean; readonly columns?: number }): number {
  return stream.isTTY === true
    ? Math.max(narrowestColumns, stream.columns ?? narrowestColumns)
    : Number.POSITIVE_INFINITY;
}

/**
 * Rows with their columns aligned. Where they would be wider than so many columns, the widest cells are cut with `…`.
 * Colours take no width, and wide characters two.
 */
export function layOutTable(rows: readonly Row[], columns: number): string {
  const widths = fitted(widthsOf(rows), columns);
  return rows.map((row) => aligned(row, widths).trimEnd()).join('\n');
}

/** Rows with their columns aligned, whose last cells are sentences: none is cut, each goes on below its begin. */
export function layOutSentences(rows: readonly Row[], columns: number): string {
  const widths = widthsOf(rows.map((row) => row.slice(0, -1)));
  const indent = widths.reduce((sum, width) => sum + width + gap, 0);
  return rows
    .map((row) =>
      wrap([...row.slice(0, -1).map(padded(widths)), row.at(-1)].join('  '), columns, indent),
    )
    .join('\n');
}

/** Breaks a line at spaces where it would be wider than so many columns. Colours take no width. */
export function wrap(line: string, columns: number, indent: number): string {
  const lines: string[] = [];
  let current: string | undefined;
  for (const word of line.split(' ')) {
    const longer = current === undefined ? word : `${current} ${word}`;
    if (current !== undefined && current.trim() !== '' && stringWidth(longer) > columns) {
      lines.push(current);
      current = ' '.repeat(indent) + word;
    } else {
      current = longer;
    }
  }
  return [...lines, current ?? ''].join('\n');
}

function widthsOf(rows: readonly Row[]): readonly number[] {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, stringWidth(cell));
    });
  }
  return widths;
}

/** Takes from the widest column, one by one, until all fit or none can be narrower. */
function fitted(natural: readonly number[], columns: number): readonly number[] {
  const widths = [...natural];
  const room = columns - gap * (widths.length - 1);
  for (let sum = widths.reduce((a, b) => a + b, 0); sum > room; sum -= 1) {
    const widest = Math.max(...widths);
    if (widest <= narrowestCell) {
      break;
    }
    widths[widths.indexOf(widest)] = widest - 1;
  }
  return widths;
}

function aligned(row: Row, widths: readonly number[]): string {
  return row
    .map((cell, column) => cut(cell, widths[column] ?? 0))
    .map(padded(widths))
    .join(' '.repeat(gap));
}

function padded(widths: readonly number[]): (cell: string, column: number) => string {
  return (cell, column) =>
    cell + ' '.repeat(Math.max(0, (widths[column] ?? 0) - stringWidth(cell)));
}

function cut(cell: string, width: number): string {
  return stringWidth(cell) > width ? `${sliceAnsi(cell, 0, width - 1)}…` : cell;
}
