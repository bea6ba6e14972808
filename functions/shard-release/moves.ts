import { releaseMirror } from '#shared/api/annotations.ts';
import type { Reason } from '#shared/api/reasons.ts';
import type { GoverseView, ShardWrite } from '#shared/goverse/goverse.ts';
import type { Check, Decision } from '#shared/kernel/decision.ts';
import { type Effect, maxShardWrites } from '#shared/kernel/effect.ts';
import { type Instant, secondsBetween, parseInstant, toText } from '#shared/kernel/instant.ts';
import { advanceRecord } from '#shared/kernel/own-record.ts';
import { type Wake, recordText } from '#shared/kernel/record.ts';
import type { Books } from './books.ts';
import type { ReleaseRecord, ReleaseState } from './record.ts';
import type { PodView, ReleaseSnapshot } from './snapshot.ts';

export type ReleaseEffect = 'advance' | 'applyStatus' | 'emitEvent' | 'patchObject' | 'writeShards';
export type ReleaseDecision = Decision<ReleaseEffect>;

/** What the rows look at: what was read, and what follows from it. */
export interface ReleaseInput {
  readonly snapshot: ReleaseSnapshot;
  readonly view: GoverseView;
  readonly pods: readonly PodView[];
  readonly books: Books;
  /** The state that the record is in, or as good as in. */
  readonly state: ReleaseState;
}

export type ReleaseCheck = Check<ReleaseInput, ReleaseEffect>;

/** While shards move, a look comes this often by itself, in seconds: a quiet hand-over takes ten. */
const movingSeconds = 2;

/** Once what should have moved has not for so long, in seconds, looks come less often. */
const patienceSeconds = 120;
const slowMovingSeconds = 15;

/** While only a person or an outside repair can help, in seconds. */
export const slowWakeSeconds = 60;

export function recordOf({ record }: ReleaseSnapshot): ReleaseRecord | null {
  return record.kind === 'ours' ? record.record : null;
}

/** The wake of a state that goes on by itself. */
export function soon(snapshot: ReleaseSnapshot, state: ReleaseState, now: Instant): Wake {
  const since = parseInstant(sinceOf(snapshot, state, now)) ?? now;
  return secondsBetween(since, now) < patienceSeconds
    ? { every: movingSeconds }
    : { every: slowMovingSeconds };
}

/** The record as this look leaves it; `null` where there is nothing to remember. */
export function recordAfter(
  snapshot: ReleaseSnapshot,
  books: Pick<Books, 'data'>,
  next: { readonly state: ReleaseState; readonly reason: Reason; readonly wake?: Wake },
  now: Instant,
): ReleaseRecord | null {
  const { uid, generation } = snapshot.cluster;
  const { state, reason, wake } = next;
  if (state === 'resting' && wake === undefined && Object.keys(books.data).length === 0) {
    return null;
  }
  return {
    v: 1,
    uid,
    key: `shard-release/${uid}/${state}`,
    state,
    generation,
    attempt: 0,
    since: sinceOf(snapshot, state, now),
    reason,
    ...(wake === undefined ? {} : { wake }),
    data: books.data,
  };
}

/** Writes the record, unless it is in force as it is. */
export function advanceTo(
  { cluster, record }: ReleaseSnapshot,
  next: ReleaseRecord | null,
): Effect<'advance'>[] {
  const text = next === null ? null : recordText(next);
  const standing = record.kind === 'ours' ? recordText(record.record) : record.text;
  return text === standing ? [] : [advanceRecord(cluster, next, record.text)];
}

/** The writes under the record with this key, as many as one invocation may do. */
export function shardWrites(
  { cluster }: ReleaseSnapshot,
  writes: readonly ShardWrite[],
  recordKey: string,
): Effect<'writeShards'> {
  const { namespace, name, uid, generation } = cluster;
  return {
    kind: 'writeShards',
    cluster: { namespace, name, uid, generation },
    writes: writes
      .slice(0, maxShardWrites)
      .map(({ shard, target, current, flags, modRevision }) => ({
        shard,
        target,
        current,
        flags: [...flags],
        modRevision,
      })),
    guard: { recordKey },
  };
}

/** Tells each pod, and whoever asks the relay about it, how far it is. Only where that is not there already. */
export function mirrorEffects(
  { cluster }: ReleaseSnapshot,
  books: Books,
  pods: readonly PodView[],
): Effect<'patchObject'>[] {
  return pods
    .filter((pod) => mirrorOf(books, pod) !== pod.mirror)
    .map((pod) => ({
      kind: 'patchObject',
      object: { kind: 'Pod', namespace: cluster.namespace, name: pod.name },
      patch: { metadata: { annotations: { [releaseMirror]: mirrorOf(books, pod) } } },
      guard: { uid: pod.uid, resourceVersion: pod.resourceVersion },
    }));
}

function mirrorOf({ data }: Books, pod: PodView): string | null {
  const leaver = data.leavers?.find(({ uid }) => uid === pod.uid);
  if (leaver === undefined) {
    // Of a pod that has left the cluster and still stops, what was said stays true.
    return pod.isBeingDeleted && pod.mirror === 'released' ? pod.mirror : null;
  }
  switch (leaver.end) {
    case undefined:
      return 'draining';
    case 'released':
    case 'timeout':
      return 'released';
    case 'givenUp':
      return null;
  }
}

function sinceOf({ record }: ReleaseSnapshot, state: ReleaseState, now: Instant): string {
  return record.kind === 'ours' && record.record.state === state
    ? record.record.since
    : toText(now);
}
