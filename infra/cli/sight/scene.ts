import { routing } from '#events/routes.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { shortNames } from '#shared/kube/resources.ts';
import type { Names } from './catalogue/meaning.ts';
import type { Attention, Todo } from './model.ts';
import { type SeenPod, type SeenTarget, conditionOf } from './seen.ts';

/** All that an explanation is made from. */
export interface Scene {
  readonly target: SeenTarget;
  /** Of a Shard: the Database it names. `null`: it does not exist. Absent: it was not read. */
  readonly database?: SeenTarget | null;
  /** The pods that belong to it. Absent: they were not read. */
  readonly pods?: readonly SeenPod[];
  readonly now: Instant;
}

/** What was found out about one step. What is left out follows from the reason. */
export interface Finding {
  readonly reason: string;
  /** What the step wrote, with its advice. */
  readonly message?: string | undefined;
  readonly since?: string | undefined;
  readonly isSettled: boolean;
  readonly attention?: Attention;
  readonly brief?: string;
  readonly meaning?: string;
  readonly waitsFor?: string | null;
  /** Instead of what the reason advises, and of what the step did. */
  readonly todo?: readonly Todo[];
  readonly next?: string;
  readonly notes?: readonly string[];
  /** Under which generation it last looked; absent where that cannot be told from what it writes. */
  readonly lookedAt?: number | undefined;
  /** Why its last look is overdue, where that can be told from something else than its wake. */
  readonly overdue?: string | undefined;
  /** That in a few words, where it is not a look that is overdue. */
  readonly overdueBrief?: string;
}

export function namesOf({ target }: Scene, step: StepName): Names {
  const { kind, name, namespace, spec } = target;
  return {
    step,
    namespace,
    resource: `${shortNames[kind]}/${name}`,
    database:
      kind === 'Database'
        ? `mdb/${name}`
        : spec.databaseRef === undefined
          ? null
          : `mdb/${spec.databaseRef.name}`,
  };
}

/** The condition that tells what a step last found; the first of its own that is there. */
export function tellingCondition({ target }: Scene, step: StepName) {
  const own = routing.routes.find((route) => route.step === step)?.ownConditions ?? [];
  return own.map((type) => conditionOf(target, type)).find((condition) => condition !== undefined);
}
