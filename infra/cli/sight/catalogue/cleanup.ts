import { type Entries, shardPods } from './meaning.ts';

/** Reasons of etcd-cleanup. */
export const cleanup = {
  TopologyClean: {
    brief: 'no records of the dead',
    means: 'Every pooler record in the topology store has its member.',
    attention: 'none',
    next: 'Nothing, until a member goes.',
  },
  NoMembers: {
    brief: 'records, but no pods at all',
    means:
      'The topology store has pooler records of this shard, and no pod carries its label. That is what lost labels look like, so nothing is cleaned up.',
    attention: 'needed',
    waitsFor: 'at least one pod with the label of the shard',
    todo: (names) => [
      { ...shardPods(names), text: 'see whether its pods are gone, or have lost their labels' },
    ],
    next: 'It looks every five minutes.',
  },
  StaleRecords: {
    brief: 'records of gone members are watched',
    means:
      'The topology store has records of poolers without a pod. They are watched, and marked as stopped once they have been quiet for spec.cleanup.quietFor.',
    attention: 'none',
    waitsFor: 'the quiet time to pass',
    next: 'They are marked in their time, and deleted after spec.cleanup.deleteAfter.',
  },
  DeletionAwaited: {
    brief: 'records of stopped members await deletion',
    means:
      'Records of members that have stopped in good order are kept until spec.cleanup.deleteAfter has passed.',
    attention: 'none',
    waitsFor: 'that time to pass',
    next: 'They are deleted in their time.',
  },
  RecordsLeft: {
    brief: 'records are left to people',
    means:
      'Some pooler records cannot be cleaned up without risk: their pooler still answers, or leads, or the data plane set them aside, or they cannot be decoded.',
    attention: 'advised',
    waitsFor: 'a person to look at them',
    todo: () => [
      {
        text: 'stop the pooler that still answers without a pod, or remove the record by the data plane’s own means',
      },
    ],
    next: 'They stay.',
  },
  CleanupOff: {
    brief: 'cleanup is switched off',
    means:
      'There are records of gone members, and spec.cleanup.enabled is false: they are told and stay.',
    attention: 'none',
    next: 'Nothing, until it is enabled.',
  },
  PoolerAnswers: {
    brief: 'a pooler without a pod answers',
    means: 'A pooler that no pod stands for still answers, so its record is left to people.',
    attention: 'advised',
    waitsFor: 'that pooler to stop',
    next: 'Its record stays as long as it answers.',
  },
  PassFull: {
    brief: 'cleanup pauses between two passes',
    means:
      'As many records as spec.cleanup.maxPerPass allows were cleaned up; a pause follows in which people can notice.',
    attention: 'none',
    waitsFor: 'the pause to end',
    next: 'The next pass begins by itself.',
  },
  PoolerToRetire: {
    brief: 'a record is being marked as stopped',
    means: 'The record of a pooler that is gone is being marked as stopped.',
    attention: 'none',
    waitsFor: 'that mark',
    next: 'It is deleted after spec.cleanup.deleteAfter.',
  },
  PoolerRetired: {
    brief: 'a record was marked as stopped',
    means: 'The record of a pooler that is gone was marked as stopped.',
    attention: 'none',
    waitsFor: 'the time of its deletion',
    next: 'It is deleted after spec.cleanup.deleteAfter.',
  },
  PoolerToDelete: {
    brief: 'a record is being deleted',
    means: 'The record of a pooler that has stopped is being deleted.',
    attention: 'none',
    waitsFor: 'that deletion',
    next: 'It looks every 15 s until it has seen that.',
  },
  PoolerDeleted: {
    brief: 'a record was deleted',
    means: 'The record of a pooler that has stopped was deleted.',
    attention: 'none',
    next: 'Nothing more about it.',
  },
  CleanupCancelled: {
    brief: 'a record is left alone after all',
    means: 'A record was to be cleaned up and is not: somebody wrote it, or its member is back.',
    attention: 'none',
    next: 'It is looked at anew.',
  },
} as const satisfies Entries;
