import { type Standing, type TargetRow, type ToldCondition, standings } from '../protocol.ts';

/** What a person asked to see of the list. */
export interface Filter {
  readonly words: string;
  readonly standing: Standing | 'all';
}

/** Rows on one page of the list: what is on a page is in the document, so it is bounded. */
export const pageSize = 100;

/** Those that want a person first; of those alike the one that has waited longest, and the settled by name. */
export function inOrder(rows: Iterable<TargetRow>): TargetRow[] {
  return [...rows].toSorted(
    (one, other) =>
      standings.indexOf(one.standing) - standings.indexOf(other.standing) ||
      (one.standing === 'settled' ? 0 : compare(one.since ?? '~', other.since ?? '~')) ||
      compare(one.id, other.id),
  );
}

/** Those in which every word occurs, in the name or in what is said of it. */
export function filtered(rows: readonly TargetRow[], { words, standing }: Filter): TargetRow[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter(
    (row) =>
      (standing === 'all' || row.standing === standing) &&
      wanted.every((word) => textOf(row).includes(word)),
  );
}

/** How many there are of each. */
export function countsOf(rows: Iterable<TargetRow>): ReadonlyMap<Standing, number> {
  const counts = new Map<Standing, number>();
  for (const { standing } of rows) {
    counts.set(standing, (counts.get(standing) ?? 0) + 1);
  }
  return counts;
}

/** Conditions that are bad news when they hold. */
const badWhenTrue: readonly string[] = ['Stalled', 'Reconciling'];

/** A condition as one short text, and whether it is out of the ordinary. */
export function conditionText({ type, status, reason }: ToldCondition): {
  readonly text: string;
  readonly isOdd: boolean;
} {
  const isBad = badWhenTrue.includes(type);
  const isOdd = status !== (isBad ? 'False' : 'True');
  const name = { True: type, False: `not ${type}` }[status] ?? `${type} unknown`;
  return { text: isOdd ? `${name}: ${reason}` : name, isOdd };
}

/** Those worth a place in the list: what is odd, and what holds as it shall. That nothing is stalled is no news. */
export function listedConditions(conditions: readonly ToldCondition[]): readonly ToldCondition[] {
  return conditions.filter(
    (condition) => conditionText(condition).isOdd || !badWhenTrue.includes(condition.type),
  );
}

const texts = new WeakMap<TargetRow, string>();

/** What a row is searched by; a row never changes, so its text is made once. */
function textOf(row: TargetRow): string {
  const known = texts.get(row);
  if (known !== undefined) {
    return known;
  }
  const conditions = row.conditions.map((condition) => conditionText(condition).text);
  const text = [row.id, row.headline, row.waitsFor ?? '', ...conditions].join('\n').toLowerCase();
  texts.set(row, text);
  return text;
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
