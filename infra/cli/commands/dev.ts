import { join } from 'node:path';
import { toText, wallClock } from '#shared/kernel/instant.ts';
import { askedToStop } from '../asked-to-stop.ts';
import { type Cluster, openCluster, readClusterId } from '../cluster.ts';
import { readDefinitions } from '../definitions.ts';
import { type Children, startChildren } from '../dev/children.ts';
import { refreshCredentials, writeCredentials } from '../dev/credentials.ts';
import { createOutput } from '../dev/output.ts';
import { type Running, removeRunning, writeRunning } from '../dev/running.ts';
import { installDefinitions } from '../install.ts';
import {
  type Settings,
  type SettingsFlags,
  readEnvironment,
  resolveSettings,
} from '../settings.ts';
import { type ArchivePlace, textOfPlace } from '#shared/archive/place.ts';
import { paint, print, readerGone, remark, withProgress } from '../terminal.ts';

export interface DevFlags extends SettingsFlags {
  readonly install?: boolean;
  readonly json?: boolean;
}

/** Runs queue, relay and worker as children until Ctrl-C, and prints one line per decision. */
export async function dev(flags: DevFlags): Promise<0> {
  const environment = readEnvironment();
  const settings = resolveSettings(flags, environment);
  const cluster = await openCluster(settings.kubeconfig.value, flags.context);
  const stopping = new AbortController();
  try {
    const clusterId =
      settings.clusterId.value ??
      (await withProgress('asking the cluster for its id', readClusterId(cluster)));
    if (flags.install === true) {
      await installDefinitions(cluster.connection);
    } else {
      await requireDefinitions(cluster);
    }
    const folder = settings.dataDir.value ?? join(settings.stateFolder.value, clusterId);
    const archive: ArchivePlace = { kind: 'folder', path: join(folder, 'archive') };
    const signInFolder = join(folder, 'sign-in');
    const credentials = await writeCredentials(signInFolder, cluster.access);
    const output = createOutput(flags.json === true, print);
    const children = await withProgress(
      'starting queue, relay and worker',
      startChildren({
        settings,
        clusterId,
        queueFolder: join(folder, 'queue'),
        archive,
        credentials,
        environment,
        ...output.listeners,
      }),
    );
    const refreshing = refreshCredentials(
      signInFolder,
      cluster.access,
      (why) => remark(`the credentials could not be renewed: ${why}`),
      stopping.signal,
    );
    // The children hold a pipe of this process, so they end with it also where it is ended at once.
    using asking = askedToStop({ also: readerGone });
    await writeRunning(folder, runningOf({ children, archive }, settings, clusterId));
    output.begin(announcement({ children, archive: textOfPlace(archive) }, settings, flags));
    await asking.asked;
    await removeRunning(folder);
    await stop(children);
    stopping.abort();
    await refreshing;
    return 0;
  } finally {
    cluster.connection.close();
  }
}

async function requireDefinitions({ kube }: Cluster): Promise<void> {
  for (const { name } of readDefinitions()) {
    const read = await kube.get({ kind: 'CustomResourceDefinition', name });
    if (read.kind === 'absent') {
      throw new Error(
        `the cluster does not know ${name}: run with --install, or apply the output of \`millrace manifests\``,
      );
    }
    if (read.kind === 'unknown') {
      remark(`whether ${name} is installed is unknown: ${read.why}`);
    }
  }
}

/** What other commands on this machine find this one by. */
function runningOf(
  { children, archive }: { readonly children: Children; readonly archive: ArchivePlace },
  settings: Settings,
  cluster: string,
): Running {
  const { relayUrl: relay, queueUrl: queue, workerUrl: worker } = children;
  return {
    v: 1,
    pid: process.pid,
    since: toText(wallClock()),
    cluster,
    stage: settings.stage.value,
    region: settings.region.value,
    queue,
    relay,
    worker,
    ...(settings.recorded.value === 'off' ? {} : { archive: textOfPlace(archive) }),
  };
}

/** What dev says first, as JSON or for people. */
function announcement(
  { children, archive }: { readonly children: Children; readonly archive: string },
  settings: Settings,
  flags: DevFlags,
): readonly string[] {
  const { relayUrl: relay, queueUrl: queue, workerUrl: worker } = children;
  if (flags.json === true) {
    return [JSON.stringify({ ready: true, relay, queue, worker, archive, pids: children.pids() })];
  }
  const namespaces = settings.namespaces.value;
  const where = namespaces.length === 0 ? 'every namespace' : namespaces.join(', ');
  return [
    `${paint('bold', 'millrace')} watches ${where} of ${settings.cluster.server}`,
    paint('dim', `relay ${relay}  worker ${worker}  queue ${queue}  Ctrl-C ends it`),
    ...recordingLine(settings, archive),
  ];
}

function recordingLine({ recorded }: Settings, archive: string): readonly string[] {
  const what = { all: 'every decision and hint', failures: 'looks that fail', off: '' };
  return recorded.value === 'off'
    ? []
    : [paint('dim', `records ${what[recorded.value]} in ${archive}`)];
}

async function stop(children: Children): Promise<void> {
  remark('stopping: what runs is finished first; once more ends it at once');
  await children.stop();
}
