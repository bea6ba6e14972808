import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { StepName } from '#shared/api/steps.ts';
import type { SegmentReader } from '#shared/archive/archive.ts';
import { readSegment } from '#shared/archive/segment.ts';
import { type Instant, parseInstant } from '#shared/kernel/instant.ts';
import { UsageError } from '../usage-error.ts';
import type { Recorded } from './replay-decisions.ts';

/** Which segments of an archive are read. What is absent leaves none out. */
export interface SegmentQuery {
  /** The cluster id. */
  readonly cluster?: string;
  readonly steps?: readonly StepName[];
  readonly since?: Instant;
  readonly until?: Instant;
}

/** The longest time from a segment's first entry to its last, in milliseconds. */
const longestSegmentMs = 3_600_000;

/** The decisions in an archive, segment by segment. */
export async function* decisionsInArchive(
  reader: SegmentReader,
  query: SegmentQuery,
): AsyncGenerator<Recorded> {
  const { cluster } = query;
  const prefix = cluster === undefined ? 'decisions/' : `decisions/${cluster}/`;
  for await (const key of reader.list(prefix)) {
    if (isMeant(key, query)) {
      yield* entriesOf(key, reader.get(key));
    }
  }
}

/** `decisions/<cluster>/<step>/2026/01/01/00/<time>-<writer>.jsonl.gz` */
function isMeant(key: string, { steps = [], since, until }: SegmentQuery): boolean {
  const [, step = '', time] =
    /^decisions\/[^/]+\/([^/]+)\/.*\/(\d{4}-\d\d-\d\dT[\d:.]+Z)-[^/]+$/.exec(key) ?? [];
  const first = parseInstant(time);
  return (
    (steps.length === 0 || steps.some((name) => name === step)) &&
    // A key of another form is read: its entries say themselves what they are.
    (first === undefined ||
      ((since === undefined || first >= since - longestSegmentMs) &&
        (until === undefined || first < until)))
  );
}

/**
 * The decisions in a file of JSON lines, or in all `.jsonl` and `.jsonl.gz` below a folder, in the order of their names.
 *
 * @throws UsageError where there is no such file
 */
export async function* decisionsInFile(path: string): AsyncGenerator<Recorded> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) {
    throw new UsageError(`there is no file or folder ${path}`);
  }
  if (!found.isDirectory()) {
    yield* entriesOf(path, createReadStream(path));
    return;
  }
  const names = await readdir(path, { recursive: true });
  for (const name of names.filter((each) => /\.jsonl(\.gz)?$/.test(each)).toSorted()) {
    yield* entriesOf(name, createReadStream(join(path, name)));
  }
}

async function* entriesOf(
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
