import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { readBackupRecord } from '#functions/backup-trigger/record.ts';
import { patchObject, prepare } from '#infra/local/show/acts.ts';
import { type MillraceProcess, startMillrace } from '#infra/local/show/millrace-process.ts';
import { type Ending, endingsIn } from '#infra/local/show/slots-told.ts';
import { seeded } from '#test/unit/events/relay/seeded.ts';
import { useStage } from './a-stage.ts';

/**
 * How many slots, one a minute, are lived through with a kill in each: `MILLRACE_SOAK_MINUTES=10`, by hand. Not given, it is
 * not run: slots take their real time.
 */
const minutes = Number(process.env['MILLRACE_SOAK_MINUTES'] ?? 0);
const seed = Number(process.env['MILLRACE_SOAK_SEED'] ?? 1);

const schedule = 'every-minute';
const slotMs = 60_000;

/** Nobody can tell what became of a backup for two minutes after its handler died; then come the slots that waited. */
const patienceSeconds = 300;

const stageUnderTest = useStage();

/** `dev` itself takes relay, queue and worker with it. */
const victims = ['relay', 'worker', 'dev'] as const;

interface Kill {
  readonly victim: (typeof victims)[number];
  /** After the slot is due. */
  readonly afterMs: number;
}

/** Two in ten of `dev`, the others of its parts; half of them in the second in which a slot begins, where there is most to lose. */
function drawKills(): readonly Kill[] {
  const random = seeded(seed);
  return Array.from({ length: minutes }, (_, place) => ({
    victim: place % 5 === 3 ? 'dev' : random() < 0.5 ? 'relay' : 'worker',
    afterMs: Math.round(random() < 0.5 ? random() * 1_000 : random() * (slotMs - 5_000)),
  }));
}

describe.runIf(minutes > 0)('the backups of a shard while something is killed every minute', () => {
  test(
    'each slot ends once and starts one backup at most, and suspended ones never fire (B2, B3, B8)',
    { timeout: (minutes + 12) * slotMs },
    async () => {
      const { stage } = stageUnderTest();
      await prepare(stage);
      await using dev = new RestartableDev();
      const ledger = followRecord();
      const jobsBefore = (await stage.backupJobs()).length;
      await setSchedule({ suspend: false });
      const first = await firstSlot();

      for (const [place, { victim, afterMs }] of drawKills().entries()) {
        await until(first + place * slotMs + afterMs);
        console.log(`${new Date().toISOString()} kill -9 of ${victim}`);
        await dev.kill(victim);
      }
      const last = first + (minutes - 1) * slotMs;
      await stage.world.until('the last slot has ended', patienceSeconds, () =>
        ledger.some((ending) => ending.slot === textOf(last)),
      );
      await isIdle();

      await setSchedule({ suspend: true });
      await stage.world.until('it is suspended', patienceSeconds, () => nextSlot() === undefined);
      const suspendedAt = Date.now();
      await until(slotBefore(Date.now()) + 3 * slotMs - 5_000);
      await setSchedule({ suspend: false });
      const again = await firstSlot();
      await stage.world.until('the first slot after it has ended', patienceSeconds, () =>
        ledger.some((ending) => ending.slot === textOf(again)),
      );

      const slots = slotsFrom(first, again);
      const jobs = (await stage.backupJobs()).slice(jobsBefore);
      const starts = jobs.map(({ askedAt }) => textOf(slotBefore(Date.parse(askedAt))));
      const told = toldByEvents();
      console.table(
        slots.map((slot) => ({
          slot,
          record: howIn(ledger, slot).join(' | '),
          events: howIn(told, slot).join(' | '),
          asked: jobs
            .flatMap(({ askedAt }, place) => (starts[place] === slot ? [askedAt] : []))
            .join(),
        })),
      );
      expect(slots.map((slot) => [slot, howIn(ledger, slot).length])).toEqual(
        slots.map((slot) => [slot, 1]),
      );
      // An Event may be lost with the handler that was to make it; none says anything else, and none comes twice.
      expect(told.filter(({ slot, how }) => !howIn(ledger, slot).includes(how))).toEqual([]);
      expect(slots.filter((slot) => howIn(told, slot).length > 1)).toEqual([]);
      expect(new Set(starts).size).toBe(starts.length);
      const suspended = slots.filter(
        (slot) => Date.parse(slot) > suspendedAt && slot !== textOf(again),
      );
      expect(suspended.length).toBeGreaterThanOrEqual(2);
      expect(suspended.map((slot) => howIn(ledger, slot))).toEqual(
        suspended.map(() => ['skipped (Suspended)']),
      );
      expect(jobs.filter(({ askedAt }) => isBetween(askedAt, suspendedAt, again))).toEqual([]);
    },
  );
});

/** `millrace dev`, started again on its folder whenever it was killed. */
class RestartableDev {
  #now: MillraceProcess = stageUnderTest().stage.millrace;

  async kill(victim: Kill['victim']): Promise<void> {
    if (victim !== 'dev') {
      return this.#now.killAndAwaitRestart(victim);
    }
    await this.#now.kill();
    const { folder, stage } = stageUnderTest();
    this.#now = await startMillrace({
      kubeconfig: join(folder, 'kubeconfig'),
      namespace: stage.namespace,
      dataDir: join(folder, 'millrace'),
      onDecision: () => undefined,
      onRemark: (line) => console.log(line),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#now.stop();
  }
}

/** How slots end by the record, as each of its versions says it. */
function followRecord(): Ending[] {
  const { world, shard } = stageUnderTest().stage;
  const endings: Ending[] = [];
  let accountedTo: number | undefined;
  let told = '';
  world.onChange(() => {
    const metadata = world.get('Shard', shard)?.metadata;
    const read = metadata === undefined ? undefined : readBackupRecord(metadata);
    const data = read?.kind === 'ours' ? read.record.data : undefined;
    const entry = data?.schedules[schedule];
    if (entry === undefined) {
      return;
    }
    const run = data?.run?.schedule === schedule ? Date.parse(data.run.slot) : 0;
    accountedTo = Math.max(accountedTo ?? entry.at * 1000, run);
    const { slot, end, why } = entry;
    const version = JSON.stringify([slot, end, why]);
    if (slot === undefined || end === undefined || version === told) {
      return;
    }
    told = version;
    // A slot that ran was accounted for when it began; one that is passed over takes along all that came before it.
    const ended =
      end === 'skipped' ? slotsFrom(accountedTo + 1, slot * 1000) : [textOf(slot * 1000)];
    const how = end === 'skipped' ? `${end} (${why})` : end;
    ended.forEach((each) => endings.push({ slot: each, how }));
    accountedTo = Math.max(accountedTo, slot * 1000);
  });
  return endings;
}

function toldByEvents(): readonly Ending[] {
  return stageUnderTest()
    .stage.world.all('Event')
    .flatMap(({ message }) => endingsIn(message ?? '', schedule, slotMs));
}

function howIn(endings: readonly Ending[], slot: string): readonly string[] {
  return endings.filter((ending) => ending.slot === slot).map(({ how }) => how);
}

async function setSchedule({ suspend }: { readonly suspend: boolean }): Promise<void> {
  const { stage } = stageUnderTest();
  const schedules = [{ name: schedule, every: '1m', type: 'incremental', suspend }];
  await patchObject(stage, 'Shard', stage.shard, { spec: { backup: { schedules } } });
}

/** The next slot as the status tells it once the schedule is in force. */
async function firstSlot(): Promise<number> {
  await stageUnderTest().stage.world.until(
    'the next slot is told',
    patienceSeconds,
    () => nextSlot() !== undefined,
  );
  return nextSlot() ?? Number.NaN;
}

function nextSlot(): number | undefined {
  const { world, shard } = stageUnderTest().stage;
  const next = world.get('Shard', shard)?.status?.nextBackup;
  return next === undefined ? undefined : Date.parse(next);
}

async function isIdle(): Promise<void> {
  const { world, shard } = stageUnderTest().stage;
  await world.until(
    'no backup runs',
    patienceSeconds,
    () => world.get('Shard', shard)?.status?.backupRun === undefined,
  );
}

async function until(atMs: number): Promise<void> {
  await delay(Math.max(0, atMs - Date.now()));
}

function slotBefore(atMs: number): number {
  return Math.floor(atMs / slotMs) * slotMs;
}

function slotsFrom(fromMs: number, toMs: number): readonly string[] {
  const slots: string[] = [];
  for (let slot = Math.ceil(fromMs / slotMs) * slotMs; slot <= toMs; slot += slotMs) {
    slots.push(textOf(slot));
  }
  return slots;
}

function isBetween(time: string, fromMs: number, toMs: number): boolean {
  return Date.parse(time) > fromMs && Date.parse(time) < toMs;
}

function textOf(ms: number): string {
  return new Date(ms).toISOString();
}
