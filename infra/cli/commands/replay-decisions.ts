import { type HintTraits, isSelected, nameOfTarget } from '#events/replay/selection.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import { type Recorded, readArchive } from '#shared/archive/read-archive.ts';
import { parseInstant, wallClock } from '#shared/kernel/instant.ts';
import { type OutputFormat, show } from '../output.ts';
import { changedText, countsText } from '../replay/decisions-text.ts';
import { openArchive } from '../replay/open-archive.ts';
import { recordedInFile } from '../replay/recorded-in-file.ts';
import {
  type ChangedDecision,
  type DecisionCounts,
  replayDecisions,
} from '../replay/replay-decisions.ts';
import { type ReplayFlags, type ReplayRequest, requestOf } from '../replay/request.ts';
import { paint, print, remark } from '../terminal.ts';
import { UsageError } from '../usage-error.ts';

/** Changed decisions that a program is told one by one; the rest is counted. */
const mostChanged = 1_000;

/** Options that say what is sent: here nothing is. */
const aboutSending = [
  'dlq',
  'dryRun',
  'limit',
  'every',
  'rate',
  'yes',
  'discardInvalid',
  'queueUrlPrefix',
  'queueEndpoint',
] as const satisfies readonly (keyof ReplayFlags)[];

/**
 * Decides about recorded looks as this release does, and prints what differs. Asks no cluster, and sends and writes nothing.
 *
 * @returns 1 where a decision differs, and where nothing could be compared
 */
export async function replayRecordedDecisions(flags: ReplayFlags): Promise<0 | 1> {
  refuseSending(flags);
  const request = requestOf(flags, wallClock());
  const { ignoreWords = false, output } = flags;
  const source = await openSource(request, flags.clusterId);
  const changed: ChangedDecision[] = [];
  const counts = await replayDecisions(source.recorded, {
    isSelected: (entry) =>
      (flags.clusterId === undefined || flags.clusterId === entry.cluster) &&
      isSelected(request.selection, traitsOf(entry)),
    onChanged: (each) => {
      if (ignoreWords && each.isInWords) {
        return;
      }
      if (output === 'table') {
        print(`${changedText(each)}\n`);
      } else if (changed.length < mostChanged) {
        changed.push(each);
      }
    },
    onUnreadable: (where, why) => remark(`${where}: ${why}`),
  }).finally(() => source.close());
  const different = counts.different - (ignoreWords ? counts.inWords : 0);
  const isSound = counts.compared > 0 && different === 0;
  end(counts, changed, output, isSound);
  return isSound ? 0 : 1;
}

function end(
  counts: DecisionCounts,
  changed: readonly ChangedDecision[],
  output: OutputFormat,
  isSound: boolean,
): void {
  const named = changed.map((each) => ({ ...each, target: nameOfTarget(each.target) }));
  show({ counts, changed: named }, output, () =>
    paint(isSound ? 'green' : 'yellow', countsText(counts)),
  );
  if (counts.compared === 0 && output !== 'table') {
    remark('nothing was compared');
  }
}

function refuseSending(flags: ReplayFlags): void {
  const given = aboutSending.find((name) => flags[name] !== undefined);
  if (given !== undefined) {
    const option = given.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    throw new UsageError(`--decisions sends nothing: leave out --${option}`);
  }
  if ((flags.archive === undefined) === (flags.file === undefined)) {
    throw new UsageError(
      'say where the decisions are: --archive <url> or --file <path>, one of them',
    );
  }
}

function traitsOf({ step, target, at, decision, result }: DecisionEntry): HintTraits {
  const reason = result.kind === 'failed' ? result.reason : decision?.reason;
  return { step, target, at: parseInstant(at), ...(reason === undefined ? {} : { reason }) };
}

interface Source {
  readonly recorded: AsyncIterable<Recorded>;
  readonly close: () => void;
}

async function openSource(
  { source, selection, steps }: ReplayRequest,
  cluster: string | undefined,
): Promise<Source> {
  if (source.kind === 'file') {
    return { recorded: recordedInFile(source.path), close: () => undefined };
  }
  const reader = await openArchive(source.archive ?? '');
  const { since, until } = selection;
  const recorded = readArchive(reader, {
    kinds: ['decision'],
    steps,
    ...(cluster === undefined ? {} : { cluster }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
  });
  return { recorded, close: () => reader.close() };
}
