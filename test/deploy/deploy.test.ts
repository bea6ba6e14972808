import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { deadLetterQueueName, makeHint, queueName } from '#events/hint.ts';
import { findMissingPython } from '#infra/local/cloud/install.ts';
import { findMissingProgram } from '#infra/local/control-plane/binaries.ts';
import { kubectlProgram } from '#infra/local/control-plane/program.ts';
import { readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import { readLastLines } from '#infra/local/control-plane/log-tail.ts';
import { GoverseObserver } from '#infra/local/goverse/observer.ts';
import { startGoverseNode } from '#infra/local/goverse/start.ts';
import { type World, followWorld } from '#infra/local/show/world.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { releaseMirror } from '#shared/api/annotations.ts';
import type { BackupSchedule } from '#shared/api/backup.ts';
import { goverseLabel, shardLabel } from '#shared/api/labels.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { type StepName, functionNames, stepNames } from '#shared/api/steps.ts';
import { parseEntry } from '#shared/archive/segment.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { connectTopology } from '#shared/topology/connect.ts';
import { isRecordOfPod } from '#shared/topology/identity.ts';
import type { PoolerRecord } from '#shared/topology/topology.ts';
import { missingControlPlane } from '#test/cluster/local-control-plane.ts';
import {
  type Deployed,
  patienceSeconds,
  shardManifest,
  shardName,
  speed,
  startDeployed,
} from './deployed.ts';
import { clusterId, forgottenNamespace, namespace, stage } from './by-readme.ts';
import { archivedLines } from './stack-archive.ts';

/** Where the README makes a Shard, and lets a member of it leave. */
const firstShard = '### 7. The first Shard';

const shardCount = 256;
/** Three ticks: a leader that had anything left to do would have done it. */
const quietMs = 15_000 / speed;

/** Where every check must run, a missing program is a failure; elsewhere these tests are skipped, and say so. */
const isRequired = (process.env['CI'] ?? '') !== '';
const missing = isRequired
  ? undefined
  : (missingControlPlane ??
    (await findMissingProgram(undefined, [kubectlProgram]))?.message ??
    (await findMissingPython()));
if (missing !== undefined) {
  process.stderr.write(`deploy tests are skipped: ${missing}\n`);
}

/** The tests of one deployment: each goes on from where the one before it ended. */
describe.skipIf(missing !== undefined)('Millrace, packaged and deployed', () => {
  const running = new AsyncDisposableStack();
  let deployed: Deployed;
  let world: World;

  beforeAll(async () => {
    deployed = await startDeployed(running);
    ({ world } = deployed);
  });

  beforeEach(({ onTestFailed }) => {
    onTestFailed(async () => {
      const lines = await readLastLines(deployed.cloud.logPath, 40);
      process.stderr.write(`the last lines of the AWS stand-in:\n${lines.join('\n')}\n`);
    });
  });

  afterAll(() => running.disposeAsync());

  async function poolers(): Promise<readonly PoolerRecord[]> {
    const access = { endpoints: [deployed.topology.endpoint], globalRoot: '/multigres/global' };
    const reader = connectTopology(access, { namespace });
    running.defer(() => reader.close());
    const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };
    const read = await reader.poolers(shard, ['zone-a']);
    return read.kind === 'present' ? read.value.poolers : expect.unreachable(JSON.stringify(read));
  }

  async function setSchedules(schedules: readonly Partial<BackupSchedule>[]): Promise<void> {
    await deployed.patchShard({ spec: { backup: { schedules } } });
  }

  /** Resolves when a queue has nothing left, in hand or waiting: its last message has been looked at or put aside. */
  async function untilEmpty(queue: string): Promise<void> {
    await expect
      .poll(() => deployed.queues.size(queue), { timeout: patienceSeconds * 1000 })
      .toBe(0);
  }

  async function followForgotten() {
    const world = await followWorld(deployed.connection, forgottenNamespace);
    return { world, [Symbol.dispose]: () => world.close() };
  }

  /** A hint as whoever may send can write it. */
  function hintOf(step: StepName, source = clusterId): string {
    const { metadata } = world.get('Shard', shardName) ?? {};
    const uid = metadata?.uid ?? '';
    const target = { kind: 'Shard', plural: 'shards', namespace, name: shardName, uid };
    const token = `by hand ${crypto.randomUUID()}`;
    return JSON.stringify(
      makeHint({ step, cause: 'replay', source, target, token, at: wallClock() }),
    );
  }

  test('pool-pods makes three members of a Shard', async () => {
    await deployed.deployment.follow(firstShard, 0);
    await deployed.untilSettled(3);

    const created = await deployed.podsWritten('create');

    expect(created.map(({ userAgent }) => userAgent)).toEqual(
      Array.from({ length: 3 }, () => 'millrace/pool-pods'),
    );
  });

  test('drain-step drains exactly one member, under a finished record of its uid, and clears it (D3)', async () => {
    const before = new Map(world.all('Pod').map(({ metadata }) => [metadata.uid, metadata.name]));
    const drain = followDrain(world);

    await deployed.deployment.follow(firstShard, 1);
    await deployed.untilSettled(2);

    drain.close();
    const deleted = await deployed.podsWritten('delete');
    const gone = before
      .keys()
      .filter((uid) => world.all('Pod').every((pod) => pod.metadata.uid !== uid));
    expect(drain.states()).toEqual(['requested', 'draining', 'acknowledged', 'finished', 'none']);
    expect(deleted.map(({ name, userAgent }) => ({ name, userAgent }))).toEqual([
      { name: before.get(drain.podUid()), userAgent: 'millrace/drain-step' },
    ]);
    expect([...gone]).toEqual([drain.podUid()]);
    expect(drain.stateAtDeletion()).toBe('finished');
  });

  test('etcd-cleanup removes the record of the member that left, and no other (G5)', async () => {
    const lastRemoved = () => world.get('Shard', shardName)?.status?.cleanup?.lastRemoved;
    await world.until('a record was deleted', patienceSeconds, () => lastRemoved() !== undefined);

    const left = await poolers();

    const isAMembers = (record: PoolerRecord) =>
      world.all('Pod').some(({ metadata }) => isRecordOfPod(record, metadata.name));
    expect(left).toHaveLength(2);
    expect(left.filter((record) => !isAMembers(record))).toEqual([]);
    expect(left.map(({ id }) => id.name)).not.toContain(lastRemoved()?.pooler);
  });

  test('shard-release hands the shards of a node over before its pod is let go', async () => {
    const prefix = '/goverse';
    const { endpoint } = deployed.topology;
    const observer = running.use(await GoverseObserver.open({ endpoint, prefix, shardCount }));
    const nodes = await Promise.all(
      [0, 1, 2].map(async (number) => {
        const address = `node-${number}.nodes.db.svc:48000`;
        const options = { endpoint, prefix, address, shardCount, speed };
        return running.use(await startGoverseNode(options));
      }),
    );
    for (const number of nodes.keys()) {
      await deployed.create(collectionPath('Pod', namespace), aGoversePod(`node-${number}`));
    }
    await deployed.create(collectionPath('GoverseCluster', namespace), {
      apiVersion: 'millrace.dev/v1alpha1',
      kind: 'GoverseCluster',
      metadata: { name: 'objects' },
      spec: {
        topology: { endpoints: [endpoint], prefix },
        shards: shardCount,
        shutdown: { mode: 'clean', timeout: '60s' },
      },
    });
    await observer.settled(quietMs, patienceSeconds * 1000);

    const path = `${collectionPath('Pod', namespace)}/node-0`;
    await deployed.connection.request({ method: 'DELETE', path });
    await world.until('the node may go', patienceSeconds, () =>
      world
        .all('Pod')
        .some(
          ({ metadata }) =>
            metadata.name === 'node-0' && metadata.annotations?.[releaseMirror] === 'released',
        ),
    );
    const left = observer.loads().get('node-0.nodes.db.svc:48000');
    await nodes[0]?.stop();
    await deployed.connection.request({ method: 'DELETE', path, body: { gracePeriodSeconds: 0 } });
    await observer.until((seen) => seen.marked().length === 0, patienceSeconds * 1000);

    expect(left).toBeUndefined();
    expect([...observer.loads().keys()].toSorted()).toEqual(observer.nodes);
    expect(observer.nodes).toHaveLength(2);
  });

  test('each slot of a schedule makes one backup, which the data plane has (B2, B3)', async () => {
    const before = (await backupsInRepository(deployed.dataPlane.adminUrl)).length;
    const often = { name: 'often', every: '10s', type: 'incremental' } as const;
    const slots = followSlots(world, often.name);

    await setSchedules([often]);
    await world.until('two slots have succeeded', patienceSeconds, () => slots.ended.size >= 2);
    await setSchedules([{ ...often, suspend: true }]);
    await world.until('nothing runs', patienceSeconds, () => {
      const { metadata, status } = world.get('Shard', shardName) ?? {};
      const record = metadata?.annotations?.['step.millrace.dev/backup-trigger'] ?? '';
      const isIdle = record.includes('"off":true') && record.includes('"state":"idle"');
      // The status is written after the record.
      return isIdle && status?.nextBackup === undefined;
    });

    slots.close();
    const made = (await backupsInRepository(deployed.dataPlane.adminUrl)).slice(before);
    const status = world.get('Shard', shardName)?.status;
    expect(new Set(slots.ended.values())).toEqual(new Set(['succeeded']));
    expect(made).toHaveLength(slots.ended.size);
    expect(new Set(made.map(({ jobId }) => jobId)).size).toBe(made.length);
    expect(status?.lastBackup?.any).toBeDefined();
    expect(status?.conditions?.find(({ type }) => type === 'BackupsOnSchedule')).toMatchObject({
      status: 'True',
      reason: 'OnSchedule',
    });
  });

  test('a drain whose relay is killed half-way goes on with the next one, to one deleted pod', async () => {
    await deployed.setReplicas(3);
    await deployed.untilSettled(3);
    const before = new Map(world.all('Pod').map(({ metadata }) => [metadata.uid, metadata.name]));
    const deletedBefore = await deployed.podsWritten('delete');
    const drain = followDrain(world);

    await deployed.setReplicas(2);
    await world.until('the drain is under way', patienceSeconds, () =>
      drain.states().includes('draining'),
    );
    await deployed.relay.kill();
    const statesAtKill = drain.states();
    await deployed.relay.start();
    await deployed.untilSettled(2);

    drain.close();
    const deleted = (await deployed.podsWritten('delete')).slice(deletedBefore.length);
    expect(statesAtKill).not.toContain('finished');
    expect(drain.states()).toEqual(['requested', 'draining', 'acknowledged', 'finished', 'none']);
    expect(deleted.map(({ name, userAgent }) => ({ name, userAgent }))).toEqual([
      { name: before.get(drain.podUid()), userAgent: 'millrace/drain-step' },
    ]);
  });

  test('what is no hint goes to the dead-letter queue of each step', async () => {
    const queues = stepNames.map(async (step) => {
      const body = `no hint for ${step}`;

      await deployed.queues.send(queueName(stage, step), [body], deployed.deployment.replayer);

      expect(await deployed.queues.look(deadLetterQueueName(stage, step), 1)).toEqual([body]);
    });
    await Promise.all(queues);
  });

  test('hints that the functions refuse are kept, and take effect once the cause is mended and they are replayed; the rest stays', async () => {
    const { queues, deployment, log, relay } = deployed;
    const step = 'pool-pods';
    const [queue, deadLetters] = [queueName(stage, step), deadLetterQueueName(stage, step)];
    const forgotten = running.use(await followForgotten());
    const kept = await queues.look(deadLetters, 1);
    const poison = ['garbage', hintOf(step, 'another-cluster'), `"${'x'.repeat(2_000)}"`];
    const healthy = hintOf(step);

    // One batch: a message that fails must take none of its neighbours along.
    await queues.send(queue, [...poison, healthy], deployment.replayer);
    await deployed.createDatabase(forgottenNamespace);
    await deployed.create(
      collectionPath('Shard', forgottenNamespace),
      shardManifest('forgotten', 1),
    );
    await queues.look(deadLetters, kept.length + poison.length + 1);
    const looksBefore = looksFor(healthy);
    await relay.stop();
    await untilEmpty(queue);
    const letters = await queues.look(deadLetters, await queues.size(deadLetters));
    const refused = letters.filter((body) => ![...kept, ...poison].includes(body));

    await deployment.rememberNamespace();
    const said = await deployment.replayDeadLetters();
    await forgotten.world.until('the forgotten Shard has its member', patienceSeconds, () =>
      forgotten.world
        .all('Pod')
        .some(({ metadata }) => metadata.labels?.[shardLabel] === 'forgotten'),
    );
    const back = await queues.look(deadLetters, kept.length + poison.length);
    await untilEmpty(queue);
    await relay.start();

    expect(letters).toEqual(expect.arrayContaining([...kept, ...poison]));
    expect(looksBefore).toBe(1);
    expect(refused.length).toBeGreaterThan(0);
    // Hints about one target that come in one batch share a look.
    expect(refused.map(looksFor).filter((looks) => looks > 1)).toEqual([]);
    expect(refused.map(looksFor)).toContain(1);
    expect(said).toMatch(/pool-pods +shd\/web\/forgotten +\d+ +acting ObjectsMade/);
    expect(said).toMatch(/^\d+ hints? sent again, and (its letter|their letters) deleted$/m);
    expect(back.toSorted()).toEqual([...kept, ...poison].toSorted());
    expect(await queues.size(deadLetters)).toBe(back.length);

    function looksFor(hint: string): number {
      const { id } = hintIdSchema.parse(JSON.parse(hint));
      return log.decisions(step).filter((line) => line.hint === id).length;
    }
  });

  test.each(stepNames)('nobody sends to the queue of %s but who is named', async (step) => {
    const { queues, deployment } = deployed;
    const hint = hintOf(step);

    const sending = queues.send(queueName(stage, step), [hint], deployment.stranger);

    await expect(sending).rejects.toThrow(/AccessDenied|not authorized|is denied/);
    await queues.send(queueName(stage, step), [hint], deployment.replayer);
  });

  test.each(stepNames)('nobody reads the dead letters of %s without TLS', async (step) => {
    const { queues, deployment } = deployed;

    const reading = queues.receiveInPlainText(
      deadLetterQueueName(stage, step),
      deployment.stranger,
    );

    await expect(reading).rejects.toThrow(/AccessDenied|not authorized|is denied/);
  });

  test('without a relay the sweep alone tells of a new Shard, and of the API server it only asks for lists', async () => {
    await deployed.relay.stop();

    await deployed.create(collectionPath('Shard', namespace), shardManifest('latecomer', 1));
    await deployed.deployment.hastenSweep();
    await world.until('the latecomer has its member', patienceSeconds, () =>
      world.all('Pod').some(({ metadata }) => metadata.labels?.[shardLabel] === 'latecomer'),
    );

    const log = await readAuditLog(deployed.controlPlane.auditLogPath);
    const asked = log.filter(({ userAgent }) => userAgent === 'millrace/sweep');
    expect(new Set(asked.map(({ verb, resource }) => `${verb} ${resource}`))).toEqual(
      new Set(['list shards', 'list databases', 'list goverseclusters']),
    );
  });

  test('no token stands in what was packaged or logged', async () => {
    const { cloud, deployment } = deployed;
    const tokens = await deployed.functionTokens();
    const folder = join(deployment.project, '.serverless');
    const files = await readdir(folder);
    const texts = [cloud.logPath, ...files.map((file) => join(folder, file))];

    const contents = await Promise.all(texts.map((path) => readFile(path)));

    const log = contents[0]?.toString() ?? '';
    expect(log).toContain('"msg":"decision"');
    expect(log).toContain('hint refused');
    expect(new Set(tokens).size).toBe(functionNames.length);
    expect(contents.filter((content) => tokens.some((token) => content.includes(token)))).toEqual(
      [],
    );
  });

  test('every look of every step is in the archive of the stack, or its log says that it is not; and no token', async () => {
    const { cloud, log } = deployed;
    const tokens = await deployed.functionTokens();

    const lines = await archivedLines(cloud);

    const looks = lines.flatMap((line) => {
      const entry = parseEntry(line);
      return entry?.kind === 'decision' && entry.result.kind === 'done' ? [entry] : [];
    });
    for (const step of stepNames) {
      const told = log.decisions(step).filter(({ reason }) => reason !== 'TargetGone');
      const hints = new Set(looks.filter((look) => look.step === step).map(({ hint }) => hint.id));
      // Where the machine is too slow for a first write within its time, a warning says how many looks it cost.
      const unwritten = new Set(
        log.lines
          .filter((line) => line.msg === 'looks not recorded' && line.step === step)
          .map(({ requestId }) => requestId),
      );
      expect(hints.size, step).toBeGreaterThan(0);
      expect(
        told.filter(({ hint, requestId }) => !hints.has(String(hint)) && !unwritten.has(requestId)),
        step,
      ).toEqual([]);
    }
    expect(lines.filter((line) => tokens.some((token) => line.includes(token)))).toEqual([]);
  });

  test('the API server would do what the page of what is installed has it do', async () => {
    const told = await deployed.deployment.tryInstall();

    expect(told).toContain('deployment.apps/millrace-relay serverside-applied (server dry run)');
  });

  test('removed as the README has it, Millrace leaves Shards and pods alone, and nothing of its own behind', async () => {
    const { connection, queues, deployment } = deployed;
    const podsBefore = world.all('Pod').map(({ metadata }) => metadata.uid);

    // Its pods would go with their namespace.
    await deployed.relay.stop();
    await deployment.remove();

    const left = await Promise.all(
      ['clusterroles', 'clusterrolebindings', 'roles', 'rolebindings'].map(async (plural) => {
        const { body } = await connection.request({
          method: 'GET',
          path: `/apis/rbac.authorization.k8s.io/v1/${plural}`,
          query: { labelSelector: 'app.kubernetes.io/part-of=millrace' },
        });
        return listedSchema.parse(body).items.length;
      }),
    );
    expect(deployment.notFollowed()).toEqual([]);
    expect(left).toEqual([0, 0, 0, 0]);
    expect(await queues.names()).toEqual([]);
    expect(await deployed.functionTokens()).toEqual([]);
    expect(world.get('Shard', shardName)?.metadata.deletionTimestamp).toBeUndefined();
    expect(world.all('Pod').map(({ metadata }) => metadata.uid)).toEqual(podsBefore);
  });
});

const listedSchema = z.looseObject({ items: z.array(z.unknown()) });

const hintIdSchema = z.looseObject({ id: z.string() });

const listSchema = z.object({ backups: z.array(z.object({ jobId: z.string() })) });

/** What the data plane's admin service itself says of the shard's backups. */
async function backupsInRepository(adminUrl: string) {
  const query = 'database=postgres&tableGroup=default&shard=0-inf';
  const answer = await fetch(`${adminUrl}/api/v1/backups?${query}`);
  return listSchema.parse(await answer.json()).backups;
}

/** How the slots of a schedule end, each as the Shard's status tells it. */
function followSlots(world: World, schedule: string) {
  const ended = new Map<string, string>();
  const close = world.onChange(() => {
    const { backups = [] } = world.get('Shard', shardName)?.status ?? {};
    const told = backups.find((each) => each.schedule === schedule);
    if (told?.lastSlot !== undefined && told.lastResult !== undefined) {
      ended.set(told.lastSlot, told.lastResult);
    }
  });
  return { ended, close };
}

/** Nobody but Millrace and this test act on it: its kubelet would be this test. */
function aGoversePod(name: string): JsonObject {
  return {
    metadata: { name, labels: { [goverseLabel]: 'objects' } },
    spec: {
      nodeName: 'somewhere',
      terminationGracePeriodSeconds: 120,
      containers: [{ name: 'goverse', image: 'goverse' }],
    },
  };
}

/** What a drain looks like from outside, change by change. Versions order what two watches tell. */
function followDrain(world: World) {
  const states: { state: string; version: bigint; podUid?: string }[] = [];
  const deletions = new Map<string, bigint>();
  const close = world.onChange(() => {
    const shard = world.get('Shard', shardName);
    const record = shard === undefined ? undefined : readDrainRecord(shard.metadata);
    const state = record?.kind === 'ours' ? record.record.state : (record?.kind ?? 'gone');
    if (shard !== undefined && state !== (states.at(-1)?.state ?? 'none')) {
      const version = BigInt(shard.metadata.resourceVersion);
      const data = record?.kind === 'ours' ? record.record.data : {};
      states.push({ state, version, ...('podUid' in data ? { podUid: data.podUid } : {}) });
    }
    for (const { metadata } of world.all('Pod')) {
      if (metadata.deletionTimestamp !== undefined && !deletions.has(metadata.uid)) {
        deletions.set(metadata.uid, BigInt(metadata.resourceVersion));
      }
    }
  });
  const podUid = () => states.find((each) => each.podUid !== undefined)?.podUid ?? '';
  return {
    close,
    podUid,
    states: () => states.map(({ state }) => state),
    /** The record that was in force when the pod's deletion was written. */
    stateAtDeletion: () =>
      states.findLast(({ version }) => version < (deletions.get(podUid()) ?? 0n))?.state,
  };
}
