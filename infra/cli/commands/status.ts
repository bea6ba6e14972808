import { toText, wallClock } from '#shared/kernel/instant.ts';
import { askedToStop } from '../asked-to-stop.ts';
import { openCluster } from '../cluster.ts';
import { type OutputFlags, type OutputFormat, show } from '../output.ts';
import { type SettingsFlags, readEnvironment, resolveSettings } from '../settings.ts';
import type { Sight } from '../sight/model.ts';
import { readTargets } from '../sight/read.ts';
import { sightOf } from '../sight/sight.ts';
import { type StatusForm, inOrder, statusText, summaryOf } from '../sight/tell.ts';
import { readerGone, withProgress } from '../terminal.ts';
import { UsageError } from '../usage-error.ts';

export interface StatusFlags
  extends OutputFlags, Pick<SettingsFlags, 'kubeconfig' | 'context' | 'namespace'> {
  readonly watch?: boolean;
}

/**
 * Says of every target what it is at and what it waits for, problems first.
 *
 * @returns 1 where a target needs a person; a watch that was ended is done
 */
export async function status(flags: StatusFlags): Promise<0 | 1> {
  if (flags.watch === true && flags.output === 'yaml') {
    throw new UsageError('--watch writes a table or lines of JSON: give --output json or none');
  }
  const settings = resolveSettings(flags, readEnvironment());
  const cluster = await openCluster(settings.kubeconfig.value, flags.context);
  const namespaces = settings.namespaces.value;
  const form = flags.output === 'wide' ? 'wide' : 'table';
  try {
    const scenes = await withProgress(
      'listing the targets',
      readTargets(cluster.kube, namespaces, wallClock),
    );
    if (flags.watch === true) {
      const { watchStatus } = await import('../sight/watch-status.ts');
      const first = scenes.map(({ target }) => target);
      const { connection } = cluster;
      const { output } = flags;
      using asking = askedToStop({ also: readerGone });
      const { signal } = asking;
      await watchStatus({ connection, namespaces, first, form, output, signal });
      return 0;
    }
    return tell(scenes.map(sightOf), flags.output, form);
  } finally {
    cluster.connection.close();
  }
}

function tell(sights: readonly Sight[], output: OutputFormat, form: StatusForm): 0 | 1 {
  const now = wallClock();
  const summary = summaryOf(sights);
  show({ at: toText(now), targets: inOrder(sights), summary }, output, () =>
    statusText(sights, form, now),
  );
  return summary.needPerson > 0 ? 1 : 0;
}
