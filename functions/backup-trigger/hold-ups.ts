import type { Reason } from '#shared/api/reasons.ts';
import type { SlotReason } from './record.ts';
import type { BackupSnapshot, JobView } from './snapshot.ts';

/** Why nothing can be begun. */
export interface HoldUp {
  /** What a slot that it outlasts ends with. */
  readonly why: SlotReason;
  readonly reason: Reason;
  readonly message: string;
  /** What a person has to do, where waiting alone does not help. */
  readonly needs?: string;
}

type HoldUpCheck = (snapshot: BackupSnapshot) => HoldUp | undefined;

/** Everything that keeps a backup from being begun, in order. What is not known counts as the worst it could be. */
export const holdUps: readonly HoldUpCheck[] = [
  runInProgress,
  databaseMissing,
  databaseUnknown,
  leaseUnknown,
  backupsUnknown,
  drainUnknown,
  drainGoing,
  leaseHeld,
  earlierRuns,
];

/** Each slot waits for these no longer than its startingDeadline, so none of them holds up a schedule for ever. */
export function holdUpOf(snapshot: BackupSnapshot): HoldUp | null {
  for (const check of holdUps) {
    const found = check(snapshot);
    if (found !== undefined) {
      return found;
    }
  }
  return null;
}

function runInProgress({ record }: BackupSnapshot): HoldUp | undefined {
  return record.kind === 'ours' && record.record.data.run !== undefined
    ? { why: 'RunInProgress', reason: 'BackupRunning', message: 'another backup of the shard runs' }
    : undefined;
}

function databaseMissing({ shard, database }: BackupSnapshot): HoldUp | undefined {
  return database.kind === 'absent'
    ? {
        why: 'DatabaseMissing',
        reason: 'DatabaseMissing',
        message: `the Database ${shard.databaseName} does not exist`,
        needs: `create the Database ${shard.databaseName} in namespace ${shard.namespace}`,
      }
    : undefined;
}

function databaseUnknown({ database }: BackupSnapshot): HoldUp | undefined {
  return database.kind === 'unknown'
    ? {
        why: 'DatabaseUnknown',
        reason: 'DatabaseUnknown',
        message: `the Database cannot be read: ${database.why}`,
      }
    : undefined;
}

/** An unread lease may be held. */
function leaseUnknown({ lease }: BackupSnapshot): HoldUp | undefined {
  return lease.kind === 'unknown'
    ? { why: 'LeaseUnknown', reason: 'TopologyUnknown', message: lease.why }
    : undefined;
}

/** A pooler that backs up does not tell the list, so no list may mean that a backup waits or runs. */
function backupsUnknown({ backups }: BackupSnapshot): HoldUp | undefined {
  return backups.kind === 'present'
    ? undefined
    : {
        why: 'BackupsUnknown',
        reason: 'BackupsUnknown',
        message: backups.kind === 'unknown' ? backups.why : 'there is no list of backups',
      };
}

function drainUnknown({ drain }: BackupSnapshot): HoldUp | undefined {
  return drain.kind === 'unknown'
    ? {
        why: 'DrainUnknown',
        reason: 'DrainUnknown',
        message: `whether a member is leaving is unknown: the record of drain-step cannot be read: ${drain.why}`,
      }
    : undefined;
}

/** The member that backs up by default may be the one that goes. */
function drainGoing({ drain }: BackupSnapshot): HoldUp | undefined {
  return drain.kind === 'going'
    ? {
        why: 'AwaitingDrain',
        reason: 'AwaitingDrain',
        message: `${drain.pod} is leaving and past the point of no return`,
      }
    : undefined;
}

/** A second backup would take the lease from the first, and end it. */
function leaseHeld({ lease }: BackupSnapshot): HoldUp | undefined {
  return lease.kind === 'present'
    ? {
        why: 'LeaseHeld',
        reason: 'BackupLeaseHeld',
        message: `somebody holds the lease of the backups${lease.value.holder === '' ? '' : ` (${lease.value.holder})`}`,
      }
    : undefined;
}

/** A run that nobody watches any more may still go on, or wait for its pooler without a lease. */
function earlierRuns({ record, job }: BackupSnapshot): HoldUp | undefined {
  const { left: ofDataPlane, leftJob } = record.kind === 'ours' ? record.record.data : {};
  const left = ofDataPlane ?? leftJob;
  if (left === undefined) {
    return undefined;
  }
  switch (job.kind) {
    case 'absent':
      return undefined;
    case 'unknown':
      return {
        why: 'EarlierRuns',
        reason: 'EarlierBackupRuns',
        message: `whether the earlier backup ${left} still runs is unknown: ${job.why}`,
      };
    case 'present':
      return hasEnded(job.value)
        ? undefined
        : {
            why: 'EarlierRuns',
            reason: 'EarlierBackupRuns',
            message: `the earlier backup ${left} still runs`,
            // The data plane ends its jobs at some time; a Job whose pod cannot start never ends by itself.
            ...(leftJob === undefined
              ? {}
              : { needs: `wait for the Job ${leftJob}, or delete it where it will never end` }),
          };
  }
}

export function hasEnded({ status }: JobView): boolean {
  return status === 'completed' || status === 'failed';
}
