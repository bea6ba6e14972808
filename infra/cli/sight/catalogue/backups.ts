import { type Entries, askDoctor } from './meaning.ts';

const asksAgain =
  'It asks again every 15 s. A slot that cannot start by its startingDeadline ends as skipped.';
const watches = 'It is watched until it has ended; the next one waits for that.';

/** Reasons of backup-trigger. */
export const backups = {
  NothingScheduled: {
    brief: 'no backups are scheduled',
    means: 'The Shard has no backup schedules.',
    attention: 'none',
    next: 'Nothing, until spec.backup.schedules names one, or a person asks for a backup.',
  },
  AwaitingSlot: {
    brief: 'no backup is due',
    means: 'No backup is due.',
    attention: 'none',
    waitsFor: 'the next slot',
    next: 'The next backup begins by itself.',
  },
  SlotsSkipped: {
    brief: 'slots were skipped',
    means: 'One or more slots could not begin in time and were passed over.',
    attention: 'none',
    waitsFor: 'the next slot',
    next: 'The next backup begins by itself.',
  },
  BackupsUnknown: {
    brief: 'a backup waits: the list cannot be read',
    means:
      'A backup is due, but the list of backups cannot be read from the data plane. That is so while a pooler backs up, so none is begun.',
    attention: 'none',
    waitsFor: 'the list of backups',
    todo: (names) => [askDoctor(names)],
    next: asksAgain,
  },
  DrainUnknown: {
    brief: 'whether a member leaves is unknown',
    means:
      'Whether a member is leaving cannot be told, since the notes of drain-step cannot be read. No backup is begun meanwhile.',
    attention: 'needed',
    waitsFor: 'notes of drain-step that can be read',
    todo: ({ resource, namespace }) => [
      {
        text: 'see what drain-step says; if no newer Millrace wrote its notes, clear them',
        command: `millrace reset ${resource} drain-step -n ${namespace}`,
      },
    ],
    next: asksAgain,
    byStep: {
      'etcd-cleanup': {
        means:
          'Whose record must be left alone is not known, since the notes of drain-step cannot be read.',
        next: 'It looks every five minutes.',
      },
    },
  },
  AwaitingDrain: {
    brief: 'a backup waits for a drain',
    means:
      'A backup is due, but the member that would make it may be the one that is just being deleted.',
    attention: 'none',
    waitsFor: 'the drain to end',
    next: asksAgain,
  },
  BackupLeaseHeld: {
    brief: 'a backup waits for another one',
    means:
      'A backup is due, but somebody holds the lease of the shard’s backups. A second one would end the first.',
    attention: 'none',
    waitsFor: 'the lease',
    next: asksAgain,
  },
  EarlierBackupRuns: {
    brief: 'a backup waits for an earlier one',
    means: 'A backup is due, but an earlier one may still run.',
    attention: 'none',
    waitsFor: 'the earlier backup to end',
    next: asksAgain,
  },
  BackupAsked: {
    brief: 'a backup was asked for',
    means: 'The data plane was asked for a backup, and its answer is awaited.',
    attention: 'none',
    waitsFor: 'the backup',
    next: watches,
  },
  BackupRunning: {
    brief: 'a backup runs',
    means: 'A backup runs.',
    attention: 'none',
    waitsFor: 'the backup to end',
    next: watches,
  },
  BackupOutcomeAwaited: {
    brief: 'what became of a backup is awaited',
    means: 'A backup was asked for, and at the moment nothing tells how it is.',
    attention: 'none',
    waitsFor: 'the data plane to say what became of it',
    next: 'If nothing shows that it runs for two minutes, its slot ends as unknown.',
  },
  BackupSucceeded: {
    brief: 'the last backup is complete',
    means: 'The last backup is complete.',
    attention: 'none',
    waitsFor: 'the next slot',
    next: 'The next backup begins by itself.',
  },
  BackupAdopted: {
    brief: 'the last backup is complete',
    means:
      'A backup is complete that was begun since one was asked for; it is counted as that one.',
    attention: 'none',
    waitsFor: 'the next slot',
    next: 'The next backup begins by itself.',
  },
  BackupFailed: {
    brief: 'the last backup failed',
    means: 'The data plane says that the last backup failed.',
    attention: 'advised',
    waitsFor: 'the next slot',
    next: 'It is not repeated; the next slot begins by itself.',
  },
  BackupRefused: {
    brief: 'the last backup was refused',
    means: 'The data plane, or the API server for a Job, refused to begin the last backup.',
    attention: 'advised',
    waitsFor: 'the next slot',
    next: 'It is not repeated; the next slot begins by itself.',
  },
  BackupOverdue: {
    brief: 'a backup took too long',
    means: 'The last backup had not ended by its runDeadline. It is left alone and may still run.',
    attention: 'advised',
    waitsFor: 'that backup to end, or the next slot',
    next: 'The next one waits until it has ended.',
  },
  BackupOutcomeUnknown: {
    brief: 'the last backup left no trace',
    means:
      'A backup was asked for and nothing has shown that it ran, so its slot ended as unknown.',
    attention: 'advised',
    waitsFor: 'the next slot',
    next: 'It is not repeated; the next slot begins by itself.',
  },
  BackupToRepeat: {
    brief: 'a backup is to be repeated',
    means: 'Nobody can tell what became of a backup, and its schedule wants it to be made again.',
    attention: 'none',
    waitsFor: 'its start',
    next: 'It begins by itself.',
  },
  JobReleased: {
    brief: 'a backup’s Job has ended',
    means: 'The Job of an earlier backup has ended, and Kubernetes may remove it.',
    attention: 'none',
    next: 'The next backup begins by itself.',
  },
  OnSchedule: {
    brief: 'backups are on schedule',
    means: 'Every schedule has its backups in time.',
    attention: 'none',
    next: 'The next backup begins by itself.',
  },
  BackupsMissed: {
    brief: 'no good backup for two slots',
    means:
      'A schedule has had no good backup for at least two of its slots: if the database were lost now, more would be lost than planned.',
    attention: 'needed',
    waitsFor: 'a slot that ends well',
    next: 'It tries at every slot by itself; the first slot that ends well ends this.',
  },
  ScheduleInvalid: {
    brief: 'a backup schedule is not valid',
    means: 'A backup schedule cannot be in force as it is written, so it makes no backups.',
    attention: 'needed',
    waitsFor: 'a corrected schedule',
    todo: () => [{ text: 'correct the schedule in spec.backup.schedules' }],
    next: 'It is in force once the spec is corrected.',
  },
  RequestInvalid: {
    brief: 'a backup request cannot be read',
    means:
      'A person asked for a backup, and the annotation millrace.dev/backup-now is not written as it must be.',
    attention: 'needed',
    waitsFor: 'a request that can be read',
    todo: ({ namespace, resource }) => [
      {
        text: 'ask again as <type>/<token>: the type full, differential or incremental, the token any new word',
        command: `kubectl annotate -n ${namespace} ${resource} --overwrite millrace.dev/backup-now=full/again`,
      },
    ],
    next: 'Scheduled backups go on.',
  },
} as const satisfies Entries;
