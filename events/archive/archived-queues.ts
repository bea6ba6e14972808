import { randomUUID } from 'node:crypto';
import type { HintEntry } from '#shared/archive/entry.ts';
import { type SegmentWriter, segmentKey } from '#shared/archive/archive.ts';
import { encodeSegment } from '#shared/archive/segment.ts';
import { queueName } from '#events/hint.ts';
import type { Timers } from '#events/relay/timers.ts';
import type { StepName } from '#shared/api/steps.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { parseInstant } from '#shared/kernel/instant.ts';
import type { QueueEntry, QueueSender } from '#shared/queue/queue.ts';

export interface ArchivedQueuesParts {
  readonly queues: QueueSender;
  readonly writer: SegmentWriter;
  readonly clusterId: string;
  readonly stage: string;
  readonly steps: readonly StepName[];
  readonly timers: Pick<Timers, 'now' | 'after'>;
  /** Told of hints that were sent and not recorded. */
  readonly onLost: (why: string, hints: number) => void;
}

/** Queues whose acknowledged messages are recorded. */
export interface ArchivedQueues extends QueueSender {
  /** Writes what is gathered, for at most so long. */
  flush(graceMs: number): Promise<void>;
}

/** How many hints make a segment, how long the first of them waits for others, and how long writing one may take. */
const fullAt = 500;
const gatherMs = 60_000;
const writeMs = 10_000;

/**
 * Records the hints that a queue has taken, in a segment for each step. Recording holds up no hint, and its failures lose
 * nothing but the record: what cannot be written is told and dropped, so that an archive that is away costs no memory.
 */
export function archivedQueues(parts: ArchivedQueuesParts): ArchivedQueues {
  const { queues, steps, stage } = parts;
  const shelves = new Map(
    steps.map((step) => [queueName(stage, step), new HintShelf(step, parts)]),
  );
  return {
    async send(queue, entries, signal) {
      const outcome = await queues.send(queue, entries, signal);
      const acknowledged = new Set(outcome.acknowledged);
      shelves.get(queue)?.add(entries.filter(({ id }) => acknowledged.has(id)));
      return outcome;
    },
    async flush(graceMs) {
      const signal = AbortSignal.timeout(graceMs);
      await Promise.all([...shelves.values()].map((shelf) => shelf.flush(signal)));
    },
  };
}

/** The hints of one step that are not written yet. */
class HintShelf {
  readonly #step: StepName;
  readonly #parts: ArchivedQueuesParts;
  #gathered: HintEntry[] = [];
  #cancelTimer: (() => void) | undefined;
  /** The segments on their way, one after the other. */
  #writing: Promise<void> = Promise.resolve();
  #isWriting = false;

  constructor(step: StepName, parts: ArchivedQueuesParts) {
    this.#step = step;
    this.#parts = parts;
  }

  add(entries: readonly QueueEntry[]): void {
    if (entries.length === 0) {
      return;
    }
    const at = new Date(this.#parts.timers.now()).toISOString();
    this.#gathered.push(...entries.map(({ body }) => this.#entryOf(body, at)));
    this.#cancelTimer ??= this.#parts.timers.after(gatherMs, () => void this.flush());
    if (this.#gathered.length >= fullAt) {
      void this.flush();
    }
  }

  /** Never rejects. */
  flush(signal?: AbortSignal): Promise<void> {
    const entries = this.#gathered;
    if (entries.length === 0) {
      return this.#writing;
    }
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#gathered = [];
    if (this.#isWriting && signal === undefined) {
      // The archive is slower than hints come: two segments of one step are never in memory for it.
      this.#parts.onLost('the segment before is still being written', entries.length);
      return this.#writing;
    }
    this.#isWriting = true;
    this.#writing = this.#writing
      .then(() => this.#write(entries, signal ?? AbortSignal.timeout(writeMs)))
      .finally(() => {
        this.#isWriting = false;
      });
    return this.#writing;
  }

  async #write(entries: readonly HintEntry[], signal: AbortSignal): Promise<void> {
    const { clusterId: cluster, writer, timers, onLost } = this.#parts;
    const first = parseInstant(entries[0]?.at) ?? timers.now();
    const shelf = { kind: 'hint' as const, cluster, step: this.#step };
    try {
      await writer.put(
        segmentKey(shelf, first, randomUUID()),
        await encodeSegment(entries),
        signal,
      );
    } catch (error) {
      onLost(describeError(error), entries.length);
    }
  }

  #entryOf(body: string, at: string): HintEntry {
    const hint: unknown = JSON.parse(body);
    return { v: 1, kind: 'hint', at, cluster: this.#parts.clusterId, step: this.#step, hint };
  }
}
