import { styleText } from 'node:util';
import { createLogUpdate } from 'log-update';
import type { DecisionLine } from '#infra/cli/dev/decision-line.ts';
import { columnsOf, layOutTable, wrap } from '#infra/cli/layout.ts';

/** One member as it is drawn. */
export interface MemberLine {
  readonly pod: string;
  /** `primary`, `replica`, or what else the data plane calls it. */
  readonly role: string;
  /** Pending, Running, Terminating … */
  readonly phase: string;
  readonly isReady: boolean;
  /** Where its drain stands, empty when it is not leaving. */
  readonly drain: string;
}

export interface SceneResult {
  readonly name: string;
  readonly ok: boolean;
  readonly seconds: number;
  readonly apiWrites: number;
  readonly hints: number;
  /** Why it failed. */
  readonly why?: string;
}

/** What each column of a table is called, and what it says in this row. Every row has the same columns. */
export type Row = Readonly<Record<string, string>>;

/** Where the show is shown. */
export interface Screen {
  progress(text: string, seconds: number): void;
  scene(name: string, title: string): void;
  say(text: string): void;
  table(rows: readonly Row[]): void;
  decision(decision: DecisionLine): void;
  members(members: readonly MemberLine[]): void;
  result(result: SceneResult): void;
  summary(results: readonly SceneResult[]): void;
  close(): void;
}

type Style = Parameters<typeof styleText>[0];

/**
 * A terminal: decisions scroll, the members are redrawn in place below them.
 *
 * @param target whom decisions are usually about; any other is named with its decisions
 */
export function terminalScreen(stream: NodeJS.WriteStream, target: string): Screen {
  const update = createLogUpdate(stream);
  const paint = painting(stream);
  let drawn: readonly MemberLine[] = [];
  const columns = () => columnsOf(stream);
  const print = (line: string, indent: number) => {
    update.clear();
    stream.write(`${wrap(line, columns(), indent)}\n`);
    redraw();
  };
  const redraw = () => {
    if (drawn.length > 0) {
      const nameWidth = Math.max(...drawn.map(({ pod }) => pod.length));
      update(['', ...drawn.map((member) => memberText(member, nameWidth, paint))].join('\n'));
    }
  };
  return {
    ...printing({ print, paint, columns }, target),
    progress: (text, seconds) =>
      update(`${paint('cyan', '…')} ${text} ${paint('dim', `${seconds.toFixed(0)} s`)}`),
    members(members) {
      drawn = members;
      redraw();
    },
    summary(results) {
      drawn = [];
      update.clear();
      stream.write(`\n${summaryText(results, paint)}\n`);
    },
    close() {
      update.clear();
      update.done();
    },
  };
}

/** A pipe or a file: one line per fact, nothing redrawn; members only as they change. */
export function lineScreen(stream: NodeJS.WriteStream, target: string): Screen {
  const paint = painting(stream);
  const print = (line: string) => {
    stream.write(`${line}\n`);
  };
  let told = '';
  return {
    ...printing({ print, paint, columns: () => columnsOf(stream) }, target),
    progress: progressLines(print),
    members(members) {
      const text = members
        .map((member) => memberText(member, 0, paint).trim().replaceAll(/ +/g, ' '))
        .join(' · ');
      if (text !== told) {
        told = text;
        print(`  members: ${text}`);
      }
    },
    summary: (results) => print(`\n${summaryText(results, paint)}`),
    close: () => undefined,
  };
}

/** One JSON object per line; the last one is the summary, as README.md and the public formats have it. */
export function jsonScreen(stream: NodeJS.WriteStream): Screen {
  const print = (body: object) => {
    stream.write(`${JSON.stringify(body)}\n`);
  };
  return {
    progress: progressLines((activity) => print({ progress: activity })),
    scene: (name, title) => print({ scene: name, title }),
    say: (text) => print({ say: text }),
    table: (rows) => print({ table: rows }),
    decision: (decision) => print(decision),
    members: () => undefined,
    result: (result) => print({ result }),
    summary: (results) =>
      print({
        ok: results.every(({ ok }) => ok),
        scenes: results.map(({ name, ok, seconds, apiWrites, hints }) => ({
          name,
          ok,
          seconds,
          apiWrites,
          hints,
        })),
      }),
    close: () => undefined,
  };
}

/** Where the further lines of a decision begin: below its outcome. */
const decisionIndent = 22;

const tableIndent = 4;

type Paint = (style: Style, text: string) => string;

/** Coloured by the same rules as the command: `infra/cli/terminal.ts`. */
function painting(stream: NodeJS.WriteStream): Paint {
  return (style, text) => styleText(style, text, { stream });
}

/** How one line comes onto the screen, and how wide it may be at the moment. */
interface Printer {
  readonly print: (line: string, indent: number) => void;
  readonly paint: Paint;
  readonly columns: () => number;
}

function printing(printer: Printer, usualTarget: string) {
  const { print, paint } = printer;
  const told = new Map<string, string>();
  return {
    scene: (name: string, title: string) => print(`\n${paint('bold', `▶ ${name}`)}  ${title}`, 2),
    say: (text: string) => print(`  ${paint('magenta', '▸')} ${text}`, 4),
    table: (rows: readonly Row[]) => tableLines(rows, printer).forEach((line) => print(line, 4)),
    decision: ({ at, step, target, outcome, reason, message }: DecisionLine) => {
      const time = paint('dim', at.slice(11, 19));
      const shownOutcome = paint(outcomeStyles[outcome], outcome.padEnd(7));
      const about = target === usualTarget ? '' : `${target}: `;
      const conclusion = `${step.padEnd(10)} ${shownOutcome} ${paint('bold', reason)}  ${about}${message}`;
      // A look that concludes what the step's last one at the target did is no news.
      if (told.get(`${step} ${target}`) !== conclusion) {
        told.set(`${step} ${target}`, conclusion);
        print(`  ${time} ${conclusion}`, decisionIndent);
      }
    },
    result: ({ name, ok, seconds, why }: SceneResult) =>
      print(
        ok
          ? `  ${paint('green', '✓')} ${name} ${paint('dim', `in ${seconds.toFixed(1)} s`)}`
          : `  ${paint('red', '✗')} ${name}: ${why ?? 'failed'}`,
        4,
      ),
  };
}

const outcomeStyles = {
  settled: 'green',
  waiting: 'cyan',
  acting: 'yellow',
  blocked: 'red',
} as const;

function memberText(
  { pod, role, phase, isReady, drain }: MemberLine,
  nameWidth: number,
  paint: Paint,
): string {
  const dot = isReady ? paint('green', '●') : paint('yellow', '○');
  const shownRole = role === 'primary' ? paint('bold', role.padEnd(8)) : role.padEnd(8);
  return `  ${dot} ${pod.padEnd(nameWidth)} ${shownRole} ${phase.padEnd(12)} ${drain === '' ? '' : paint('yellow', drain)}`;
}

/** The columns as wide as what is in them, below their names, and cut where the screen is narrower. */
function tableLines(rows: readonly Row[], { paint, columns }: Printer): readonly string[] {
  const names = Object.keys(rows[0] ?? {});
  const cells = rows.map((row) => names.map((name) => row[name] ?? ''));
  const [heading = '', ...lines] = layOutTable([names, ...cells], columns() - tableIndent)
    .split('\n')
    .map((line) => ' '.repeat(tableIndent) + line);
  return [paint('dim', heading), ...lines];
}

function summaryText(results: readonly SceneResult[], paint: Paint): string {
  const line = (cells: readonly string[]) =>
    `  ${cells.map((cell, column) => (column < 2 ? cell.padEnd(column === 0 ? 14 : 8) : cell.padStart(11))).join('')}`;
  return [
    paint('bold', line(['scene', 'result', 'seconds', 'API writes', 'hints'])),
    ...results.map(({ name, ok, seconds, apiWrites, hints }) => {
      const text = line([
        name,
        ok ? 'held' : 'FAILED',
        seconds.toFixed(1),
        String(apiWrites),
        String(hints),
      ]);
      return ok ? text : paint('red', text);
    }),
  ].join('\n');
}

/** Work that is shorter than this needs no line; then one comes every so many seconds. */
const noteworthySeconds = 2;
const progressLineSeconds = 15;

function progressLines(print: (line: string) => void): Screen['progress'] {
  let last = { text: '', seconds: 0 };
  return (text, seconds) => {
    const isNews = text !== last.text || seconds - last.seconds >= progressLineSeconds;
    if (seconds >= noteworthySeconds && isNews) {
      last = { text, seconds };
      print(`${text} (${seconds.toFixed(0)} s)`);
    }
  };
}
