import { setTimeout as delay } from 'node:timers/promises';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { leadOf, prepare, setReplicas, untilAsked, untilSteady } from '#infra/local/show/acts.ts';
import type { Condition, ShardStatus } from '#shared/api/shard.ts';
import {
  ComponentType,
  IDSchema,
  MultipoolerSchema,
} from '#shared/topology/proto/clustermetadata_pb.ts';
import type { PoolerRecord } from '#shared/topology/topology.ts';
import { seeded } from '#test/unit/events/relay/seeded.ts';
import { useStage } from './a-stage.ts';

/** Seeded moments at which the worker is killed; `MILLRACE_KILLS=100` for a long run by hand. */
const kills = Number(process.env['MILLRACE_KILLS'] ?? 5);

const stageUnderTest = useStage();

const rangeSchema = z.object({ kvs: z.array(z.object({ value: z.base64() })).default([]) });

async function etcd(path: string, body: object): Promise<unknown> {
  const answer = await fetch(`${stageUnderTest().stage.topologyEndpoint}/v3${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
  });
  expect(answer.status).toBe(200);
  return answer.json();
}

function encode(value: string | Uint8Array): string {
  return Buffer.from(value).toString('base64');
}

/** The key of the record of a pooler with this name beside one that there is. */
function keyBeside({ key, id }: PoolerRecord, name: string): string {
  return key.replace(`-${id.name}/Pooler`, `-${name}/Pooler`);
}

/** What a pooler of this name would leave if it were killed: a live one's record, under its own name. */
async function leaveRecord(live: PoolerRecord, name: string, hostname = name): Promise<void> {
  const { kvs } = rangeSchema.parse(await etcd('/kv/range', { key: encode(live.key) }));
  const message = fromBinary(MultipoolerSchema, Buffer.from(kvs[0]?.value ?? '', 'base64'));
  const { cell } = live.id;
  message.id = create(IDSchema, { component: ComponentType.MULTIPOOLER, cell, name });
  message.hostname = hostname;
  const value = encode(toBinary(MultipoolerSchema, message));
  await etcd('/kv/put', { key: encode(keyBeside(live, name)), value });
}

async function recordOf(name: string): Promise<PoolerRecord | undefined> {
  return (await stageUnderTest().stage.poolers()).find(({ id }) => id.name === name);
}

async function aReplica(): Promise<PoolerRecord> {
  const records = await stageUnderTest().stage.poolers();
  const replica = records.find(
    ({ role, lifecycle }) => role === 'replica' && lifecycle === 'active',
  );
  return replica ?? expect.unreachable();
}

function statusOf(): ShardStatus | undefined {
  const { world, shard } = stageUnderTest().stage;
  return world.get('Shard', shard)?.status;
}

function topologyClean(): Condition | undefined {
  return statusOf()?.conditions?.find(({ type }) => type === 'TopologyClean');
}

async function until(what: string, holds: () => boolean): Promise<void> {
  await stageUnderTest().stage.world.until(what, 90, holds);
}

async function setCleanup(cleanup: object): Promise<void> {
  await stageUnderTest().patchShard({ spec: { cleanup } });
}

/** What etcd-cleanup notices by itself within the relay's resync, asked for now. */
async function lookNow(): Promise<void> {
  lookNow.count += 1;
  const annotations = { 'millrace.dev/reconcile': `cleanup-${lookNow.count}` };
  await stageUnderTest().patchShard({ metadata: { annotations } });
}
lookNow.count = 0;

/** Name and revision of the records of those who live. */
async function revisions(): Promise<Readonly<Record<string, string>>> {
  const pods = new Set(
    stageUnderTest()
      .stage.world.all('Pod')
      .map(({ metadata }) => metadata.name),
  );
  const records = await stageUnderTest().stage.poolers();
  return Object.fromEntries(
    records
      .filter(({ id, hostname }) => pods.has(id.name) || pods.has(hostname.split('.')[0] ?? ''))
      .map(({ id, modRevision }) => [id.name, modRevision]),
  );
}

describe('the topology of a shard on a real API server', () => {
  test('loses the record of a member that left, and keeps the others’', async () => {
    const { stage } = stageUnderTest();
    await prepare(stage);
    await setCleanup({ quietFor: '5s', deleteAfter: '6s' });
    const before = (await stage.poolers()).map(({ id }) => id.name);

    await setReplicas(stage, 2);
    await untilSteady(stage, 2);
    await until('a record was deleted', () => statusOf()?.cleanup?.lastRemoved !== undefined);
    await until('nothing is left to be cleaned', () => topologyClean()?.status === 'True');

    const after = (await stage.poolers()).map(({ id }) => id.name);
    const gone = before.filter((name) => !after.includes(name));
    expect(gone).toHaveLength(1);
    expect(statusOf()?.cleanup?.lastRemoved?.pooler).toContain(gone[0]);
    expect((await leadOf(stage)).cohort).toHaveLength(2);
  });

  test('loses what killed poolers left, and keeps live ones whose names are only like theirs (G5)', async () => {
    const { stage, decisions } = stageUnderTest();
    await prepare(stage);
    await setCleanup({ quietFor: '5s', deleteAfter: '6s', maxPerPass: 2 });
    const live = await aReplica();
    const like = [`${live.id.name}0`, `${live.id.name}.svc`.replaceAll('.', '-')];
    for (const name of like) {
      await leaveRecord(live, name, `${name}.elsewhere`);
    }
    const before = await revisions();
    decisions.length = 0;

    await lookNow();
    await until('both are told', () => statusOf()?.cleanup?.candidates?.length === 2);
    await untilAsked('both are gone', async () => (await stage.poolers()).length === 3);
    await until('that is told', () => topologyClean()?.status === 'True');

    const times = (reason: string) =>
      decisions.filter((it) => it.step === 'etcd-cleanup' && it.reason === reason).length;
    await expect.poll(() => times('PoolerDeleted'), { timeout: 30_000 }).toBe(2);
    expect(times('PoolerRetired')).toBe(2);
    expect(await revisions()).toEqual(before);
  });

  test('keeps a record that is only to be told of, and one that cannot be decoded', async () => {
    const { stage } = stageUnderTest();
    await prepare(stage);
    await setCleanup({ quietFor: '5s', deleteAfter: '6s', enabled: false });
    const live = await aReplica();
    const broken = keyBeside(live, 'broken-1');
    await leaveRecord(live, 'gone-1');
    await etcd('/kv/put', { key: encode(broken), value: encode('no record') });

    await lookNow();
    await until('both are told', () => statusOf()?.cleanup?.candidates?.length === 2);
    const toldOnly = statusOf()?.cleanup?.candidates;
    await setCleanup({ enabled: true });
    await untilAsked(
      'the readable one is gone',
      async () => (await recordOf('gone-1')) === undefined,
    );
    await until('that is told', () => statusOf()?.cleanup?.candidates?.length === 1);

    expect(toldOnly).toMatchObject([
      { pooler: broken, why: 'Undecodable' },
      { pooler: `${live.id.cell}/gone-1`, why: 'NoPod' },
    ]);
    expect(topologyClean()).toMatchObject({ status: 'False', reason: 'RecordsLeft' });
    const { kvs } = rangeSchema.parse(await etcd('/kv/range', { key: encode(broken) }));
    expect(kvs).toHaveLength(1);
    await etcd('/kv/deleterange', { key: encode(broken) });
    await lookNow();
    await until('it is clean again', () => topologyClean()?.status === 'True');
  });

  test('is left as it is while its store cannot be reached, and while the admin service is down', async () => {
    const { stage, topologyEtcd, dataPlane, decisions } = stageUnderTest();
    await prepare(stage);
    await setCleanup({ quietFor: '5s', deleteAfter: '6s' });
    await leaveRecord(await aReplica(), 'gone-2');
    decisions.length = 0;
    await dataPlane.faults.inject({ kind: 'adminDown' });
    await lookNow();
    await untilAsked('nobody vouches for its silence', async () =>
      decisions.some(({ step, reason }) => step === 'etcd-cleanup' && reason === 'NoAgreedPrimary'),
    );
    const kept = await recordOf('gone-2');
    await topologyEtcd.kill();
    await lookNow();
    await until('that is told', () => topologyClean()?.reason === 'TopologyUnknown');
    await topologyEtcd.restart();
    await dataPlane.faults.lift();
    await lookNow();
    await untilAsked('the record is gone', async () => (await recordOf('gone-2')) === undefined);

    expect(kept).toMatchObject({ lifecycle: 'active', serving: 'serving' });
  });

  test.each(Array.from({ length: kills }, (_, seed) => seed))(
    'is cleaned, and no live record is written, when the worker is killed at some moment, seed %i (G5)',
    async (seed) => {
      const { stage } = stageUnderTest();
      await prepare(stage);
      await setCleanup({ quietFor: '5s', deleteAfter: '6s', maxPerPass: 2 });
      const live = await aReplica();
      await leaveRecord(live, 'gone-3');
      await leaveRecord(live, `${live.id.name}1`);
      const before = await revisions();

      await lookNow();
      await Promise.all([
        delay(seeded(seed)() * 16_000).then(() => stage.millrace.killAndAwaitRestart('worker')),
        untilAsked('both are gone', async () => (await stage.poolers()).length === 3),
      ]);

      expect(await revisions()).toEqual(before);
    },
  );
});
