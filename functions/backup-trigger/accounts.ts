import { type BackupEngine, backupTypes } from '#shared/api/backup.ts';
import { fnv1a32 } from '#shared/api/names.ts';
import { type Instant, parseInstant, plusSeconds, toText } from '#shared/kernel/instant.ts';
import type { BackupData, ScheduleEntry, SlotReason } from './record.ts';
import { type Slots, countSlots, isJitterTooLong, jitterSeconds, timetableOf } from './slots.ts';
import type { BackupSnapshot, ScheduleView } from './snapshot.ts';

/*
 * The books of a shard's slots. A schedule's entry says up to where every slot is accounted for. What is due after that is
 * either begun, or waits, or is passed over with the reason; nothing in between, so each slot ends once.
 */

/** The schedule under whose name a run goes that a person asked for. No schedule can have it. */
export const requestSchedule = '@now';

/** A slot of `catchUp: none` is caught up with, not begun, once it is later than this: as late as a look may come. */
const onTimeSeconds = 300;

/** How long a run is watched that a person asked for, in seconds. */
const requestRunDeadlineSeconds = 6 * 3600;

/** Slots of one schedule that are told apart when they are passed over; of more it is only said that there were as many. */
export const mostCounted = 1_000;

/** A slot, or a request of a person, that may be begun now. */
export interface Due {
  readonly schedule: string;
  /** RFC 3339, or the request's token. */
  readonly slot: string;
  /** When the slot was due, its jitter included; a request comes before every slot. */
  readonly since: Instant;
  readonly type: ScheduleView['type'];
  readonly engine: BackupEngine;
  readonly attempt: number;
  readonly runDeadlineSeconds: number;
}

/** Slots of a schedule that ended without a run, up to and with `slot`. */
export interface PassedOver {
  readonly schedule: string;
  readonly slot: Instant;
  readonly count: number;
  readonly result: 'skipped' | 'unknown';
  readonly why: SlotReason;
}

/** How one schedule stands, for the status. */
export interface ScheduleState {
  readonly view: ScheduleView;
  /** `null` while it cannot be in force. */
  readonly slots: Slots | null;
  readonly offsetSeconds: number;
}

export interface Accounts {
  readonly entries: BackupData['schedules'];
  readonly passedOver: readonly PassedOver[];
  /** Who was due first comes first. */
  readonly due: readonly Due[];
  /** When something is due next, or has been since; `null` where nothing is. */
  readonly nextAt: Instant | null;
  readonly states: readonly ScheduleState[];
  /** Slots up to here never fire, whatever else is so; `null` where there is no such limit. */
  readonly neverUpTo: Instant | null;
  /** Schedules that cannot be in force, with what to change. */
  readonly problems: readonly string[];
}

interface Book {
  readonly entry: ScheduleEntry | undefined;
  readonly passedOver: readonly PassedOver[];
  readonly due: readonly Due[];
}

interface Look {
  readonly now: Instant;
  /** By the API server's clock; now where it does not say. */
  readonly specChangedAt: Instant;
  /** The spec changed at least twice since the record was written, so a schedule may have been suspended in between. */
  readonly mayHideSuspension: boolean;
  /** Why nothing can be begun now, `null` where something can. */
  readonly holdUp: SlotReason | null;
}

/**
 * @param holdUp why nothing can be begun now. Then what was superseded is passed over only once something is too late, so
 *   that a long wait costs few writes.
 */
export function accountsOf(
  snapshot: BackupSnapshot,
  holdUp: SlotReason | null,
  now: Instant,
): Accounts {
  const { shard, record } = snapshot;
  const recorded = record.kind === 'ours' ? record.record : null;
  const changedAt = parseInstant(shard.specChangedAt ?? undefined) ?? now;
  const look: Look = {
    now,
    holdUp,
    specChangedAt: changedAt,
    mayHideSuspension: recorded !== null && shard.generation >= recorded.generation + 2,
  };
  const found = shard.schedules.map((view) => stateOf(view, shard));
  const books = found.map(({ state }) =>
    bookOf(state, recorded?.data.schedules[state.view.name], look),
  );
  const entries = Object.fromEntries(
    books.flatMap(({ entry }, place): [string, ScheduleEntry][] => {
      const name = shard.schedules[place]?.name;
      return entry === undefined || name === undefined ? [] : [[name, entry]];
    }),
  );
  const states = found.map(({ state }) => state);
  const nextTimes = states.flatMap((state) => nextTimeOf(state, entries[state.view.name]));
  return {
    entries,
    passedOver: books.flatMap((book) => book.passedOver),
    due: [...requestDue(snapshot), ...books.flatMap((book) => book.due).toSorted(byUrgency)],
    nextAt: nextTimes.length === 0 ? null : (Math.min(...nextTimes) as Instant),
    states,
    neverUpTo: look.mayHideSuspension ? look.specChangedAt : null,
    problems: found.flatMap(({ problem }) => problem ?? []),
  };
}

function stateOf(
  view: ScheduleView,
  { uid, jobTemplate }: BackupSnapshot['shard'],
): { readonly state: ScheduleState; readonly problem: string | undefined } {
  const { name, jitterSeconds: jitter } = view;
  const timetable = timetableOf(view.timing);
  const offsetSeconds = jitterSeconds(uid, name, jitter);
  if (timetable.kind === 'invalid') {
    const state = { view, slots: null, offsetSeconds };
    return { state, problem: `schedule ${name} is not in force: ${timetable.why}` };
  }
  if (isJitterTooLong(view.timing, jitter)) {
    const state = { view, slots: null, offsetSeconds };
    return {
      state,
      problem: `schedule ${name} is not in force: its jitter is not shorter than half the time between two of its slots: make it shorter`,
    };
  }
  if (view.engine === 'job' && jobTemplate === null) {
    const state = { view, slots: null, offsetSeconds };
    return {
      state,
      problem: `schedule ${name} is not in force: there is no jobTemplate to make its Jobs from: give one`,
    };
  }
  return { state: { view, slots: timetable.slots, offsetSeconds }, problem: undefined };
}

/** Short, since eight of them have to fit: two timings of one schedule only have to differ. */
export function timingHash(timing: ScheduleView['timing']): string {
  return fnv1a32(JSON.stringify(timing)).slice(0, 6);
}

/** A schedule's entry as this look leaves it, and what comes of it. */
function bookOf(state: ScheduleState, known: ScheduleEntry | undefined, look: Look): Book {
  const { view, slots } = state;
  if (slots === null) {
    return { entry: known, passedOver: [], due: [] };
  }
  const at = secondsOf(look.now);
  const timing = timingHash(view.timing);
  if (known === undefined) {
    // Whatever was due before it was first seen is accounted for: nothing old fires.
    const entry = { at, from: at, timing, ...(view.isSuspended ? { off: true as const } : {}) };
    return { entry, passedOver: [], due: [] };
  }
  if (view.isSuspended && known.off === true) {
    return { entry: known, passedOver: [], due: [] };
  }
  if (view.isSuspended || known.off === true) {
    return passSuspension(state, slots, known, look);
  }
  const entry = known.timing === timing ? known : underNewTiming(known, timing, look);
  const repeats = known.again !== undefined && entry.again === undefined;
  const ended = repeats ? [endedAgain(view.name, known, 'SpecChanged')] : [];
  const old = hiddenSlots(view.name, slots, entry, look);
  const book = dueOf(state, slots, old.entry, look);
  return { ...book, passedOver: [...ended, ...old.passedOver, ...book.passedOver] };
}

/** Suspended just now, or in force again just now: either way nothing of before fires. */
function passSuspension(
  { view }: ScheduleState,
  slots: Slots,
  known: ScheduleEntry,
  { now, specChangedAt }: Look,
): Book {
  const { off, again, good, ...rest } = known;
  // A handler whose clock is behind must not put an end to it before it was.
  const until = Math.max(now, specChangedAt) as Instant;
  const last = slots.latest(fromSeconds(known.at), until);
  const at = Math.max(known.at, secondsOf(until));
  const passedOver: PassedOver[] = [
    ...(again === undefined ? [] : [endedAgain(view.name, known, 'Suspended')]),
    ...(last === undefined ? [] : [passedSlots(view.name, slots, known, last, 'Suspended')]),
  ];
  const entry: ScheduleEntry = {
    ...withEnding(rest, passedOver.at(-1)),
    at,
    ...(off === true
      ? { from: at }
      : { off: true as const, ...(good === undefined ? {} : { good }) }),
  };
  return { entry, passedOver, due: [] };
}

/** Another timing is another schedule: its slots before the change were never due. */
function underNewTiming(known: ScheduleEntry, timing: string, look: Look): ScheduleEntry {
  const { again: _, good: __, ...rest } = known;
  const changedAt = secondsOf(look.specChangedAt);
  const at = Math.max(known.at, changedAt);
  return { ...rest, timing, at, from: at };
}

/** A spec that changed twice since the record was written may have been suspended in between, and nobody looked. */
function hiddenSlots(
  schedule: string,
  slots: Slots,
  entry: ScheduleEntry,
  { specChangedAt, mayHideSuspension }: Look,
): { readonly entry: ScheduleEntry; readonly passedOver: readonly PassedOver[] } {
  if (!mayHideSuspension) {
    return { entry, passedOver: [] };
  }
  const at = fromSeconds(entry.at);
  const last = slots.latest(at, specChangedAt);
  const passedOver = [
    ...(entry.again === undefined || at > specChangedAt
      ? []
      : [endedAgain(schedule, entry, 'SpecChanged')]),
    ...(last === undefined ? [] : [passedSlots(schedule, slots, entry, last, 'SpecChanged')]),
  ];
  return { entry: withEnding(entry, passedOver.at(-1)), passedOver };
}

/** The newest slot that is due may begin; older ones are superseded, and one that is too late ends. */
function dueOf(
  { view, offsetSeconds }: ScheduleState,
  slots: Slots,
  entry: ScheduleEntry,
  { now, holdUp }: Look,
): Book {
  const at = fromSeconds(entry.at);
  const newest = slots.latest(at, plusSeconds(now, -offsetSeconds));
  const repeated = entry.again === undefined ? undefined : at;
  const candidate = newest ?? repeated;
  if (candidate === undefined) {
    return { entry, passedOver: [], due: [] };
  }
  const startBy = (slot: Instant) =>
    plusSeconds(slot, offsetSeconds + latenessSeconds(view, slot === repeated));
  const isTooLate = now > startBy(candidate);
  const oldest = repeated ?? slots.after(at) ?? candidate;
  const passedOver: PassedOver[] = [];
  if (newest !== undefined && (holdUp === null || isTooLate || now > startBy(oldest))) {
    const superseded = slots.latest(at, (newest - 1) as Instant);
    const why = view.catchUp === 'none' ? 'NotCaughtUp' : 'Superseded';
    if (repeated !== undefined) {
      passedOver.push(endedAgain(view.name, entry, why));
    }
    if (superseded !== undefined) {
      passedOver.push(passedSlots(view.name, slots, entry, superseded, why));
    }
  }
  if (isTooLate) {
    const why = holdUp ?? (view.catchUp === 'none' ? 'NotCaughtUp' : 'Late');
    passedOver.push(
      candidate === repeated
        ? endedAgain(view.name, entry, why)
        : { schedule: view.name, slot: candidate, count: 1, result: 'skipped', why },
    );
  }
  const due: Due = {
    schedule: view.name,
    slot: toText(candidate),
    since: plusSeconds(candidate, offsetSeconds),
    type: view.type,
    engine: view.engine,
    attempt: candidate === repeated ? (entry.again ?? 0) : 0,
    runDeadlineSeconds: view.runDeadlineSeconds,
  };
  return { entry: withEnding(entry, passedOver.at(-1)), passedOver, due: isTooLate ? [] : [due] };
}

/** How late a slot may begin. One that is begun again was not missed, so it may be as late as any. */
function latenessSeconds(view: ScheduleView, isRepeated: boolean): number {
  return view.catchUp === 'none' && !isRepeated
    ? Math.min(onTimeSeconds, view.startingDeadlineSeconds)
    : view.startingDeadlineSeconds;
}

/** Whether a slot may be begun once more: nothing newer is due, and it is not too late. */
export function mayRepeat(
  { view, slots, offsetSeconds }: ScheduleState,
  slot: Instant,
  now: Instant,
): boolean {
  return (
    slots !== null &&
    !view.isSuspended &&
    view.onUnknown === 'rerun' &&
    slots.latest(slot, plusSeconds(now, -offsetSeconds)) === undefined &&
    now <= plusSeconds(slot, offsetSeconds + latenessSeconds(view, true))
  );
}

function passedSlots(
  schedule: string,
  slots: Slots,
  entry: ScheduleEntry,
  last: Instant,
  why: SlotReason,
): PassedOver {
  const count = countSlots(slots, fromSeconds(entry.at), last, mostCounted);
  return { schedule, slot: last, count, result: 'skipped', why };
}

/** A slot that was to be begun once more and is not: what became of its last run is not known. */
function endedAgain(schedule: string, entry: ScheduleEntry, why: SlotReason): PassedOver {
  return { schedule, slot: fromSeconds(entry.at), count: 1, result: 'unknown', why };
}

function withEnding(entry: ScheduleEntry, last: PassedOver | undefined): ScheduleEntry {
  if (last === undefined) {
    return entry;
  }
  const { again: _, ...rest } = entry;
  const slot = secondsOf(last.slot);
  return { ...rest, at: Math.max(entry.at, slot), slot, end: last.result, why: last.why };
}

function nextTimeOf(
  { view, slots, offsetSeconds }: ScheduleState,
  entry: ScheduleEntry | undefined,
): Instant[] {
  if (slots === null || view.isSuspended || entry === undefined) {
    return [];
  }
  const at = fromSeconds(entry.at);
  const next = entry.again === undefined ? slots.after(at) : at;
  return next === undefined ? [] : [plusSeconds(next, offsetSeconds)];
}

/** A request is obeyed once. The status remembers it where the record was reset. */
function requestDue({ shard, record }: BackupSnapshot): Due[] {
  const { request, status } = shard;
  const obeyed = [
    record.kind === 'ours' ? record.record.data.now?.request : undefined,
    status.fields.backupRequest?.request,
  ];
  return request.kind !== 'valid' || obeyed.includes(request.text)
    ? []
    : [
        {
          schedule: requestSchedule,
          slot: request.token,
          since: 0 as Instant,
          type: request.type,
          engine: 'admin',
          attempt: 0,
          runDeadlineSeconds: requestRunDeadlineSeconds,
        },
      ];
}

function byUrgency(one: Due, other: Due): number {
  const rank = ({ type }: Due) => backupTypes.indexOf(type);
  return (
    one.since - other.since || rank(one) - rank(other) || (one.schedule < other.schedule ? -1 : 1)
  );
}

export function secondsOf(instant: Instant): number {
  return Math.max(0, Math.floor(instant / 1000));
}

export function fromSeconds(seconds: number): Instant {
  return (seconds * 1000) as Instant;
}
