import type { LetterGroup, LetterList } from '#events/replay/list-letters.ts';
import type { HintCounts } from '#events/replay/replay-hints.ts';
import type { LetterCounts } from '#events/replay/replay-letters.ts';
import { nameOfTarget } from '#events/replay/selection.ts';
import { paint, sentences } from '../terminal.ts';
import type { LookNow, Preview } from './preview.ts';

/** `1 letter`, `2,000 letters` */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`;
}

const colours = { settled: 'green', waiting: 'cyan', acting: 'yellow', blocked: 'red' } as const;

/** What a dry run says, for people. */
export function previewTable(previews: readonly Preview[], hasHistory: boolean): string {
  const titles = ['STEP', 'TARGET', 'HINTS', ...(hasHistory ? ['BEFORE'] : []), 'NOW'];
  return sentences([
    titles.map((title) => paint('bold', title)),
    ...previews.flatMap((preview) => {
      const [before, ...beforeDetails] = hasHistory ? beforeTexts(preview) : [];
      const details = detailsOf(preview.now);
      const lines = Math.max(details.length, beforeDetails.length);
      const { step, target, letters, now } = preview;
      return [
        [step, nameOfTarget(target), String(letters), ...given(before), nowText(now)],
        ...Array.from({ length: lines }, (_, line) => [
          '',
          '',
          '',
          ...(hasHistory ? [paint('dim', beforeDetails[line] ?? '')] : []),
          paint('dim', details[line] ?? ''),
        ]),
      ];
    }),
  ]);
}

function given(text: string | undefined): readonly string[] {
  return text === undefined ? [] : [text];
}

function nowText(now: LookNow): string {
  switch (now.kind) {
    case 'gone':
      return 'the target is gone: nothing would be done';
    case 'failed':
      return `${paint('red', 'fails')} ${paint('bold', now.reason)}`;
    case 'decided':
      return `${paint(colours[now.outcome], now.outcome)} ${paint('bold', now.reason)}`;
  }
}

function detailsOf(now: LookNow): readonly string[] {
  switch (now.kind) {
    case 'gone':
      return [];
    case 'failed':
      return [now.why];
    case 'decided':
      return [
        now.message,
        ...(now.effects.length === 0 ? [] : [`would write: ${grouped(now.effects)}`]),
        ...now.unknown.map((why) => `not known: ${why}`),
      ];
  }
}

/** `applyStatus, createObject ×4` */
function grouped(kinds: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const kind of kinds) {
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return [...counts].map(([kind, count]) => (count === 1 ? kind : `${kind} ×${count}`)).join(', ');
}

function beforeTexts({ before, isDifferent }: Preview): readonly string[] {
  if (before === undefined) {
    return ['not in the archive'];
  }
  const mark = isDifferent === true ? 'differs' : 'the same';
  return [
    `${mark}: ${before.outcome} ${before.reason}`,
    `${before.isOfHint ? '' : 'its last failure, '}${before.at}`,
  ];
}

/** What a dry run found, counted: `settled 2, fails 1, gone 1`. */
export function previewCounts(previews: readonly Preview[]): string {
  const counts = new Map<string, number>();
  for (const { now, letters } of previews) {
    const word = now.kind === 'decided' ? now.outcome : now.kind === 'failed' ? 'fails' : 'gone';
    counts.set(word, (counts.get(word) ?? 0) + letters);
  }
  return [...counts].map(([word, count]) => `${word} ${count.toLocaleString('en')}`).join(', ');
}

/** What listing letters found besides those that would be sent. */
export function listRemarks({ counts, refused, cut }: LetterList): readonly string[] {
  const more = counts.refused - refused.length;
  return [
    ...refused.map(({ step, id, why }) => `${step}: letter ${id} cannot be replayed: ${why}`),
    ...(more > 0 ? [`${counted(more, 'further letter')} cannot be replayed`] : []),
    ...(counts.finished > 0
      ? [
          `${counted(counts.finished, 'letter')} had been sent by an earlier replay that was cut off: a replay would only delete them`,
        ]
      : []),
    ...(counts.perhapsTwice > 0
      ? [
          `${counted(counts.perhapsTwice, 'letter')} may have been sent by an earlier replay that was cut off: a replay would send them again`,
        ]
      : []),
    ...hiddenRemark(counts.hidden),
    ...cutRemark(cut),
  ];
}

/** The sentences at the end of a replay of dead letters. */
export function letterSummary(counts: LetterCounts, cut: LetterList['cut']): readonly string[] {
  if (counts.seen === 0) {
    return ['there are no dead letters'];
  }
  return [
    `${counted(counts.sent, 'hint')} sent again${deletedText(counts)}`,
    ...told(counts.finished, 'had been sent by an earlier replay that was cut off: only deleted'),
    ...told(counts.perhapsTwice, 'may have been sent more than once, which only causes a look'),
    ...told(counts.undeleted, 'sent and not deleted: the next replay deletes them, unsent'),
    ...told(counts.discarded, 'were no hint: copied beside the journal, and deleted'),
    ...told(counts.refused, 'cannot be replayed, and stay'),
    ...told(counts.failed, 'could not be sent, and stay'),
    ...told(counts.left, 'were not meant, and stay'),
    ...told(counts.later, 'came after the replay had begun, and stay'),
    ...hiddenRemark(counts.hidden),
    ...cutRemark(cut),
  ];
}

function deletedText({ sent, undeleted }: LetterCounts): string {
  if (undeleted > 0 || sent === 0) {
    return '';
  }
  return sent === 1 ? ', and its letter deleted' : ', and their letters deleted';
}

/** An archive that nobody writes to is as empty as one whose name has a typing error. */
export const whereToLook =
  'Look at the address, and at the cluster, the steps and the time that are asked for.';

/**
 * The sentences at the end of a replay of a file or an archive.
 *
 * @param isWhole whether it was read to its end
 */
export function hintSummary(counts: HintCounts, isWhole: boolean): readonly string[] {
  if (isWhole && Object.values(counts).every((count) => count === 0)) {
    return [`nothing was sent: there is no hint there. ${whereToLook}`];
  }
  return [
    `${counted(counts.sent, 'hint')} sent again`,
    ...told(
      counts.perhapsTwice,
      'may have been sent more than once, which only causes a look',
      'hint',
    ),
    ...told(counts.bad, 'could not be read as a hint of this cluster', 'place'),
    ...told(counts.failed, 'could not be sent', 'hint'),
    ...told(counts.left, 'were not meant', 'hint'),
  ];
}

function told(count: number, what: string, one = 'letter'): readonly string[] {
  return count === 0 ? [] : [`${counted(count, one)} ${count === 1 ? singular(what) : what}`];
}

function singular(what: string): string {
  return what
    .replace(/^were /, 'was ')
    .replace(/ and stay$/, ' and stays')
    .replace('deletes them', 'deletes it');
}

function hiddenRemark(hidden: number): readonly string[] {
  return hidden === 0
    ? []
    : [
        `${counted(hidden, 'letter')} could not be shown again at once: they come back by themselves`,
      ];
}

function cutRemark(cut: LetterList['cut']): readonly string[] {
  return cut.length === 0
    ? []
    : [
        `SQS gives out no more letters of ${cut.join(', ')} at a time: run it again for the rest, or say which with --target`,
      ];
}

/** `replaying: 1,200 of about 4,000, 50 a second, about 56 s left` */
export function progressText(done: number, all: number | undefined, seconds: number): string {
  const rate = done / Math.max(seconds, 0.001);
  const of = all === undefined ? '' : ` of about ${Math.max(all, done).toLocaleString('en')}`;
  const left =
    all === undefined || rate === 0 || all <= done
      ? ''
      : `, about ${Math.ceil((all - done) / rate)} s left`;
  return `${done.toLocaleString('en')}${of}, ${rate.toFixed(0)} a second${left}`;
}

/** `pool-pods 3, drain-step 1`, of the groups' letters. */
export function byStep(groups: readonly Pick<LetterGroup, 'step' | 'letters'>[]): string {
  const counts = new Map<string, number>();
  for (const { step, letters } of groups) {
    counts.set(step, (counts.get(step) ?? 0) + letters);
  }
  return [...counts].map(([step, count]) => `${step} ${count.toLocaleString('en')}`).join(', ');
}
