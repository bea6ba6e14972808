import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { HintEntry } from '#shared/archive/entry.ts';
import { maxLineLength } from '#shared/archive/lines.ts';
import { type SegmentLine, encodeSegment, readSegment } from '#shared/archive/segment.ts';

function anEntry(text: string): HintEntry {
  return {
    v: 1,
    kind: 'hint',
    at: '2026-01-01T00:00:00.000Z',
    cluster: 'prod',
    step: 'drain-step',
    hint: { text },
  };
}

async function* inParts(bytes: Uint8Array, size = bytes.length): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes.length; start += size) {
    yield bytes.subarray(start, start + size);
  }
}

async function linesOf(bytes: AsyncIterable<Uint8Array>): Promise<SegmentLine[]> {
  return Array.fromAsync(readSegment(bytes));
}

describe('a segment', () => {
  test('is read as it was written, however its bytes arrive', async () => {
    const anyTexts = fc.array(fc.string({ unit: 'binary' }), { maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(anyTexts, fc.integer({ min: 1, max: 50 }), async (texts, size) => {
        const entries = texts.map(anEntry);

        const lines = await linesOf(inParts(await encodeSegment(entries), size));

        expect(lines).toEqual(entries.map((entry) => ({ kind: 'entry', entry })));
      }),
    );
  });

  test('that was cut anywhere loses what stands behind, and nothing before', async () => {
    const entries = Array.from({ length: 40 }, (_, place) => anEntry(`${place}`.repeat(place)));
    const whole = await encodeSegment(entries);
    const ends = await Promise.all(
      entries.map(async (_, place) => (await encodeSegment(entries.slice(0, place + 1))).length),
    );

    for (let length = 0; length < whole.length; length += 7) {
      const lines = await linesOf(inParts(whole.subarray(0, length)));
      const read = lines.flatMap((line) => (line.kind === 'entry' ? [line.entry] : []));
      // The end of a stream takes a few bytes behind its last line.
      const written = ends.filter((end) => end <= length).length;

      expect(read).toEqual(entries.slice(0, read.length));
      expect(read.length).toBeGreaterThanOrEqual(written);
      expect(lines.length - read.length).toBeLessThanOrEqual(1);
    }
  });

  test('whose bytes are damaged says so instead of throwing', async () => {
    const bytes = await encodeSegment(
      Array.from({ length: 50 }, (_, place) => anEntry(`${place}`)),
    );
    bytes[100] = (bytes[100] ?? 0) ^ 0xff;

    const lines = await linesOf(inParts(bytes));

    expect(lines.at(-1)?.kind).toBe('cut');
  });

  test('may be plain text, with lines that are none of ours, empty ones and one without an end', async () => {
    const text = `${JSON.stringify(anEntry('a'))}\n\nsecret\n{"v":2,"kind":"hint"}\n${JSON.stringify(anEntry('b'))}\n{"v":1,`;

    const lines = await linesOf(inParts(Buffer.from(text)));

    expect(lines).toEqual([
      { kind: 'entry', entry: anEntry('a') },
      { kind: 'unreadable', line: 3 },
      { kind: 'unreadable', line: 4 },
      { kind: 'entry', entry: anEntry('b') },
      { kind: 'cut', line: 6 },
    ]);
  });

  test('with a line that has no end in sight is read on behind it', async () => {
    const text = `${'x'.repeat(maxLineLength * 3)}\n${JSON.stringify(anEntry('a'))}\n`;

    const lines = await linesOf(inParts(Buffer.from(text), 64 * 1024));

    expect(lines).toEqual([
      { kind: 'unreadable', line: 1 },
      { kind: 'entry', entry: anEntry('a') },
    ]);
  });

  test('hands on what fails where it comes from', async () => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield (await encodeSegment([anEntry('a')])).subarray(0, 30);
      throw new Error('the line is dead');
    }

    await expect(linesOf(broken())).rejects.toThrow('the line is dead');
  });
});
