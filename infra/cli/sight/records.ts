import { backupConfigRecordSchema } from '#functions/backup-config/record.ts';
import { readBackupRecord } from '#functions/backup-trigger/record.ts';
import { readCleanupRecord } from '#functions/etcd-cleanup/record.ts';
import { poolPodsRecordSchema } from '#functions/pool-pods/record.ts';
import { readReleaseRecord } from '#functions/shard-release/record.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import type { StepName } from '#shared/api/steps.ts';
import { type RecordRead, readRecord } from '#shared/kernel/record.ts';
import type { SeenTarget } from './seen.ts';

/** A step's record on a target, read as the step itself reads it. */
export function ownRecord(step: StepName, target: SeenTarget): RecordRead {
  return readers[step](target);
}

const readers: { readonly [S in StepName]: (target: SeenTarget) => RecordRead } = {
  'drain-step': readDrainRecord,
  'pool-pods': ({ annotations, uid }) =>
    readRecord(annotations[recordAnnotation('pool-pods')], uid, poolPodsRecordSchema),
  'backup-config': ({ annotations, uid }) =>
    readRecord(annotations[recordAnnotation('backup-config')], uid, backupConfigRecordSchema),
  'backup-trigger': readBackupRecord,
  'etcd-cleanup': readCleanupRecord,
  'shard-release': readReleaseRecord,
};
