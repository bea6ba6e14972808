import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { SegmentReader } from '#shared/archive/archive.ts';
import { openSegmentReader } from '#shared/archive/open.ts';
import { type ArchivePlace, parsePlace, textOfPlace } from '#shared/archive/place.ts';
import { version } from '#shared/api/version.ts';
import { ConfigurationError } from '#shared/kernel/config.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { askedToStop } from '../asked-to-stop.ts';
import { type Cluster, openCluster, readClusterId } from '../cluster.ts';
import { readRunning } from '../dev/running.ts';
import { DeadLetters } from '../replay/dead-letters.ts';
import { historyIn } from '../replay/history.ts';
import { archivePlace } from '../replay/open-archive.ts';
import {
  type QueueFlags,
  type QueuePlace,
  connectQueues,
  placeQueues,
} from '../replay/queue-place.ts';
import { readersOf } from '../replay/readers.ts';
import {
  type Settings,
  type SettingsFlags,
  readEnvironment,
  resolveSettings,
} from '../settings.ts';
import { readTarget } from '../sight/read.ts';
import { explanationOf } from '../sight/sight.ts';
import { parseTarget } from '../target.ts';
import { paint, print, printJson, remark, withProgress } from '../terminal.ts';
import { letterPorts } from '../ui/letters.ts';
import { LiveTargets } from '../ui/live-targets.ts';
import type { LetterPorts, PagePorts } from '../ui/ports.ts';
import type { TargetStory, Timeline } from '../ui/protocol.ts';
import { KeptEntries, type PastPorts, readTimeline } from '../ui/read-timeline.ts';
import { servePage } from '../ui/server.ts';
import { storyOf } from '../ui/tell-target.ts';
import { UsageError } from '../usage-error.ts';

export interface UiFlags extends SettingsFlags, QueueFlags {
  readonly port?: string;
  readonly write?: boolean;
  readonly archive?: string;
  readonly json?: boolean;
}

/** Serves the page on this machine until Ctrl-C. */
export async function ui(flags: UiFlags): Promise<0> {
  const environment = readEnvironment();
  const settings = resolveSettings(flags, environment);
  const port = portOf(flags.port);
  const given = flags.archive === undefined ? undefined : archivePlace(flags.archive);
  const cluster = await openCluster(settings.kubeconfig.value, flags.context);
  await using stack = new AsyncDisposableStack();
  stack.defer(() => cluster.connection.close());
  const clusterId =
    settings.clusterId.value ??
    (await withProgress('asking the cluster for its id', readClusterId(cluster)));
  const dataFolder = settings.dataDir.value ?? join(settings.stateFolder.value, clusterId);
  const place = given ?? (await recordedHere(dataFolder));
  const reader = place === undefined ? undefined : await openSegmentReader(place, environment);
  stack.defer(() => reader?.close());
  const queues = await queuesOf(flags, environment, dataFolder);
  const targets = new LiveTargets(settings.namespaces.value);
  const stopping = new AbortController();
  const following = targets.run(cluster.connection, stopping.signal);
  stack.defer(async () => {
    stopping.abort();
    await following;
  });
  const past: PastPorts = {
    cluster,
    now: wallClock,
    ...(reader === undefined ? {} : { archive: { reader, clusterId, kept: new KeptEntries() } }),
  };
  const ports: PagePorts = {
    session: {
      server: settings.cluster.server,
      context: settings.cluster.context,
      namespaces: settings.namespaces.value,
      canWrite: flags.write === true,
      version,
      ...(place === undefined ? {} : { archive: textOfPlace(place) }),
      ...('urlPrefix' in queues ? { queues: queues.urlPrefix } : {}),
    },
    targets,
    story: (id) => storyFor(id, settings, cluster),
    timeline: (id, { from }, signal) => timelineFor(id, settings, from, past, signal),
    letters: lettersOf({ queues, cluster, clusterId, dataFolder, flags, reader, stack }),
  };
  const server = await servePage(ports, port);
  stack.defer(() => server.close());
  announce(server.address, flags);
  await Promise.race([stack.use(askedToStop()).asked, following]);
  return 0;
}

function portOf(text = '0'): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535) {
    throw new UsageError(`--port ${JSON.stringify(text)} is no port; give 0 to 65535`);
  }
  return Number(text);
}

/** What a `millrace dev` of this cluster has recorded, whether it still runs or not. */
async function recordedHere(dataFolder: string): Promise<ArchivePlace | undefined> {
  const { archive } = (await readRunning(dataFolder)) ?? {};
  const path = join(dataFolder, 'archive');
  return archive !== undefined
    ? parsePlace(archive)
    : existsSync(path)
      ? { kind: 'folder', path }
      : undefined;
}

/** Where the dead-letter queues are; else why nobody knows. A page without them is of use, so that is no error. */
async function queuesOf(
  flags: UiFlags,
  environment: Readonly<Record<string, string>>,
  dataFolder: string,
): Promise<QueuePlace | { readonly unknown: string }> {
  try {
    return placeQueues(flags, environment, await readRunning(dataFolder));
  } catch (error) {
    const isGiven = flags.queueUrlPrefix !== undefined || flags.queueEndpoint !== undefined;
    if (!(error instanceof ConfigurationError) || isGiven) {
      throw error;
    }
    return { unknown: describeError(error) };
  }
}

interface LetterNeeds {
  readonly queues: QueuePlace | { readonly unknown: string };
  readonly cluster: Cluster;
  readonly clusterId: string;
  readonly dataFolder: string;
  readonly flags: UiFlags;
  readonly reader: SegmentReader | undefined;
  readonly stack: AsyncDisposableStack;
}

function lettersOf({
  queues: place,
  cluster,
  clusterId,
  dataFolder,
  flags,
  reader,
  stack,
}: LetterNeeds): LetterPorts {
  if ('unknown' in place) {
    return unconfigured(place.unknown);
  }
  const queues = connectQueues(place);
  stack.defer(() => queues.close());
  const desk = new DeadLetters({
    stage: place.stage,
    cluster: clusterId,
    letters: queues.letters,
    sender: queues.sender,
    dataFolder,
    readers: readersOf(cluster, clusterId),
  });
  const history = reader === undefined ? {} : { history: historyIn(reader, clusterId) };
  return letterPorts({ desk, canWrite: flags.write === true, ...history });
}

function unconfigured(why: string): LetterPorts {
  return {
    list: async () => ({
      kind: 'unconfigured',
      how: `${why.charAt(0).toUpperCase()}${why.slice(1)}; then start \`millrace ui\` again.`,
    }),
    preview: async () => {
      throw new Error(why);
    },
  };
}

async function storyFor(
  id: string,
  settings: Settings,
  { kube }: Cluster,
): Promise<TargetStory | undefined> {
  const ref = targetOf(id, settings);
  if (ref === undefined) {
    return undefined;
  }
  const read = await readTarget(kube, ref, wallClock);
  if (read.kind === 'notFound') {
    throw new Error(read.why);
  }
  return storyOf(explanationOf(read.scene), read.scene.target, read.remarks);
}

async function timelineFor(
  id: string,
  settings: Settings,
  from: number,
  ports: PastPorts,
  signal: AbortSignal,
): Promise<Timeline | undefined> {
  const ref = targetOf(id, settings);
  return ref === undefined ? undefined : readTimeline(ref, from, ports, signal);
}

/** What the page asks for; `undefined` for anything that is not among what it is told of. */
function targetOf(id: string, { namespaces }: Settings) {
  try {
    const { kind, namespace, name } = parseTarget(id, undefined);
    const isTold = namespaces.value.length === 0 || namespaces.value.includes(namespace);
    return isTold ? { kind, namespace, name } : undefined;
  } catch {
    return undefined;
  }
}

function announce(address: string, flags: UiFlags): void {
  if (flags.json === true) {
    printJson({ ready: true, url: address, write: flags.write === true });
    return;
  }
  print(address);
  remark(
    paint(
      'dim',
      `for this machine and this run alone${flags.write === true ? '; it may replay dead letters' : ''}. Ctrl-C ends it`,
    ),
  );
}
