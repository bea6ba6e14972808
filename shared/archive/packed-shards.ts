import * as z from 'zod';
import type { GoverseShard } from '#shared/goverse/goverse.ts';
import { allow } from './allow-list.ts';

/*
 * The shards of a GoVerse cluster by what they have in common: there are thousands, of which most differ in their numbers and
 * revisions alone, and each for itself would be too long for an entry.
 */

/** The shards of one target and owner, with the same flags. */
interface PackedShards {
  readonly target: string;
  readonly current: string;
  readonly flags: readonly string[];
  /** Their numbers from the lowest on, each as what is added to the one before: `0,3x2730`, where `x` says how often. */
  readonly shards: string;
  /** Their mod revisions in the same order and way. */
  readonly modRevisions: string;
}

/** More than any cluster has: what was written wrongly must not fill the memory. */
const mostShards = 65_536;

const shard = allow<GoverseShard>({
  shard: z.number(),
  modRevision: z.string(),
  target: z.string(),
  current: z.string(),
  flags: z.array(z.string()),
});

const packedShards = z.object({
  packed: z.array(
    allow<PackedShards>({
      target: z.string(),
      current: z.string(),
      flags: z.array(z.string()),
      shards: runs(),
      modRevisions: runs(),
    }),
  ),
});

function runs() {
  return z.string().regex(/^(-?\d{1,19}(x\d{1,5})?(,|$))*$/);
}

/** Shards, packed or not, in the order of their numbers. */
export const goverseShards: z.ZodType<readonly GoverseShard[]> = z.union([
  z.array(shard),
  packedShards.transform(({ packed }, context) => {
    const shards = packed.flatMap((each) => unpacked(each) ?? []);
    if (packed.some((each) => unpacked(each) === undefined) || shards.length > mostShards) {
      context.addIssue('its numbers and revisions do not fit each other');
      return z.NEVER;
    }
    return shards.toSorted((a, b) => a.shard - b.shard);
  }),
]);

/** What {@link goverseShards} reads. In which order they were given is not kept. */
export function packShards(given: readonly GoverseShard[]): z.input<typeof packedShards> {
  const groups = Map.groupBy(
    given.toSorted((a, b) => a.shard - b.shard),
    ({ target, current, flags }) => JSON.stringify([target, current, flags]),
  );
  const packed = [...groups.values()].flatMap((shards) => {
    const [first] = shards;
    return first === undefined
      ? []
      : [
          {
            target: first.target,
            current: first.current,
            flags: [...first.flags],
            shards: runsOf(shards.map((each) => BigInt(each.shard))),
            modRevisions: runsOf(shards.map(({ modRevision }) => BigInt(modRevision))),
          },
        ];
  });
  return { packed };
}

function unpacked(packed: PackedShards): readonly GoverseShard[] | undefined {
  const { target, current, flags } = packed;
  const numbers = valuesOf(packed.shards);
  const revisions = valuesOf(packed.modRevisions);
  return numbers.length !== revisions.length
    ? undefined
    : numbers.map((number, place) => ({
        shard: Number(number),
        modRevision: String(revisions[place]),
        target,
        current,
        flags,
      }));
}

function runsOf(values: readonly bigint[]): string {
  const steps: { readonly step: bigint; count: number }[] = [];
  let before = 0n;
  for (const value of values) {
    const last = steps.at(-1);
    if (last?.step === value - before) {
      last.count += 1;
    } else {
      steps.push({ step: value - before, count: 1 });
    }
    before = value;
  }
  return steps.map(({ step, count }) => (count === 1 ? String(step) : `${step}x${count}`)).join();
}

function valuesOf(text: string): readonly bigint[] {
  const values: bigint[] = [];
  let value = 0n;
  for (const run of text === '' ? [] : text.split(',')) {
    const [step = '0', count = '1'] = run.split('x');
    for (let left = Number(count); left > 0 && values.length <= mostShards; left -= 1) {
      value += BigInt(step);
      values.push(value);
    }
  }
  return values;
}
