import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { deadLetterQueueName } from '#events/hint.ts';
import type { ReasonOf } from '#events/replay/failures.ts';
import { openJournal, readOpenLetters } from '#events/replay/journal-file.ts';
import { type LetterGroup, type LetterList, listLetters } from '#events/replay/list-letters.ts';
import { Pace, type Pause, type Trying, patiently, realPause } from '#events/replay/patience.ts';
import {
  type LetterCounts,
  type LetterRemark,
  type LetterResult,
  replayLetters,
} from '#events/replay/replay-letters.ts';
import type { Selection } from '#events/replay/selection.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import { version } from '#shared/api/version.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { toText, wallClock } from '#shared/kernel/instant.ts';
import { QueueRefusal } from '#shared/queue/explain.ts';
import type { LetterQueues, QueueSender } from '#shared/queue/queue.ts';
import { type LookBefore, type Preview, type Readers, previewAll } from './preview.ts';

/** What is known of earlier decisions about the targets of groups. */
export type History = (
  groups: readonly LetterGroup[],
  signal: AbortSignal,
) => Promise<(group: LetterGroup) => LookBefore | undefined>;

export interface DeadLettersOptions {
  readonly stage: string;
  /** The cluster id. */
  readonly cluster: string;
  readonly letters: LetterQueues;
  readonly sender: QueueSender;
  /** The data folder of this cluster: journals go into a folder of their own in it. */
  readonly dataFolder: string;
  /** Absent where nothing is previewed. */
  readonly readers?: Readers;
  /** Absent where there is no archive. */
  readonly history?: History;
  /** Told of each request that is made again. */
  readonly onRetry?: (why: string) => void;
  readonly pause?: Pause;
}

/** Which letters are meant. */
export interface LetterQuery {
  readonly steps: readonly StepName[];
  readonly selection: Selection;
  /** Why letters are dead, where reasons are selected. */
  readonly reasonOf?: ReasonOf | undefined;
  /** The most that are sent. */
  readonly limit?: number;
}

export interface ReplayOptions extends LetterQuery {
  /** The most hints a second. */
  readonly rate: number;
  /** Deletes what is no hint, once it is copied beside the journal. */
  readonly isDiscarding?: boolean;
  readonly onProgress?: (counts: LetterCounts) => void;
  readonly onRemark?: (remark: LetterRemark) => void;
}

export interface ReplayResult extends LetterResult {
  /** Where it is written down what was done. */
  readonly journal: string;
}

/** About how many letters a step has; `undefined` with the reason why nobody knows. */
export interface StepLetters {
  readonly step: StepName;
  readonly letters?: number;
  /** Of those, how many somebody has in hand at the moment. */
  readonly hidden?: number;
  readonly error?: unknown;
}

/** How long letters stay hidden, in seconds: at least, and SQS's limit. */
const leastHiddenSeconds = 120;
const mostHiddenSeconds = 43_200;

/** How many letters a second are read where nothing is sent. */
const readRate = 300;

/** Batches in work at a time: one for so many hints a second, up to the most. */
const hintsPerLane = 50;
const mostLanes = 8;

/** A server that fails for a moment is asked again. One that does not answer is told of at once: a setting may be wrong. */
function isNoMoment(error: unknown): boolean {
  return !(error instanceof QueueRefusal) || error.isLasting;
}

/** The dead letters of one stage: what there is, what replaying it would lead to, and replaying it. */
export class DeadLetters {
  readonly #options: DeadLettersOptions;
  readonly #trying: Trying;

  constructor(options: DeadLettersOptions) {
    this.#options = options;
    this.#trying = {
      pause: options.pause ?? realPause,
      random: Math.random,
      onRetry: options.onRetry ?? (() => undefined),
    };
  }

  /** Of every step, or those asked for. Each answers for itself. */
  sizes(steps: readonly StepName[] = stepNames): Promise<readonly StepLetters[]> {
    const { stage, letters } = this.#options;
    const quietly = { ...this.#trying, onRetry: () => undefined };
    return Promise.all(
      steps.map(async (step): Promise<StepLetters> => {
        try {
          const { visible, hidden } = await patiently(
            quietly,
            () => letters.size(deadLetterQueueName(stage, step)),
            isNoMoment,
          );
          return { step, letters: visible + hidden, hidden };
        } catch (error) {
          return { step, error };
        }
      }),
    );
  }

  /** Receives every letter once and shows it again; nothing is sent. */
  async list(
    query: LetterQuery,
    signal: AbortSignal,
    onProgress?: (counts: LetterCounts) => void,
  ): Promise<LetterList> {
    const { stage, cluster, letters } = this.#options;
    const hiddenSeconds = await this.#hiddenSeconds(query.steps, readRate);
    return listLetters(
      { stage, cluster, hiddenSeconds, ...query },
      {
        letters,
        journal: await readOpenLetters(this.#folder),
        trying: this.#trying,
        clock: wallClock,
        ...(onProgress === undefined ? {} : { onProgress }),
      },
      signal,
    );
  }

  /** What the step of each group would decide now, beside what was decided then. Reads, and does nothing. */
  async preview(
    groups: readonly LetterGroup[],
    signal: AbortSignal,
    onPreview?: (preview: Preview) => void,
  ): Promise<readonly Preview[]> {
    const { readers, history } = this.#options;
    if (readers === undefined) {
      throw new Error('there is nothing to look through');
    }
    const before = (await history?.(groups, signal)) ?? (() => undefined);
    return previewAll(groups, readers, before, signal, onPreview);
  }

  /** Sends what fits again, and deletes each letter once its hint is acknowledged. */
  async replay(options: ReplayOptions, signal: AbortSignal): Promise<ReplayResult> {
    const { stage, cluster, letters, sender } = this.#options;
    const { steps, selection, reasonOf, limit, rate, isDiscarding, onProgress, onRemark } = options;
    const hiddenSeconds = await this.#hiddenSeconds(steps, rate);
    const journal = await openJournal(this.#folder, wallClock(), {
      by: `${userInfo().username}@${hostname()}`,
      version,
      cluster,
      stage,
      source: 'dead letters',
      steps,
      selection,
      rate,
      ...(limit === undefined ? {} : { limit }),
    });
    const result = await replayLetters(
      {
        stage,
        cluster,
        steps,
        selection,
        reasonOf,
        hiddenSeconds,
        lanes: Math.min(mostLanes, Math.ceil(rate / hintsPerLane)),
        ...(limit === undefined ? {} : { limit }),
        ...(isDiscarding === true ? { discard: (kept) => journal.keep(kept) } : {}),
      },
      {
        letters,
        sender,
        journal,
        trying: this.#trying,
        clock: wallClock,
        pace: new Pace(rate, this.#trying.pause, () => performance.now()),
        ...(onProgress === undefined ? {} : { onProgress }),
        ...(onRemark === undefined ? {} : { onRemark }),
      },
      signal,
    );
    const { counts, error } = result;
    const end = error !== undefined ? describeError(error) : signal.aborted ? 'stopped' : 'done';
    await journal.end({ at: toText(wallClock()), end, counts });
    return { ...result, journal: journal.path };
  }

  get #folder(): string {
    return join(this.#options.dataFolder, 'replay');
  }

  /** Twice as long as it should take, since letters come back to others when the time is over. */
  async #hiddenSeconds(steps: readonly StepName[], rate: number): Promise<number> {
    const sizes = await this.sizes(steps);
    const most = Math.max(0, ...sizes.map(({ letters = 0 }) => letters));
    const wanted = Math.ceil(leastHiddenSeconds + (2 * most) / rate);
    return Math.min(mostHiddenSeconds, wanted);
  }
}
