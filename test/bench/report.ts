import { readFileSync } from 'node:fs';
import { arch, cpus, platform, totalmem } from 'node:os';
import { styleText } from 'node:util';
import * as z from 'zod';
import { programs } from '#infra/local/control-plane/program.ts';
import type { Figure } from './figure.ts';

const packageSchema = z.object({
  version: z.string(),
  dependencies: z.record(z.string(), z.string()),
});

/** What the figures were measured with, for whoever compares two reports. */
export function versions(): Readonly<Record<string, string>> {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  const { version, dependencies } = packageSchema.parse(JSON.parse(text));
  return {
    millrace: version,
    node: process.versions.node,
    kubernetes: programs['kube-apiserver'].version,
    etcd: programs.etcd.version,
    'client-node': dependencies['@kubernetes/client-node'] ?? '',
  };
}

export function machine(): string {
  const gib = Math.round(totalmem() / 2 ** 30);
  return `${platform()} ${arch()}, ${cpus().length} × ${cpus()[0]?.model.trim() ?? 'processor'}, ${gib} GiB`;
}

/** One line for machines. */
export function jsonReport(figures: readonly Figure[]): string {
  return JSON.stringify({ machine: machine(), versions: versions(), figures });
}

/** The figures as a table: whether the goal is kept, name, value, goal, and the peer with the ratio to it. */
export function tableReport(figures: readonly Figure[]): string {
  const rows = figures.map((each) => [
    markOf(each),
    each.name,
    `${each.value} ${each.unit}`,
    each.goal === null ? '' : `≤ ${each.goal} ${each.unit}`,
    peerOf(each),
  ]);
  const headings = ['', 'figure', 'value', 'goal', 'peer'];
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const lineOf = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  const named = Object.entries(versions()).map(([name, version]) => `${name} ${version}`);
  return [
    machine(),
    named.join(', '),
    '',
    styleText('bold', lineOf(headings)),
    ...rows.map((row, place) => coloured(figures[place]?.met ?? null, lineOf(row))),
  ].join('\n');
}

function markOf({ met }: Figure): string {
  return met === null ? '·' : met ? '✓' : '✗';
}

function coloured(met: boolean | null, line: string): string {
  return met === false ? styleText('red', line) : line;
}

function peerOf({ value, unit, peer }: Figure): string {
  return peer === undefined ? '' : `${peer} ${unit}, ${(value / peer).toFixed(2)} of it`;
}
