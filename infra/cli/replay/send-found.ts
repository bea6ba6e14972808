import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import type { Found } from '#events/replay/found.ts';
import { openJournal } from '#events/replay/journal-file.ts';
import { Pace, realPause } from '#events/replay/patience.ts';
import {
  type HintCounts,
  type HintRemark,
  type HintResult,
  replayHints,
} from '#events/replay/replay-hints.ts';
import type { Selection } from '#events/replay/selection.ts';
import { version } from '#shared/api/version.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { toText, wallClock } from '#shared/kernel/instant.ts';
import type { QueueSender } from '#shared/queue/queue.ts';
import { tellRetries } from './progress.ts';

export interface Sending {
  readonly stage: string;
  readonly clusterId: string;
  readonly dataFolder: string;
  readonly source: object;
  readonly selection: Selection;
  readonly limit?: number;
  readonly rate: number;
  readonly sender: QueueSender;
}

/** Sends what was found in a file or an archive, under a journal of its own. */
export async function sendFound(
  all: AsyncIterable<Found>,
  sending: Sending,
  listeners: {
    readonly onProgress: (counts: HintCounts) => void;
    readonly onRemark: (remark: HintRemark) => void;
  },
  signal: AbortSignal,
): Promise<HintResult & { readonly journal: string }> {
  const { stage, clusterId, dataFolder, source, selection, limit, rate, sender } = sending;
  const facts = {
    by: `${userInfo().username}@${hostname()}`,
    version,
    cluster: clusterId,
    stage,
    source,
    selection,
    rate,
    ...(limit === undefined ? {} : { limit }),
  };
  const journal = await openJournal(join(dataFolder, 'replay'), wallClock(), facts, 'hints');
  const result = await replayHints(
    all,
    { stage, selection, ...(limit === undefined ? {} : { limit }) },
    {
      sender,
      journal,
      trying: {
        pause: realPause,
        random: Math.random,
        onRetry: tellRetries(),
      },
      clock: wallClock,
      pace: new Pace(rate, realPause, () => performance.now()),
      ...listeners,
    },
    signal,
  );
  const { counts, error } = result;
  const end = error !== undefined ? describeError(error) : signal.aborted ? 'stopped' : 'done';
  await journal.end({ at: toText(wallClock()), end, counts });
  return { ...result, journal: journal.path };
}
