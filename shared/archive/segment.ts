import { constants, createGzip } from 'node:zlib';
import { type Entry, entrySchema } from './entry.ts';
import { readLines } from './lines.ts';

/** What the lines of a segment were found to be. */
export type SegmentLine =
  | { readonly kind: 'entry'; readonly entry: Entry }
  /** No entry that this release knows. Nothing of it is repeated: it may be anything. */
  | { readonly kind: 'unreadable'; readonly line: number }
  /** The bytes end within this line, or are damaged: then lines just before may be lost with it. */
  | { readonly kind: 'cut'; readonly line: number };

/**
 * A segment: gzip over JSON lines. The compression is flushed after each line, so that a segment which was written or copied
 * only in part is readable up to its last whole line.
 */
export async function encodeSegment(entries: readonly Entry[]): Promise<Buffer> {
  const gzip = createGzip({ flush: constants.Z_SYNC_FLUSH });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const chunks: Buffer[] = [];
  gzip.on('data', (chunk: Buffer) => chunks.push(chunk));
  gzip.on('end', resolve).on('error', reject);
  for (const entry of entries) {
    gzip.write(`${JSON.stringify(entry)}\n`);
  }
  gzip.end();
  await promise;
  return Buffer.concat(chunks);
}

/** Reads a segment, compressed or not, one line at a time. */
export async function* readSegment(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<SegmentLine> {
  for await (const line of readLines(bytes)) {
    if (line.kind === 'line') {
      const entry = parseEntry(line.text);
      yield entry === undefined
        ? { kind: 'unreadable', line: line.number }
        : { kind: 'entry', entry };
    } else {
      yield { kind: line.kind === 'cut' ? 'cut' : 'unreadable', line: line.number };
    }
  }
}

/** An entry from a line of a segment; `undefined` for anything else. */
export function parseEntry(text: string): Entry | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  const parsed = entrySchema.safeParse(json);
  return parsed.success ? parsed.data : undefined;
}
