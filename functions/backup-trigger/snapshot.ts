import type { Backup, BackupJob } from '#shared/admin/admin.ts';
import type { BackupEngine, BackupSchedule, BackupType } from '#shared/api/backup.ts';
import type { JobTemplate } from '#shared/api/job-template.ts';
import type { Condition, ShardStatus } from '#shared/api/shard.ts';
import type { Read } from '#shared/kernel/read.ts';
import type { DatabaseView } from '#shared/kernel/shard-database.ts';
import type { RecordRead } from '#shared/kernel/record.ts';
import type { TargetView } from '#shared/kernel/target-view.ts';
import type { ObjectRef } from '#shared/kube/resources.ts';
import type { BackupLease } from '#shared/topology/topology.ts';
import type { BackupRecord } from './record.ts';
import type { Timing } from './slots.ts';

/** Everything backup-trigger knows when it decides. Plain JSON. */
export interface BackupSnapshot {
  readonly shard: ShardView;
  readonly record: RecordRead<BackupRecord>;
  /** Whether a member is past the point of no return of its drain. */
  readonly drain: DrainView;
  readonly database: Read<DatabaseView>;
  /** The lease that a running backup holds, whoever asked for it. */
  readonly lease: Read<BackupLease>;
  /** Every backup in the repository. */
  readonly backups: Read<readonly Backup[]>;
  /** The job of the run, or of an earlier one that may go on. Asked only where there is one. */
  readonly job: Read<JobView>;
}

/** A job as the data plane tells of it, or a Job of Kubernetes in the same words. */
export interface JobView extends BackupJob {
  /** The Job, where it is one. */
  readonly object?: {
    readonly ref: ObjectRef<'Job'>;
    readonly uid: string;
    readonly resourceVersion: string;
    /** Kubernetes removes it by itself. */
    readonly isReleased: boolean;
  };
}

export interface ShardView extends TargetView {
  readonly databaseName: string;
  readonly schedules: readonly ScheduleView[];
  /** What Jobs are made from, `null` where there is nothing. */
  readonly jobTemplate: JobTemplate | null;
  /** The people's `backup-now` annotation. */
  readonly request: RequestView;
  /** When the spec was last changed, as the API server remembers it; `null` where it does not. */
  readonly specChangedAt: string | null;
  /** backup-trigger's own part of the status, as it stands. */
  readonly status: StatusView;
}

export interface StatusView {
  readonly condition: Condition | null;
  readonly fields: Pick<
    ShardStatus,
    'backups' | 'backupRun' | 'backupRequest' | 'lastBackup' | 'nextBackup'
  >;
}

export type RequestView =
  | { readonly kind: 'none' }
  | {
      readonly kind: 'valid';
      readonly text: string;
      readonly type: BackupType;
      readonly token: string;
    }
  | { readonly kind: 'invalid' };

export interface ScheduleView {
  readonly name: string;
  readonly timing: Timing;
  readonly type: BackupType;
  readonly engine: BackupEngine;
  readonly isSuspended: boolean;
  readonly catchUp: BackupSchedule['catchUp'];
  readonly startingDeadlineSeconds: number;
  readonly runDeadlineSeconds: number;
  readonly jitterSeconds: number;
  readonly onUnknown: BackupSchedule['onUnknown'];
}

export type DrainView =
  | { readonly kind: 'clear' }
  | { readonly kind: 'going'; readonly pod: string }
  | { readonly kind: 'unknown'; readonly why: string };
