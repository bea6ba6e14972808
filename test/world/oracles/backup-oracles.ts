import { type BackupRecord, readBackupRecord } from '#functions/backup-trigger/record.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { type BackupSchedule, type SlotResult, backupTypes } from '#shared/api/backup.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import type { Count } from '#shared/kernel/decision.ts';
import { type Instant, parseInstant, secondsBetween } from '#shared/kernel/instant.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import type { Commit } from '#test/world/model/api-server.ts';
import {
  type InFlight,
  type Operation,
  type Seen,
  type Witness,
  type World,
  type Write,
  nameOf,
} from '#test/world/run/world.ts';
import { lookOf } from './oracles.ts';
import type { Tally } from './tally.ts';
import { millisecondsOf, slotsBetween } from './timetable.ts';

type Shard = KubeObject<'Shard'>;
type Entry = BackupRecord['data']['schedules'][string];
type Run = NonNullable<BackupRecord['data']['run']>;

/** What has become of a slot so far. `again`: what its last run came to is not known, and it is to be begun once more. */
interface Slot {
  readonly state: 'runs' | 'again' | SlotResult;
  readonly attempt: number;
}

/** A schedule that is not suspended: with which timing, and since when. */
interface InForce {
  readonly timing: string;
  readonly since: Instant;
}

/** Two states of the record, and what the handler that moved it says of it. */
interface Move {
  readonly by: InFlight;
  readonly shard: Shard;
  readonly before: BackupRecord | null;
  readonly after: BackupRecord | null;
  readonly counts: readonly Count[];
}

/**
 * Checks what backup-trigger promises (B1 to B9), against the spec, the records that it writes, what it counts, and what
 * comes to the data plane's door. The slots are found by looking at every instant there is (timetable.ts).
 *
 * Where the API server's own clock was off, nothing is said of instants; where somebody without any right to changed the
 * record, what it knew of runs is lost.
 */
export class BackupOracles implements Witness {
  readonly #tally: Tally;
  /** By `uid/schedule/slot`. */
  #slots: Readonly<Record<string, Slot>> = {};
  /** By the key of the intent. */
  #sent: readonly string[] = [];
  #inForce: Readonly<Record<string, InForce>> = {};
  /** The backups that there were when the run that is on was written down. */
  #before: readonly string[] = [];
  #specChangedAt = 0 as Instant;
  #isSkewed = false;
  #isTampered = false;

  constructor(tally: Tally) {
    this.#tally = tally;
  }

  fork(): BackupOracles {
    const copy = new BackupOracles(this.#tally);
    copy.#slots = this.#slots;
    copy.#sent = this.#sent;
    copy.#inForce = this.#inForce;
    copy.#before = this.#before;
    copy.#specChangedAt = this.#specChangedAt;
    copy.#isSkewed = this.#isSkewed;
    copy.#isTampered = this.#isTampered;
    return copy;
  }

  get remembered(): object {
    return {
      slots: this.#slots,
      sent: this.#sent,
      inForce: this.#inForce,
      before: this.#before,
      specChangedAt: this.#specChangedAt,
      isSkewed: this.#isSkewed,
      isTampered: this.#isTampered,
    };
  }

  /** How the slots of a schedule ended, in their order; of the others what they are at. */
  resultsOf(schedule: string): readonly Slot['state'][] {
    return Object.entries(this.#slots)
      .filter(([key]) => key.split('/')[1] === schedule)
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([, { state }]) => state);
  }

  told(): void {
    // Nothing here is decided by words.
  }

  wrote({ actor, commit }: Write, world: World): void {
    if (commit.kind !== 'Shard' || commit.after === null) {
      return;
    }
    this.#isSkewed ||= world.clocks.apiServerMs !== 0;
    this.#followSpec(commit, world.now);
    if (textOf(commit.before) === textOf(commit.after)) {
      return;
    }
    if (actor.kind !== 'handler' || actor.handler.step !== 'backup-trigger') {
      this.#isTampered = true;
      this.#loseRuns(commit.after as object as Shard);
      return;
    }
    this.#checkMove(actor.handler, commit, world);
  }

  sent({ by, call, question }: Operation, world: World): void {
    if (by.step !== 'backup-trigger') {
      return;
    }
    const body = (question.to === 'cluster' ? question.request.body : undefined) as
      | { readonly type?: string }
      | undefined;
    this.#tally.check(
      'B4',
      call.name === 'start backup',
      () => `${nameOf(by)} asks the data plane for ${call.name}`,
    );
    const look = lookOf(by);
    const written = look.findLast(
      ({ call: { name }, status }) => name === 'advance' && status === 200,
    );
    const record = written === undefined ? null : recordIn(written.body as Shard);
    const run = record?.data.run;
    this.#tally.check(
      'X9',
      record?.state === 'asked' && run !== undefined && run.type === body?.type,
      () => `${nameOf(by)} asks for a backup that it has not written down`,
    );
    if (record === null || run === undefined || written === undefined) {
      return;
    }
    this.#tally.check(
      'B2',
      !this.#sent.includes(record.key),
      () => `${nameOf(by)} asks for ${record.key} once more`,
    );
    const inForce = world.api.list('Shard').find(({ metadata }) => metadata.uid === record.uid);
    // An intent that somebody took out of the record is obeyed once more by whoever knows nothing of it.
    const isTakenAway =
      this.#isTampered && inForce !== undefined && recordIn(inForce)?.key !== record.key;
    this.#sent = isTakenAway ? this.#sent : [...this.#sent, record.key];
    this.#tally.check(
      'X9',
      this.#isSkewed || secondsBetween(written.at, by.askedAt) <= sendWithinSeconds,
      () => `${nameOf(by)} asks for a backup after its send-by instant`,
    );
    this.#checkEvidence(by, look);
    this.#checkNobodyRobbed(by, world);
  }

  ended(by: InFlight, world: World): void {
    this.#isSkewed ||= world.clocks.apiServerMs !== 0;
    const [first] = lookOf(by);
    const { ending } = by.handler;
    const isDone = ending?.kind === 'returned' && ending.response.batchItemFailures.length === 0;
    if (by.step !== 'backup-trigger' || !isDone || this.#isSkewed || first?.status !== 200) {
      return;
    }
    const read = first.body as Shard;
    const shard = world.api.get('Shard', read.metadata.namespace, read.metadata.name);
    const isSame =
      shard?.metadata.uid === read.metadata.uid &&
      shard.metadata.generation === read.metadata.generation;
    if (isSame && !isPaused(by, read)) {
      this.#checkNothingStuck(by, shard, first.at);
    }
  }

  /** B3, B5: when all is at rest nothing runs, every slot has ended, and people are told how. */
  atEnd(world: World): void {
    for (const shard of world.api.list('Shard')) {
      const run = recordIn(shard)?.data.run;
      this.#tally.check('B5', run === undefined, () => `${run?.schedule} ${run?.slot} never ends`);
      const open = Object.entries(this.#slots).filter(
        ([key, { state }]) => key.startsWith(shard.metadata.uid) && !isEnd(state),
      );
      this.#tally.check(
        'B3',
        open.length === 0,
        () =>
          `slots that never end: ${open.map(([key, { state }]) => `${key} ${state}`).join(', ')}`,
      );
      this.#checkTold(shard);
    }
  }

  #checkTold({ spec, status, metadata }: Shard): void {
    const entries = recordIn({ metadata })?.data.schedules ?? {};
    for (const { name } of spec.paused ? [] : schedulesIn({ spec })) {
      const { slot, end } = entries[name] ?? {};
      const told = status?.backups?.find(({ schedule }) => schedule === name);
      const toldSlot = parseInstant(told?.lastSlot);
      this.#tally.check(
        'B3',
        told?.lastResult === end && toldSlot === (slot === undefined ? undefined : slot * 1000),
        () =>
          `of ${name} it is told that ${told?.lastSlot} ${told?.lastResult}, not ${slot} ${end}`,
      );
    }
  }

  /** Since when each schedule is in force with the timing it has. */
  #followSpec({ before, after }: Commit, now: Instant): void {
    const next = after as object as Shard;
    const old = before as object | null as Shard | null;
    const isNew = old === null || old.metadata.uid !== next.metadata.uid;
    if (!isNew && old.metadata.generation === next.metadata.generation) {
      return;
    }
    this.#specChangedAt = now;
    this.#inForce = Object.fromEntries(
      schedulesIn(next)
        .filter(({ suspend }) => !suspend)
        .map((schedule): [string, InForce] => {
          const timing = timingText(schedule);
          const known = isNew ? undefined : this.#inForce[schedule.name];
          return [schedule.name, known?.timing === timing ? known : { timing, since: now }];
        }),
    );
  }

  /** Whoever changes the record takes from it what it knew of runs, and of a request that the status does not tell yet. */
  #loseRuns({ status }: Shard): void {
    const token = status?.backupRequest?.request.split('/')[1];
    const isLost = (key: string): boolean =>
      key.includes('/@now/') && !key.includes(`/@now/${token}`);
    this.#slots = Object.fromEntries(
      Object.entries(this.#slots).filter(([key, { state }]) => isEnd(state) && !isLost(key)),
    );
    this.#sent = this.#sent.filter((key) => !isLost(key));
  }

  #checkMove(by: InFlight, commit: Commit, world: World): void {
    const shard = commit.after as object as Shard;
    const from = commit.before === null ? null : readBackupRecord(commit.before.metadata);
    this.#tally.check(
      'D12',
      from?.kind !== 'unreadable',
      () => `${nameOf(by)} overwrites a record it cannot read`,
    );
    const move: Move = {
      by,
      shard,
      before: from?.kind === 'ours' ? from.record : null,
      after: recordIn(shard),
      counts: by.handler.looks.at(-1)?.decision.counts ?? [],
    };
    this.#checkEnd(move, world);
    this.#checkBooks(move);
    this.#checkBeginning(move, world);
  }

  /** B3, B4, B6: a run ends once, for a reason that the data plane shows. */
  #checkEnd({ by, shard, before, after, counts }: Move, world: World): void {
    const run = before?.data.run;
    const next = after?.data.run;
    if (before === null || run === undefined) {
      return;
    }
    if (next !== undefined) {
      this.#tally.check(
        'B4',
        intentOf(run) === intentOf(next) && before.key === after?.key,
        () => `${nameOf(by)} puts ${nameOfRun(next)} in the place of ${nameOfRun(run)}`,
      );
      return;
    }
    const ends = counts.flatMap(({ metric, labels }) =>
      metric === 'backup_runs_total' && labels.schedule === run.schedule ? [labels.result] : [],
    );
    const result = ends[0] as SlotResult | undefined;
    const key = slotKey(shard, run);
    this.#tally.check(
      'B3',
      ends.length === 1 && result !== undefined && this.#slots[key]?.state === 'runs',
      () =>
        `${nameOf(by)} ends ${nameOfRun(run)}, which is ${this.#slots[key]?.state}, as ${result}`,
    );
    const entry = after?.data.schedules[run.schedule];
    const told = run.schedule === '@now' ? after?.data.now?.end : entry?.end;
    this.#tally.check(
      'B3',
      told === result || (entry === undefined && run.schedule !== '@now'),
      () => `${nameOf(by)} counts ${nameOfRun(run)} as ${result} and writes down ${told}`,
    );
    const isToRepeat = entry?.again !== undefined && result === 'unknown';
    this.#setSlot(key, {
      state: isToRepeat ? 'again' : (result ?? 'unknown'),
      attempt: run.attempt,
    });
    if (result === 'succeeded' || result === 'adopted') {
      this.#checkGood(by, run, result, world);
    }
  }

  /** B6: it is in the repository, and the look that says so has read that it is. */
  #checkGood(by: InFlight, run: Run, result: SlotResult, { multigres }: World): void {
    const { stored } = multigres.state.backups;
    const isThere = stored.some(({ id, jobId }) =>
      run.job === undefined ? !this.#before.includes(id) : jobId === run.job,
    );
    const list = lookOf(by).find(({ call }) => call.name === 'backups');
    const told = JSON.stringify(list?.body ?? '');
    this.#tally.check(
      'B6',
      isThere && list?.status === 200 && (run.job === undefined || told.includes(run.job)),
      () => `${nameOf(by)} counts ${nameOfRun(run)} as ${result}, which no list has shown`,
    );
    this.#tally.check(
      'B6',
      (result === 'adopted') === (run.job === undefined),
      () => `${nameOf(by)} counts ${nameOfRun(run)} as ${result} with the job ${run.job}`,
    );
  }

  /** B3: the books go forward only, and over no slot in silence. */
  #checkBooks(move: Move): void {
    const { by, shard, before, after } = move;
    const old = before?.data.schedules ?? {};
    const next = after?.data.schedules ?? {};
    const schedules = new Map(schedulesIn(shard).map((schedule) => [schedule.name, schedule]));
    for (const name of new Set([...Object.keys(old), ...Object.keys(next)])) {
      const [from, to, schedule] = [old[name], next[name], schedules.get(name)];
      if (to === undefined || schedule === undefined) {
        this.#tally.check(
          'B3',
          schedule === undefined && to === undefined,
          () => `${nameOf(by)} keeps books for a schedule that is not there, or none for ${name}`,
        );
        this.#forgetSchedule(shard, name, after?.data.run);
      } else if (from !== undefined) {
        this.#checkBook(move, schedule, from, to);
      }
    }
  }

  /** Its slots are nobody's any more, but for the one that runs. */
  #forgetSchedule({ metadata }: Pick<Shard, 'metadata'>, name: string, run: Run | undefined): void {
    const prefix = `${metadata.uid}/${name}/`;
    this.#slots = Object.fromEntries(
      Object.entries(this.#slots).filter(
        ([key, { state }]) =>
          !key.startsWith(prefix) || isEnd(state) || (state === 'runs' && run?.schedule === name),
      ),
    );
  }

  #checkBook(
    { by, shard, after, counts }: Move,
    schedule: BackupSchedule,
    from: Entry,
    to: Entry,
  ): void {
    const { name } = schedule;
    this.#tally.check(
      'B3',
      to.at >= from.at,
      () => `${nameOf(by)} turns the books of ${name} back from ${from.at} to ${to.at}`,
    );
    const run = after?.data.run;
    const begun = run?.schedule === name ? parseInstant(run.slot) : undefined;
    const since =
      to.timing === from.timing
        ? from.at
        : Math.max(from.at, Math.floor(this.#specChangedAt / 1000));
    const gone = slotsBetween(
      schedule,
      (since * 1000) as Instant,
      (to.at * 1000) as Instant,
    ).filter((slot) => slot !== begun || this.#slots[slotKeyAt(shard, name, slot)] !== undefined);
    for (const slot of gone) {
      const key = slotKeyAt(shard, name, slot);
      const known = this.#slots[key];
      this.#tally.check(
        'B3',
        known === undefined,
        () => `${nameOf(by)} passes over ${key}, which is ${known?.state} already`,
      );
      this.#setSlot(key, { state: 'skipped', attempt: 0 });
    }
    const counted = counts
      .filter(({ metric, labels }) => metric === 'backup_skipped_total' && labels.schedule === name)
      .reduce((sum, { count }) => sum + count, 0);
    this.#tally.check(
      'B3',
      counted === gone.length,
      () => `${nameOf(by)} passes over ${gone.length} slots of ${name} and counts ${counted}`,
    );
    const last = gone.at(-1);
    this.#tally.check(
      'B3',
      last === undefined ||
        begun !== undefined ||
        (to.slot === last / 1000 && to.end === 'skipped'),
      () => `${nameOf(by)} passes over ${name} ${last} and writes down ${to.slot} ${to.end}`,
    );
    this.#checkNotRepeated(by, shard, name, from, to, begun);
  }

  /** What was to be begun once more is begun, or ends as unknown. */
  #checkNotRepeated(
    by: InFlight,
    shard: Shard,
    name: string,
    from: Entry,
    to: Entry,
    begun: Instant | undefined,
  ): void {
    const key = slotKeyAt(shard, name, (from.at * 1000) as Instant);
    if (from.again === undefined || to.again !== undefined || begun === from.at * 1000) {
      return;
    }
    this.#tally.check(
      'B3',
      this.#slots[key]?.state === 'again' || this.#isTampered,
      () => `${nameOf(by)} gives up on ${key}, which is ${this.#slots[key]?.state}`,
    );
    this.#setSlot(key, { state: 'unknown', attempt: from.again });
  }

  /** B2, B8, B9: a run begins for a slot that has not had it, is not old, and is the one that was due first. */
  #checkBeginning({ by, shard, before, after }: Move, world: World): void {
    const run = after?.data.run;
    if (after === null || run === undefined || before?.data.run !== undefined) {
      return;
    }
    const key = slotKey(shard, run);
    const known = this.#slots[key];
    const isNext =
      run.attempt === 0
        ? known === undefined
        : known?.state === 'again' && run.attempt === known.attempt + 1;
    this.#tally.check(
      'B2',
      (isNext || (this.#isTampered && known === undefined)) && run.attempt <= mostRepeats,
      () => `${nameOf(by)} begins ${nameOfRun(run)}, which is ${known?.state} ${known?.attempt}`,
    );
    this.#setSlot(key, { state: 'runs', attempt: run.attempt });
    this.#before = world.multigres.state.backups.stored.map(({ id }) => id);
    if (run.schedule === '@now') {
      return;
    }
    const slot = parseInstant(run.slot) ?? (0 as Instant);
    const inForce = this.#inForce[run.schedule];
    this.#tally.check(
      'B8',
      this.#isSkewed || (inForce !== undefined && slot >= Math.floor(inForce.since / 1000) * 1000),
      () => `${nameOf(by)} begins ${nameOfRun(run)}, in force since ${inForce?.since}`,
    );
    this.#checkOrder(by, shard, after, run, world.now);
  }

  #checkOrder(by: InFlight, shard: Shard, after: BackupRecord, run: Run, now: Instant): void {
    const slot = parseInstant(run.slot) ?? 0;
    const rank = (type: string): number => (backupTypes as readonly string[]).indexOf(type);
    for (const schedule of schedulesIn(shard)) {
      const entry = after.data.schedules[schedule.name];
      if (
        schedule.name === run.schedule ||
        schedule.suspend ||
        schedule.jitter !== '0s' ||
        entry === undefined ||
        this.#isSkewed
      ) {
        continue;
      }
      const due = slotsBetween(schedule, (entry.at * 1000) as Instant, now).at(-1);
      this.#tally.check(
        'B9',
        due === undefined || due > slot || (due === slot && rank(schedule.type) >= rank(run.type)),
        () => `${nameOf(by)} begins ${nameOfRun(run)} before ${schedule.name} ${due}`,
      );
    }
  }

  /** B5, B9: after a look nothing is left that it was too late for. One that writes the books down is followed by another. */
  #checkNothingStuck(by: InFlight, shard: Shard, at: Instant): void {
    const record = recordIn(shard);
    const run = record?.data.run;
    const until = parseInstant(run?.until);
    const hasWritten = lookOf(by).some(({ call }) => call.name === 'advance');
    this.#tally.check(
      'B5',
      run === undefined || hasWritten || (until !== undefined && at <= until),
      () =>
        `${nameOf(by)} has looked, and ${run?.schedule} ${run?.slot} goes on after ${run?.until}`,
    );
    for (const schedule of schedulesIn(shard)) {
      const entry = record?.data.schedules[schedule.name];
      const { startingDeadline, jitter, suspend } = schedule;
      if (entry === undefined || suspend) {
        continue;
      }
      const late = at - millisecondsOf(startingDeadline) - millisecondsOf(jitter) - 1;
      const [stuck] = slotsBetween(schedule, (entry.at * 1000) as Instant, late as Instant);
      this.#tally.check(
        'B9',
        stuck === undefined,
        () => `${nameOf(by)} has looked, and ${schedule.name} ${stuck} still waits`,
      );
    }
  }

  /** B1, B7: what a start is judged by was read in the same look, and says that nothing runs and nobody goes. */
  #checkEvidence(by: InFlight, look: readonly Seen[]): void {
    const target = look[0]?.body as Shard;
    const lease = look.find(({ call }) => call.name === 'lease');
    const held = (lease?.body as { kvs?: readonly unknown[] } | undefined)?.kvs ?? [];
    this.#tally.check(
      'B1',
      lease?.status === 200 && held.length === 0,
      () => `${nameOf(by)} begins a backup while the lease is held, or not known to be free`,
    );
    this.#tally.check(
      'B1',
      look.some(({ call, status }) => call.name === 'backups' && status === 200),
      () => `${nameOf(by)} begins a backup without having read the list`,
    );
    const { run, left } = recordIn(target)?.data ?? {};
    const job = look.find(({ call }) => call.name === 'job');
    const { status } = (job?.body ?? {}) as { readonly status?: string };
    this.#tally.check(
      'B1',
      run === undefined &&
        (left === undefined ||
          job?.status === 404 ||
          (job?.status === 200 && (status?.endsWith('COMPLETED') ?? false)) ||
          (job?.status === 200 && (status?.endsWith('FAILED') ?? false))),
      () => `${nameOf(by)} begins a backup while ${run?.job ?? left} may run`,
    );
    const drain = readDrainRecord(target.metadata);
    this.#tally.check(
      'B7',
      drain.kind !== 'unreadable' && (drain.kind !== 'ours' || drain.record.state !== 'finished'),
      () => `${nameOf(by)} begins a backup while a member goes`,
    );
  }

  /** B4: who begins a backup takes the lease from whoever has it, and so ends what runs. */
  #checkNobodyRobbed(by: InFlight, { multigres }: World): void {
    const { line, jobs } = multigres.state.backups;
    const running = [
      ...line.flatMap((turn) => (turn.kind === 'question' ? [] : [turn.jobId])),
      ...jobs.flatMap(({ jobId, status }) => (status === 'pending' ? [jobId] : [])),
    ];
    this.#tally.check(
      'B4',
      running.length === 0 || this.#isTampered,
      () => `${nameOf(by)} begins a backup while ${running.join(', ')} goes on`,
    );
  }

  #setSlot(key: string, slot: Slot): void {
    this.#slots = { ...this.#slots, [key]: slot };
  }
}

/** As backup-trigger's README promises. */
const sendWithinSeconds = 10;
const mostRepeats = 2;

function isEnd(state: Slot['state']): boolean {
  return state !== 'runs' && state !== 'again';
}

function recordIn({ metadata }: Pick<Shard, 'metadata'>): BackupRecord | null {
  const read = readBackupRecord(metadata);
  return read.kind === 'ours' ? read.record : null;
}

function textOf(object: Commit['before']): string | undefined {
  return object?.metadata.annotations?.[recordAnnotation('backup-trigger')];
}

function schedulesIn({ spec }: Pick<Shard, 'spec'>): readonly BackupSchedule[] {
  return spec.backup?.schedules ?? [];
}

function timingText({ cron, every, timeZone }: BackupSchedule): string {
  return JSON.stringify([cron, every, timeZone]);
}

function slotKey(shard: Shard, { schedule, slot }: Run): string {
  const instant = parseInstant(slot);
  return schedule === '@now' || instant === undefined
    ? `${shard.metadata.uid}/${schedule}/${slot}`
    : slotKeyAt(shard, schedule, instant);
}

function slotKeyAt({ metadata }: Shard, schedule: string, slot: Instant): string {
  return `${metadata.uid}/${schedule}/${slot}`;
}

function nameOfRun({ schedule, slot, attempt }: Run): string {
  return `${schedule} ${slot} attempt ${attempt}`;
}

/** What never changes while it runs. */
function intentOf({ schedule, slot, type, attempt, at, until }: Run): string {
  return JSON.stringify([schedule, slot, type, attempt, at, until]);
}

/** Whether the look was told that there is a pause, or that the shard goes: then nothing moves. */
function isPaused(by: InFlight, { spec, metadata }: Shard): boolean {
  const database = lookOf(by).find(({ call }) => call.name === 'get Database')?.body as
    | { readonly spec?: { readonly paused?: boolean } }
    | undefined;
  return spec.paused || metadata.deletionTimestamp !== undefined || database?.spec?.paused === true;
}
