import type { DecisionEntry } from '#shared/archive/entry.ts';

type RecordedDecision = NonNullable<DecisionEntry['decision']>;
type Effect = RecordedDecision['effects'][number];

/** One field of a decision that is not what it was. A side is absent where the field is not there. */
export interface Difference {
  /** `reason`, `wake.every`, `effects[1] advance: record.state` */
  readonly field: string;
  readonly was?: unknown;
  readonly is?: unknown;
  /** It is a sentence for people: nothing else is done because of it. */
  readonly isInWords: boolean;
}

/** What two decisions differ in, field by field, in the order in which people read a decision. */
export function differencesOf(was: RecordedDecision, is: RecordedDecision): readonly Difference[] {
  const { effects: effectsBefore, ...before } = plain(was);
  const { effects: effectsNow, ...now } = plain(is);
  return [...fieldsOf('', before, now), ...differencesOfEffects(effectsBefore, effectsNow)];
}

/** As it would be after it was written and read. */
function plain(decision: RecordedDecision): RecordedDecision {
  return JSON.parse(JSON.stringify(decision)) as RecordedDecision;
}

/** Effects of the same kind about the same object are held against each other; others came or went as a whole. */
function differencesOfEffects(
  before: readonly Effect[],
  now: readonly Effect[],
): readonly Difference[] {
  return pairsOf(before, now).flatMap(([was, is], place): readonly Difference[] => {
    const field = `effects[${place}] ${labelOf(was ?? is)}`;
    if (was !== undefined && is !== undefined) {
      return fieldsOf(`${field}: `, was, is);
    }
    return [
      {
        field,
        ...(was === undefined ? {} : { was }),
        ...(is === undefined ? {} : { is }),
        isInWords: false,
      },
    ];
  });
}

type Pair = readonly [Effect | undefined, Effect | undefined];

/** Both lists in their order, with as many pairs as there can be (the longest common subsequence of their labels). */
function pairsOf(before: readonly Effect[], now: readonly Effect[]): readonly Pair[] {
  const left = before.map(labelOf);
  const right = now.map(labelOf);
  // lengths[i][j]: of what is common to both from i and from j on.
  const lengths = Array.from({ length: left.length + 1 }, () =>
    Array<number>(right.length + 1).fill(0),
  );
  const lengthAt = (i: number, j: number) => lengths[i]?.[j] ?? 0;
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      const row = lengths[i] ?? [];
      row[j] =
        left[i] === right[j]
          ? lengthAt(i + 1, j + 1) + 1
          : Math.max(lengthAt(i + 1, j), lengthAt(i, j + 1));
    }
  }
  const pairs: Pair[] = [];
  let i = 0;
  let j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      pairs.push([before[i], now[j]]);
      i += 1;
      j += 1;
    } else if (j >= right.length || (i < left.length && lengthAt(i + 1, j) >= lengthAt(i, j + 1))) {
      pairs.push([before[i], undefined]);
      i += 1;
    } else {
      pairs.push([undefined, now[j]]);
      j += 1;
    }
  }
  return pairs;
}

/** `createObject Pod orders-0`, `advance` */
function labelOf(effect: Effect | undefined): string {
  const object = effect?.['object'];
  const about = isObject(object) ? [object['kind'], object['name']] : [];
  return [effect?.kind, ...about].filter((part) => typeof part === 'string').join(' ');
}

/** The fields in which two values differ: down to where one is no object or list, or the lists are of other lengths. */
function fieldsOf(path: string, was: unknown, is: unknown): readonly Difference[] {
  if (isObject(was) && isObject(is)) {
    const names = [...new Set([...Object.keys(was), ...Object.keys(is)])];
    return names.flatMap((name) => fieldsOf(joined(path, name), was[name], is[name]));
  }
  if (Array.isArray(was) && Array.isArray(is) && was.length === is.length) {
    return was.flatMap((item, place) => fieldsOf(`${path}[${place}]`, item, is[place]));
  }
  return JSON.stringify(was) === JSON.stringify(is)
    ? []
    : [
        {
          field: path,
          ...(was === undefined ? {} : { was }),
          ...(is === undefined ? {} : { is }),
          isInWords: /(^|[ .])(message|needs)$/.test(path),
        },
      ];
}

function joined(path: string, name: string): string {
  return path === '' || path.endsWith(' ') ? `${path}${name}` : `${path}.${name}`;
}

function isObject(value: unknown): value is { readonly [name: string]: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
