import { pMapIterable } from 'p-map';
import type { StepName } from '#shared/api/steps.ts';
import { type Instant, parseInstant } from '#shared/kernel/instant.ts';
import { type SegmentReader, kindPrefix, shelfPrefix } from './archive.ts';
import type { Entry, EntryKind } from './entry.ts';
import { type Span, segmentsWithin } from './find-segments.ts';
import { readSegment } from './segment.ts';

/** What lies in an archive or a file: an entry, or a place where one is lost. */
export type Recorded =
  | { readonly kind: 'entry'; readonly where: string; readonly entry: Entry }
  | { readonly kind: 'bad'; readonly where: string; readonly why: string };

/** Which entries are meant. */
export interface ArchiveQuery extends Span {
  readonly kinds: readonly EntryKind[];
  /** The cluster id; of every cluster when absent. */
  readonly cluster?: string;
  readonly steps: readonly StepName[];
}

/** Segments that are read at a time, fewer than the SDK has connections, and so many bytes of each before it is its turn. */
const atATime = 32;
const aheadBytes = 1024 * 1024;

/**
 * The entries of an archive, shelf by shelf, in the order in which their segments began. Segments are small and far away, so the
 * next ones are read while one is told of.
 */
export async function* readArchive(
  reader: SegmentReader,
  query: ArchiveQuery,
): AsyncGenerator<Recorded> {
  const segments = pMapIterable(
    segmentsOf(reader, query),
    async (key) => ({ key, bytes: await begun(reader.get(key)) }),
    { concurrency: atATime },
  );
  for await (const { key, bytes } of segments) {
    for await (const each of recordedIn(key, bytes)) {
      if (each.kind === 'bad' || isWithin(parseInstant(each.entry.at), query)) {
        yield each;
      }
    }
  }
}

/**
 * The entries of one segment.
 *
 * @param name what it is called where something is to be said about it
 */
export async function* recordedIn(
  name: string,
  bytes: AsyncIterable<Uint8Array>,
): AsyncGenerator<Recorded> {
  let entries = 0;
  for await (const line of readSegment(bytes)) {
    if (line.kind === 'entry') {
      entries += 1;
      yield { kind: 'entry', where: `${name}, entry ${entries}`, entry: line.entry };
    } else {
      const why = line.kind === 'cut' ? 'it ends here, or is damaged' : 'it is no entry';
      yield { kind: 'bad', where: `${name}, line ${line.line}`, why };
    }
  }
}

async function* segmentsOf(
  reader: SegmentReader,
  { kinds, cluster, steps, ...span }: ArchiveQuery,
): AsyncGenerator<string> {
  for (const step of steps) {
    for (const kind of kinds) {
      const shelves =
        cluster === undefined
          ? shelvesOfAll(reader, kind, step)
          : [shelfPrefix({ kind, cluster, step })];
      for await (const shelf of shelves) {
        yield* segmentsWithin(reader, shelf, span);
      }
    }
  }
}

/** The shelves of one kind and step, of every cluster. */
async function* shelvesOfAll(
  reader: SegmentReader,
  kind: EntryKind,
  step: StepName,
): AsyncGenerator<string> {
  for await (const folder of reader.folders(kindPrefix(kind))) {
    yield `${folder}${step}/`;
  }
}

/** The same bytes, the first of them at hand. */
async function begun(bytes: AsyncIterable<Uint8Array>): Promise<AsyncIterable<Uint8Array>> {
  const parts = bytes[Symbol.asyncIterator]();
  const ahead: Uint8Array[] = [];
  for (let length = 0; length < aheadBytes;) {
    const next = await parts.next();
    if (next.done === true) {
      break;
    }
    ahead.push(next.value);
    length += next.value.length;
  }
  return (async function* () {
    yield* ahead;
    yield* { [Symbol.asyncIterator]: () => parts };
  })();
}

function isWithin(at: Instant | undefined, { since, until }: Span): boolean {
  return (
    at !== undefined && (since === undefined || at >= since) && (until === undefined || at < until)
  );
}
