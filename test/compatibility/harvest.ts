import * as z from 'zod';
import { decide as decidePods } from '#functions/pool-pods/decide.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import { recordText } from '#shared/kernel/record.ts';
import { aShard } from '#test/builders/shard.ts';
import { aSnapshotOf, notThere, now } from '#test/unit/functions/pool-pods/a-snapshot.ts';
import { Tally } from '#test/world/oracles/tally.ts';
import { beginningOf } from '#test/world/run/plans.ts';
import { runToEnd } from '#test/world/run/run.ts';
import type { Workload } from '#test/world/run/workload.ts';
import type { Witness, Write } from '#test/world/run/world.ts';
import { workloads as configurations } from '#test/world/workloads/backup-config.ts';
import { workloads as backups } from '#test/world/workloads/backup-trigger.ts';
import { workloads as drains } from '#test/world/workloads/drain-step.ts';
import { workloads as cleanups } from '#test/world/workloads/etcd-cleanup.ts';
import { workloads as pods } from '#test/world/workloads/pool-pods.ts';
import { workloads as releases } from '#test/world/workloads/shard-release.ts';

/** What the code writes into objects, seen from outside. */
export interface Harvest {
  /** Records by step, as their text. */
  readonly records: ReadonlyMap<StepName, ReadonlySet<string>>;
  /** `Shard Drained` */
  readonly conditions: ReadonlySet<string>;
}

const statusSchema = z.looseObject({
  status: z
    .looseObject({ conditions: z.array(z.looseObject({ type: z.string() })).default([]) })
    .default({ conditions: [] }),
});

/** The kinds whose conditions are Millrace's. */
const ownKinds = new Set(['Database', 'GoverseCluster', 'Shard']);

/** Keeps every record and every type of condition that is written anywhere in a world. */
class Keeper implements Witness {
  readonly records = new Map(stepNames.map((step) => [step, new Set<string>()]));
  readonly conditions = new Set<string>();

  wrote({ commit: { kind, after } }: Write): void {
    if (after === null || !ownKinds.has(kind)) {
      return;
    }
    for (const step of stepNames) {
      const text = after.metadata.annotations?.[recordAnnotation(step)];
      if (text !== undefined) {
        this.records.get(step)?.add(text);
      }
    }
    for (const { type } of statusSchema.parse(after).status.conditions) {
      this.conditions.add(`${kind} ${type}`);
    }
  }

  sent(): void {
    // Only objects of the API server have records.
  }

  ended(): void {
    // A record is kept when it is written.
  }

  told(): void {
    // A record is kept when it is written.
  }

  fork(): Witness {
    return this;
  }
}

const everyWorkload: readonly Workload[] = [
  drains,
  pods,
  configurations,
  backups,
  cleanups,
  releases,
].flat();

/**
 * Runs the workloads of the world as they go when nothing goes wrong, and keeps what the steps wrote on the way. pool-pods
 * writes a record only where something stands in its way, so its own come from single decisions.
 */
export async function harvest(): Promise<Harvest> {
  const keeper = new Keeper();
  for (const workload of everyWorkload) {
    const world = await beginningOf(workload, new Tally());
    world.accompany(keeper);
    await runToEnd(world, { workload, strikes: [], isUndisturbed: true });
  }
  for (const text of recordsOfPoolPods()) {
    keeper.records.get('pool-pods')?.add(text);
  }
  return keeper;
}

function recordsOfPoolPods(): readonly string[] {
  const making = aSnapshotOf(0, aShard().withPool(32));
  const blocked = aSnapshotOf(3).withoutPod(1).with({ database: notThere });
  return [making, blocked].flatMap(({ snapshot }) =>
    decidePods(snapshot, now).effects.flatMap((effect) =>
      effect.kind === 'advance' && effect.record !== null ? [recordText(effect.record)] : [],
    ),
  );
}
