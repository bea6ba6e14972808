import { newJobId } from './backup-jobs.ts';
import { withBackup } from './backup-repository.ts';
import { type DataPlaneState, type Member, durationMs } from './state.ts';
import { timing } from './timing.ts';

/** A fresh shard begins with a full backup, from which all members but the one it is of have their data. */
export function storeFirstBackup(state: DataPlaneState, { id }: Member): void {
  const { backups, consensus, nowMs } = state;
  const startedAtMs = nowMs - durationMs(state, timing.firstBackupAgoMs);
  const backup = {
    jobId: newJobId(backups, id, startedAtMs),
    pooler: id,
    // Nobody leads yet.
    role: 'replica',
    startedAtMs,
    stoppedAtMs: startedAtMs + durationMs(state, timing.firstBackupMs),
    startLsn: consensus.lsn,
    stopLsn: consensus.lsn,
  } as const;
  state.backups = { ...backups, stored: withBackup(backups.stored, backup, 'full') };
}
