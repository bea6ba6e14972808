import * as z from 'zod';
import { relayConfigSchema } from '#events/relay/config.ts';
import { launch } from '#infra/local/child/launch.ts';
import { readConfig } from '#shared/kernel/config.ts';
import { openCluster, readClusterId } from '../cluster.ts';
import { type SettingsFlags, readEnvironment, resolveSettings } from '../settings.ts';
import { print, printJson, readerGone, remark, withProgress } from '../terminal.ts';

export interface RelayFlags extends SettingsFlags {
  readonly queueEndpoint?: string;
}

/** How long the relay may take to have listed everything once. */
const readyTimeoutMs = 120_000;

/** Runs the relay until Ctrl-C or its own end. Its log lines go to stdout as they are. */
export async function relay(flags: RelayFlags): Promise<0 | 1> {
  const environment = await relayEnvironment(flags);
  readConfig(relayConfigSchema, environment);
  const child = await withProgress(
    'the relay lists what is there',
    launch({
      name: 'the relay',
      entry: new URL('../../../events/relay/main.ts', import.meta.url),
      environment,
      announcement: z.object({ url: z.url() }),
      readyTimeoutMs,
      onLine: print,
      onErrorLine: remark,
    }),
  );
  printJson({ ready: true, url: child.announced.url });
  readerGone.addEventListener('abort', () => child.signal('SIGTERM'));
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => child.signal(signal));
  }
  return (await child.exited) === 'code 0' ? 0 : 1;
}

/** The relay's variables: the caller's own, and what the flags and the kubeconfig say instead. */
async function relayEnvironment(flags: RelayFlags): Promise<Record<string, string>> {
  const environment = readEnvironment();
  const own = {
    ...environment,
    ...(flags.queueEndpoint === undefined ? {} : { MILLRACE_QUEUE_ENDPOINT: flags.queueEndpoint }),
  };
  const isInPod =
    environment['KUBERNETES_SERVICE_HOST'] !== undefined &&
    flags.kubeconfig === undefined &&
    environment['KUBECONFIG'] === undefined;
  if (isInPod) {
    return own;
  }
  const settings = resolveSettings(flags, environment);
  return {
    ...own,
    KUBECONFIG: settings.kubeconfig.value,
    MILLRACE_KUBE_CONTEXT: settings.cluster.context,
    MILLRACE_CLUSTER_ID:
      settings.clusterId.value ?? (await askClusterId(settings.kubeconfig.value, flags.context)),
    MILLRACE_STAGE: settings.stage.value,
    MILLRACE_NAMESPACES: settings.namespaces.value.join(','),
    AWS_REGION: settings.region.value,
  };
}

async function askClusterId(kubeconfig: string, context: string | undefined): Promise<string> {
  const cluster = await openCluster(kubeconfig, context);
  try {
    return await withProgress('asking the cluster for its id', readClusterId(cluster));
  } finally {
    cluster.connection.close();
  }
}
