import {
  backupNow,
  confirmRepository,
  forceDrain,
  reconcileRequest,
} from '#shared/api/annotations.ts';
import { goverseLabel, shardLabel } from '#shared/api/labels.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { ResourceKind, TargetKind } from '#shared/kube/resources.ts';

/** What one step wants to hear about its targets. Its own record and the spec's generation are always among it. */
export interface Route {
  readonly step: StepName;
  /** The kind of object the step reconciles. */
  readonly target: TargetKind;
  /** Steps whose records on the same target it reads. */
  readonly records: readonly StepName[];
  /** Condition types, written by others on the same target, that it reads. */
  readonly conditions: readonly string[];
  /** Condition types on the target that it writes, and nobody else: they tell which generation it has observed. */
  readonly ownConditions: readonly string[];
  /** Annotations on the target by which people ask it for something. */
  readonly requests: readonly string[];
  /** Whether it cares about the objects that belong to the target, see {@link Membership}. */
  readonly members: boolean;
}

/** Objects that name the target they belong to, in the same namespace, by a label. */
interface Membership {
  readonly kind: ResourceKind;
  readonly target: ResourceKind;
  /** Holds the target's name. Objects without the label are not watched. */
  readonly label: string;
}

/** Objects, in the same namespace, that targets name in their spec. A change wakes every step of those targets. */
export interface Reference {
  readonly kind: ResourceKind;
  readonly target: ResourceKind;
  /** Where in the target the object's name is. */
  readonly path: readonly string[];
  /** Annotations on the referenced object by which people ask for something. */
  readonly requests: readonly string[];
}

export interface Routing {
  readonly routes: readonly Route[];
  readonly memberships: readonly Membership[];
  readonly references: readonly Reference[];
}

/**
 * Which step listens to what and answers by what: all that the relay and the sweep know about any step.
 *
 * Members are watched by their metadata alone, which does not show readiness, so every write to a member counts,
 * people's annotations on it included.
 */
export const routing: Routing = {
  routes: [
    {
      step: 'drain-step',
      target: 'Shard',
      records: [],
      conditions: [],
      ownConditions: ['Drained'],
      requests: [forceDrain, reconcileRequest],
      members: true,
    },
    {
      step: 'pool-pods',
      target: 'Shard',
      records: ['drain-step'],
      // What others cannot go on with by themselves is told in `Stalled` as well.
      conditions: ['Drained', 'BackupsOnSchedule'],
      ownConditions: ['Ready', 'Reconciling', 'Stalled', 'PodsUpToDate'],
      requests: [reconcileRequest],
      members: true,
    },
    {
      step: 'backup-config',
      target: 'Database',
      records: [],
      conditions: [],
      ownConditions: ['Ready', 'Reconciling', 'Stalled', 'BackupConfigured'],
      requests: [confirmRepository, reconcileRequest],
      members: false,
    },
    {
      step: 'backup-trigger',
      target: 'Shard',
      // It reads drain-step's record, and waits for a drain by looking every few seconds, only while a backup is due.
      records: [],
      conditions: [],
      ownConditions: ['BackupsOnSchedule'],
      requests: [backupNow, reconcileRequest],
      members: false,
    },
    {
      step: 'etcd-cleanup',
      target: 'Shard',
      records: [],
      // A drain that ends leaves a record behind. Members that come and go otherwise can wait for the resync: what has none
      // must stay quiet for minutes anyway.
      conditions: ['Drained'],
      ownConditions: ['TopologyClean'],
      requests: [reconcileRequest],
      members: false,
    },
    {
      step: 'shard-release',
      target: 'GoverseCluster',
      records: [],
      conditions: [],
      ownConditions: ['Ready', 'Reconciling', 'Stalled', 'Released'],
      requests: [reconcileRequest],
      members: true,
    },
  ],
  memberships: [
    { kind: 'Pod', target: 'Shard', label: shardLabel },
    { kind: 'Pod', target: 'GoverseCluster', label: goverseLabel },
  ],
  references: [
    {
      kind: 'Database',
      target: 'Shard',
      path: ['spec', 'databaseRef', 'name'],
      requests: [reconcileRequest],
    },
  ],
};

/** Every kind of object that some step reconciles, each once. */
export function targetKinds({ routes }: Routing): ResourceKind[] {
  return [...new Set(routes.map((route) => route.target))];
}

/** The steps that reconcile objects of this kind. */
export function stepsOf(target: ResourceKind): StepName[] {
  return routing.routes.flatMap((route) => (route.target === target ? [route.step] : []));
}

/** Every kind that has to be watched, each once. */
export function watchedKinds({ routes, memberships, references }: Routing): ResourceKind[] {
  return [
    ...new Set([
      ...routes.map((route) => route.target),
      ...memberships.map((membership) => membership.kind),
      ...references.map((reference) => reference.kind),
    ]),
  ];
}

/** The kind of object that a step reconciles. */
export function targetOf(step: StepName): TargetKind {
  const route = routing.routes.find((each) => each.step === step);
  if (route === undefined) {
    throw new RangeError(`there is no route of ${step}`);
  }
  return route.target;
}
