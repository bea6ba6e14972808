import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { afterEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import {
  leadOf,
  patchObject,
  post,
  prepare,
  required,
  setReplicas,
} from '#infra/local/show/acts.ts';
import { openBucket, region } from '#infra/local/show/bucket-seen.ts';
import { ownerObjectName, ownerText } from '#shared/api/repository-owner.ts';
import { runMillrace } from '../unit/infra/cli/run-millrace.ts';
import { useStage } from './a-stage.ts';
import { clientOf, missingBucket } from './local-bucket.ts';

const binary = fileURLToPath(new URL('../../infra/cli/millrace.mjs', import.meta.url));
const stageUnderTest = useStage({ hasBucket: missingBucket === undefined });
const children: ChildProcess[] = [];

afterEach(() => children.splice(0).forEach((child) => child.kill('SIGKILL')));

function kubeconfig(): readonly string[] {
  return ['--kubeconfig', join(stageUnderTest().folder, 'kubeconfig')];
}

async function run(...words: string[]) {
  const { stdout, stderr, exitCode } = await runMillrace([...words, ...kubeconfig()]);
  // Lines are broken anywhere between two words.
  return { stdout, stderr, exitCode, text: stdout.replaceAll(/\s+/g, ' ') };
}

const explain = (target: string) => run('explain', target, '-n', 'demo');

const rowSchema = z.looseObject({
  target: z.string(),
  standing: z.string(),
  reason: z.string().nullable(),
  step: z.string().nullable(),
});
const statusSchema = z.looseObject({
  targets: z.array(rowSchema),
  summary: z.record(z.string(), z.number()),
});

/** The row of a target, as a program reads it. */
async function rowOf(target: string) {
  const { stdout } = await run('status', '--json');
  return statusSchema.parse(JSON.parse(stdout)).targets.find((row) => row.target === target);
}

function told(type: string) {
  const { world, shard } = stageUnderTest().stage;
  return world.get('Shard', shard)?.status?.conditions?.find((one) => one.type === type);
}

async function until(what: string, holds: () => boolean): Promise<void> {
  await stageUnderTest().stage.world.until(what, 120, holds);
}

async function lookAgain(): Promise<void> {
  const token = String(performance.now());
  await stageUnderTest().patchShard({
    metadata: { annotations: { 'millrace.dev/reconcile': token } },
  });
}

/** A replica asked to leave while another one is out of reach, so that too few would remain. */
async function askInVain(): Promise<{ readonly pod: string; readonly stop: () => Promise<void> }> {
  const { stage, dataPlane } = stageUnderTest();
  const { pod: primary } = await leadOf(stage);
  const replicas = stage.world.all('Pod').filter(({ metadata }) => metadata.name !== primary);
  const [pod = '', other = ''] = replicas.map(({ metadata }) => metadata.name);
  const annotate = (why: string | null) =>
    patchObject(stage, 'Pod', pod, { metadata: { annotations: { 'millrace.dev/drain': why } } });
  await dataPlane.faults.inject({ kind: 'poolerUnreachable', pod: other });
  await annotate('the disk is slow');
  await until('the drain is held', () => told('Drained')?.reason === 'QuorumTooSmall');
  return {
    pod,
    stop: async () => {
      await annotate(null);
      await dataPlane.faults.lift();
      await lookAgain();
      await prepare(stage);
    },
  };
}

describe('what a target waits for, made by the running steps', () => {
  test('a settled shard has nothing to do, and so has its Database', async () => {
    await prepare(stageUnderTest().stage);

    const { stdout, exitCode } = await run('status');
    const shard = await explain('shd/orders');

    expect(stdout).toMatch(/^✓ settled +shd\/demo\/orders +3\/3 +nothing to do/m);
    expect(stdout).toContain('2 targets: 0 need a person, 0 working, 2 settled');
    expect(exitCode).toBe(0);
    expect(shard.text).toContain('✓ drain-step (lets members leave): nobody has to leave');
    expect(shard.exitCode).toBe(0);
  });

  test('a blocked quorum names the member, what is missing, and how to keep or force it', async () => {
    const { pod, stop } = await askInVain();

    const row = await rowOf('shd/demo/orders');
    const { text, exitCode } = await explain('shd/orders');
    await stop();

    expect(row).toMatchObject({ standing: 'stuck', step: 'drain-step', reason: 'QuorumTooSmall' });
    expect(text).toContain(`The pod ${pod} is to leave because a person asked (the disk is slow).`);
    expect(text).toContain('only 1 healthy member remains, and a commit needs 2');
    expect(text).toContain(`$ kubectl annotate -n demo pod/${pod} millrace.dev/drain-`);
    expect(text).toContain('$ kubectl annotate -n demo shd/orders --overwrite millrace.dev/force-');
    expect(exitCode).toBe(1);
  });

  test('a paused shard says how to end the pause, and what it holds in the middle', async () => {
    const { stop } = await askInVain();
    await stageUnderTest().patchShard({ spec: { paused: true } });
    await until('it is seen', () => told('Reconciling')?.reason === 'Paused');

    const row = await rowOf('shd/demo/orders');
    const { text, exitCode } = await explain('shd/orders');
    await stageUnderTest().patchShard({ spec: { paused: false } });
    await stop();

    expect(row).toMatchObject({ standing: 'paused', reason: 'Paused' });
    expect(text).toContain(`$ kubectl patch -n demo shd/orders --type merge -p '{"spec":`);
    expect(text).toContain('Held in the middle: too few healthy members to let one go.');
    expect(exitCode).toBe(0);
  });

  test('a drain past its deadline says what holds the pod', async () => {
    const { stage, patchShard } = stageUnderTest();
    await patchShard({ spec: { drain: { deadline: '10s' } } });
    const hold = async (finalizers: readonly string[] | null) => {
      for (const { metadata } of stage.world.all('Pod')) {
        await patchObject(stage, 'Pod', metadata.name, { metadata: { finalizers } });
      }
    };
    await hold(['example.com/held']);
    await setReplicas(stage, 2);
    await until('a pod goes', () =>
      stage.world.all('Pod').some(({ metadata }) => metadata.deletionTimestamp !== undefined),
    );
    const before = await explain('shd/orders');
    await until('it is stuck', () => told('Drained')?.reason === 'DrainStuck');

    const row = await rowOf('shd/demo/orders');
    const after = await explain('shd/orders');
    await hold(null);
    await lookAgain();
    await prepare(stage);
    await patchShard({ spec: { drain: null } });

    expect(before.text).toContain('This can no longer be taken back.');
    expect(row).toMatchObject({ standing: 'stuck', reason: 'DrainStuck' });
    expect(after.text).toContain('its pod to be gone, which the finalizer example.com/held holds');
    expect(after.text).toContain('$ kubectl describe pod -n demo orders-');
    expect(after.text).not.toContain('force-drain');
    expect(after.exitCode).toBe(1);
  });

  test('a missed backup says how the last one ended, and how to have one now', async () => {
    const { dataPlane, patchShard } = stageUnderTest();
    await dataPlane.faults.inject({ kind: 'backupFails', times: 'always' });
    await patchShard({
      spec: { backup: { schedules: [{ name: 'often', every: '10s', type: 'incremental' }] } },
    });
    await until('it is told', () => told('BackupsOnSchedule')?.reason === 'BackupsMissed');

    const row = await rowOf('shd/demo/orders');
    const { text, exitCode } = await explain('shd/orders');
    await dataPlane.faults.lift();
    await patchShard({ spec: { backup: null } });

    expect(row).toMatchObject({ standing: 'stuck', reason: 'BackupsMissed' });
    expect(text).toMatch(/Schedule often: its last slot, \S+, ended as failed, since the data/);
    expect(text).toContain('millrace.dev/backup-now=incremental/');
    expect(exitCode).toBe(1);
  });

  test.skipIf(missingBucket !== undefined)(
    'a repository of others is told of the Database, and to whoever asks about its shard',
    async () => {
      const { stage } = stageUnderTest();
      await makeForeignRepository();
      await until('it is told', () => {
        const conditions = stage.world.get('Database', stage.database)?.status?.conditions ?? [];
        return conditions.some(({ reason }) => reason === 'RepositoryOfOthers');
      });

      const row = await rowOf('mdb/demo/main');
      const { text, exitCode } = await explain('mdb/main');
      const shard = await explain('shd/orders');
      await patchObject(stage, 'Database', stage.database, { spec: { backup: null } });

      expect(row).toMatchObject({ standing: 'stuck', reason: 'RepositoryOfOthers' });
      expect(text).toContain('the repository belongs to the Database prod-us/demo/main');
      expect(text).toContain('remove s3://orders-backups/demo/main/millrace-owner.json');
      expect(exitCode).toBe(1);
      expect(shard.text).toContain('$ millrace explain mdb/main -n demo');
    },
  );
});

/** A bucket whose place of this Database says that it is somebody else's. */
async function makeForeignRepository(): Promise<void> {
  const { stage } = stageUnderTest();
  const { endpoint, root } = required(stage.bucket, 'the S3 server');
  const bucket = openBucket({ endpoint, root });
  await bucket.make('orders-backups');
  bucket.close();
  const client = clientOf(required(stage.bucket, 'the S3 server'));
  const owner = { cluster: 'prod-us', namespace: 'demo', name: 'main', uid: 'another' };
  await client.send(
    new PutObjectCommand({
      Bucket: 'orders-backups',
      Key: `demo/main/${ownerObjectName}`,
      Body: ownerText(owner),
    }),
  );
  client.destroy();
  await post(stage, 'Secret', {
    metadata: { name: 'backup-keys', namespace: 'demo' },
    stringData: {
      AWS_ACCESS_KEY_ID: root.accessKeyId,
      AWS_SECRET_ACCESS_KEY: root.secretAccessKey,
    },
  });
  const s3 = { bucket: 'orders-backups', region, endpoint, credentialsSecret: 'backup-keys' };
  await patchObject(stage, 'Database', stage.database, {
    spec: { backup: { repository: { type: 's3', s3 } } },
  });
}

describe('millrace status --watch', () => {
  test('prints each row that changes, survives the API server, and ends by Ctrl-C', async () => {
    const { stage, patchShard, controlPlane } = stageUnderTest();
    await prepare(stage);
    const child = spawn(process.execPath, [binary, 'status', '--watch', ...kubeconfig()], {
      env: { HOME: '/nonexistent' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    children.push(child);
    let out = '';
    child.stdout.on('data', (part: Buffer) => {
      out += part.toString();
    });
    let err = '';
    child.stderr.on('data', (part: Buffer) => {
      err += part.toString();
    });
    const saysOut = (pattern: RegExp) =>
      expect.poll(() => out, { timeout: 60_000 }).toMatch(pattern);
    const saysErr = (pattern: RegExp) =>
      expect.poll(() => err, { timeout: 60_000 }).toMatch(pattern);

    await saysOut(/^STATE +TARGET[^]*^\S+ \w+ +shd\/demo\/orders/m);
    await patchShard({ spec: { paused: true } });
    await saysOut(/^‖ paused +shd\/demo\/orders/m);
    await controlPlane.kill('apiServer');
    await saysErr(/no news from the API server \(/);
    await controlPlane.restart('apiServer');
    await saysErr(/the API server is back/);
    out = '';
    await patchShard({ spec: { paused: false } });
    await saysOut(/shd\/demo\/orders/);
    child.kill('SIGINT');

    expect(await once(child, 'close')).toEqual([0, null]);
  });
});
