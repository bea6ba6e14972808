import pLimit from 'p-limit';
import * as z from 'zod';
import { stepsOf } from '#events/routes.ts';
import { goverseLabel, shardLabel } from '#shared/api/labels.ts';
import { type SegmentReader, shelfPrefix } from '#shared/archive/archive.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import { newestSegments } from '#shared/archive/find-segments.ts';
import { readLines } from '#shared/archive/lines.ts';
import { parseEntry } from '#shared/archive/segment.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { type Instant, parseInstant } from '#shared/kernel/instant.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import type { ObjectRef, TargetKind } from '#shared/kube/resources.ts';
import type { Timeline } from './protocol.ts';
import { type ToldEvent, timelineOf } from './timeline.ts';

export type TargetRef = ObjectRef<TargetKind> & { readonly namespace: string };

/** Where a target's past is read from. */
export interface PastPorts {
  readonly cluster: {
    readonly kube: KubeReader;
    readonly connection: Pick<KubeConnection, 'request'>;
  };
  /** The cluster id, and where decisions are archived; absent where no archive was named. */
  readonly archive?: {
    readonly reader: SegmentReader;
    readonly clusterId: string;
    readonly kept: KeptEntries;
  };
  readonly now: () => Instant;
}

/** The most segments of one step that are read for one picture, the newest. */
const maxSegments = 1_000;

/** Segments that are read at a time. */
const atATime = 16;

/** Reads what became of a target since an instant; `undefined` where there is no such target. */
export async function readTimeline(
  target: TargetRef,
  from: number,
  ports: PastPorts,
  signal: AbortSignal,
): Promise<Timeline | undefined> {
  const read = await ports.cluster.kube.get(target, signal);
  if (read.kind === 'absent') {
    return undefined;
  }
  if (read.kind === 'unknown') {
    throw new Error(read.why);
  }
  const gaps: string[] = [];
  const told = <T>(what: string, reading: Promise<readonly T[]>): Promise<readonly T[]> =>
    reading.catch((error: unknown) => {
      gaps.push(`${what} could not be read: ${describeError(error)}`);
      return [];
    });
  const [events, members, ...shelves] = await Promise.all([
    told('Events', readEvents(target, ports, signal)),
    told('pods', readMembers(target, ports, signal)),
    ...stepsOf(target.kind).map((step) =>
      told(`the archive of ${step}`, readEntries(target, step, from, ports, gaps, signal)),
    ),
  ]);
  if (ports.archive === undefined) {
    gaps.push(
      'no archive was named, so only Events, records and status are here; Events are kept for an hour as a rule',
    );
  }
  return timelineOf({
    target: read.value,
    kind: target.kind,
    entries: shelves.flat(),
    events,
    members,
    from,
    now: ports.now(),
    gaps,
  });
}

const eventList = z.looseObject({
  items: z.array(
    z.looseObject({
      type: z.string().optional(),
      reason: z.string().optional(),
      message: z.string().optional(),
      reportingInstance: z.string().optional(),
      source: z.looseObject({ component: z.string().optional() }).optional(),
      eventTime: z.string().nullish(),
      firstTimestamp: z.string().nullish(),
      lastTimestamp: z.string().nullish(),
    }),
  ),
});

async function readEvents(
  { kind, namespace, name }: TargetRef,
  { cluster }: PastPorts,
  signal: AbortSignal,
): Promise<readonly ToldEvent[]> {
  const answer = await cluster.connection.request({
    method: 'GET',
    path: collectionPath('Event', namespace),
    query: {
      fieldSelector: `involvedObject.kind=${kind},involvedObject.name=${name}`,
      limit: '2000',
    },
    signal,
  });
  if (answer.status !== 200) {
    throw new Error(answer.problem ?? `the API server answered with ${answer.status}`);
  }
  return eventList.parse(answer.body).items.flatMap((event) => {
    const at = parseInstant(event.lastTimestamp ?? event.eventTime ?? event.firstTimestamp ?? '');
    return at === undefined
      ? []
      : [
          {
            at,
            by: event.source?.component ?? event.reportingInstance ?? 'others',
            isWarning: event.type === 'Warning',
            reason: event.reason ?? '',
            message: event.message ?? '',
          },
        ];
  });
}

async function readMembers(
  { kind, namespace, name }: TargetRef,
  { cluster }: PastPorts,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const label = { Shard: shardLabel, GoverseCluster: goverseLabel, Database: undefined }[kind];
  if (label === undefined) {
    return [];
  }
  const read = await cluster.kube.list('Pod', { namespace, labels: { [label]: name } }, signal);
  if (read.kind === 'unknown') {
    throw new Error(read.why);
  }
  return read.kind === 'absent' ? [] : read.value.map(({ metadata }) => metadata.name);
}

/** The decisions of one step about the target, from the archive. */
async function readEntries(
  target: TargetRef,
  step: StepName,
  from: number,
  { archive, now }: PastPorts,
  gaps: string[],
  signal: AbortSignal,
): Promise<readonly DecisionEntry[]> {
  if (archive === undefined) {
    return [];
  }
  const shelf = shelfPrefix({ kind: 'decision', cluster: archive.clusterId, step });
  const span = { since: from, now: now() };
  const found = await newestSegments(archive.reader, shelf, span, maxSegments, signal);
  if (found.isCut) {
    gaps.push(
      `of ${step} only the newest ${maxSegments.toLocaleString('en')} segments are read: ask for a shorter time`,
    );
  }
  const limit = pLimit(atATime);
  const read = await Promise.all(
    found.keys.map((key) =>
      limit(() => {
        signal.throwIfAborted();
        return entriesIn(key, target, archive);
      }),
    ),
  );
  return read.flat();
}

/** Entries that are kept in all. A target that changes is read again every second, and its old segments never change. */
const mostKept = 50_000;

/** What segments were found to tell about targets: a segment is written once, as a whole. */
export class KeptEntries {
  readonly #entries = new Map<string, readonly DecisionEntry[]>();
  #count = 0;

  get(key: string, target: TargetRef): readonly DecisionEntry[] | undefined {
    return this.#entries.get(nameIn(key, target));
  }

  set(key: string, target: TargetRef, entries: readonly DecisionEntry[]): void {
    if (this.#count + entries.length > mostKept) {
      this.#entries.clear();
      this.#count = 0;
    }
    this.#entries.set(nameIn(key, target), entries);
    // A segment that tells nothing of the target is remembered, too.
    this.#count += entries.length + 1;
  }
}

function nameIn(key: string, { kind, namespace, name }: TargetRef): string {
  return `${kind}/${namespace}/${name} ${key}`;
}

async function entriesIn(
  key: string,
  target: TargetRef,
  { reader, kept }: NonNullable<PastPorts['archive']>,
): Promise<readonly DecisionEntry[]> {
  const known = kept.get(key, target);
  if (known !== undefined) {
    return known;
  }
  const entries = await Array.fromAsync(entriesOf(reader.get(key), target));
  kept.set(key, target, entries);
  return entries;
}

/** The lines of a segment about the target. Only lines in which its name stands are parsed: most are about others. */
async function* entriesOf(
  bytes: AsyncIterable<Uint8Array>,
  { kind, namespace, name }: TargetRef,
): AsyncGenerator<DecisionEntry> {
  const mention = JSON.stringify(name);
  for await (const line of readLines(bytes)) {
    const entry =
      line.kind === 'line' && line.text.includes(mention) ? parseEntry(line.text) : undefined;
    if (
      entry?.kind === 'decision' &&
      entry.target.kind === kind &&
      entry.target.namespace === namespace &&
      entry.target.name === name
    ) {
      // A snapshot is as long as everything else a hundred times, and not shown.
      const { snapshot: _, ...shown } = entry;
      yield shown;
    }
  }
}
