import * as z from 'zod';

const pod = z.string().min(1);

/**
 * What can be made to go wrong. `pod` is the name of a pod. One-off faults happen when they are injected, or at the next
 * occasion; the others last until they are lifted.
 */
export const faultSchema = z.discriminatedUnion('kind', [
  /** The admin service does not reach this pooler: its status fails. All else goes on. */
  z.strictObject({ kind: z.literal('poolerUnreachable'), pod }),
  /**
   * The network around this pod fails. Its pooler goes on in the belief of what it last knew, and its pod stays ready:
   * the old leader and the one appointed after it both claim PRIMARY. From `members`, the admin service and etcd still
   * reach it; from `everyone`, nobody does.
   */
  z.strictObject({ kind: z.literal('cutOff'), pod, from: z.enum(['members', 'everyone']) }),
  /** The member says of itself that it may not vote. */
  z.strictObject({ kind: z.literal('ineligible'), pod }),
  /** Connections to the admin service are reset. */
  z.strictObject({ kind: z.literal('adminDown') }),
  /** Each answer comes so many milliseconds after it was true. Not divided by the speed. */
  z.strictObject({ kind: z.literal('adminSlow'), delayMs: z.int().min(1).max(600_000) }),
  z.strictObject({ kind: z.literal('adminUnauthorized') }),
  /** The leader has proposed a rule that is not decided before the fault is lifted. */
  z.strictObject({ kind: z.literal('undecidedProposal') }),
  /** The leader resigns, and nobody is appointed before the fault is lifted. */
  z.strictObject({ kind: z.literal('noPrimary') }),
  /** The leader is no member of its own cohort. */
  z.strictObject({ kind: z.literal('leaderOutsideCohort') }),
  /** One-off: the next switchover happens, and its caller's connection is reset instead of answered. */
  z.strictObject({ kind: z.literal('lostSwitchReply') }),
  /** One-off: the next backup begins, and the connection of who asked for it is reset instead of answered. */
  z.strictObject({ kind: z.literal('lostBackupReply') }),
  /** A backup fails when it should have been complete: the next one, or all until the fault is lifted. */
  z.strictObject({ kind: z.literal('backupFails'), times: z.enum(['once', 'always']) }),
  /** Backups do not end before the fault is lifted. */
  z.strictObject({ kind: z.literal('backupHangs') }),
  /** Somebody else has the lease of the shard's backups, and takes it back from whoever takes it. */
  z.strictObject({ kind: z.literal('leaseHeld') }),
  /** One-off: the admin service dies and is there again at once, without anything it had in memory. */
  z.strictObject({ kind: z.literal('adminRestart') }),
  /** One-off: the pod's processes are killed. It is left Failed, or its object vanishes with them. */
  z.strictObject({ kind: z.literal('podDeath'), pod, leaves: z.enum(['failed', 'nothing']) }),
  /** The node is lost: its kubelet starts and stops nothing, and its pods are not ready. Their processes run on. */
  z.strictObject({ kind: z.literal('nodeNotReady') }),
  /** One-off: the pooler's record is overwritten with bytes that are no record. */
  z.strictObject({ kind: z.literal('undecodableRecord'), pod }),
  /** Nothing is written to etcd; what should be comes afterwards. */
  z.strictObject({ kind: z.literal('topologyPaused') }),
]);

export type Fault = z.infer<typeof faultSchema>;
export type FaultKind = Fault['kind'];

export const faultKinds: readonly FaultKind[] = faultSchema.options.map(
  (option) => option.shape.kind.value,
);

export function isSameFault(a: Fault, b: Fault): boolean {
  return a.kind === b.kind && ('pod' in a ? 'pod' in b && a.pod === b.pod : true);
}
