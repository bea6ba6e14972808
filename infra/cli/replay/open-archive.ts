import type { SegmentReader } from '#shared/archive/archive.ts';
import { openSegmentReader } from '#shared/archive/open.ts';
import { type ArchivePlace, parsePlace, placeForms } from '#shared/archive/place.ts';
import { readEnvironment } from '../settings.ts';
import { UsageError } from '../usage-error.ts';
import { Progress } from './progress.ts';

/**
 * Opens what `--archive` names. As long as it is read, it is said how far.
 *
 * @throws UsageError where it is no address of an archive
 */
export async function openArchive(url: string): Promise<SegmentReader> {
  return telling(await openSegmentReader(archivePlace(url), readEnvironment()));
}

/**
 * What `--archive` names.
 *
 * @throws UsageError where it is no address of an archive
 */
export function archivePlace(url: string): ArchivePlace {
  const place = parsePlace(url);
  if (place === undefined) {
    throw new UsageError(
      `--archive ${JSON.stringify(url)} is no archive; write it as ${placeForms}`,
    );
  }
  return place;
}

function telling(reader: SegmentReader): SegmentReader {
  let progress: Progress | undefined;
  let segments = 0;
  return {
    list: (prefix, after) => reader.list(prefix, after),
    folders: (prefix) => reader.folders(prefix),
    get(key) {
      progress ??= new Progress('reading the archive, segments', undefined, 'changes');
      segments += 1;
      progress.reached(segments);
      return reader.get(key);
    },
    close() {
      progress?.end();
      reader.close();
    },
  };
}
