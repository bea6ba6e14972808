import { createReadStream } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { type ReasonOf, failuresIn } from '#events/replay/failures.ts';
import { hintsInArchive, newestOfEach } from '#events/replay/from-archive.ts';
import { hintsInFile } from '#events/replay/from-file.ts';
import type { Found } from '#events/replay/found.ts';
import { type LetterList, addTo } from '#events/replay/list-letters.ts';
import { meant, noHintCounts } from '#events/replay/replay-hints.ts';
import type { SegmentReader } from '#shared/archive/archive.ts';
import { ConfigurationError } from '#shared/kernel/config.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { askedToStop } from '../asked-to-stop.ts';
import { type Cluster, openCluster, readClusterId } from '../cluster.ts';
import { readRunning } from '../dev/running.ts';
import { type OutputFormat, show } from '../output.ts';
import { type History, DeadLetters } from '../replay/dead-letters.ts';
import { historyIn } from '../replay/history.ts';
import { openArchive } from '../replay/open-archive.ts';
import { type Preview, previewAll } from '../replay/preview.ts';
import { Progress, tellRetries } from '../replay/progress.ts';
import { type QueuePlace, connectQueues, placeQueues } from '../replay/queue-place.ts';
import { readersOf } from '../replay/readers.ts';
import { Remarks } from '../replay/remarks.ts';
import { sendFound } from '../replay/send-found.ts';
import { type ReplayFlags, type ReplayRequest, isNarrow, requestOf } from '../replay/request.ts';
import {
  byStep,
  counted,
  hintSummary,
  letterSummary,
  listRemarks,
  previewCounts,
  previewTable,
  whereToLook,
} from '../replay/told.ts';
import { readEnvironment, resolveSettings } from '../settings.ts';
import { confirm, remark, withProgress } from '../terminal.ts';
import { UsageError } from '../usage-error.ts';

interface Work {
  readonly request: ReplayRequest;
  readonly cluster: Cluster;
  readonly clusterId: string;
  readonly dataFolder: string;
  readonly place: QueuePlace;
  readonly queues: ReturnType<typeof connectQueues>;
  /** As `openArchive`; what was opened is closed at the end. */
  readonly archive: (url: string) => Promise<SegmentReader>;
  readonly output: OutputFormat;
  readonly signal: AbortSignal;
}

/** Sends hints again: from dead-letter queues, an archive or a file; or says what that would lead to. */
export async function replay(flags: ReplayFlags): Promise<0 | 1> {
  const environment = readEnvironment();
  const names = namesIn(flags, environment);
  const settings = resolveSettings(names.flags, names.environment);
  const request = requestOf({ ...flags, namespace: settings.namespaces.value }, wallClock());
  refuseToGuess(request);
  const cluster = await openCluster(settings.kubeconfig.value, flags.context);
  using asking = askedToStop({
    onAsked() {
      remark('stopping: what was begun is finished first; once more ends it at once');
      // Sending ends by itself and tells what was sent: as an error it shows only where something was still read.
      return new Error('stopped: nothing was sent');
    },
  });
  using opened = new DisposableStack();
  try {
    const clusterId =
      names.clusterId ??
      (await withProgress('asking the cluster for its id', readClusterId(cluster)));
    const dataFolder =
      settings.dataDir.value ?? join(settings.stateFolder.value, folderName(clusterId));
    const place = placeQueues(flags, environment, await readRunning(dataFolder));
    const queues = connectQueues(place);
    try {
      return await work({
        request,
        cluster,
        clusterId,
        dataFolder,
        place,
        queues,
        archive: async (url) => opened.adopt(await openArchive(url), (each) => each.close()),
        output: flags.output,
        signal: asking.signal,
      });
    } finally {
      queues.close();
    }
  } finally {
    cluster.connection.close();
  }
}

/** Stage and cluster id apart: a deployed stack may have names that `millrace dev` does not take. */
function namesIn(given: ReplayFlags, variables: Readonly<Record<string, string>>) {
  const { stage: _ofStack, clusterId, ...flags } = given;
  const { MILLRACE_STAGE: _inEnvironment, MILLRACE_CLUSTER_ID: id, ...environment } = variables;
  return { clusterId: clusterId ?? id, flags, environment };
}

/** A cluster id as the name of a folder: as it is, where `millrace dev` would take it. */
function folderName(clusterId: string): string {
  return encodeURIComponent(clusterId).replace(/^\.+/, (dots) => '%2E'.repeat(dots.length));
}

function refuseToGuess({ isDryRun, isAgreed, source }: ReplayRequest): void {
  if (isDryRun || isAgreed) {
    return;
  }
  if (source.kind === 'file' && source.path === '-') {
    throw new UsageError('the terminal is read as the file; give --yes to send the hints in it');
  }
  if (!process.stdin.isTTY) {
    throw new UsageError('there is no terminal to ask on; give --yes to send the hints again');
  }
}

function work(given: Work): Promise<0 | 1> {
  const { source, isDryRun } = given.request;
  if (source.kind === 'letters') {
    return isDryRun ? previewLetters(given) : replayLetters(given);
  }
  return isDryRun ? previewHints(given) : replayHints(given);
}

async function previewLetters(given: Work): Promise<0 | 1> {
  const { request, signal } = given;
  const history = await historyOf(given);
  const desk = deskOf(given, history);
  const all = await sizeOf(desk, given);
  const reasonOf = await reasonsOf(given);
  const progress = new Progress('reading letters', all);
  const list = await desk
    .list({ ...request, reasonOf }, signal, ({ seen }) => progress.reached(seen))
    .finally(() => progress.end());
  return tellPreview(given, list, await previewed(given, list, history), history !== undefined);
}

async function previewHints(given: Work): Promise<0 | 1> {
  const { request, signal } = given;
  const counts = noHintCounts();
  const remarks = new Remarks(given.output);
  const groups: Parameters<typeof addTo>[0] = new Map();
  const progress = new Progress('reading hints');
  try {
    for await (const { step, hint } of meant(await found(given), request, counts, remarks.add)) {
      signal.throwIfAborted();
      counts.sent += 1;
      progress.reached(counts.seen);
      addTo(groups, step, hint);
    }
    signal.throwIfAborted();
  } finally {
    progress.end();
  }
  remarks.tellRest();
  const history = await historyOf(given);
  const list = { groups: [...groups.values()], counts, remarks: remarks.all };
  return tellPreview(given, list, await previewed(given, list, history), history !== undefined);
}

async function previewed(
  { cluster, clusterId, signal }: Work,
  { groups }: Pick<LetterList, 'groups'>,
  history: History | undefined,
): Promise<readonly Preview[]> {
  const before = (await history?.(groups, signal)) ?? (() => undefined);
  const progress = new Progress('looking at targets', groups.length);
  let looked = 0;
  try {
    return await previewAll(groups, readersOf(cluster, clusterId), before, signal, () => {
      looked += 1;
      progress.reached(looked);
    });
  } finally {
    progress.end();
  }
}

type Listed = Pick<LetterList, 'groups'> & {
  readonly counts: LetterList['counts'] | ReturnType<typeof noHintCounts>;
  readonly remarks?: readonly unknown[];
};

function tellPreview(
  { request, output, signal }: Work,
  list: LetterList | Listed,
  previews: readonly Preview[],
  hasHistory: boolean,
): 0 | 1 {
  const { counts } = list;
  const isOfLetters = 'refused' in list;
  const hints = list.groups.reduce((sum, { letters }) => sum + letters, 0);
  show({ dryRun: true, hints, counts, previews, ...extras(list) }, output, () =>
    previews.length === 0 ? nothingText(isOfLetters) : previewTable(previews, hasHistory),
  );
  if (isOfLetters) {
    listRemarks(list).forEach(remark);
  }
  if (previews.length > 0) {
    const what = `${counted(hints, 'hint')}, ${counted(previews.length, 'look')}`;
    remark(`${what}: ${previewCounts(previews)}`);
  }
  remark(`nothing was sent${isOfLetters ? ', and every letter stays' : ''}`);
  if (signal.aborted) {
    return 1;
  }
  const isTrouble =
    previews.some(({ now, isDifferent }) => now.kind === 'failed' || isDifferent === true) ||
    ('bad' in counts ? counts.bad > 0 : counts.refused > 0 && !isNarrow(request.selection));
  return isTrouble ? 1 : 0;
}

function nothingText(isOfLetters: boolean): string {
  return `there is nothing to replay${isOfLetters ? '' : `. ${whereToLook}`}`;
}

function extras(list: LetterList | Listed): object {
  return 'refused' in list
    ? { refused: list.refused, cut: list.cut }
    : { remarks: list.remarks ?? [] };
}

async function replayLetters(given: Work): Promise<0 | 1> {
  const { request, output, signal } = given;
  const desk = deskOf(given, undefined);
  const all = await sizeOf(desk, given);
  const letters = await desk.sizes(request.steps);
  const where = byStep(
    letters.flatMap(({ step, letters: count = 0 }) =>
      count === 0 ? [] : [{ step, letters: count }],
    ),
  );
  const which = isNarrow(request.selection) || request.limit !== undefined ? 'those meant of ' : '';
  const discarding = request.isDiscarding ? ', delete what is no hint,' : '';
  const question = `Send ${which}about ${counted(all, 'letter')} again (${where || 'none seen yet'})${discarding} at ${request.rate} a second?`;
  if (!(await isAgreed(request, question))) {
    remark('nothing was sent');
    return 1;
  }
  const remarks = new Remarks(output);
  const reasonOf = await reasonsOf(given);
  const progress = new Progress('replaying letters', all);
  const result = await desk
    .replay(
      {
        ...request,
        reasonOf,
        onProgress: ({ seen }) => progress.reached(seen),
        onRemark: remarks.add,
      },
      signal,
    )
    .finally(() => progress.end());
  remarks.tellRest();
  const { counts, cut, error, journal } = result;
  const stopped = signal.aborted ? { stopped: true } : {};
  const failed = error === undefined ? {} : { error: describeError(error) };
  show({ counts, cut, remarks: remarks.all, journal, ...stopped, ...failed }, output, () =>
    letterSummary(counts, cut).join('\n'),
  );
  tellEnd(error, signal, journal);
  const isTrouble =
    counts.failed + counts.undeleted > 0 ||
    cut.length > 0 ||
    (counts.refused > 0 && !isNarrow(request.selection));
  return error !== undefined || signal.aborted || isTrouble ? 1 : 0;
}

async function replayHints(given: Work): Promise<0 | 1> {
  const { request, output, signal } = given;
  let all: number | undefined;
  if (!request.isAgreed) {
    const counts = noHintCounts();
    const groups: Parameters<typeof addTo>[0] = new Map();
    for await (const { step, hint } of meant(await found(given), request, counts)) {
      signal.throwIfAborted();
      addTo(groups, step, hint);
    }
    signal.throwIfAborted();
    const list = [...groups.values()];
    all = list.reduce((sum, { letters }) => sum + letters, 0);
    const question = `Send ${counted(all, 'hint')} again (${byStep(list) || 'none'}) at ${request.rate} a second?`;
    if (all > 0 && !(await isAgreed(request, question))) {
      remark('nothing was sent');
      return 1;
    }
  }
  const remarks = new Remarks(output);
  const progress = new Progress('replaying hints', all);
  const result = await sendFound(
    await found(given),
    { ...given, ...request, stage: given.place.stage, sender: given.queues.sender },
    { onProgress: ({ sent }) => progress.reached(sent), onRemark: remarks.add },
    signal,
  ).finally(() => progress.end());
  remarks.tellRest();
  const { counts, error, journal } = result;
  const stopped = signal.aborted ? { stopped: true } : {};
  const failed = error === undefined ? {} : { error: describeError(error) };
  show({ counts, remarks: remarks.all, journal, ...stopped, ...failed }, output, () =>
    hintSummary(counts, error === undefined && !signal.aborted).join('\n'),
  );
  tellEnd(error, signal, journal);
  return error !== undefined || signal.aborted || counts.failed + counts.bad > 0 ? 1 : 0;
}

function tellEnd(error: unknown, signal: AbortSignal, journal: string): void {
  if (error !== undefined) {
    remark(`it ended before its end: ${describeError(error)}`);
  } else if (signal.aborted) {
    remark('stopped: what was begun was finished, and the rest stays');
  }
  remark(`written down in ${journal}`);
}

/** The hints of a file or an archive, anew at each call. */
async function found({ request, clusterId, archive, signal }: Work) {
  const { source, selection, steps } = request;
  if (source.kind === 'file') {
    return hintsInFile(await bytesOf(source.path), clusterId);
  }
  if (source.kind === 'letters') {
    throw new Error('letters are read from their queues');
  }
  const all: AsyncIterable<Found> = hintsInArchive(
    await archive(source.archive),
    clusterId,
    steps,
    selection,
  );
  return source.isEvery ? all : newestOfEach(all, signal);
}

async function bytesOf(path: string): Promise<AsyncIterable<Uint8Array>> {
  if (path === '-') {
    return process.stdin;
  }
  await access(path).catch((error: unknown) => {
    throw new UsageError(`--file: ${describeError(error)}`);
  });
  return createReadStream(path);
}

/** By the archive that is named, else that of the `millrace dev` whose queues they are. */
async function historyOf(given: Work): Promise<History | undefined> {
  const { source } = given.request;
  const url = source.archive ?? given.place.archive;
  return url === undefined ? undefined : historyIn(await given.archive(url), given.clusterId);
}

/** Why letters are dead, where only those of some reasons are meant: an archive says so. */
async function reasonsOf({
  request,
  place,
  clusterId,
  archive,
  signal,
}: Work): Promise<ReasonOf | undefined> {
  const { source, selection, steps } = request;
  if (selection.reasons.length === 0) {
    return undefined;
  }
  const url = source.archive ?? place.archive;
  if (url === undefined) {
    throw new UsageError(
      'a letter does not say why it failed: give --archive <url> beside --reason, which does',
    );
  }
  // A look fails after its hint was sent, and perhaps long after.
  const span = selection.since === undefined ? {} : { since: selection.since };
  return failuresIn(await archive(url), clusterId, steps, span, signal);
}

function deskOf(given: Work, history: History | undefined): DeadLetters {
  const { cluster, clusterId, dataFolder, place, queues } = given;
  return new DeadLetters({
    stage: place.stage,
    cluster: clusterId,
    letters: queues.letters,
    sender: queues.sender,
    dataFolder,
    readers: readersOf(cluster, clusterId),
    onRetry: tellRetries(),
    ...(history === undefined ? {} : { history }),
  });
}

/** About how many letters there are. Where a queue does not answer, nothing else would: that is said as what it is, a setting. */
async function sizeOf(desk: DeadLetters, { request, place }: Work): Promise<number> {
  const sizes = await withProgress(
    `asking the queues of ${place.stage}`,
    desk.sizes(request.steps),
  );
  const [problem] = sizes.flatMap(({ error }) => (error === undefined ? [] : [error]));
  if (problem !== undefined) {
    throw new ConfigurationError([`the queues of stage ${place.stage}: ${describeError(problem)}`]);
  }
  return sizes.reduce((sum, { letters = 0 }) => sum + letters, 0);
}

async function isAgreed({ isAgreed: isGiven }: ReplayRequest, question: string): Promise<boolean> {
  return isGiven || (await confirm(question));
}
