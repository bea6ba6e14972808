import type { StepName } from '#shared/api/steps.ts';
import { type SegmentReader, type Shelf, keyBefore, shelfPrefix } from '#shared/archive/archive.ts';
import type { Entry, EntryKind } from '#shared/archive/entry.ts';
import { readSegment } from '#shared/archive/segment.ts';
import { type Instant, parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import type { Found } from './found.ts';
import { hintInEntry } from './from-file.ts';
import { nameOfTarget } from './selection.ts';

/** A segment may have begun so long before what it holds, in seconds. */
const longestSegmentSeconds = 3600;

export interface Span {
  readonly since?: Instant;
  readonly until?: Instant;
}

/** What lies in an archive: an entry, or a place where one is lost. */
export type Shelved =
  | { readonly kind: 'entry'; readonly where: string; readonly entry: Entry }
  | { readonly kind: 'bad'; readonly where: string; readonly why: string };

/** The entries of some steps, shelf by shelf, in the order in which their segments began. */
export async function* entriesIn(
  reader: SegmentReader,
  kinds: readonly EntryKind[],
  cluster: string,
  steps: readonly StepName[],
  span: Span,
): AsyncGenerator<Shelved> {
  for (const step of steps) {
    for (const kind of kinds) {
      yield* entriesOnShelf(reader, { kind, cluster, step }, span);
    }
  }
}

async function* entriesOnShelf(
  reader: SegmentReader,
  shelf: Shelf,
  { since, until }: Span,
): AsyncGenerator<Shelved> {
  const after =
    since === undefined ? undefined : keyBefore(shelf, plusSeconds(since, -longestSegmentSeconds));
  const end = until === undefined ? undefined : keyBefore(shelf, until);
  for await (const key of reader.list(shelfPrefix(shelf), after)) {
    if (end !== undefined && key > end) {
      return;
    }
    let entries = 0;
    for await (const line of readSegment(reader.get(key))) {
      if (line.kind === 'entry') {
        entries += 1;
        const at = parseInstant(line.entry.at);
        const isMeant =
          at !== undefined &&
          (since === undefined || at >= since) &&
          (until === undefined || at < until);
        if (isMeant) {
          yield { kind: 'entry', where: `${key} entry ${entries}`, entry: line.entry };
        }
      } else {
        const why =
          line.kind === 'cut'
            ? 'the segment ends within it, or is damaged there'
            : 'it is no entry';
        yield { kind: 'bad', where: `${key} line ${line.line}`, why };
      }
    }
  }
}

/** Every hint that the archive tells of: those that were sent, and those that decisions were made for. */
export async function* hintsInArchive(
  reader: SegmentReader,
  cluster: string,
  steps: readonly StepName[],
  span: Span,
): AsyncGenerator<Found> {
  for await (const each of entriesIn(reader, ['decision', 'hint'], cluster, steps, span)) {
    yield each.kind === 'bad' ? each : hintInEntry(each.entry, each.where, cluster);
  }
}

/** Of the hints of one step about one target the newest; what is bad goes through. Holds one hint for each target and step. */
export async function* newestOfEach(all: AsyncIterable<Found>): AsyncGenerator<Found> {
  const newest = new Map<string, Extract<Found, { kind: 'hint' }>>();
  for await (const found of all) {
    if (found.kind === 'bad') {
      yield found;
      continue;
    }
    const key = `${found.step} ${nameOfTarget(found.hint.data)}`;
    const before = newest.get(key);
    if (before === undefined || (before.at ?? 0) <= (found.at ?? 0)) {
      newest.set(key, found);
    }
  }
  yield* newest.values();
}
