import * as z from 'zod';
import type { KubeObject } from '#shared/kube/resources.ts';
import { type Check, failed, ok, skipped } from './check.ts';

/** What Kubernetes grants where a pod template does not say (Pod API reference, terminationGracePeriodSeconds). */
const usualGraceSeconds = 30;

const templateSchema = z.looseObject({
  terminationGracePeriodSeconds: z.number().optional(),
  containers: z.array(
    z.looseObject({
      name: z.string(),
      lifecycle: z
        .looseObject({
          preStop: z
            .looseObject({
              sleep: z.looseObject({ seconds: z.number() }).optional(),
              exec: z.looseObject({ command: z.array(z.string()).default([]) }).optional(),
            })
            .optional(),
        })
        .optional(),
    }),
  ),
});

/** A preStop hook that takes the whole grace period leaves the member none to stop in: it is killed in its work. */
export function checkGracePeriods(shard: KubeObject<'Shard'>): readonly Check[] {
  return shard.spec.pools.map((pool) => {
    const name = `grace period of shd/${shard.metadata.name}, pool ${pool.name}`;
    if (pool.podTemplate === undefined) {
      return skipped(name, 'its pods are someone else’s');
    }
    const template = templateSchema.safeParse(pool.podTemplate.spec);
    if (!template.success) {
      return skipped(name, 'its pod template has an unknown form');
    }
    const graceSeconds = template.data.terminationGracePeriodSeconds ?? usualGraceSeconds;
    const tooLong = template.data.containers.flatMap((container) => {
      const seconds = hookSeconds(container.lifecycle?.preStop);
      return seconds !== undefined && seconds >= graceSeconds
        ? [`${container.name} sleeps ${seconds} s`]
        : [];
    });
    return tooLong.length === 0
      ? ok(name, `${graceSeconds} s`)
      : failed(
          name,
          `${tooLong.join(', ')} of ${graceSeconds} s before it stops`,
          'raise terminationGracePeriodSeconds above the preStop hook and the time PostgreSQL needs to stop',
        );
  });
}

interface PreStop {
  readonly sleep?: { readonly seconds: number } | undefined;
  readonly exec?: { readonly command: readonly string[] } | undefined;
}

/** How long a hook is known to take: a sleep action, or a command that is or ends in `sleep <seconds>`. */
function hookSeconds(hook: PreStop | undefined): number | undefined {
  if (hook?.sleep !== undefined) {
    return hook.sleep.seconds;
  }
  const sleep = /(?:^|\s|\/)sleep\s+(\d+)/.exec(hook?.exec?.command.join(' ') ?? '');
  return sleep?.[1] === undefined ? undefined : Number(sleep[1]);
}
