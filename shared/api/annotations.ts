import { type StepName, stepNames } from './steps.ts';

/** The prefix of every record: one annotation per step on the target, written by that step alone. */
export const recordPrefix = 'step.millrace.dev/';

export function recordAnnotation(step: StepName): string {
  return `${recordPrefix}${step}`;
}

export const recordAnnotations: readonly string[] = stepNames.map(recordAnnotation);

/** On a pod, by people: please drain it. The value says why; removing it cancels before the point of no return. */
export const drainRequest = 'millrace.dev/drain';

/** On a Shard, by people: the uid of the pod whose drain may go past its unmet gate. */
export const forceDrain = 'millrace.dev/force-drain';

/** On a Database, by people: the hash of the repository that backups may move to, away from where they are. */
export const confirmRepository = 'millrace.dev/confirm-repository';
/** On a Shard, by people: `<type>/<token>`, one backup besides the schedules for each new token. */
export const backupNow = 'millrace.dev/backup-now';

/** On any target, by people: a new token wakes every step once. */
export const reconcileRequest = 'millrace.dev/reconcile';

/**
 * On any target, by whoever changes it: the W3C trace context of the change, and when it was written there, as Unix seconds
 * or RFC 3339. Read by the relay alone; no step is woken by them.
 */
export const traceparentAnnotation = 'millrace.dev/traceparent';
export const traceparentTime = 'millrace.dev/traceparent-ts';

/** On a pod, by drain-step: `draining` or `finished`. Derived, never read back as truth. */
export const drainMirror = 'drain.millrace.dev/state';

/** On a claim, by drain-step: the uid of the pod that left it for good; removed by pool-pods on re-use. */
export const releasedClaim = 'millrace.dev/released';

/** On a pod of a GoVerse node, by people: `quick` or `clean`, whatever its cluster's mode is. */
export const shutdownMode = 'millrace.dev/shutdown-mode';

/** On a pod of a GoVerse node, by people: the address it is registered under, where that does not follow from the pod. */
export const goverseAddress = 'goverse.millrace.dev/address';

/** On a pod, by shard-release: `draining` or `released`. Derived, never read back as truth. */
export const releaseMirror = 'release.millrace.dev/state';

/** On a pod, by pool-pods: hash of the pod spec it was made with. Shows which pods a changed template has not reached. */
export const templateHash = 'millrace.dev/template';
