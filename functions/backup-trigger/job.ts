import { attemptLabel, scheduleLabel, shardLabel, slotLabel } from '#shared/api/labels.ts';
import { backupJobName } from '#shared/api/names.ts';
import type { JobTemplate } from '#shared/api/job-template.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { controlledBy, withoutOurDomain } from '#shared/kube/ownership.ts';
import type { KubeObject, ObjectRef } from '#shared/kube/resources.ts';
import type { DatabaseView } from '#shared/kernel/shard-database.ts';
import type { Run } from './record.ts';
import type { JobView, ShardView } from './snapshot.ts';

/*
 * The Job of a run with engine `job`: how it is called, what is in it, and what it says.
 */

/** How long a Job stays that has ended and whose end is written down, in seconds: people may want to read its log. */
const keptSeconds = 86_400;

/** What is kept of a Job's own words, in characters. */
const maxReasonLength = 200;

type Slot = Pick<Run, 'schedule' | 'slot' | 'attempt'>;

/** Follows from the slot and the attempt alone, so whoever finds the intent finds the Job. */
export function jobRef(
  { namespace, name }: Pick<ShardView, 'namespace' | 'name'>,
  { schedule, slot, attempt }: Slot,
): ObjectRef<'Job'> {
  return { kind: 'Job', namespace, name: backupJobName(name, schedule, slot, attempt) };
}

function labelsOf(shardName: string, { schedule, slot, attempt }: Slot) {
  return {
    [shardLabel]: shardName,
    [scheduleLabel]: schedule,
    // A label takes no colons.
    [slotLabel]: slot.replaceAll(':', '.'),
    [attemptLabel]: String(attempt),
  };
}

/**
 * The Job to make. It runs one pod once: a second pod would be a second start that nobody decided. It has no deadline,
 * since a backup that was started is never ended from here; a template may give its pod one. The pod has none of our labels:
 * by these members are found, and it is none.
 */
export function jobToStart(
  shard: ShardView,
  { shard: key }: DatabaseView,
  run: Run,
): Pick<Effect<'startJob'>, 'object' | 'manifest'> {
  const { jobTemplate } = shard;
  if (jobTemplate === null) {
    throw new Error('a schedule without a template for its Jobs is not in force');
  }
  const object = jobRef(shard, run);
  const labels = withoutOurDomain(jobTemplate.metadata?.labels);
  const annotations = withoutOurDomain(jobTemplate.metadata?.annotations);
  return {
    object,
    manifest: {
      metadata: {
        name: object.name,
        namespace: shard.namespace,
        labels: { ...labels, ...labelsOf(shard.name, run) },
        annotations,
        ownerReferences: [controlledBy(shard)],
      },
      spec: {
        completions: 1,
        parallelism: 1,
        backoffLimit: 0,
        template: {
          metadata: { labels, annotations },
          spec: podSpec(jobTemplate.spec, {
            MILLRACE_DATABASE: key.database,
            MILLRACE_TABLE_GROUP: key.tableGroup,
            MILLRACE_SHARD: key.shard,
            MILLRACE_BACKUP_TYPE: run.type,
            MILLRACE_BACKUP_SLOT: run.slot,
            MILLRACE_BACKUP_SCHEDULE: run.schedule,
          }),
        },
      },
    },
  };
}

type PodSpec = JobTemplate['spec'];
type Variables = { readonly [name: string]: string };

function podSpec({ containers, initContainers, ...spec }: PodSpec, variables: Variables) {
  return {
    ...spec,
    ...(initContainers?.map === undefined
      ? {}
      : { initContainers: initContainers.map((container) => withVariables(container, variables)) }),
    containers: containers.map((container) => withVariables(container, variables)),
    restartPolicy: 'Never',
  };
}

/** Ours come first, so that a container's own can be made of them; what it sets itself stays. */
function withVariables(container: PodSpec['containers'][number], variables: Variables): JsonObject {
  const own = container.env ?? [];
  const ours = Object.entries(variables)
    .filter(([name]) => own.every((variable) => variable.name !== name))
    .map(([name, value]) => ({ name, value }));
  return { ...container, env: [...ours, ...own] };
}

/** Whether the Shard made it, and, where a slot is given, for that slot: a name alone could have been cut. */
export function isJobOf(
  { name, uid }: Pick<ShardView, 'name' | 'uid'>,
  { metadata }: KubeObject<'Job'>,
  slot: Slot | undefined,
): boolean {
  const controller = metadata.ownerReferences?.find((owner) => owner.controller === true);
  const labels = slot === undefined ? {} : labelsOf(name, slot);
  return (
    controller?.uid === uid &&
    Object.entries(labels).every(([key, value]) => metadata.labels?.[key] === value)
  );
}

/** What a Job says of its backup: it has ended where it says so, and runs else. */
export function jobView({ metadata, spec, status }: KubeObject<'Job'>): JobView {
  const { name, namespace, uid, resourceVersion } = metadata;
  const ending = status?.conditions?.find(
    (condition) =>
      condition.status === 'True' && (condition.type === 'Complete' || condition.type === 'Failed'),
  );
  const why = [ending?.reason, ending?.message].filter((part) => part !== undefined).join(': ');
  return {
    status: ending === undefined ? 'running' : ending.type === 'Complete' ? 'completed' : 'failed',
    backup: null,
    why: why === '' ? null : why.slice(0, maxReasonLength),
    object: {
      ref: { kind: 'Job', ...(namespace === undefined ? {} : { namespace }), name },
      uid,
      resourceVersion,
      isReleased: spec?.ttlSecondsAfterFinished !== undefined,
    },
  };
}

/** From now on Kubernetes may remove it. */
export function jobRelease({
  ref,
  uid,
  resourceVersion,
}: NonNullable<JobView['object']>): Effect<'patchObject'> {
  return {
    kind: 'patchObject',
    object: ref,
    patch: { spec: { ttlSecondsAfterFinished: keptSeconds } },
    guard: { uid, resourceVersion },
  };
}
