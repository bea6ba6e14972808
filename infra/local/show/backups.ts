import { setTimeout as delay } from 'node:timers/promises';
import { expect, holds, patchObject, patienceSeconds, required, untilIdle } from './acts.ts';
import { type Ending, endingsIn } from './slots-told.ts';
import type { Stage } from './stage.ts';

const schedule = 'often';

/** The shortest time between two slots that a schedule may have, so that there is something to see. */
const slotMs = 10_000;

/** How long after a slot that is to pass in vain the scene goes on. */
const marginMs = 1_000;

/** What the scene knows of its own doings, besides what it reads. */
interface Phases {
  readonly first: number;
  /** From the kill of the relay until it ran again. */
  readonly dead: Span;
  /** From when the Shard said that nothing is scheduled until it was taken back. */
  readonly suspended: Span;
  readonly last: number;
}

interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

interface Slot {
  readonly slot: number;
  readonly endings: readonly string[];
  /** When the data plane was asked for a backup from this slot until the next. */
  readonly startsMs: readonly number[];
}

/**
 * Slots come every ten seconds. For two of them there is no relay, and two pass while the schedule is suspended: what is
 * due then must end with its reason, and nothing old may fire. What was started is counted by the data plane.
 */
export async function backups(stage: Stage): Promise<void> {
  const before = (await stage.backupJobs()).length;
  using told = followEndings(stage);
  stage.say(
    `spec.backup.schedules gets {name: ${schedule}, every: ${slotMs / 1000}s, type: incremental}`,
  );
  await setSchedule(stage, { suspend: false });
  const first = await nextSlot(stage);
  stage.say(`kubectl get shd shows the next backup: ${timeOf(first)}`);
  await stage.world.until('the first slot has ended', patienceSeconds, () => told.has(first));

  const dead = await spendOutage(stage, told, first);
  await untilNothingDue(stage, told, first);
  const suspended = await spendSuspension(stage);
  const last = await nextSlot(stage);
  stage.say(`in force again: kubectl get shd shows the next backup: ${timeOf(last)}`);
  await stage.world.until('the next slot has ended', patienceSeconds, () => told.has(last));
  await stage.world.until(
    'the status tells how it ended, and that all is well',
    patienceSeconds,
    () => tellsGoodEnd(shardOf(stage), last),
  );

  await check(stage, told, { first, dead, suspended, last }, before);
  await takeAway(stage);
}

/** Two slots without a relay. Nobody else wakes a step here: the sweep is put off for the show. */
async function spendOutage(stage: Stage, told: Endings, first: number): Promise<Span> {
  await untilNothingDue(stage, told, first);
  await untilIdle(stage);
  let fromMs: number;
  {
    await using _ = await stage.millrace.killAndKeepDown('relay');
    fromMs = Date.now();
    const passing = slotsAfter(fromMs, 2);
    stage.say(
      `kill -9 of the relay; millrace dev, which would start it again, is held until ${passing.map(timeOf).join(' and ')} have passed`,
    );
    await delayUntil((passing.at(-1) ?? fromMs) + marginMs);
    const started = (await startsMs(stage)).filter((startMs) => startMs > fromMs);
    expect(started.length === 0, 'nothing was started while nobody woke a step');
  }
  stage.say('the relay runs again');
  return { fromMs, toMs: Date.now() };
}

async function spendSuspension(stage: Stage): Promise<Span> {
  await setSchedule(stage, { suspend: true });
  await stage.world.until(
    'nothing is scheduled',
    patienceSeconds,
    () => shardOf(stage).status?.nextBackup === undefined,
  );
  const fromMs = Date.now();
  const passing = slotsAfter(fromMs, 2);
  stage.say(`suspend: true, until ${passing.map(timeOf).join(' and ')} have passed`);
  await delayUntil((passing.at(-1) ?? fromMs) + marginMs);
  const toMs = Date.now();
  await setSchedule(stage, { suspend: false });
  return { fromMs, toMs };
}

async function check(
  stage: Stage,
  told: Endings,
  phases: Phases,
  jobsBefore: number,
): Promise<void> {
  const jobs = (await stage.backupJobs()).slice(jobsBefore);
  const listed = new Set((await stage.backups()).map(({ job }) => job));
  const slots = accountOf(told, jobs.map(askedAtMs), phases);
  stage.table(
    slots.map(({ slot, endings: how, startsMs: starts }) => ({
      slot: timeOf(slot),
      meanwhile: during(slot, phases),
      ended: how.join(', '),
      'started, says the data plane': starts.map((startMs) => lateness(slot, startMs)).join(', '),
    })),
  );
  expect(
    slots.every(({ endings: how }) => how.length === 1),
    'every slot is accounted for, once',
  );
  expect(
    slots.every(({ startsMs: starts }) => starts.length <= 1),
    'no slot was started twice',
  );
  expect(
    slots.reduce((total, { startsMs: starts }) => total + starts.length, 0) === jobs.length,
    'the data plane was asked for no other backup',
  );
  expect(
    slots.every((slot) => (slot.startsMs.length === 1) === isGood(slot.endings[0])),
    'whatever was started is complete, and whatever is complete was started',
  );
  expect(
    jobs.every(({ job }) => listed.has(job)),
    'the repository lists each of these backups',
  );
  checkOutage(slots, phases);
  checkSuspension(slots, phases);
}

/** That an Event has told of the slot says nothing yet of the status, which is written after it. */
function tellsGoodEnd(shard: ReturnType<typeof shardOf>, slot: number): boolean {
  const { lastSlot, lastResult } = shard.status?.backups?.[0] ?? {};
  return (
    Date.parse(lastSlot ?? '') === slot && isGood(lastResult) && holds(shard, 'BackupsOnSchedule')
  );
}

/** Of the slots that passed without a relay the newest is made up for, and only that one. */
function checkOutage(slots: readonly Slot[], { dead }: Phases): void {
  const missed = slots.filter(({ slot }) => isWithin(slot, dead));
  const caughtUp = missed.filter((slot) => slot.startsMs.length > 0);
  expect(missed.length >= 2, 'at least two slots passed without a relay');
  expect(
    caughtUp.length === 1 && caughtUp[0] === missed.at(-1),
    'once the relay was back, the newest of them was made up for, and no other',
  );
  expect(
    (caughtUp[0]?.startsMs[0] ?? 0) >= dead.fromMs,
    'it was started after the relay was killed',
  );
  expect(
    missed.slice(0, -1).every(({ endings: how }) => how[0] === 'skipped (Superseded)'),
    'the older ones are told as superseded',
  );
}

function checkSuspension(slots: readonly Slot[], { suspended }: Phases): void {
  const passed = slots.filter(({ slot }) => isWithin(slot, suspended));
  expect(passed.length >= 2, 'at least two slots passed while the schedule was suspended');
  expect(
    passed.every(
      ({ endings: how, startsMs: starts }) =>
        how[0] === 'skipped (Suspended)' && starts.length === 0,
    ),
    'none of them fired, then or later',
  );
}

/** Leaves the Shard as it was: without schedules, and nothing of them in its status. */
async function takeAway(stage: Stage): Promise<void> {
  await patchObject(stage, 'Shard', stage.shard, { spec: { backup: null } });
  await stage.world.until(
    'the schedule is forgotten',
    patienceSeconds,
    () => shardOf(stage).status?.backups === undefined,
  );
}

async function setSchedule(stage: Stage, { suspend }: { readonly suspend: boolean }) {
  const often = { name: schedule, every: `${slotMs / 1000}s`, type: 'incremental', suspend };
  await patchObject(stage, 'Shard', stage.shard, { spec: { backup: { schedules: [often] } } });
}

/** When the next backup is due, as the status tells it. */
async function nextSlot(stage: Stage): Promise<number> {
  const told = () => shardOf(stage).status?.nextBackup;
  await stage.world.until('the next slot is told', patienceSeconds, () => told() !== undefined);
  return Date.parse(told() ?? '');
}

/** Every slot that is due by now has ended. */
async function untilNothingDue(stage: Stage, told: Endings, first: number): Promise<void> {
  await stage.world.until('every slot that was due has ended', patienceSeconds, () =>
    slotsBetween(first, Date.now()).every((slot) => told.has(slot)),
  );
}

/** How slots have ended so far: every different end that Events and status have told of each. */
interface Endings extends Disposable {
  has(slot: number): boolean;
  of(slot: number): readonly string[];
}

/**
 * Events tell of every slot, but a step does not say it again where a write beside it was in the way; the status tells
 * only of the last one, so each of its versions is looked at.
 */
function followEndings(stage: Stage): Endings {
  const told = new Map<number, Set<string>>();
  const learn = ({ slot, how }: Ending): void => {
    const atMs = Date.parse(slot);
    told.set(atMs, (told.get(atMs) ?? new Set()).add(how));
  };
  const look = (): void => {
    endingsInEvents(stage).forEach(learn);
    const { lastSlot, lastResult, lastReason } = shardOf(stage).status?.backups?.[0] ?? {};
    if (lastSlot !== undefined && lastResult !== undefined && lastResult !== 'running') {
      const how = lastResult === 'skipped' ? `${lastResult} (${lastReason})` : lastResult;
      learn({ slot: lastSlot, how });
    }
  };
  const unfollow = stage.world.onChange(look);
  look();
  return {
    has: (slot) => told.has(slot),
    of: (slot) => [...(told.get(slot) ?? [])],
    [Symbol.dispose]: unfollow,
  };
}

function endingsInEvents(stage: Stage): readonly Ending[] {
  const { uid } = shardOf(stage).metadata;
  return stage.world
    .all('Event')
    .filter(({ involvedObject }) => involvedObject.uid === uid)
    .flatMap(({ message }) => endingsIn(message ?? '', schedule, slotMs));
}

async function startsMs(stage: Stage): Promise<readonly number[]> {
  return (await stage.backupJobs()).map(askedAtMs);
}

function askedAtMs({ askedAt }: { readonly askedAt: string }): number {
  return Date.parse(askedAt);
}

function accountOf(
  told: Endings,
  starts: readonly number[],
  { first, last }: Phases,
): readonly Slot[] {
  return slotsBetween(first, last).map((slot) => ({
    slot,
    endings: told.of(slot),
    startsMs: starts.filter((startMs) => startMs >= slot && startMs < slot + slotMs),
  }));
}

/** Adopted is one that was found by the list: it was complete before its answer could be written down. */
function isGood(how: string | undefined): boolean {
  return how === 'succeeded' || how === 'adopted';
}

function during(slot: number, { dead, suspended }: Phases): string {
  if (isWithin(slot, dead)) {
    return 'relay dead';
  }
  return isWithin(slot, suspended) ? 'suspended' : '';
}

function isWithin(slot: number, { fromMs, toMs }: Span): boolean {
  return slot > fromMs && slot <= toMs;
}

function lateness(slot: number, startMs: number): string {
  return `${((startMs - slot) / 1000).toFixed(1)} s after it was due`;
}

function slotsAfter(ms: number, count: number): readonly number[] {
  const first = (Math.floor(ms / slotMs) + 1) * slotMs;
  return Array.from({ length: count }, (_, place) => first + place * slotMs);
}

function slotsBetween(first: number, untilMs: number): readonly number[] {
  return Array.from(
    { length: Math.max(0, Math.floor((untilMs - first) / slotMs) + 1) },
    (_, place) => first + place * slotMs,
  );
}

function shardOf(stage: Stage) {
  return required(stage.world.get('Shard', stage.shard), 'the Shard');
}

async function delayUntil(ms: number): Promise<void> {
  await delay(Math.max(0, ms - Date.now()));
}

/** `10:20:30`, as decisions are told. */
function timeOf(ms: number): string {
  return new Date(ms).toISOString().slice(11, 19);
}
