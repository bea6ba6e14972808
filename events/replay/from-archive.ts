import type { StepName } from '#shared/api/steps.ts';
import type { SegmentReader } from '#shared/archive/archive.ts';
import type { Span } from '#shared/archive/find-segments.ts';
import { readArchive } from '#shared/archive/read-archive.ts';
import type { Found } from './found.ts';
import { hintInEntry } from './from-file.ts';
import { nameOfTarget } from './selection.ts';

/** Every hint that the archive tells of: those that were sent, and those that decisions were made for. */
export async function* hintsInArchive(
  reader: SegmentReader,
  cluster: string,
  steps: readonly StepName[],
  span: Span,
): AsyncGenerator<Found> {
  const query = { ...span, kinds: ['decision', 'hint'], cluster, steps } as const;
  for await (const each of readArchive(reader, query)) {
    yield each.kind === 'bad' ? each : hintInEntry(each.entry, each.where, cluster);
  }
}

/**
 * Of the hints of one step about one target the newest; what is bad goes through. Holds one hint for each target and step. Where
 * the signal aborts it ends with none: the newest may not have been among those that were read.
 */
export async function* newestOfEach(
  all: AsyncIterable<Found>,
  signal: AbortSignal,
): AsyncGenerator<Found> {
  const newest = new Map<string, Extract<Found, { kind: 'hint' }>>();
  for await (const found of all) {
    if (signal.aborted) {
      return;
    }
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
