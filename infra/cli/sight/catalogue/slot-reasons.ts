import type { SlotReason } from '#functions/backup-trigger/record.ts';

/** Why a slot made no good backup: what it means, and what to do. */
export interface SlotMeaning {
  readonly means: string;
  /** Absent where there is nothing to be done but wait. */
  readonly todo?: string;
}

const wait = 'wait for what held it up, or see why that takes so long';

export const slotMeanings: { readonly [R in SlotReason]: SlotMeaning } = {
  Superseded: { means: 'a newer slot was due before it could begin' },
  Late: {
    means: 'nobody began it by its startingDeadline',
    todo: 'see whether relay, sweep and backup-trigger’s function were down then',
  },
  NotCaughtUp: {
    means: 'it could not begin in time, and its schedule makes up for nothing (catchUp: none)',
    todo: 'see whether relay, sweep and backup-trigger’s function were down then',
  },
  Suspended: { means: 'its schedule was suspended' },
  SpecChanged: { means: 'the spec changed meanwhile' },
  RunInProgress: {
    means: 'another backup of the shard ran until its startingDeadline had passed',
    todo: 'give schedules more room, or see why backups take so long',
  },
  DatabaseMissing: { means: 'the Database did not exist', todo: 'create the Database' },
  DatabaseUnknown: {
    means: 'the Database could not be read until its startingDeadline had passed',
    todo: 'see what millrace doctor says',
  },
  LeaseUnknown: {
    means: 'the topology store did not answer until its startingDeadline had passed',
    todo: 'see whether etcd runs and can be reached',
  },
  BackupsUnknown: {
    means: 'the list of backups could not be read until its startingDeadline had passed',
    todo: 'see whether multiadmin runs and can be reached, and whether its poolers answer',
  },
  AwaitingDrain: {
    means: 'a member was being deleted until its startingDeadline had passed',
    todo: 'see what drain-step waits for',
  },
  DrainUnknown: {
    means: 'the notes of drain-step could not be read',
    todo: 'see what drain-step says',
  },
  LeaseHeld: {
    means:
      'somebody else held the lease of the shard’s backups until its startingDeadline had passed',
    todo: wait,
  },
  EarlierRuns: {
    means: 'an earlier backup still ran when its startingDeadline had passed',
    todo: wait,
  },
  Refused: {
    means: 'the data plane (or the API server, for a Job) refused to begin it',
    todo: 'see the Event BackupRefused of the Shard for the answer',
  },
  Failed: {
    means: 'the data plane said that the backup failed',
    todo: 'see why it failed: in the logs of multiadmin and of the pooler that made it, or of its Job where one did',
  },
  RunDeadline: {
    means: 'it had not ended by its runDeadline',
    todo: 'see why it takes so long, or give a longer runDeadline',
  },
  NotListed: {
    means: 'its Job ended well, and the repository lists no new backup',
    todo: 'see what the Job’s container did',
  },
  NoTrace: {
    means: 'it was asked for, and nothing ever showed that it ran',
    todo: 'see the logs of multiadmin; with onUnknown: rerun it would have been begun once more',
  },
};
