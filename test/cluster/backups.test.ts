import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { prepare } from '#infra/local/show/acts.ts';
import type { BackupSchedule } from '#shared/api/backup.ts';
import type { ShardStatus } from '#shared/api/shard.ts';
import { useStage } from './a-stage.ts';

const stageUnderTest = useStage();

const listSchema = z.object({
  backups: z.array(z.object({ jobId: z.string(), type: z.string(), startTimestamp: z.string() })),
});

/** What the data plane's admin service itself says of the shard's backups. */
async function backupsInRepository() {
  const query = 'database=postgres&tableGroup=default&shard=0-inf';
  const answer = await fetch(`${stageUnderTest().stage.adminUrl}/api/v1/backups?${query}`);
  return listSchema.parse(await answer.json()).backups;
}

function statusOf(): ShardStatus | undefined {
  const { world, shard } = stageUnderTest().stage;
  return world.get('Shard', shard)?.status;
}

async function setSchedules(schedules: readonly Partial<BackupSchedule>[]): Promise<void> {
  await stageUnderTest().patchShard({ spec: { backup: { schedules } } });
}

async function until(what: string, holds: () => boolean): Promise<void> {
  await stageUnderTest().stage.world.until(what, 90, holds);
}

/** The slots whose backups were asked for, in the order of their decisions, as `<schedule> <slot>`. */
function asked(): string[] {
  return stageUnderTest()
    .decisions.filter(
      ({ step, effects }) => step === 'backup-trigger' && effects.includes('startBackup'),
    )
    .map(({ message }) => message.split(': ')[0] ?? '');
}

describe('backups on a real API server', () => {
  test('each slot of a schedule makes one backup, and suspended it makes none (B2, B3, B6)', async () => {
    await prepare(stageUnderTest().stage);
    const before = (await backupsInRepository()).length;
    const seen = new Set<string>();

    await setSchedules([{ name: 'often', every: '10s', type: 'incremental' }]);
    await until('three slots have succeeded', () => {
      const often = statusOf()?.backups?.find(({ schedule }) => schedule === 'often');
      if (often?.lastResult === 'succeeded' && often.lastSlot !== undefined) {
        seen.add(often.lastSlot);
      }
      return seen.size >= 3;
    });
    await setSchedules([{ name: 'often', every: '10s', type: 'incremental', suspend: true }]);
    await until('nothing runs', () => {
      const shard = stageUnderTest().stage.world.get('Shard', stageUnderTest().stage.shard);
      const record = shard?.metadata.annotations?.['step.millrace.dev/backup-trigger'] ?? '';
      const isIdle = record.includes('"off":true') && record.includes('"state":"idle"');
      // The status is written after the record.
      return isIdle && shard?.status?.nextBackup === undefined;
    });

    const made = (await backupsInRepository()).slice(before);
    const started = asked();
    expect(new Set(started).size).toBe(started.length);
    expect(made).toHaveLength(started.length);
    expect(new Set(made.map(({ jobId }) => jobId)).size).toBe(made.length);
    expect(statusOf()?.lastBackup?.any).toBeDefined();
    expect(statusOf()?.conditions?.find(({ type }) => type === 'BackupsOnSchedule')).toMatchObject({
      status: 'True',
      reason: 'OnSchedule',
    });
  });

  test('a request makes one backup for its token, also where its reply is lost', async () => {
    const { dataPlane, patchShard, decisions } = stageUnderTest();
    const before = (await backupsInRepository()).length;
    decisions.length = 0;
    await dataPlane.faults.inject({ kind: 'lostBackupReply' });

    await patchShard({ metadata: { annotations: { 'millrace.dev/backup-now': 'full/by-hand' } } });
    await until('it is adopted', () => statusOf()?.backupRequest?.result === 'adopted');

    expect(statusOf()?.backupRequest).toEqual({ request: 'full/by-hand', result: 'adopted' });
    expect(asked()).toEqual(['@now by-hand']);
    expect(await backupsInRepository()).toHaveLength(before + 1);
  });

  test('a converged shard with schedules costs no write', async () => {
    const { during, patchShard, decisions } = stageUnderTest();
    await setSchedules([{ name: 'yearly', cron: '0 0 1 1 *', type: 'full' }]);
    await until('it is told', () => {
      const told = statusOf()?.backups?.map(({ schedule, next }) => [schedule, next.length]);
      return JSON.stringify(told) === '[["yearly",3]]';
    });
    const ours = () => decisions.filter(({ step }) => step === 'backup-trigger');
    const looks = () => ours().length;
    const before = looks();
    await patchShard({ metadata: { annotations: { 'millrace.dev/reconcile': 'zero' } } });
    await expect.poll(() => ours().slice(before).at(-1)?.effects, { timeout: 30_000 }).toEqual([]);

    const requests = await during(async () => {
      for (const token of ['one', 'two', 'three']) {
        const wanted = looks() + 1;
        await patchShard({ metadata: { annotations: { 'millrace.dev/reconcile': token } } });
        await expect.poll(looks, { timeout: 30_000 }).toBeGreaterThanOrEqual(wanted);
      }
    });

    expect(
      requests.filter(
        ({ userAgent, verb }) =>
          userAgent === 'millrace/backup-trigger' && !['get', 'list'].includes(verb),
      ),
    ).toEqual([]);
  });
});
