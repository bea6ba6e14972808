import { wallClock } from '#shared/kernel/instant.ts';
import { openCluster } from '../cluster.ts';
import { type OutputFlags, show } from '../output.ts';
import { readEnvironment, resolveSettings } from '../settings.ts';
import { readTarget } from '../sight/read.ts';
import { explanationOf } from '../sight/sight.ts';
import { explanationText } from '../sight/tell.ts';
import { parseTarget } from '../target.ts';
import { remark } from '../terminal.ts';

export interface ExplainFlags extends OutputFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace?: string;
}

/** The longest line where there is no terminal to tell, in characters. */
const usualWidth = 100;

/**
 * Says what one target is at, what it waits for and what a person can do, from the target itself: its records, conditions
 * and status, its pods' annotations, and of a Shard its Database.
 *
 * @returns 1 where a person is needed, or the target is not there
 */
export async function explain(targetText: string, flags: ExplainFlags): Promise<0 | 1> {
  const ref = parseTarget(targetText, flags.namespace);
  const { kubeconfig, context } = flags;
  const settings = resolveSettings(
    {
      ...(kubeconfig === undefined ? {} : { kubeconfig }),
      ...(context === undefined ? {} : { context }),
      namespace: [ref.namespace ?? ''],
    },
    readEnvironment(),
  );
  const cluster = await openCluster(settings.kubeconfig.value, context);
  try {
    const read = await readTarget(cluster.kube, ref, wallClock);
    if (read.kind === 'notFound') {
      throw new Error(read.why);
    }
    const explanation = explanationOf(read.scene);
    read.remarks.forEach(remark);
    const width = Math.max(40, process.stdout.columns ?? usualWidth);
    show(explanation, flags.output, () => explanationText(explanation, Math.min(width, 120)));
    return explanation.sight.attention === 'needed' ? 1 : 0;
  } finally {
    cluster.connection.close();
  }
}
