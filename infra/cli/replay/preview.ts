import pLimit from 'p-limit';
import type { LetterGroup } from '#events/replay/list-letters.ts';
import { backupConfig } from '#functions/backup-config/step.ts';
import { backupTrigger } from '#functions/backup-trigger/step.ts';
import { drainStep } from '#functions/drain-step/step.ts';
import { etcdCleanup } from '#functions/etcd-cleanup/step.ts';
import { poolPods } from '#functions/pool-pods/step.ts';
import { shardRelease } from '#functions/shard-release/step.ts';
import type { StepName } from '#shared/api/steps.ts';
import { RetryableError, TerminalError, describeError } from '#shared/kernel/errors.ts';
import { type Clock, wallClock } from '#shared/kernel/instant.ts';
import type { Outside } from '#shared/kernel/pipeline.ts';
import { present } from '#shared/kernel/read.ts';
import type { Step } from '#shared/kernel/step.ts';
import type { TargetKind } from '#shared/kube/resources.ts';

/** All that a preview reads through. Nothing here can write, and no executor is in reach. */
export type Readers = Pick<Outside, 'kube' | 'ports'>;

/** What a step would decide about a target now. */
export type LookNow =
  | {
      readonly kind: 'decided';
      readonly outcome: 'settled' | 'waiting' | 'acting' | 'blocked';
      readonly reason: string;
      readonly message: string;
      /** What would be written, by kind. */
      readonly effects: readonly string[];
      /** Why something could not be read, each once: a function may reach more, or less. */
      readonly unknown: readonly string[];
    }
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly reason: string; readonly why: string };

/** What was decided about a target before, or how the look failed. */
export interface LookBefore {
  readonly at: string;
  /** Whether the letter's own hint led to it; else it is the last failure of this step on this target. */
  readonly isOfHint: boolean;
  readonly outcome: 'settled' | 'waiting' | 'acting' | 'blocked' | 'failed';
  readonly reason: string;
}

/** One group of letters, and what replaying them would lead to. */
export interface Preview extends LetterGroup {
  readonly now: LookNow;
  readonly before?: LookBefore;
  /** Whether it would be decided otherwise than it was; absent where nobody knows what was. */
  readonly isDifferent?: boolean;
}

interface Place {
  readonly namespace: string;
  readonly name: string;
}

type Looker = (
  place: Place,
  readers: Readers,
  clock: Clock,
  signal: AbortSignal,
) => Promise<LookNow>;

/** Targets that are looked at side by side. */
const looksAtOnce = 5;

/** How long one look may take, in milliseconds: as long as a function may, by default. */
const lookTimeoutMs = 30_000;

/** The most reasons that are told of one look's unanswered questions. */
const maxUnknown = 5;

const lookers: { readonly [Name in StepName]: Looker } = {
  'drain-step': lookerOf(drainStep),
  'pool-pods': lookerOf(poolPods),
  'backup-config': lookerOf(backupConfig),
  'backup-trigger': lookerOf(backupTrigger),
  'etcd-cleanup': lookerOf(etcdCleanup),
  'shard-release': lookerOf(shardRelease),
};

/**
 * Looks at the target of each group as its step would, and decides, but does nothing about it.
 *
 * @param before what was decided before, where that is known
 * @param onPreview told of each as soon as it is there, in no certain order
 */
export async function previewAll(
  groups: readonly LetterGroup[],
  readers: Readers,
  before: (group: LetterGroup) => LookBefore | undefined,
  signal: AbortSignal,
  onPreview?: (preview: Preview) => void,
): Promise<readonly Preview[]> {
  return pLimit(looksAtOnce).map([...groups], async (group) => {
    const timeout = AbortSignal.any([signal, AbortSignal.timeout(lookTimeoutMs)]);
    const now = await lookNow(group.step, group.target, readers, timeout);
    const preview = compared(group, now, before(group));
    onPreview?.(preview);
    return preview;
  });
}

/** What a step would decide about one target now. Never rejects: whatever stands in the way is a look that failed. */
export function lookNow(
  step: StepName,
  place: Place,
  readers: Readers,
  signal: AbortSignal,
): Promise<LookNow> {
  return lookers[step](place, readers, wallClock, signal);
}

function compared(group: LetterGroup, now: LookNow, before: LookBefore | undefined): Preview {
  if (before === undefined) {
    return { ...group, now };
  }
  const isDifferent =
    now.kind === 'decided'
      ? now.outcome !== before.outcome || now.reason !== before.reason
      : now.kind === 'gone'
        ? before.reason !== 'TargetGone'
        : before.outcome !== 'failed' || now.reason !== before.reason;
  return { ...group, now, before, isDifferent };
}

function lookerOf<T extends TargetKind, Snapshot>(step: Step<T, Snapshot>): Looker {
  return async (place, { kube, ports }, clock, signal) => {
    try {
      const read = await kube.get<T>({ kind: step.target, ...place }, signal);
      if (read.kind === 'absent') {
        return { kind: 'gone' };
      }
      if (read.kind === 'unknown') {
        return { kind: 'failed', reason: 'TargetUnknown', why: read.why };
      }
      const snapshot = await step.observe(present(read.value), ports, signal, clock);
      const { outcome, reason, message, effects } = step.decide(snapshot, clock());
      const kinds = effects.map(({ kind }) => kind);
      const unknown = [...new Set(unknownIn(snapshot))].slice(0, maxUnknown);
      return { kind: 'decided', outcome, reason, message, effects: kinds, unknown };
    } catch (error) {
      const isTold = error instanceof RetryableError || error instanceof TerminalError;
      const reason = isTold ? error.reason : 'Unexpected';
      return { kind: 'failed', reason, why: describeError(error) };
    }
  };
}

/** Why each read in a snapshot stayed without an answer. A snapshot is plain JSON. */
function unknownIn(value: unknown): readonly string[] {
  if (typeof value !== 'object' || value === null) {
    return [];
  }
  if ('kind' in value && value.kind === 'unknown' && 'why' in value) {
    // What did not matter was not asked for, as in a look.
    return typeof value.why === 'string' && value.why !== 'it was not asked' ? [value.why] : [];
  }
  return Object.values(value).flatMap(unknownIn);
}
