import * as z from 'zod';
import type { GoverseShard } from '#shared/goverse/goverse.ts';
import { allow } from './allow-list.ts';

/*
 * The shards of a GoVerse cluster column by column: there are thousands, most of which differ in their number alone, and each
 * for itself would be too long for an entry.
 */

type Owner = Pick<GoverseShard, 'target' | 'current' | 'flags'>;

interface PackedShards {
  /** What shards have in common, each once. */
  readonly owners: readonly Owner[];
  /** Of each shard, in their order, the place of its owner in the list above; as {@link runsOf} writes it. */
  readonly owner: string;
  /** Of each shard its mod revision. */
  readonly modRevision: string;
  /** Of each shard its number; absent where they are counted from 0 without a gap. */
  readonly shard?: string | undefined;
}

const shard = allow<GoverseShard>({
  shard: z.number(),
  modRevision: z.string(),
  target: z.string(),
  current: z.string(),
  flags: z.array(z.string()),
});

const packed = allow<PackedShards>({
  owners: z.array(
    allow<Owner>({ target: z.string(), current: z.string(), flags: z.array(z.string()) }),
  ),
  owner: z.string(),
  modRevision: z.string(),
  shard: z.string().optional(),
});

/** Shards, packed or not. */
export const goverseShards: z.ZodType<readonly GoverseShard[]> = z.union([
  z.array(shard),
  packed.transform((columns, context) => {
    const shards = unpacked(columns);
    if (shards === undefined) {
      context.addIssue('its columns have different lengths');
      return z.NEVER;
    }
    return shards;
  }),
]);

export function packShards(shards: readonly GoverseShard[]): PackedShards {
  const owners: Owner[] = [];
  const places = new Map<string, number>();
  const placeOf = ({ target, current, flags }: GoverseShard): number => {
    const text = JSON.stringify([target, current, flags]);
    const place = places.get(text) ?? owners.length;
    if (place === owners.length) {
      owners.push({ target, current, flags });
      places.set(text, place);
    }
    return place;
  };
  const isWhole = shards.every((each, place) => each.shard === place);
  return {
    owner: runsOf(shards.map((each) => String(placeOf(each)))),
    owners,
    modRevision: runsOf(shards.map(({ modRevision }) => modRevision)),
    ...(isWhole ? {} : { shard: runsOf(shards.map((each) => String(each.shard))) }),
  };
}

function unpacked(columns: PackedShards): readonly GoverseShard[] | undefined {
  const { owners } = columns;
  const places = valuesOf(columns.owner);
  const revisions = valuesOf(columns.modRevision);
  const numbers =
    columns.shard === undefined
      ? places.map((_, place) => place)
      : valuesOf(columns.shard).map(Number);
  const shards = places.flatMap((text, place): GoverseShard[] => {
    const owner = owners[Number(text)];
    const modRevision = revisions[place];
    const number = numbers[place];
    return owner === undefined || modRevision === undefined || number === undefined
      ? []
      : [{ shard: number, modRevision, ...owner }];
  });
  const isSound = [revisions, numbers, shards].every(({ length }) => length === places.length);
  return isSound ? shards : undefined;
}

/** `17x128,18`: numbers with a comma between them, those that follow one another alike written once. */
function runsOf(values: readonly string[]): string {
  const runs: { readonly value: string; count: number }[] = [];
  for (const value of values) {
    const last = runs.at(-1);
    if (last?.value === value) {
      last.count += 1;
    } else {
      runs.push({ value, count: 1 });
    }
  }
  return runs.map(({ value, count }) => (count === 1 ? value : `${value}x${count}`)).join(',');
}

/** More than any cluster has: what was written wrongly must not fill the memory. */
const mostShards = 65_536;

function valuesOf(runs: string): readonly string[] {
  const values: string[] = [];
  for (const run of runs === '' ? [] : runs.split(',')) {
    const [value = '', count = '1'] = run.split('x');
    for (let left = Number(count); left > 0 && values.length <= mostShards; left -= 1) {
      values.push(value);
    }
  }
  return values;
}
