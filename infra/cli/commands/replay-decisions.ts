import { type StepName, stepNames } from '#shared/api/steps.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import { openSegmentReader } from '#shared/archive/open.ts';
import { parsePlace, placeForms } from '#shared/archive/place.ts';
import { type Instant, parseInstant } from '#shared/kernel/instant.ts';
import type { OutputFlags } from '../output.ts';
import { changedText, countsText, targetText } from '../replay/decisions-text.ts';
import {
  type SegmentQuery,
  decisionsInArchive,
  decisionsInFile,
} from '../replay/recorded-decisions.ts';
import {
  type ChangedDecision,
  type DecisionCounts,
  type Recorded,
  replayDecisions,
} from '../replay/replay-decisions.ts';
import { paint, print, printJson, remark } from '../terminal.ts';
import { UsageError } from '../usage-error.ts';

export interface ReplayDecisionsFlags extends OutputFlags {
  /** Where an archive is; or a file or folder of entries. */
  readonly archive?: string;
  readonly file?: string;
  readonly clusterId?: string;
  readonly target?: readonly string[];
  readonly step?: readonly string[];
  readonly since?: string;
  readonly until?: string;
  readonly ignoreWords?: boolean;
}

/**
 * Decides about recorded looks as this release does, and prints what differs. Nothing is sent, read in a cluster or written.
 *
 * @returns 1 where a decision differs, and where nothing could be compared
 */
export async function replayRecordedDecisions(flags: ReplayDecisionsFlags): Promise<0 | 1> {
  const query = queryOf(flags);
  const { ignoreWords = false } = flags;
  const isJson = flags.output === 'json';
  const recorded = await openRecorded(flags, query);
  const counts = await replayDecisions(recorded.entries, {
    isSelected: selectionOf(flags, query),
    onChanged: (changed) => {
      if (!(ignoreWords && changed.isInWords)) {
        tell(changed, isJson);
      }
    },
    onUnreadable: (where, why) => remark(`${where}: ${why}`),
  }).finally(recorded.close);
  end(counts, isJson);
  const counted = ignoreWords ? counts.different - counts.inWords : counts.different;
  return counts.compared === 0 || counted > 0 ? 1 : 0;
}

function tell(changed: ChangedDecision, isJson: boolean): void {
  if (isJson) {
    printJson({ kind: 'different', ...changed, target: targetText(changed.target) });
  } else {
    print(`${changedText(changed)}\n`);
  }
}

function end(counts: DecisionCounts, isJson: boolean): void {
  if (isJson) {
    printJson({ kind: 'counts', ...counts });
  } else {
    const isSound = counts.compared > 0 && counts.different === 0;
    print(paint(isSound ? 'green' : 'yellow', countsText(counts)));
  }
}

interface Source {
  readonly entries: AsyncIterable<Recorded>;
  readonly close: () => void;
}

async function openRecorded(
  { archive, file }: ReplayDecisionsFlags,
  query: SegmentQuery,
): Promise<Source> {
  if ((archive === undefined) === (file === undefined)) {
    throw new UsageError('give --archive <url> or --file <path>: one of them, not both');
  }
  if (file !== undefined) {
    return { entries: decisionsInFile(file), close: () => undefined };
  }
  const place = parsePlace(archive ?? '');
  if (place === undefined) {
    throw new UsageError(`--archive ${archive} is no archive: give ${placeForms}`);
  }
  const reader = await openSegmentReader(place, process.env);
  return { entries: decisionsInArchive(reader, query), close: () => reader.close() };
}

function queryOf({ clusterId, step = [], since, until }: ReplayDecisionsFlags): SegmentQuery {
  return {
    steps: step.map(stepOf),
    ...(clusterId === undefined ? {} : { cluster: clusterId }),
    ...(since === undefined ? {} : { since: instantOf('--since', since) }),
    ...(until === undefined ? {} : { until: instantOf('--until', until) }),
  };
}

function selectionOf(
  { target = [] }: ReplayDecisionsFlags,
  { cluster, steps = [], since, until }: SegmentQuery,
): (entry: DecisionEntry) => boolean {
  return (entry) => {
    const at = parseInstant(entry.at);
    return (
      (target.length === 0 || target.includes(targetText(entry.target))) &&
      (cluster === undefined || cluster === entry.cluster) &&
      (steps.length === 0 || steps.includes(entry.step)) &&
      (since === undefined || (at !== undefined && at >= since)) &&
      (until === undefined || (at !== undefined && at < until))
    );
  };
}

function stepOf(text: string): StepName {
  const step = stepNames.find((name) => name === text);
  if (step === undefined) {
    throw new UsageError(
      `there is no step ${JSON.stringify(text)}; there are: ${stepNames.join(', ')}`,
    );
  }
  return step;
}

function instantOf(option: string, text: string): Instant {
  const instant = parseInstant(text);
  if (instant === undefined) {
    throw new UsageError(`${option} ${text} is no time: give it as 2026-01-01T00:00:00Z`);
  }
  return instant;
}
