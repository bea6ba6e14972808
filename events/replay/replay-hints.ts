import type { StepName } from '#shared/api/steps.ts';
import type { Clock } from '#shared/kernel/instant.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { maxBatchEntries } from '#shared/queue/queue.ts';
import { messageAgain } from './again.ts';
import type { Found } from './found.ts';
import type { Pace } from './patience.ts';
import { type Selection, isSelected } from './selection.ts';
import { type Parcel, type SendingPorts, sendBatch } from './send-batch.ts';

export interface HintReplay {
  readonly stage: string;
  readonly selection: Selection;
  readonly limit?: number;
}

export interface HintPorts extends SendingPorts {
  readonly clock: Clock;
  readonly pace: Pace;
  readonly onProgress?: (counts: HintCounts) => void;
  readonly onRemark?: (remark: HintRemark) => void;
}

/** What became of what a file or an archive holds, counted. */
export interface HintCounts {
  seen: number;
  sent: number;
  /** Of those, how many may have been taken more than once. */
  perhapsTwice: number;
  /** What is nothing that could be sent. */
  bad: number;
  left: number;
  failed: number;
}

export interface HintRemark {
  readonly kind: 'bad' | 'failed';
  readonly where: string;
  readonly why: string;
}

export interface HintResult {
  readonly counts: HintCounts;
  readonly error?: unknown;
}

/** Keeps those that are meant, up to the limit, and counts the others. */
export async function* meant(
  all: AsyncIterable<Found>,
  { selection, limit = Infinity }: Pick<HintReplay, 'selection' | 'limit'>,
  counts: HintCounts,
  onRemark: (remark: HintRemark) => void = () => undefined,
): AsyncGenerator<Extract<Found, { kind: 'hint' }>> {
  let taken = 0;
  for await (const found of all) {
    counts.seen += 1;
    if (found.kind === 'bad') {
      counts.bad += 1;
      onRemark(found);
    } else if (isSelected(selection, { ...found, target: found.hint.data })) {
      yield found;
      taken += 1;
      if (taken >= limit) {
        return;
      }
    } else {
      counts.left += 1;
    }
  }
}

export function noHintCounts(): HintCounts {
  return { seen: 0, sent: 0, perhapsTwice: 0, bad: 0, left: 0, failed: 0 };
}

/**
 * Sends hints that were found in a file or an archive, in batches of one step each, in their order within a step. Holds no
 * more than a batch for each step. Where the signal aborts, what was begun is finished.
 */
export async function replayHints(
  all: AsyncIterable<Found>,
  replay: HintReplay,
  ports: HintPorts,
  signal: AbortSignal,
): Promise<HintResult> {
  const counts = noHintCounts();
  const batches = new Map<StepName, Parcel[]>();
  let error: unknown;
  const flush = async (step: StepName, parcels: readonly Parcel[]): Promise<void> => {
    await ports.pace.take(parcels.length, signal);
    if (signal.aborted || error !== undefined) {
      return;
    }
    const outcome = await sendBatch(replay.stage, step, parcels, ports);
    error = outcome.refusal;
    counts.sent += outcome.sent.size;
    counts.perhapsTwice += outcome.perhapsTwice;
    counts.failed += outcome.failed.size;
    for (const [where, { why }] of outcome.failed) {
      ports.onRemark?.({ kind: 'failed', where, why });
    }
    ports.onProgress?.(counts);
  };
  try {
    for await (const { step, hint, where } of meant(all, replay, counts, ports.onRemark)) {
      if (signal.aborted || error !== undefined) {
        break;
      }
      const batch = batches.get(step) ?? [];
      batches.set(step, batch);
      try {
        const message = messageAgain({ step, hint }, ports.clock());
        batch.push({ key: where, message, group: hint.data.uid });
      } catch (problem) {
        counts.bad += 1;
        ports.onRemark?.({ kind: 'bad', where, why: describeError(problem) });
      }
      if (batch.length === maxBatchEntries) {
        await flush(step, batch.splice(0));
      }
    }
    for (const [step, batch] of batches) {
      if (batch.length > 0) {
        await flush(step, batch);
      }
    }
  } catch (problem) {
    error ??= problem;
  }
  return { counts, ...(error === undefined ? {} : { error }) };
}
