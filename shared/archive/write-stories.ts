import { randomUUID } from 'node:crypto';
import { version } from '#shared/api/version.ts';
import type { Decision } from '#shared/kernel/decision.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import type { LookStory } from '#shared/kernel/look-story.ts';
import type { Step } from '#shared/kernel/step.ts';
import type { TargetKind } from '#shared/kube/resources.ts';
import { type SegmentWriter, segmentKey } from './archive.ts';
import { archivedLook } from './archived-look.ts';
import { type DecisionEntry, maxEntryBytes } from './entry.ts';
import { hashed } from './hashed.ts';
import { packShards } from './packed-shards.ts';
import { encodeSegment } from './segment.ts';

interface Archive {
  readonly writer: SegmentWriter;
  /** The cluster id. */
  readonly cluster: string;
}

/** Writes the looks of one invocation as one segment. */
export async function writeStories<T extends TargetKind, Snapshot>(
  { writer, cluster }: Archive,
  step: Step<T, Snapshot>,
  stories: readonly LookStory<Snapshot>[],
  signal: AbortSignal,
): Promise<void> {
  const [first] = stories.toSorted((a, b) => a.at - b.at);
  if (first === undefined) {
    return;
  }
  const entries = await Promise.all(stories.map((story) => entryOf(step, cluster, story)));
  const shelf = { kind: 'decision' as const, cluster, step: step.name };
  await writer.put(segmentKey(shelf, first.at, randomUUID()), await encodeSegment(entries), signal);
}

async function entryOf<T extends TargetKind, Snapshot>(
  step: Step<T, Snapshot>,
  cluster: string,
  story: LookStory<Snapshot>,
): Promise<DecisionEntry> {
  const { hint, at, uid, result } = story;
  const { kind, namespace, name } = hint.data;
  const told: DecisionEntry = {
    v: 1,
    kind: 'decision',
    at: new Date(at).toISOString(),
    version,
    cluster,
    step: step.name,
    target: { kind, namespace, name, uid },
    hint: { id: hint.id, type: hint.type, time: hint.time },
    ...(await thoughtsOf(step, story)),
    result: result.kind === 'failed' ? result : { ...result, effects: [...result.effects] },
  };
  return lengthOf(told) <= maxEntryBytes ? told : shortened(told);
}

/** What was seen and decided, where the look came so far. */
async function thoughtsOf<T extends TargetKind, Snapshot>(
  step: Step<T, Snapshot>,
  { snapshot, decision, at }: LookStory<Snapshot>,
): Promise<Pick<DecisionEntry, 'snapshot' | 'decision' | 'carriedOut'>> {
  if (snapshot === undefined || decision === undefined) {
    return {};
  }
  const look = await archivedLook(step, snapshot, decision, at);
  const { outcome, reason, effects } = decision;
  return {
    snapshot: look.snapshot,
    decision: decisionOf(look.decision),
    ...(look.isFaithful
      ? {}
      : { carriedOut: { outcome, reason, effects: effects.map((effect) => effect.kind) } }),
  };
}

/** A decision as an entry has it: without what is counted and measured, which went to the metrics. */
export function decisionOf(decision: Decision): NonNullable<DecisionEntry['decision']> {
  const { outcome, reason, message, effects } = decision;
  return {
    outcome,
    reason,
    message,
    ...('needs' in decision ? { needs: decision.needs } : {}),
    ...('wake' in decision ? { wake: decision.wake } : {}),
    effects: effects.map(effectOf),
  };
}

/** Shards that are written are thousands as well; a hash says whether they are in the same order. */
function effectOf(effect: Effect): NonNullable<DecisionEntry['decision']>['effects'][number] {
  if (effect.kind !== 'writeShards') {
    return { ...effect };
  }
  const order = hashed(effect.writes.map(({ shard }) => shard).join());
  return { ...effect, writes: { ...packShards(effect.writes), order } };
}

/** Without its snapshot, and of its effects no more than their kinds: one of them may be as long. */
function shortened(entry: DecisionEntry): DecisionEntry {
  const { decision } = entry;
  return {
    ...entry,
    snapshot: undefined,
    cut: true,
    decision: decision && { ...decision, effects: decision.effects.map(({ kind }) => ({ kind })) },
  };
}

function lengthOf(entry: DecisionEntry): number {
  return Buffer.byteLength(JSON.stringify(entry));
}
