import { type Entries, askDoctor, shardPods } from './meaning.ts';

const goesOn = 'It looks every few seconds and goes on by itself.';
const goesOnOnceSo = 'It looks again by itself and goes on as soon as that is so.';

/** Reasons of drain-step, some of which others give as well. */
export const drain = {
  MembersUnknown: {
    brief: 'its pods cannot be listed',
    means:
      'The pods could not be listed, so nobody knows who is there. Nothing is done on a guess.',
    attention: 'needed',
    waitsFor: 'the list of its pods',
    todo: (names) => [askDoctor(names)],
    next: 'It asks again by itself.',
  },
  NobodyLeaves: {
    brief: 'nobody has to leave',
    means: 'No member has to leave.',
    attention: 'none',
    next: 'Nothing, until the spec, a pod or a person asks for it.',
  },
  TopologyUnknown: {
    brief: 'the topology store does not answer',
    means:
      'The topology store (etcd), in which the data plane keeps who its members are, could not be read as a whole. What is not known is never taken for safe.',
    attention: 'needed',
    waitsFor: 'an answer from the topology store',
    todo: (names) => [
      {
        text: 'see whether etcd runs, and whether endpoints, certificates and users in the Database are right',
      },
      askDoctor(names),
    ],
    next: 'It asks again by itself and goes on once it has an answer.',
    byStep: {
      'backup-config': {
        means:
          "The data plane's record of the database, in the topology store (etcd), could not be read, so where backups go now is not known.",
      },
      'backup-trigger': {
        means:
          'Whether another backup runs stands in the topology store (etcd), which could not be read. A second backup would end the first, so none is begun.',
      },
      'etcd-cleanup': {
        means:
          'The pooler records of at least one cell could not be read. Who leads may be in that cell, so all are left alone.',
      },
    },
  },
  PoolerRecordUnreadable: {
    brief: 'a pooler record cannot be decoded',
    means:
      'A record in the topology store is not one that this version can read. It may be that of the primary, so nobody leaves.',
    attention: 'needed',
    waitsFor: 'that record to be readable, or gone',
    todo: () => [
      {
        text: 'run the Millrace that knows the data plane’s version, or repair or remove that record',
      },
    ],
    next: goesOnOnceSo,
  },
  NobodySafeToChoose: {
    brief: 'nobody can safely be chosen to leave',
    means: 'A member has to leave, and none can be chosen without risk.',
    attention: 'needed',
    waitsFor: 'a member that can be spared',
    todo: (names) => [
      shardPods(names),
      { text: 'bring the primary back, or stop what still runs unseen' },
    ],
    next: goesOnOnceSo,
  },
  ClaimsUnknown: {
    brief: 'its volume claims cannot be read',
    means: 'The PersistentVolumeClaims could not be read, so nobody knows which is in use.',
    attention: 'needed',
    waitsFor: 'the list of claims',
    todo: (names) => [askDoctor(names)],
    next: 'It asks again by itself.',
  },
  MemberChosen: {
    brief: 'a member is to leave',
    means: 'It stays until it is certain that the others can do without it.',
    attention: 'none',
    waitsFor: 'one agreed primary, no open election, and enough healthy members without it',
    next: goesOn,
  },
  Draining: {
    brief: 'a member is leaving',
    means: 'It is deleted only after three looks have shown that the others can do without it.',
    attention: 'none',
    waitsFor: 'the next of these looks',
    next: goesOn,
  },
  DrainCancelled: {
    brief: 'a member stays after all',
    means: 'A member was to leave and stays: it is wanted again.',
    attention: 'none',
    next: 'Nothing, until somebody has to leave.',
  },
  MemberOfOthers: {
    brief: 'the leaving pod is in other hands',
    means:
      'The pod that may go has come into the hands of another controller or operator, so it is not deleted here.',
    attention: 'needed',
    waitsFor: 'the pod to be ours again, or gone',
    todo: (names) => [
      shardPods(names),
      {
        text: 'take the other operator’s marks or ownership off the pod, or delete the pod yourself',
      },
    ],
    next: goesOnOnceSo,
  },
  DrainForced: {
    brief: 'a person forces a member out',
    means:
      'A person has ordered this member out: checks that are not met are passed over. A member that is seen to lead is kept all the same.',
    attention: 'none',
    waitsFor: 'its next look',
    next: goesOn,
  },
  BecamePrimary: {
    brief: 'the leaving member became primary',
    means:
      'The member that was leaving has become the primary, so its leaving starts again, or another one goes.',
    attention: 'none',
    waitsFor: 'its next look',
    next: goesOn,
  },
  AwaitingNewPrimary: {
    brief: 'waits for a new primary',
    means:
      'The primary is to leave and was asked to hand over its lead. The data plane is electing another one; for seconds nobody leads, which is normal.',
    attention: 'none',
    waitsFor: 'another primary',
    next: 'It looks every few seconds; after 75 s it asks once more.',
  },
  PrimarySwitched: {
    brief: 'another member leads now',
    means: 'Another member has taken the lead, so the former primary can leave.',
    attention: 'none',
    waitsFor: 'the checks before it may go',
    next: goesOn,
  },
  NoAgreedPrimary: {
    brief: 'no agreed primary',
    means:
      'The records and the poolers do not agree on one primary, so nobody can tell who may be spared.',
    attention: 'none',
    waitsFor: 'one primary that all agree on',
    todo: (names) => [
      shardPods(names),
      { text: 'see why the data plane elects none; if it lasts, look at multiorch' },
    ],
    next: 'It goes on once there is one. If that takes longer than the deadline, it says that it is stuck.',
    byStep: {
      'etcd-cleanup': {
        means:
          'Records without a member are due to be cleaned up, but nobody leads, or one of them may have to. They stay.',
        next: 'It looks every minute and goes on once there is a primary.',
      },
    },
  },
  ProposalUndecided: {
    brief: 'an election is not decided',
    means:
      'The data plane is electing: a new rule is proposed and not decided. It may change who is needed.',
    attention: 'none',
    waitsFor: 'the end of the election',
    next: goesOnOnceSo,
  },
  QuorumTooSmall: {
    brief: 'too few healthy members to let one go',
    means: 'The others cannot do without it, so it is kept.',
    attention: 'needed',
    waitsFor: 'enough healthy members besides it',
    next: goesOnOnceSo,
  },
  FailedMemberFirst: {
    brief: 'a failed member goes first',
    means:
      'A member was to leave, but the others are too few while one of them has failed. The failed one is replaced first.',
    attention: 'none',
    waitsFor: 'the replacement of the failed member',
    next: goesOn,
  },
  NoStandbyReady: {
    brief: 'nobody could take over the lead',
    means:
      'The member that is to leave leads, and no standby is ready to take over, so it keeps the lead and stays.',
    attention: 'needed',
    waitsFor: 'a standby that is ready',
    next: goesOnOnceSo,
  },
  SwitchoverAsked: {
    brief: 'the primary is asked to hand over',
    means: 'The primary is to leave and was asked to hand over its lead to a standby.',
    attention: 'none',
    waitsFor: 'another primary',
    next: 'It looks every few seconds; after 75 s it asks once more.',
  },
  GatesHold: {
    brief: 'a member is leaving: first check passed',
    means: 'The others can do without it. That has to be so again at least 5 s later.',
    attention: 'none',
    waitsFor: 'a second look, at least 5 s after the first',
    next: goesOn,
  },
  Settling: {
    brief: 'a member is leaving: first check passed',
    means: 'The others can do without it. That has to be so again at least 5 s later.',
    attention: 'none',
    waitsFor: 'a second look, at least 5 s after the first',
    next: goesOn,
  },
  GatesHeld: {
    brief: 'a member is leaving: second check passed',
    means: 'The others can do without it, on two looks. A third one decides.',
    attention: 'none',
    waitsFor: 'a third look',
    next: 'If all still holds, the member is deleted. Until then it can be taken back.',
  },
  MemberMayGo: {
    brief: 'a member is being deleted',
    means: 'It is decided: the member goes, and this cannot be taken back any more.',
    attention: 'none',
    waitsFor: 'the pod to stop',
    next: 'Its pod is deleted, then its place in the data plane and its claim are dealt with.',
  },
  MemberDeleted: {
    brief: 'a member was deleted and stops',
    means: 'The pod of the member was deleted and stops in good order.',
    attention: 'none',
    waitsFor: 'the pod to be gone',
    next: goesOn,
  },
  AwaitingPodGone: {
    brief: 'a deleted pod does not end',
    means:
      'The pod was deleted and still stops. It may still run, so it is waited for and never killed by force.',
    attention: 'none',
    waitsFor: 'the pod to be gone',
    next: goesOnOnceSo,
  },
  NodeUnproven: {
    brief: 'a gone member may still run',
    means:
      'The pod is gone from Kubernetes, but nothing proves that its processes have ended: its node is not heard from, or its pooler still answers.',
    attention: 'needed',
    waitsFor: 'proof that the member has stopped',
    next: goesOnOnceSo,
  },
  SilentMemberRetired: {
    brief: 'a lost member is written off',
    means:
      'The member ended without saying so to the data plane. Its record there is being marked as stopped.',
    attention: 'none',
    waitsFor: 'that mark',
    next: goesOn,
  },
  AwaitingCohortExit: {
    brief: 'the data plane still counts on it',
    means: 'The member is gone, and the data plane still counts on its vote.',
    attention: 'none',
    waitsFor: 'the data plane to take it out of its cohort',
    todo: () => [{ text: 'if it lasts, see whether multiorch runs' }],
    next: goesOnOnceSo,
    byStep: {
      'etcd-cleanup': {
        means:
          'The record of a stopped pooler is due to be deleted, but the data plane still counts on its vote. It stays.',
        next: 'It looks every minute.',
      },
    },
  },
  ClaimInUse: {
    brief: 'a claim to be deleted is in use',
    means: 'The member has left and its claim is to be deleted, but a pod still mounts it.',
    attention: 'needed',
    waitsFor: 'the claim to be free',
    next: goesOnOnceSo,
  },
  ClaimDeleted: {
    brief: 'the claim of a member is deleted',
    means: "The member has left and its claim is deleted, as its pool's pvcPolicy says.",
    attention: 'none',
    waitsFor: 'the claim to be gone',
    next: goesOn,
  },
  MemberLeft: {
    brief: 'nobody has to leave',
    means: 'The last member that had to leave has left in good order.',
    attention: 'none',
    next: 'Nothing, until somebody has to leave.',
  },
  DrainStuck: {
    brief: 'a member cannot leave',
    means:
      'A member has been leaving for longer than spec.drain.deadline allows. It is not given up: it goes on as soon as what it waits for is so.',
    attention: 'needed',
    waitsFor: 'what it could not get in time',
    next: goesOnOnceSo,
  },
} as const satisfies Entries;
