/**
 * Every reason a step can give. One list, so that a log line, an Event, a condition and a metric label
 * of the same cause always carry the same word.
 */
export const reasons = [
  // Any step.
  'Paused',
  'RecordUnreadable',
  'RecordForeign',
  'DatabaseMissing',
  'DatabaseUnknown',
  'TargetBeingDeleted',
  // drain-step.
  'MembersUnknown',
  'NobodyLeaves',
  'TopologyUnknown',
  'PoolerRecordUnreadable',
  'NobodySafeToChoose',
  'ClaimsUnknown',
  'MemberChosen',
  'Draining',
  'DrainCancelled',
  'MemberOfOthers',
  'DrainForced',
  'BecamePrimary',
  'AwaitingNewPrimary',
  'PrimarySwitched',
  'NoAgreedPrimary',
  'ProposalUndecided',
  'QuorumTooSmall',
  'FailedMemberFirst',
  'NoStandbyReady',
  'SwitchoverAsked',
  'GatesHold',
  'Settling',
  'GatesHeld',
  'MemberMayGo',
  'MemberDeleted',
  'AwaitingPodGone',
  'NodeUnproven',
  'SilentMemberRetired',
  'AwaitingCohortExit',
  'ClaimInUse',
  'ClaimDeleted',
  'MemberLeft',
  'DrainStuck',
  // pool-pods.
  'ObjectsMade',
  'ObjectsUpdated',
  'MembersReady',
  'MembersNotReady',
  'MembersStarting',
  'MembersMissing',
  'SurplusMembers',
  'PodsUpToDate',
  'TemplateChanged',
  'NameTaken',
  'NameBeingFreed',
  'ObjectsUnknown',
  'NothingToDo',
  'NothingStalled',
] as const;

export type Reason = (typeof reasons)[number];

/** Reasons under which nothing moves until a person or an outside repair comes: kstatus calls that Stalled. */
const stalledReasons: ReadonlySet<string> = new Set<Reason>([
  'RecordUnreadable',
  'DatabaseMissing',
  'DatabaseUnknown',
  'MembersUnknown',
  'TopologyUnknown',
  'PoolerRecordUnreadable',
  'NobodySafeToChoose',
  'ClaimsUnknown',
  'QuorumTooSmall',
  'NoStandbyReady',
  'NodeUnproven',
  'MemberOfOthers',
  'ClaimInUse',
  'DrainStuck',
  'NameTaken',
  'ObjectsUnknown',
]);

/** Whether a condition with this reason stands for a step that cannot go on by itself. */
export function isStalled(reason: string): boolean {
  return stalledReasons.has(reason);
}
