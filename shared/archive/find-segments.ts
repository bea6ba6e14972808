import { type Instant, plusSeconds } from '#shared/kernel/instant.ts';
import { type SegmentReader, folderOf, keyBefore } from './archive.ts';

/** From when on, and until before when, entries are meant. */
export interface Span {
  readonly since?: Instant;
  readonly until?: Instant;
}

/** A segment may have begun so long before what it holds, in seconds. */
const longestSegmentSeconds = 3600;

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/**
 * The segments of a shelf that may hold something of a span, the oldest first.
 *
 * @param shelf its prefix
 */
export async function* segmentsWithin(
  reader: SegmentReader,
  shelf: string,
  { since, until }: Span,
): AsyncGenerator<string> {
  const after =
    since === undefined ? undefined : keyBefore(shelf, plusSeconds(since, -longestSegmentSeconds));
  const end = until === undefined ? undefined : keyBefore(shelf, until);
  for await (const key of reader.list(shelf, after)) {
    if (end !== undefined && key > end) {
      return;
    }
    yield key;
  }
}

/**
 * The segments of a shelf that may hold something since an instant, the newest first, and up to `most` of them. The shelf is
 * listed backwards, the last day by its hours and what is before it by its days: a shelf may hold a segment for each look of
 * months, and a list can only go forwards.
 *
 * @param shelf its prefix
 */
export async function newestSegments(
  reader: SegmentReader,
  shelf: string,
  { since, now }: { readonly since: number; readonly now: number },
  most: number,
  signal: AbortSignal,
): Promise<{ readonly keys: readonly string[]; readonly isCut: boolean }> {
  const keys: string[] = [];
  for (const folder of foldersBack(shelf, since, now)) {
    signal.throwIfAborted();
    keys.push(...(await Array.fromAsync(reader.list(folder))).toReversed());
    if (keys.length > most) {
      return { keys: keys.slice(0, most), isCut: true };
    }
  }
  return { keys, isCut: false };
}

/** Folders of a shelf, the newest first. A segment is found by its first entry, so one hour more is looked at. */
function* foldersBack(shelf: string, since: number, now: number): Generator<string> {
  const first = since - longestSegmentSeconds * 1000;
  const lastDay = Math.floor((now - dayMs) / dayMs) * dayMs + dayMs;
  for (
    let at = Math.floor(now / hourMs) * hourMs;
    at >= lastDay && at > first - hourMs;
    at -= hourMs
  ) {
    yield folderOf(shelf, at, 'hour');
  }
  for (let at = lastDay - dayMs; at > first - dayMs && at >= 0; at -= dayMs) {
    yield folderOf(shelf, at, 'day');
  }
}
