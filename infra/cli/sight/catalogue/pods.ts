import { type Entries, askDoctor, shardPods } from './meaning.ts';

/** Reasons of pool-pods. */
export const pods = {
  ObjectsMade: {
    brief: 'pods and claims are being made',
    means: 'Pods, claims, the Service or disruption budgets that were missing are being made.',
    attention: 'none',
    waitsFor: 'the new objects',
    next: 'It looks again by itself and makes what is still missing.',
  },
  ObjectsUpdated: {
    brief: 'pods or Services are being updated',
    means: 'Labels, annotations or selectors are being set right.',
    attention: 'none',
    next: 'Nothing more.',
  },
  MembersReady: {
    brief: 'every member is ready',
    means: 'Every pool has as many ready members as wanted.',
    attention: 'none',
    next: 'Nothing, until the spec or a pod changes.',
  },
  MembersNotReady: {
    brief: 'members are not ready',
    means: 'Fewer members are ready than wanted.',
    attention: 'none',
    waitsFor: 'members to become ready',
    todo: (names) => [shardPods(names)],
    next: 'It hears when a pod becomes ready.',
  },
  MembersStarting: {
    brief: 'members are starting',
    means:
      'All pods are there and some are not ready yet. Kubernetes and the data plane have to bring them up.',
    attention: 'none',
    waitsFor: 'its pods to become ready',
    todo: (names) => [shardPods(names)],
    next: 'It hears when a pod becomes ready. Nothing is made or deleted meanwhile.',
  },
  MembersMissing: {
    brief: 'members are missing',
    means: 'Fewer pods exist than wanted.',
    attention: 'none',
    waitsFor: 'the pods to be made',
    next: 'They are made by the next looks.',
  },
  SurplusMembers: {
    brief: 'members are too many',
    means: 'More pods exist than wanted. They leave one by one, see drain-step.',
    attention: 'none',
    waitsFor: 'drain-step to let them leave',
    next: 'drain-step picks one after the other.',
  },
  PodsUpToDate: {
    brief: 'every pod is as wanted',
    means: 'Every pod is as the spec has it.',
    attention: 'none',
    next: 'Nothing, until the spec or a pod changes.',
  },
  TemplateChanged: {
    brief: 'pods have an older template',
    means:
      'Some pods were made with another pod template, or for another repository. They run on; a pod gets the present one when it is made anew.',
    attention: 'advised',
    todo: ({ namespace }) => [
      {
        text: 'ask one of them after the other to leave; it is replaced by one with the present template',
        command: `kubectl annotate -n ${namespace} pod/<pod> millrace.dev/drain=template`,
      },
    ],
    next: 'Nothing by itself.',
  },
  NameTaken: {
    brief: 'a name it needs is taken',
    means: 'An object of somebody else has a name that the Shard needs. It is never touched.',
    attention: 'needed',
    waitsFor: 'that name',
    next: 'It looks again by itself and makes its own once the name is free.',
  },
  NameBeingFreed: {
    brief: 'waits for a former object to go',
    means: 'A former object of the same name is still being deleted.',
    attention: 'none',
    waitsFor: 'the former object to be gone',
    next: 'It looks every few seconds and makes its own then.',
  },
  ObjectsUnknown: {
    brief: 'its Service or budgets cannot be read',
    means:
      'The Service or the disruption budgets could not be read: the API server refused or did not answer.',
    attention: 'needed',
    waitsFor: 'an answer about them',
    todo: (names) => [askDoctor(names)],
    next: 'It asks again by itself.',
  },
  NoCompleteBackup: {
    brief: 'a new member has no backup to start from',
    means:
      'Members are made or start, and the data plane lists no complete backup: one that begins with an empty claim has nothing to restore from.',
    attention: 'advised',
    waitsFor: 'its pods to become ready',
    todo: ({ namespace, resource }) => [
      {
        text: 'have a full backup made',
        command: `kubectl annotate -n ${namespace} ${resource} --overwrite millrace.dev/backup-now=full/first`,
      },
    ],
    next: 'Members are made all the same, and wait for it in the data plane.',
  },
  NothingToDo: {
    brief: 'nothing to do',
    means: 'What is wanted is there.',
    attention: 'none',
    next: 'Nothing, until something changes.',
  },
  NothingStalled: {
    brief: 'nothing waits for a repair',
    means: 'Nothing waits for a repair.',
    attention: 'none',
    next: 'Nothing.',
  },
} as const satisfies Entries;
