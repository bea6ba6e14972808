import type { PoolerId } from '#shared/topology/topology.ts';
import { stampOf } from './backup-repository.ts';
import { type BackupJob, type Backups, type DataPlaneState, durationMs } from './state.ts';
import { timing } from './timing.ts';

/*
 * What multiadmin has in memory of the backups it was asked for.
 */

/** The job as it is remembered; the old ones are forgotten. */
export function jobOf(state: DataPlaneState, jobId: string): BackupJob | undefined {
  return remembered(state).find((job) => job.jobId === jobId);
}

export function rememberJob(state: DataPlaneState, job: BackupJob): void {
  state.backups = { ...state.backups, jobs: [...remembered(state), job] };
}

function remembered(state: DataPlaneState): readonly BackupJob[] {
  const keptMs = durationMs(state, timing.jobKeptMs);
  return state.backups.jobs.filter(
    ({ endedAtMs }) => endedAtMs === null || state.nowMs - endedAtMs <= keptMs,
  );
}

export function changeJob(state: DataPlaneState, jobId: string, change: Partial<BackupJob>): void {
  const jobs = state.backups.jobs.map((job) => (job.jobId === jobId ? { ...job, ...change } : job));
  state.backups = { ...state.backups, jobs };
}

export function failJob(state: DataPlaneState, jobId: string, error: string): void {
  changeJob(state, jobId, { status: 'failed', error, endedAtMs: state.nowMs });
}

/** When a job was asked for, by its id. */
export function askedAtOf(jobId: string): string {
  return jobId.replace(
    /^(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)\.(\d{3}).*$/,
    '$1-$2-$3T$4:$5:$6.$7Z',
  );
}

/** The digits below a millisecond only tell apart the jobs of one millisecond. */
export function newJobId(
  { jobs, stored }: Backups,
  { cell, name }: PoolerId,
  atMs: number,
): string {
  const taken = new Set([...jobs, ...stored].map(({ jobId }) => jobId));
  const milliseconds = String(atMs % 1_000).padStart(3, '0');
  for (let place = 0; ; place++) {
    const fraction = `${milliseconds}${String(place).padStart(3, '0')}`;
    const jobId = `${stampOf(atMs)}.${fraction}_multipooler-${cell}-${name}`;
    if (!taken.has(jobId)) {
      return jobId;
    }
  }
}
