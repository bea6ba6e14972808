import type { Backup, BackupJob } from '#shared/admin/admin.ts';
import { shardUid } from '#test/builders/shard.ts';
import type { Condition } from '#shared/api/shard.ts';
import { type Instant, plusSeconds, toText } from '#shared/kernel/instant.ts';
import { type Read, absent, present } from '#shared/kernel/read.ts';
import { recordText } from '#shared/kernel/record.ts';
import { decide } from '#functions/backup-trigger/decide.ts';
import {
  type BackupData,
  type BackupRecord,
  type BackupState,
  type Run,
  type ScheduleEntry,
  readBackupRecord,
} from '#functions/backup-trigger/record.ts';
import type { BackupSnapshot, JobView, ScheduleView } from '#functions/backup-trigger/snapshot.ts';
import { timingHash } from '#functions/backup-trigger/accounts.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';

export const now = Date.parse('2026-01-01T12:00:00Z') as Instant;

/** So many seconds from `now`. */
export function at(seconds: number): Instant {
  return plusSeconds(now, seconds);
}

export function text(seconds: number): string {
  return toText(at(seconds));
}

export const shardKey = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };

/** Schedule `hourly`, full, in UTC: a slot at each full hour, `now` among them. */
export function aSchedule(changes: Partial<ScheduleView> = {}): ScheduleView {
  return {
    name: 'hourly',
    timing: { kind: 'cron', cron: '0 * * * *', timeZone: 'UTC' },
    type: 'full',
    engine: 'admin',
    isSuspended: false,
    catchUp: 'latest',
    startingDeadlineSeconds: 1800,
    runDeadlineSeconds: 7200,
    jitterSeconds: 0,
    onUnknown: 'report',
    ...changes,
  };
}

/** How the books of a schedule stand: everything accounted for up to so many seconds from `now`. */
export function anEntry(
  schedule: ScheduleView,
  seconds: number,
  changes: Partial<ScheduleEntry> = {},
): ScheduleEntry {
  return {
    at: at(seconds) / 1000,
    from: at(-7200) / 1000,
    timing: timingHash(schedule.timing),
    ...changes,
  };
}

/** The run of the slot at `now`, asked for at `now`. */
export function aRun(changes: Partial<Run> = {}): Run {
  return {
    schedule: 'hourly',
    slot: text(0),
    type: 'full',
    attempt: 0,
    at: text(0),
    until: text(7200),
    ...changes,
  };
}

export function aBackup(id: string, startSeconds: number, changes: Partial<Backup> = {}): Backup {
  return {
    id,
    type: 'full',
    status: 'complete',
    job: null,
    startedAt: text(startSeconds),
    stoppedAt: text(startSeconds + 60),
    sizeBytes: '1000',
    ...changes,
  };
}

export function aJob(status: BackupJob['status'], changes: Partial<BackupJob> = {}): BackupJob {
  return { status, backup: null, why: null, ...changes };
}

/** A shard with one schedule whose books are closed up to half an hour before `now`; nothing runs, and everybody answers. */
export function aShardWith(...schedules: readonly ScheduleView[]): SnapshotBuilder {
  const known = schedules.length === 0 ? [aSchedule()] : schedules;
  const entries = Object.fromEntries(known.map((it) => [it.name, anEntry(it, -1800)]));
  return new SnapshotBuilder({
    shard: {
      namespace: 'db',
      name: 'orders',
      uid: shardUid,
      generation: 1,
      resourceVersion: '10',
      isPaused: false,
      isBeingDeleted: false,
      databaseName: 'main',
      schedules: known,
      jobTemplate: { spec: { containers: [{ name: 'backup' }] } },
      request: { kind: 'none' },
      specChangedAt: text(-86_400),
      status: { condition: null, fields: {} },
    },
    record: { kind: 'none', text: null },
    drain: { kind: 'clear' },
    database: present({
      shard: shardKey,
      ref: { namespace: 'db', name: 'main', uid: 'database-uid' },
      isPaused: false,
    }),
    lease: absent,
    backups: present([]),
    job: { kind: 'unknown', why: 'it was not asked' },
  }).recorded({ schedules: entries });
}

export class SnapshotBuilder {
  readonly #snapshot: BackupSnapshot;

  constructor(snapshot: BackupSnapshot) {
    this.#snapshot = snapshot;
  }

  with(changes: Partial<BackupSnapshot>): SnapshotBuilder {
    return new SnapshotBuilder({ ...this.#snapshot, ...changes });
  }

  shard(changes: Partial<BackupSnapshot['shard']>): SnapshotBuilder {
    return this.with({ shard: { ...this.#snapshot.shard, ...changes } });
  }

  withoutRecord(): SnapshotBuilder {
    return this.with({ record: { kind: 'none', text: null } });
  }

  recorded(data: BackupData, changes: Partial<BackupRecord> = {}): SnapshotBuilder {
    const { uid, generation } = this.#snapshot.shard;
    const record: BackupRecord = {
      v: 1,
      uid,
      key: `backup-trigger/${uid}/${generation}`,
      state: 'idle',
      generation,
      attempt: 0,
      since: text(-1800),
      reason: 'AwaitingSlot',
      wake: { at: text(0) },
      data,
      ...changes,
    };
    return this.with({
      record: readBackupRecord({
        uid,
        annotations: { [recordAnnotation('backup-trigger')]: recordText(record) },
      }),
    });
  }

  /** The books as they are, with a run for the slot at `now`. */
  running(run: Run = aRun(), state: BackupState = 'running', data: Partial<BackupData> = {}) {
    const { shard } = this.#snapshot;
    const schedules = Object.fromEntries(
      shard.schedules.map((it) => [
        it.name,
        it.name === run.schedule ? anEntry(it, 0, { slot: now / 1000 }) : anEntry(it, -1800),
      ]),
    );
    return this.recorded(
      { schedules, run, ...data },
      {
        key: `backup-trigger/${shardUid}/${run.schedule}/${run.slot}/${run.attempt}`,
        state,
        wake: { every: 5 },
      },
    );
  }

  job(job: Read<JobView>): SnapshotBuilder {
    return this.with({ job });
  }

  listing(...backups: readonly Backup[]): SnapshotBuilder {
    return this.with({ backups: present(backups) });
  }

  condition(condition: Pick<Condition, 'status' | 'reason' | 'message'>): SnapshotBuilder {
    return this.shard({
      status: {
        ...this.#snapshot.shard.status,
        condition: {
          type: 'BackupsOnSchedule',
          observedGeneration: 1,
          lastTransitionTime: text(-3600),
          ...condition,
        },
      },
    });
  }

  build(): BackupSnapshot {
    return this.#snapshot;
  }

  decide(seconds = 0) {
    return decide(this.#snapshot, at(seconds));
  }
}

type Decided = ReturnType<typeof decide>;

export function kindsOf({ effects }: Decided): string[] {
  return effects.map(({ kind }) => kind);
}

/** The record as the decision leaves it; `undefined` where it writes none. */
export function recordAfter({ effects }: Decided): BackupRecord | null | undefined {
  const advance = effects.find((effect) => effect.kind === 'advance');
  return advance?.kind === 'advance' ? (advance.record as BackupRecord | null) : undefined;
}

export function statusAfter({ effects }: Decided) {
  const apply = effects.find((effect) => effect.kind === 'applyStatus');
  return apply?.kind === 'applyStatus' ? apply.status : undefined;
}

export function conditionAfter(decision: Decided): Condition | undefined {
  const conditions = statusAfter(decision)?.['conditions'] as readonly Condition[] | undefined;
  return conditions?.[0];
}

export function sendOf({ effects }: Decided) {
  const send = effects.find((effect) => effect.kind === 'startBackup');
  return send?.kind === 'startBackup' ? send : undefined;
}

export function jobOf({ effects }: Decided) {
  const send = effects.find((effect) => effect.kind === 'startJob');
  return send?.kind === 'startJob' ? send : undefined;
}
