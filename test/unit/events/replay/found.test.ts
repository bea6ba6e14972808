import { createReadStream, readdirSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { hintsInArchive, newestOfEach } from '#events/replay/from-archive.ts';
import { hintsInFile } from '#events/replay/from-file.ts';
import type { Found } from '#events/replay/found.ts';
import { type SegmentReader, segmentKey } from '#shared/archive/archive.ts';
import { parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import { anArchive, anEntry } from './an-archive.ts';
import { aHint, cluster, start } from './letter-world.ts';

async function all(found: AsyncIterable<Found>): Promise<readonly Found[]> {
  return Array.fromAsync(found);
}

async function* inParts(bytes: Uint8Array, length: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += length) {
    yield bytes.subarray(at, at + length);
  }
}

function read(text: string, length = 7): Promise<readonly Found[]> {
  return all(hintsInFile(inParts(Buffer.from(text), length), cluster));
}

function told(found: readonly Found[]): readonly string[] {
  return found.map((each) =>
    each.kind === 'bad' ? `${each.where}: ${each.why}` : `${each.where} ${each.step}`,
  );
}

const hint = JSON.stringify(aHint('pool-pods', 'orders-0'));

describe('a file', () => {
  test.each([
    ['hints', hint],
    ['entries of the archive', JSON.stringify(anEntry())],
    [
      'hints that were archived',
      JSON.stringify({
        v: 1,
        kind: 'hint',
        at: '2026-01-01T00:00:00.000Z',
        cluster,
        step: 'pool-pods',
        hint: JSON.parse(hint),
      }),
    ],
    ['messages as SQS has them', JSON.stringify({ MessageId: 'a', Body: hint })],
    [
      'messages as a function is given them, or as a discarded letter was kept',
      JSON.stringify({ messageId: 'a', body: hint }),
    ],
    ['bodies as JSON strings', JSON.stringify(hint)],
  ])('may hold %s', async (_, line) => {
    expect(told(await read(`${line}\n${line}\n`))).toEqual([
      'line 1 pool-pods',
      'line 2 pool-pods',
    ]);
    expect(told(await read(line))).toEqual(['line 1 pool-pods']);
  });

  test('may be what `aws sqs receive-message` prints, over several lines', async () => {
    const text = JSON.stringify({ Messages: [{ Body: hint }, { Body: 'x' }] }, undefined, 2);

    expect(told(await read(text))).toEqual([
      'line 1, number 1 pool-pods',
      'line 1, number 2: the message is not JSON',
    ]);
  });

  test('may be compressed', async () => {
    const bytes = gzipSync(`${hint}\n${hint}\n`);

    const found = await all(hintsInFile(inParts(bytes, 11), cluster));

    expect(told(found)).toEqual(['line 1 pool-pods', 'line 2 pool-pods']);
  });

  test('names each line that is none, and goes on', async () => {
    const lines = [
      '{"broken":',
      hint,
      '[]',
      '{}',
      '',
      JSON.stringify(aHint('pool-pods', 'a', { source: 'elsewhere' })),
      JSON.stringify(aHint('pool-pods', 'a', { id: 'uid/7/no-step' })),
      JSON.stringify(anEntry({ cluster: 'elsewhere' })),
      hint,
    ];

    expect(told(await read(`${lines.join('\n')}\n`))).toEqual([
      'line 1: it is not JSON',
      'line 2 pool-pods',
      'line 4: it is no hint, no entry of the archive, and no message with one',
      'line 6: the hint is of another cluster',
      expect.stringMatching(/^line 7: its id names no step; there are: drain-step, /),
      'line 8: the entry is of another cluster',
      'line 9 pool-pods',
    ]);
  });

  test('that was cut in its compressed bytes gives what is whole, and says where it ends', async () => {
    const bytes = gzipSync(`${hint}\n`.repeat(2_000));

    const found = await all(
      hintsInFile(inParts(bytes.subarray(0, bytes.length - 60), 64), cluster),
    );

    const last = found.at(-1);
    expect(found.length).toBeGreaterThan(1);
    expect(last).toMatchObject({
      kind: 'bad',
      why: 'the file ends within it, or is damaged there',
    });
  });

  test.each(
    readdirSync(new URL('../../../../events/samples', import.meta.url)).filter((name) =>
      name.endsWith('.json'),
    ),
  )('of the samples, %s, is one', async (name) => {
    const path = new URL(`../../../../events/samples/${name}`, import.meta.url);

    const found = await all(hintsInFile(createReadStream(path), cluster));

    expect(found).toMatchObject([{ kind: 'hint' }]);
  });
});

describe('an archive', () => {
  const shelf = { kind: 'decision', cluster, step: 'pool-pods' } as const;
  const at = (seconds: number) => plusSeconds(start, seconds);
  const text = (seconds: number) => new Date(at(seconds)).toISOString();

  async function fourEntries(): Promise<SegmentReader> {
    const other = { kind: 'Shard', namespace: 'db', name: 'orders-1', uid: 'uid-b' };
    return anArchive({
      [segmentKey(shelf, at(0), 'a')]: [anEntry(), anEntry({ at: text(30), target: other })],
      [segmentKey(shelf, at(60), 'b')]: [
        anEntry({ at: text(60), hint: { ...anEntry().hint, id: 'uid-a/9/pool-pods' } }),
        anEntry({ at: text(90) }),
      ],
    });
  }

  test('gives the hint of every decision, with the reason it failed for', async () => {
    const found = await all(hintsInArchive(await fourEntries(), cluster, ['pool-pods'], {}));

    expect(found).toHaveLength(4);
    expect(found[0]).toMatchObject({
      kind: 'hint',
      step: 'pool-pods',
      reason: 'TargetUnknown',
      at: parseInstant('2026-01-01T00:00:00Z'),
      hint: { id: 'uid-a/7/pool-pods', source: cluster, subject: 'shards/db/orders-0' },
    });
  });

  test('gives only what was decided in the time that is asked for', async () => {
    const span = { since: at(30), until: at(90) };

    const found = await all(hintsInArchive(await fourEntries(), cluster, ['pool-pods'], span));

    expect(found.map((each) => each.kind === 'hint' && each.at)).toEqual([at(30), at(60)]);
  });

  test('gives the newest for each target and step', async () => {
    const found = await all(
      newestOfEach(
        hintsInArchive(await fourEntries(), cluster, ['pool-pods'], {}),
        new AbortController().signal,
      ),
    );

    expect(found.map((each) => each.kind === 'hint' && [each.hint.data.name, each.at])).toEqual([
      ['orders-0', at(90)],
      ['orders-1', at(30)],
    ]);
  });

  test('gives none where it was stopped before it was read to its end', async () => {
    const stopping = new AbortController();
    const hints = hintsInArchive(await fourEntries(), cluster, ['pool-pods'], {});
    const stopped = async function* () {
      for await (const each of hints) {
        stopping.abort();
        yield each;
      }
    };

    expect(await all(newestOfEach(stopped(), stopping.signal))).toEqual([]);
  });
});
