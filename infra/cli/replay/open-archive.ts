import type { SegmentReader } from '#shared/archive/archive.ts';
import { UsageError } from '../usage-error.ts';

/** @throws UsageError where the address is none of an archive */
export function openArchive(url: string): SegmentReader {
  throw new UsageError(`--archive ${url}: this release cannot read archives yet`);
}
