import type { Instant } from '#shared/kernel/instant.ts';
import { parseInstant } from '#shared/kernel/instant.ts';
import { layOutTable, wrap } from '../layout.ts';
import { paint, table } from '../terminal.ts';
import type { Explanation, MemberSight, Sight, Standing, StepSight, Todo } from './model.ts';
import { ageText, distanceText } from './words.ts';

/** A sign, a word and a colour for each: whoever sees no colours misses nothing. */
const marks = {
  stuck: ['✗', 'needs a person', 'red'],
  working: ['…', 'working', 'cyan'],
  paused: ['‖', 'paused', 'yellow'],
  leaving: ['-', 'being deleted', 'dim'],
  settled: ['✓', 'settled', 'green'],
} as const satisfies { [S in Standing]: readonly [string, string, string] };

/** Problems first. */
const order: readonly Standing[] = ['stuck', 'working', 'paused', 'leaving', 'settled'];

export function inOrder(sights: readonly Sight[]): readonly Sight[] {
  return sights.toSorted(
    (one, other) =>
      order.indexOf(one.standing) - order.indexOf(other.standing) ||
      (one.target < other.target ? -1 : 1),
  );
}

export const statusColumns = {
  table: ['STATE', 'TARGET', 'READY', 'NOW', 'WAITS FOR', 'SINCE', 'NEXT'],
  wide: [
    'STATE',
    'TARGET',
    'READY',
    'NOW',
    'WAITS FOR',
    'SINCE',
    'NEXT LOOK',
    'NEXT BACKUP',
    'STEP',
    'REASON',
  ],
} as const;

export type StatusForm = keyof typeof statusColumns;

/** One row of `millrace status`, in the columns of its form. */
export function rowOf(sight: Sight, form: StatusForm, now: Instant): readonly string[] {
  const [sign, word, colour] = marks[sight.standing];
  const start = [paint(colour, `${sign} ${word}`), sight.target, readyText(sight)];
  const middle = [sight.brief, sight.waitsFor ?? '-', ageText(sight.since, now)];
  const backup = backupText(sight, now);
  return form === 'wide'
    ? [...start, ...middle, lookText(sight), backup ?? '-', sight.step ?? '-', sight.reason ?? '-']
    : [...start, ...middle, nextText(sight, backup)];
}

/** On a terminal the widest cells give way, unless nothing is to be cut. */
export function tableOf(rows: readonly (readonly string[])[], form: StatusForm): string {
  return form === 'wide' ? layOutTable(rows, Number.POSITIVE_INFINITY) : table(rows);
}

/** What comes next of its own: a look that is soon, or else the next backup. */
function nextText(sight: Sight, backup: string | undefined): string {
  return sight.standing === 'settled' && backup !== undefined
    ? `backup ${backup}`
    : lookText(sight);
}

function lookText({ look }: Sight): string {
  return look === null ? '-' : `looks ${look.text.replace(/^at \S+ \((.*)\)$/, '$1')}`;
}

function backupText({ nextBackup }: Sight, now: Instant): string | undefined {
  const at = parseInstant(nextBackup ?? undefined);
  return at === undefined ? undefined : distanceText(at, now);
}

function readyText({ ready, members }: Sight): string {
  return members === undefined ? ready : `${members.ready}/${members.wanted}`;
}

export interface StatusSummary {
  readonly targets: number;
  readonly needPerson: number;
  readonly working: number;
  readonly paused: number;
  readonly leaving: number;
  readonly settled: number;
}

export function summaryOf(sights: readonly Sight[]): StatusSummary {
  const count = (standing: Standing) =>
    sights.filter((sight) => sight.standing === standing).length;
  return {
    targets: sights.length,
    needPerson: count('stuck'),
    working: count('working'),
    paused: count('paused'),
    leaving: count('leaving'),
    settled: count('settled'),
  };
}

export function summaryText(summary: StatusSummary): string {
  const { targets, needPerson, working, paused, leaving, settled } = summary;
  const parts = [
    `${needPerson} ${needPerson === 1 ? 'needs' : 'need'} a person`,
    `${working} working`,
    ...(paused === 0 ? [] : [`${paused} paused`]),
    ...(leaving === 0 ? [] : [`${leaving} being deleted`]),
    `${settled} settled`,
  ];
  const text = `${targets} ${targets === 1 ? 'target' : 'targets'}: ${parts.join(', ')}`;
  return paint(needPerson > 0 ? 'red' : 'green', text);
}

/**
 * All of `millrace status`.
 *
 * @param most rows that there is room for; of what is not shown, which tells least, is said how much it is
 */
export function statusText(
  sights: readonly Sight[],
  form: StatusForm,
  now: Instant,
  most = Number.POSITIVE_INFINITY,
): string {
  const rows = inOrder(sights)
    .slice(0, most)
    .map((sight) => rowOf(sight, form, now));
  const hidden = sights.length - rows.length;
  const summary = summaryOf(sights);
  const stuck = inOrder(sights).find(({ standing }) => standing === 'stuck');
  return [
    ...(rows.length === 0 ? [] : [tableOf([statusColumns[form], ...rows], form)]),
    ...(hidden === 0 ? [] : [`… and ${hidden} more`]),
    summaryText(summary),
    ...(stuck === undefined ? [] : [`what to do about the first: ${explainCommand(stuck)}`]),
  ].join('\n');
}

function explainCommand({ target }: Sight): string {
  return `millrace explain ${target}`;
}

/** All of `millrace explain`, in lines of at most so many characters; commands are never broken. */
export function explanationText(explanation: Explanation, width: number): string {
  const { sight, summary, todo, notes, steps, members, at } = explanation;
  const [sign, word, colour] = marks[sight.standing];
  const now = parseInstant(at);
  return [
    `${paint('bold', sight.target)}  ${paint(colour, `${sign} ${word}`)}`,
    ...wrapped(summary, width, ''),
    ...notes.flatMap((note) => wrapped(note, width, '')),
    ...todoLines(todo, width),
    '',
    paint('bold', 'Step by step'),
    ...steps.flatMap((step) => stepLines(step, width, now, summary)),
    ...memberLines(members, width, now),
  ].join('\n');
}

function todoLines(todo: readonly Todo[], width: number): readonly string[] {
  return todo.length === 0
    ? []
    : [
        '',
        paint('bold', 'What you can do'),
        ...todo.flatMap(({ text, command }, place) => [
          ...hanging(`${place + 1}. `, text, width, '  '),
          ...(command === undefined ? [] : [`     ${paint('bold', `$ ${command}`)}`]),
        ]),
      ];
}

/** The widest of the words below, and two spaces. */
const labelWidth = 11;

function stepLines(
  step: StepSight,
  width: number,
  now: Instant | undefined,
  summary: string,
): readonly string[] {
  const [sign, word, colour] = marks[step.standing];
  const name = `${sign} ${step.step}`;
  const head = (ending: string) =>
    wrapped(`${name} (${step.duty}): ${step.brief}${ending}`, width, '  ').map((line) =>
      line.replace(name, paint(colour, name)),
    );
  const field = (label: string, text: string) =>
    hanging(label.padEnd(labelWidth), text, width, '    ');
  const notes = step.notes.flatMap((note) => field('note', note));
  const isSaid = step.standing === 'paused' || step.standing === 'leaving';
  if (isSaid || (step.standing === 'settled' && step.attention === 'none')) {
    return [...head(''), ...notes];
  }
  const since = step.since === null || now === undefined ? '' : ` (${ageText(step.since, now)})`;
  return [
    ...head(step.standing === 'settled' ? '' : `, ${word}`),
    // What was said at the top is not said again.
    ...(summary.includes(step.meaning) ? [] : wrapped(step.meaning, width, '    ')),
    ...(step.told === null ? [] : field('it says', step.told)),
    ...(step.waitsFor === null ? [] : field('waits for', step.waitsFor)),
    ...(step.since === null ? [] : field('since', `${step.since}${since}`)),
    ...field('next', step.next),
    ...(step.look === null ? [] : field('looks', `again ${step.look.text}`)),
    ...notes,
  ];
}

function memberLines(
  members: readonly MemberSight[],
  width: number,
  now: Instant | undefined,
): readonly string[] {
  return members.length === 0
    ? []
    : [
        '',
        paint('bold', 'Members that leave'),
        ...members.flatMap(({ pod, says, since }) =>
          wrapped(
            `${pod} ${says}${since === null || now === undefined ? '' : `; leaves since ${since} (${ageText(since, now)})`}`,
            width,
            '  ',
          ),
        ),
      ];
}

/** A text with a word in front of its first line, and its other lines below the text. */
function hanging(label: string, text: string, width: number, indent: string): readonly string[] {
  const start = `${indent}${label}`;
  return wrap(`${start}${text}`, width, start.length).split('\n');
}

/** The text in lines of at most so many characters, broken between words; a longer word stays whole. */
function wrapped(text: string, width: number, indent: string): readonly string[] {
  return hanging('', text, width, indent);
}
