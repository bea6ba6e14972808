import { toText, wallClock } from '#shared/kernel/instant.ts';
import { openCluster } from '../cluster.ts';
import { type OutputFlags, show } from '../output.ts';
import { type SettingsFlags, readEnvironment, resolveSettings } from '../settings.ts';
import { readTargets } from '../sight/read.ts';
import { sightOf } from '../sight/sight.ts';
import { inOrder, statusText, summaryOf } from '../sight/tell.ts';
import { withProgress } from '../terminal.ts';

export interface StatusFlags
  extends OutputFlags, Pick<SettingsFlags, 'kubeconfig' | 'context' | 'namespace'> {
  readonly wide?: boolean;
}

/**
 * Says of every target what it is at and what it waits for, problems first.
 *
 * @returns 1 where a target needs a person
 */
export async function status(flags: StatusFlags): Promise<0 | 1> {
  const settings = resolveSettings(flags, readEnvironment());
  const cluster = await openCluster(settings.kubeconfig.value, flags.context);
  try {
    const scenes = await withProgress(
      'listing the targets',
      readTargets(cluster.kube, settings.namespaces.value, wallClock),
    );
    const now = wallClock();
    const sights = scenes.map(sightOf);
    const summary = summaryOf(sights);
    show({ at: toText(now), targets: inOrder(sights), summary }, flags.output, () =>
      statusText(sights, flags.wide === true ? 'wide' : 'table', now),
    );
    return summary.needPerson > 0 ? 1 : 0;
  } finally {
    cluster.connection.close();
  }
}
