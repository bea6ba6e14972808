import type { Backup } from '#shared/admin/admin.ts';
import { applyConditions, hasConditions } from '#shared/api/condition.ts';
import type { Gauge } from '#shared/kernel/decision.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import {
  type Instant,
  parseInstant,
  plusSeconds,
  secondsBetween,
  toText,
} from '#shared/kernel/instant.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { type ScheduleState, fromSeconds, secondsOf } from './accounts.ts';
import type { BackupInput } from './moves.ts';
import type { BackupData, ScheduleEntry } from './record.ts';
import { nextSlots } from './slots.ts';
import type { BackupSnapshot, StatusView } from './snapshot.ts';

export interface OwnCondition {
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
}

type Fields = StatusView['fields'];

/** How many next slots the status tells. */
const slotsAhead = 3;

/**
 * backup-trigger's own status as it follows from the record and the list of backups, only where it differs from what
 * stands. Times are told, never ages: an age would be another one at every look.
 *
 * @param data the record's data as this decision leaves them
 */
export function statusEffects(
  input: BackupInput,
  data: BackupData,
  now: Instant,
): Effect<'applyStatus'>[] {
  const fields = fieldsOf(input, data, now);
  return applyOwn(input.snapshot, conditionOf(input, data, now), fields, now);
}

/** For a record that cannot be read: its fields stay as they are. */
export function conditionEffects(
  snapshot: BackupSnapshot,
  condition: OwnCondition,
  now: Instant,
): Effect<'applyStatus'>[] {
  return applyOwn(snapshot, condition, snapshot.shard.status.fields, now);
}

/**
 * Nothing is scheduled any more: what the step once told of schedules goes, and what a person asked for stays. The condition
 * says that the step has looked: without it the sweep would hint at the shard for ever.
 */
export function nothingScheduledEffects(
  snapshot: BackupSnapshot,
  now: Instant,
): Effect<'applyStatus'>[] {
  const { backupRequest } = snapshot.shard.status.fields;
  const condition = {
    status: 'True' as const,
    reason: 'NothingScheduled',
    message: 'no backups are scheduled',
  };
  return applyOwn(snapshot, condition, backupRequest === undefined ? {} : { backupRequest }, now);
}

function applyOwn(
  snapshot: BackupSnapshot,
  condition: OwnCondition,
  fields: Fields,
  now: Instant,
): Effect<'applyStatus'>[] {
  const { status, generation } = snapshot.shard;
  const existing = status.condition === null ? [] : [status.condition];
  const own = [{ type: 'BackupsOnSchedule', ...condition }];
  const conditions = applyConditions(existing, own, generation, now);
  return hasConditions(existing, conditions) && isEqual(status.fields, fields)
    ? []
    : [apply(snapshot, { conditions, ...fields })];
}

function apply({ shard }: BackupSnapshot, status: object): Effect<'applyStatus'> {
  return {
    kind: 'applyStatus',
    status: status as JsonObject,
    guard: { uid: shard.uid, resourceVersion: shard.resourceVersion },
  };
}

function fieldsOf({ snapshot, accounts }: BackupInput, data: BackupData, now: Instant): Fields {
  const { fields: before } = snapshot.shard.status;
  const { run, now: request } = data;
  const backups = accounts.states.map((state) =>
    scheduleFields(snapshot, state, data, before, now),
  );
  const next = backups.flatMap((schedule) => schedule.next).toSorted()[0];
  const last = lastBackup(snapshot) ?? before.lastBackup;
  const requested =
    request === undefined
      ? before.backupRequest
      : { request: request.request, result: request.end ?? ('running' as const) };
  return {
    ...(backups.length === 0 ? {} : { backups }),
    ...(run === undefined
      ? {}
      : {
          backupRun: {
            schedule: run.schedule,
            slot: run.slot,
            type: run.type,
            attempt: run.attempt,
            since: run.at,
            ...(run.job === undefined ? {} : { job: run.job }),
          },
        }),
    ...(requested === undefined ? {} : { backupRequest: requested }),
    ...(last === undefined ? {} : { lastBackup: last }),
    ...(next === undefined ? {} : { nextBackup: next }),
  };
}

function scheduleFields(
  snapshot: BackupSnapshot,
  { view, slots, offsetSeconds }: ScheduleState,
  { schedules, run }: BackupData,
  before: Fields,
  now: Instant,
) {
  const entry = schedules[view.name];
  const isRunning = run?.schedule === view.name;
  const slot = isRunning
    ? run.slot
    : entry?.slot === undefined
      ? undefined
      : toText(fromSeconds(entry.slot));
  const after = Math.max(now, fromSeconds(entry?.at ?? 0)) as Instant;
  const next =
    slots === null || view.isSuspended
      ? []
      : // A slot of before may be due only after now, by its jitter.
        nextSlots(slots, plusSeconds(after, -offsetSeconds), slotsAhead);
  return {
    schedule: view.name,
    ...(slot === undefined ? {} : { lastSlot: slot }),
    ...(isRunning
      ? { lastResult: 'running' as const }
      : entry?.end === undefined
        ? {}
        : { lastResult: entry.end }),
    ...(isRunning || entry?.why === undefined ? {} : { lastReason: entry.why }),
    ...successFields(snapshot, view.name, entry, before),
    next: next.map((instant) => toText(plusSeconds(instant, offsetSeconds))),
  };
}

/** Of the schedule's last good backup: as the list tells it, or as was told before. */
function successFields(
  { backups }: BackupSnapshot,
  schedule: string,
  entry: ScheduleEntry | undefined,
  before: Fields,
) {
  const told = before.backups?.find((candidate) => candidate.schedule === schedule);
  if (entry?.good === undefined) {
    return toldSuccess(told);
  }
  const lastSuccess = toText(fromSeconds(entry.from));
  const backup = goodBackups(backups).find(({ stoppedAt }) => secondsOf(stoppedAt) === entry.from);
  if (backup === undefined) {
    return told?.lastSuccess === lastSuccess ? toldSuccess(told) : { lastSuccess };
  }
  return {
    lastSuccess,
    lastDurationSeconds: durationOf(backup),
    ...(backup.sizeBytes === null ? {} : { lastSizeBytes: Number(backup.sizeBytes) }),
  };
}

type ToldSchedule = NonNullable<Fields['backups']>[number];

function toldSuccess(told: ToldSchedule | undefined) {
  return {
    ...(told?.lastSuccess === undefined ? {} : { lastSuccess: told.lastSuccess }),
    ...(told?.lastDurationSeconds === undefined
      ? {}
      : { lastDurationSeconds: told.lastDurationSeconds }),
    ...(told?.lastSizeBytes === undefined ? {} : { lastSizeBytes: told.lastSizeBytes }),
  };
}

interface GoodBackup extends Pick<Backup, 'type' | 'sizeBytes'> {
  readonly startedAt: Instant | undefined;
  readonly stoppedAt: Instant;
}

/** Complete ones that say when they were. The time in a backup's name is not asked: it is that of its full one. */
function goodBackups(backups: BackupSnapshot['backups']): GoodBackup[] {
  return backups.kind !== 'present'
    ? []
    : backups.value.flatMap((backup) => {
        const stoppedAt = parseInstant(backup.stoppedAt ?? undefined);
        return backup.status !== 'complete' || stoppedAt === undefined
          ? []
          : [
              {
                type: backup.type,
                sizeBytes: backup.sizeBytes,
                startedAt: parseInstant(backup.startedAt ?? undefined),
                stoppedAt,
              },
            ];
      });
}

function durationOf({ startedAt, stoppedAt }: GoodBackup): number {
  return startedAt === undefined ? 0 : Math.max(0, Math.round((stoppedAt - startedAt) / 1000));
}

/** `undefined` where the list could not be read. */
function lastBackup({ backups }: BackupSnapshot): Fields['lastBackup'] {
  if (backups.kind !== 'present') {
    return undefined;
  }
  const newest = (chosen: readonly GoodBackup[]) =>
    chosen.length === 0
      ? undefined
      : toText(Math.max(...chosen.map(({ stoppedAt }) => stoppedAt)) as Instant);
  const good = goodBackups(backups);
  const any = newest(good);
  const full = newest(good.filter(({ type }) => type === 'full'));
  return {
    ...(any === undefined ? {} : { any }),
    ...(full === undefined ? {} : { full }),
  };
}

/** How old the newest good backups are. Nothing is said where the list could not be read, or has none. */
export function backupAges(snapshot: BackupSnapshot, now: Instant): Gauge[] {
  return Object.entries(lastBackup(snapshot) ?? {}).flatMap(([backup, text]) => {
    const stoppedAt = parseInstant(text);
    return stoppedAt === undefined
      ? []
      : [
          {
            metric: 'backup_last_success_age_seconds',
            labels: { backup },
            value: Math.max(0, Math.round(secondsBetween(stoppedAt, now))),
          },
        ];
  });
}

/** What a person has to correct comes first, then which schedule has had no good backup for too long. */
function conditionOf(
  { snapshot, accounts, holdUp }: BackupInput,
  data: BackupData,
  now: Instant,
): OwnCondition {
  const { problems, states, due } = accounts;
  if (problems.length > 0) {
    return { status: 'False', reason: 'ScheduleInvalid', message: problems.join('; ') };
  }
  if (snapshot.shard.request.kind === 'invalid') {
    const message =
      'the annotation millrace.dev/backup-now cannot be read: write it as <type>/<token>, with the type full, differential or incremental and a token of at most 40 letters, digits and . _ : -';
    return { status: 'False', reason: 'RequestInvalid', message };
  }
  if (holdUp?.needs !== undefined && due.length > 0) {
    const message = `${holdUp.message}; to go on: ${holdUp.needs}`;
    return { status: 'False', reason: holdUp.reason, message };
  }
  const missed = states.flatMap((state) => missedText(snapshot, state, data, now) ?? []);
  return missed.length > 0
    ? { status: 'False', reason: 'BackupsMissed', message: missed.join('; ') }
    : { status: 'True', reason: 'OnSchedule', message: 'every schedule has its backups in time' };
}

/** Two slots, and the time that a backup of that sort usually takes, have gone by without a good one. */
function missedText(
  snapshot: BackupSnapshot,
  { view, slots, offsetSeconds }: ScheduleState,
  data: BackupData,
  now: Instant,
): string | undefined {
  const entry = data.schedules[view.name];
  if (slots === null || view.isSuspended || entry === undefined) {
    return undefined;
  }
  const [, second] = nextSlots(slots, fromSeconds(entry.from), 2);
  if (second === undefined) {
    return undefined;
  }
  const latest = goodBackups(snapshot.backups).findLast(({ type }) => type === view.type);
  const told = snapshot.shard.status.fields.backups?.find(({ schedule }) => schedule === view.name);
  const usual = latest === undefined ? (told?.lastDurationSeconds ?? 0) : durationOf(latest);
  if (now < plusSeconds(second, offsetSeconds + usual)) {
    return undefined;
  }
  const from = toText(fromSeconds(entry.from));
  const since = entry.good === undefined ? `since it is in force (${from})` : `since ${from}`;
  const last =
    entry.slot === undefined || entry.end === undefined
      ? ''
      : `; its slot ${toText(fromSeconds(entry.slot))} ended ${entry.end}${entry.why === undefined ? '' : ` (${entry.why})`}`;
  return `schedule ${view.name} has had no good backup ${since}${last}`;
}

/** The API server orders the fields and the items of what it stores as it likes. */
function isEqual(one: Fields, other: Fields): boolean {
  return canonical(one) === canonical(other);
}

function canonical(fields: Fields): string {
  const backups = fields.backups?.toSorted((a, b) => (a.schedule < b.schedule ? -1 : 1));
  return JSON.stringify({ ...fields, backups }, (_, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
