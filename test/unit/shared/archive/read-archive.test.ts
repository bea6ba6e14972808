import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { type SegmentReader, segmentKey } from '#shared/archive/archive.ts';
import { type ArchiveQuery, readArchive } from '#shared/archive/read-archive.ts';
import { type Instant, plusSeconds, toText } from '#shared/kernel/instant.ts';
import type { StepName } from '#shared/api/steps.ts';
import { anArchive, anEntry } from '#test/unit/events/replay/an-archive.ts';

const start = Date.parse('2026-01-01T00:00:00Z') as Instant;

function keyOf(cluster: string, step: StepName, seconds: number, writer = 'writer'): string {
  return segmentKey({ kind: 'decision', cluster, step }, plusSeconds(start, seconds), writer);
}

function entryAt(seconds: number) {
  return anEntry({ at: toText(plusSeconds(start, seconds)) });
}

async function read(reader: SegmentReader, query: Partial<ArchiveQuery>): Promise<string[]> {
  const meant = { kinds: ['decision'], steps: ['pool-pods'], ...query } as const;
  const all = await Array.fromAsync(readArchive(reader, meant));
  return all.map((each) => (each.kind === 'entry' ? each.where : `${each.where}: ${each.why}`));
}

/** So many segments, each with one entry. */
async function segments(count: number): Promise<readonly [readonly string[], SegmentReader]> {
  const keys = Array.from({ length: count }, (_, place) => keyOf('one', 'pool-pods', place));
  const reader = await anArchive(
    Object.fromEntries(keys.map((key, place) => [key, [entryAt(place)]])),
  );
  return [keys.map((key) => `${key}, entry 1`), reader];
}

describe('an archive is read', () => {
  test('by cluster, step and time', async () => {
    const archive = await anArchive({
      [keyOf('one', 'pool-pods', 0)]: [entryAt(0), entryAt(50), entryAt(70)],
      [keyOf('one', 'drain-step', 0)]: [entryAt(0)],
      [keyOf('two', 'pool-pods', 0)]: [entryAt(0)],
      [keyOf('one', 'pool-pods', 10_000)]: [entryAt(10_000)],
      [keyOf('one', 'pool-pods', -10_000)]: [entryAt(-10_000)],
      [keyOf('one', 'pool-pods', -3_000)]: [entryAt(-3_000), entryAt(10)],
    });

    expect(
      await read(archive, { cluster: 'one', since: start, until: plusSeconds(start, 60) }),
    ).toEqual([
      `${keyOf('one', 'pool-pods', -3_000)}, entry 2`,
      `${keyOf('one', 'pool-pods', 0)}, entry 1`,
      `${keyOf('one', 'pool-pods', 0)}, entry 2`,
    ]);
  });

  test('of every cluster where none is named, step by step', async () => {
    const arn = 'arn:aws:eks:eu-central-1:123456789012:cluster/prod';
    const keys = [
      keyOf(arn, 'pool-pods', 0),
      keyOf('two', 'pool-pods', 0),
      keyOf('two', 'drain-step', 0),
    ];
    const archive = await anArchive(Object.fromEntries(keys.map((key) => [key, [entryAt(0)]])));

    expect(await read(archive, { steps: ['pool-pods', 'drain-step'] })).toEqual(
      keys.map((key) => `${key}, entry 1`),
    );
    expect(await read(archive, { cluster: arn })).toEqual([`${keys[0]}, entry 1`]);
  });

  test('several segments at a time, no more than thirty-two, and in their order all the same', async () => {
    const [wheres, reader] = await segments(100);
    let open = 0;
    let most = 0;
    const slow: SegmentReader = {
      ...reader,
      async *get(key) {
        open += 1;
        most = Math.max(most, open);
        // The first of those that are read at a time ends last.
        for (let turns = 40 - open; turns > 0; turns -= 1) {
          await turn();
        }
        yield* reader.get(key);
        open -= 1;
      },
    };

    expect(await read(slow, { cluster: 'one' })).toEqual(wheres);
    expect(most).toBe(32);
  });

  test('no further than somebody asks', async () => {
    const [wheres, reader] = await segments(100);
    let begun = 0;
    const counting: SegmentReader = {
      ...reader,
      get(key) {
        begun += 1;
        return reader.get(key);
      },
    };

    for await (const each of readArchive(counting, {
      kinds: ['decision'],
      cluster: 'one',
      steps: ['pool-pods'],
    })) {
      expect(each.where).toBe(wheres[0]);
      break;
    }

    expect(begun).toBeLessThanOrEqual(33);
  });

  test('of a segment before its turn no more than a mebibyte', async () => {
    const [, reader] = await segments(2);
    const part = Buffer.alloc(64 * 1024, '\n');
    const parts = 64;
    const taken = [0, 0];
    const { promise: isBegun, resolve: begin } = Promise.withResolvers<void>();
    const long: SegmentReader = {
      ...reader,
      async *get(key) {
        const place = key === keyOf('one', 'pool-pods', 0) ? 0 : 1;
        for (let count = 1; count <= parts; count += 1) {
          taken[place] = count;
          yield part;
        }
        if (place === 0) {
          // Long since begun, the other one has stopped.
          expect(taken[1]).toBe(16);
          begin();
        }
      },
    };

    expect(await read(long, { cluster: 'one' })).toEqual([]);
    await isBegun;
    expect(taken).toEqual([parts, parts]);
  });

  test('up to the segment that cannot be had, and not past it', async () => {
    const [wheres, reader] = await segments(10);
    const failing: SegmentReader = {
      ...reader,
      async *get(key) {
        if (key === keyOf('one', 'pool-pods', 5)) {
          throw new Error('the bucket refuses');
        }
        yield* reader.get(key);
      },
    };
    const seen: string[] = [];
    const all = async () => {
      for await (const { where } of readArchive(failing, {
        kinds: ['decision'],
        cluster: 'one',
        steps: ['pool-pods'],
      })) {
        seen.push(where);
      }
    };

    await expect(all()).rejects.toThrow('the bucket refuses');
    expect(seen).toEqual(wheres.slice(0, 5));
  });
});
