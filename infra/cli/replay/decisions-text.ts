import { nameOfTarget } from '#events/replay/selection.ts';
import { paint } from '../terminal.ts';
import type { Difference } from './difference.ts';
import { counted, whereToLook } from './told.ts';
import type { ChangedDecision, DecisionCounts } from './replay-decisions.ts';

/** Fields of one decision that are shown, and how much of each. */
const mostFields = 30;
const mostCharacters = 400;

/** One look about which this release decides otherwise: what it was before `-`, what it is behind `+`. */
export function changedText({ step, target, at, version, differences }: ChangedDecision): string {
  const shown = differences.slice(0, mostFields);
  const left = differences.length - shown.length;
  return [
    `${paint('bold', nameOfTarget(target))}  ${step}  ${at}  recorded by ${version}`,
    ...shown.flatMap(fieldText),
    ...(left === 0 ? [] : [`  … and ${left} more fields`]),
  ].join('\n');
}

function fieldText(difference: Difference): readonly string[] {
  const { field } = difference;
  return [
    `  ${field}`,
    ...('was' in difference ? [paint('red', `  - ${valueText(difference.was)}`)] : []),
    ...('is' in difference ? [paint('green', `  + ${valueText(difference.is)}`)] : []),
  ];
}

function valueText(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > mostCharacters ? `${text.slice(0, mostCharacters)}…` : text;
}

/** What it came to, in one line each; what was not compared is never left unsaid. */
export function countsText(counts: DecisionCounts): string {
  if (Object.values(counts).every((count) => count === 0)) {
    return `nothing was compared: there is no decision there. ${whereToLook}`;
  }
  const { compared, same, different, inWords, passedOver } = counts;
  const notCompared = [
    [counts.withoutSnapshot, 'without a snapshot: the look failed before, or it was too long'],
    [counts.unreadable, 'unreadable'],
    [counts.newer, 'recorded by a newer release than this one'],
  ] as const;
  const words = inWords === 0 ? '' : `, ${inWords} of these in words alone`;
  return [
    compared === 0
      ? 'nothing was compared'
      : `${counted(compared, 'decision')} compared: ${same} the same, ${different} different${words}`,
    ...notCompared
      .filter(([count]) => count > 0)
      .map(([count, what]) => `${count} not compared, ${what}`),
    ...(passedOver === 0 ? [] : [`${passedOver} passed over: not asked for`]),
  ].join('\n');
}
