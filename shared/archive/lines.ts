import { Readable } from 'node:stream';
import { constants, createGunzip } from 'node:zlib';

/** One line of a text, or where the text ends before its time: `number` counts from 1. */
export type Line =
  | { readonly kind: 'line'; readonly number: number; readonly text: string }
  /** Longer than {@link maxLineLength}. Nothing of it is kept. */
  | { readonly kind: 'tooLong'; readonly number: number }
  /** The bytes end within this line, or are damaged: then lines just before may be lost with it. */
  | { readonly kind: 'cut'; readonly number: number };

/** The longest line that is read, in characters. */
export const maxLineLength = 1024 * 1024;

/**
 * Reads lines from bytes that may be compressed with gzip, no faster than they are taken. Empty lines are left out. Never
 * throws for what the bytes are; where reading them fails, it does as they do.
 */
export async function* readLines(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Line> {
  let number = 1;
  let rest = '';
  let isTooLong = false;
  const decoder = new TextDecoder();
  for await (const part of unpacked(bytes)) {
    if (part === 'broken') {
      yield { kind: 'cut', number };
      return;
    }
    const lines = decoder.decode(part, { stream: true }).split('\n');
    for (const [place, text] of lines.entries()) {
      const isLast = place === lines.length - 1;
      rest = isTooLong ? '' : rest + text;
      isTooLong ||= rest.length > maxLineLength;
      if (isLast) {
        break;
      }
      yield* whole(number, rest, isTooLong);
      number += 1;
      rest = '';
      isTooLong = false;
    }
  }
  if (rest !== '' || isTooLong) {
    yield { kind: 'cut', number };
  }
}

function* whole(number: number, text: string, isTooLong: boolean): Generator<Line> {
  if (isTooLong) {
    yield { kind: 'tooLong', number };
  } else if (text.trim() !== '') {
    yield { kind: 'line', number, text };
  }
}

/** The bytes, decompressed where they begin as gzip does. An early end is no error: whatever was written is told. */
async function* unpacked(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array | 'broken'> {
  const parts = bytes[Symbol.asyncIterator]();
  let head: Uint8Array = new Uint8Array();
  while (head.length < 2) {
    const next = await parts.next();
    if (next.done === true) {
      break;
    }
    head = Buffer.concat([head, next.value]);
  }
  const all = (async function* () {
    yield head;
    yield* { [Symbol.asyncIterator]: () => parts };
  })();
  if (head[0] !== 0x1f || head[1] !== 0x8b) {
    yield* all;
    return;
  }
  const gunzip = createGunzip({ finishFlush: constants.Z_SYNC_FLUSH });
  let failure: unknown;
  const source = Readable.from(all, { objectMode: false }).on('error', (error) => {
    failure = error;
    gunzip.destroy(error);
  });
  try {
    yield* source.pipe(gunzip);
  } catch (error) {
    if (failure !== undefined) {
      throw error;
    }
    yield 'broken';
  } finally {
    source.destroy();
  }
}
