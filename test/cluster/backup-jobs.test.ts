import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { followObjects } from '#infra/local/data-plane/follow-objects.ts';
import { prepare } from '#infra/local/show/acts.ts';
import { readBackupRecord } from '#functions/backup-trigger/record.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { collectionPath, kubeClient } from '#shared/kube/http-kube.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { useStage } from './a-stage.ts';

/*
 * The Jobs are run by Kubernetes' own job controller, up to their pods. There is no node for these: the test plays
 * their containers, which ask the data plane for a backup, wait for it, and end.
 */

const stageUnderTest = useStage({ hasPolicies: true });
const silent = createLogger('silent', {});

const backupSchema = z.object({ backups: z.array(z.object({ status: z.string() })) });

async function completeBackups(): Promise<number> {
  const query = 'database=postgres&tableGroup=default&shard=0-inf';
  const answer = await fetch(`${stageUnderTest().stage.adminUrl}/api/v1/backups?${query}`);
  // Without an answer while a pooler backs up.
  return answer.ok
    ? backupSchema
        .parse(await answer.json())
        .backups.filter(({ status }) => status === 'BACKUP_STATUS_COMPLETE').length
    : 0;
}

/** What a container does that is told which backup to make by its environment. */
async function makeBackup(pod: KubeObject<'Pod'>): Promise<void> {
  const environment = pod.spec?.containers[0]?.env ?? [];
  const valueOf = (wanted: string) => environment.find(({ name }) => name === wanted)?.value;
  const before = await completeBackups();
  await fetch(`${stageUnderTest().stage.adminUrl}/api/v1/backups`, {
    method: 'POST',
    body: JSON.stringify({
      database: valueOf('MILLRACE_DATABASE'),
      tableGroup: valueOf('MILLRACE_TABLE_GROUP'),
      shard: valueOf('MILLRACE_SHARD'),
      type: valueOf('MILLRACE_BACKUP_TYPE'),
    }),
  });
  while ((await completeBackups()) <= before) {
    await delay(100);
  }
}

/** Lets every pod of a Job do its work and end, until the test is over. */
function playContainers(connection: KubeConnection, work = makeBackup) {
  const closing = new AbortController();
  const begun = new Set<string>();
  const failures: unknown[] = [];
  const play = async (pod: KubeObject<'Pod'>) => {
    if (begun.has(pod.metadata.uid)) {
      return;
    }
    begun.add(pod.metadata.uid);
    await work(pod);
    const path = `${collectionPath('Pod', pod.metadata.namespace)}/${pod.metadata.name}/status`;
    const answer = await connection.request({
      method: 'PATCH',
      path,
      contentType: 'application/merge-patch+json',
      body: { metadata: { uid: pod.metadata.uid }, status: { phase: 'Succeeded' } },
    });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  };
  const start = (pod: KubeObject<'Pod'>) => {
    play(pod).catch((error: unknown) => failures.push(error));
  };
  const running = followObjects(
    connection,
    'Pod',
    'batch.kubernetes.io/job-name',
    { onList: (pods) => pods.forEach(start), onChange: start, onGone: () => undefined },
    { signal: closing.signal, log: silent },
  );
  return {
    begun,
    failures,
    stop: async () => {
      closing.abort();
      await running;
    },
  };
}

let containers: ReturnType<typeof playContainers> | undefined;

afterEach(async () => {
  await containers?.stop();
  containers = undefined;
});

async function setBackup(backup: object): Promise<void> {
  await stageUnderTest().patchShard({ spec: { backup } });
}

function shardNow(): KubeObject<'Shard'> | undefined {
  const { world, shard } = stageUnderTest().stage;
  return world.get('Shard', shard);
}

function recordNow() {
  const shard = shardNow();
  const read = shard === undefined ? undefined : readBackupRecord(shard.metadata);
  return read?.kind === 'ours' ? read.record : undefined;
}

async function until(what: string, holds: () => boolean): Promise<void> {
  await stageUnderTest().stage.world.until(what, 120, holds);
}

async function jobs(): Promise<readonly KubeObject<'Job'>[]> {
  const { connection, namespace } = stageUnderTest().stage;
  const read = await kubeClient(connection).list('Job', { namespace });
  return read.kind === 'present' ? read.value : [];
}

/** Which slots of a schedule its decisions began, and how many they passed over. */
function accountOf(schedule: string): {
  readonly begun: readonly string[];
  readonly skipped: number;
} {
  const texts = (reason: string) =>
    stageUnderTest()
      .decisions.filter((decision) => decision.reason === reason)
      .flatMap(({ message }) => message.split('; '));
  const begun = texts('BackupAsked').flatMap(
    (text) => new RegExp(`^${schedule} (\\S+):`).exec(text)?.[1] ?? [],
  );
  const skipped = texts('SlotsSkipped').flatMap((text) => {
    const found = new RegExp(`^${schedule}: (?:slot|(\\d+) slots) `).exec(text);
    return found === null ? [] : [Number(found[1] ?? 1)];
  });
  return { begun, skipped: skipped.reduce((sum, count) => sum + count, 0) };
}

/** Slots of `every: 10s` up to an instant, in seconds since the epoch. */
function slotsUpTo(seconds: number | undefined): number {
  return Math.floor((seconds ?? Number.NaN) / 10);
}

const jobTemplate = { spec: { containers: [{ name: 'backup', image: 'backup:1' }] } };

describe('backups by Jobs on a real API server', () => {
  test('each slot has one Job at most, each is accounted for, and a Job goes by itself once its end is written down (B2, B3, B6)', async () => {
    const { stage, during } = stageUnderTest();
    await prepare(stage);
    containers = playContainers(stage.connection);
    const ended = new Set<string>();
    let first: number | undefined;

    const requests = await during(async () => {
      await setBackup({
        schedules: [{ name: 'own', every: '10s', type: 'incremental', engine: 'job' }],
        jobTemplate,
      });
      await until('it is seen', () => recordNow()?.data.schedules['own'] !== undefined);
      first = recordNow()?.data.schedules['own']?.from;
      await until('three slots have succeeded', () => {
        const own = shardNow()?.status?.backups?.find(({ schedule }) => schedule === 'own');
        if (own?.lastResult === 'succeeded' && own.lastSlot !== undefined) {
          ended.add(own.lastSlot);
        }
        return ended.size >= 3;
      });
      await setBackup({
        schedules: [
          { name: 'own', every: '10s', type: 'incremental', engine: 'job', suspend: true },
        ],
      });
      await until('nothing runs, and nothing is to be released', () => {
        const record = recordNow();
        return (
          record?.data.schedules['own']?.off === true &&
          record.state === 'idle' &&
          record.data.leftJob === undefined
        );
      });
    });

    expect(containers.failures).toEqual([]);
    const made = await jobs();
    const creates = requests.filter(
      ({ verb, path }) => verb === 'create' && path.endsWith('/jobs'),
    );
    const { begun, skipped } = accountOf('own');
    const last = recordNow()?.data.schedules['own']?.at;
    expect(begun.length + skipped).toBe(slotsUpTo(last) - slotsUpTo(first));
    expect(new Set(begun).size).toBe(begun.length);
    expect(made).toHaveLength(begun.length);
    expect(creates).toHaveLength(begun.length);
    expect(containers.begun.size).toBe(begun.length);
    for (const job of made) {
      expect(job.metadata.ownerReferences).toEqual([
        expect.objectContaining({ kind: 'Shard', name: stage.shard, controller: true }),
      ]);
      expect(job.status?.conditions).toEqual(
        expect.arrayContaining([expect.objectContaining({ type: 'Complete', status: 'True' })]),
      );
      expect(job.spec).toMatchObject({ backoffLimit: 0, ttlSecondsAfterFinished: 86_400 });
    }
  });

  test('a Job that the API server refuses is a failed slot that says why, and other schedules go on', async () => {
    const { stage } = stageUnderTest();
    const client = kubeClient(stage.connection);
    const before = (await jobs()).length;

    await setBackup({
      schedules: [
        { name: 'wrong', every: '10s', type: 'full', engine: 'job' },
        { name: 'right', every: '10s', type: 'incremental' },
      ],
      jobTemplate: { spec: { containers: [{ name: 'backup' }] } },
    });
    await until('one has failed and the other succeeded', () => {
      const told = shardNow()?.status?.backups ?? [];
      const resultOf = (name: string) => told.find(({ schedule }) => schedule === name);
      return (
        resultOf('wrong')?.lastReason === 'Refused' && resultOf('right')?.lastSuccess !== undefined
      );
    });

    const events = await client.list('Event', { namespace: stage.namespace });
    expect(await jobs()).toHaveLength(before);
    expect(
      events.kind === 'present' ? events.value.filter((it) => it.reason === 'BackupRefused') : [],
    ).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          message: expect.stringContaining(
            '422 Invalid (spec.template.spec.containers[0].image: FieldValueRequired)',
          ),
        }),
      ]),
    );
  });
});
