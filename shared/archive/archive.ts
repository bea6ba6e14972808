import type { StepName } from '#shared/api/steps.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { EntryKind } from './entry.ts';

/** Where segments are written. */
export interface SegmentWriter {
  /** Writes one segment as a whole. Rejects where it may not have been written. */
  put(key: string, bytes: Uint8Array, signal: AbortSignal): Promise<void>;
  close(): void;
}

/** Where segments are read, oldest first within a prefix. */
export interface SegmentReader {
  /**
   * The keys below a prefix in their order, those up to `after` left out.
   *
   * @throws Error with what to look at where the archive cannot be listed
   */
  list(prefix: string, after?: string): AsyncIterable<string>;
  /**
   * The prefixes one level below a prefix that ends with `/`, in their order and each with its own `/`.
   *
   * @throws Error as `list`
   */
  folders(prefix: string): AsyncIterable<string>;
  /** A segment's bytes, as they arrive; none where it is gone. */
  get(key: string): AsyncIterable<Uint8Array>;
  close(): void;
}

/** What segments are sorted by: kind, cluster and step. */
export interface Shelf {
  readonly kind: EntryKind;
  /** The cluster id. */
  readonly cluster: string;
  readonly step: StepName;
}

/** `decisions/<cluster>/<step>/`: what is asked for by kind, cluster and step lies together, in the order of time. */
export function shelfPrefix({ kind, cluster, step }: Shelf): string {
  // An id may hold anything: it must become one part of a path, and never the one that leads upwards.
  const folder = encodeURIComponent(cluster).replace(/^\./, '_.');
  return `${kindPrefix(kind)}${folder}/${step}/`;
}

/** `decisions/`: below it lies one folder for each cluster. */
export function kindPrefix(kind: EntryKind): string {
  return `${kind}s/`;
}

/**
 * Where a segment lies: `decisions/<cluster>/<step>/2026/01/01/00/2026-01-01T00:00:00.000Z-<writer>.jsonl.gz`.
 *
 * @param first the time of its first entry
 * @param writer makes the key the writer's own: an invocation's id, or a process's and a count
 */
export function segmentKey(shelf: Shelf, first: Instant, writer: string): string {
  return `${keyBefore(shelfPrefix(shelf), first)}-${writer}.jsonl.gz`;
}

/**
 * The key before every segment on a shelf whose first entry is of this time or later, for `list`.
 *
 * @param shelf a shelf's prefix
 */
export function keyBefore(shelf: string, time: Instant): string {
  return `${folderOf(shelf, time, 'hour')}${new Date(time).toISOString()}`;
}

/** What begins within an hour, or a day: `<shelf>2026/01/01/`, for an hour with the hour behind it. */
export function folderOf(shelf: string, time: number, length: 'hour' | 'day'): string {
  const text = new Date(time).toISOString().slice(0, length === 'hour' ? 13 : 10);
  return `${shelf}${text.replaceAll(/[-T]/g, '/')}/`;
}
