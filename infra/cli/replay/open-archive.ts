import type { SegmentReader } from '#shared/archive/archive.ts';
import { openSegmentReader } from '#shared/archive/open.ts';
import { parsePlace, placeForms } from '#shared/archive/place.ts';
import { readEnvironment } from '../settings.ts';
import { UsageError } from '../usage-error.ts';

/**
 * Opens what `--archive` names.
 *
 * @throws UsageError where it is no address of an archive
 */
export async function openArchive(url: string): Promise<SegmentReader> {
  const place = parsePlace(url);
  if (place === undefined) {
    throw new UsageError(
      `--archive ${JSON.stringify(url)} is no archive; write it as ${placeForms}`,
    );
  }
  return openSegmentReader(place, readEnvironment());
}
