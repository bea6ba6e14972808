import { describe, expect, test } from 'vitest';
import { shardLabel } from '#shared/api/labels.ts';
import { podBaseName, podName } from '#shared/api/names.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { type Read, present, unknown } from '#shared/kernel/read.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import type { PoolerListing, PoolerRecord } from '#shared/topology/topology.ts';
import { observe } from '#functions/etcd-cleanup/observe.ts';
import type { CleanupRecord } from '#functions/etcd-cleanup/record.ts';
import { aDrainOf } from '#test/builders/drain-record.ts';
import { KubeModel } from '#test/builders/kube-model.ts';
import { type ShardBuilder, aDatabase, aShard, shardUid } from '#test/builders/shard.ts';
import { aPooler, aStatus, now, rule, seenFor } from './a-cleanup.ts';
import { noGoverse } from '#test/builders/no-goverse.ts';

const base = podBaseName('orders', 'main', 'zone-a');
const member = podName(base, 0);
const led = aPooler(member, { role: 'primary', rule });
const dead = aPooler('gone-1');

/** A shard of one member on a model API server, and ports that write down what they are asked. */
function aWorld(
  builder: ShardBuilder = aShard().withPool(1),
  records: readonly PoolerRecord[] = [led],
  database: KubeObject<'Database'> = aDatabase(),
) {
  const shard = builder.build();
  const pod = (name: string, labels: object) => ({
    metadata: { name, namespace: 'db', uid: `${name}-uid`, resourceVersion: '1', labels },
  });
  const kube = new KubeModel()
    .put('Shard', shard)
    .put('Database', database)
    .put('Pod', pod(member, { [shardLabel]: 'orders' }))
    .put('Pod', pod('web-1', {}));
  const listing: Read<PoolerListing> = present({ poolers: records, undecodable: [] });
  const ports: Ports = {
    clusterId: 'test',
    kube,
    goverse: noGoverse,
    topology: () => ({
      poolers: async (key, cells) => {
        kube.calls.push(`poolers ${Object.values(key).join('/')} in ${cells.join(',')}`);
        return listing;
      },
      database: async () => unknown('this step does not ask'),
      backupLease: async () => unknown('this step does not ask'),
    }),
    repository: () => ({
      survey: () => Promise.reject(new Error('this step does not ask for it')),
    }),
    admin: () => ({
      poolerStatus: async ({ name }) => {
        kube.calls.push(`status ${name}`);
        return name === dead.id.name ? unknown('no answer') : present(aStatus(name));
      },
      backupJob: async () => unknown('this step does not ask'),
      backups: async () => unknown('this step does not ask'),
    }),
  };
  return {
    kube,
    look: () => observe(present(shard), ports, new AbortController().signal, () => now),
  };
}

function aRecord(change: Partial<CleanupRecord> = {}): CleanupRecord {
  return {
    v: 1,
    uid: shardUid,
    key: `etcd-cleanup/${shardUid}/1`,
    state: 'watching',
    generation: 1,
    attempt: 0,
    since: '2026-01-01T00:00:00Z',
    reason: 'StaleRecords',
    data: { seen: [seenFor(dead, 60)] },
    ...change,
  };
}

const twoPools = () =>
  aShard()
    .withPool(2, { cells: ['zone-a', 'zone-b'] })
    .withAttachedPool(4);

describe('a look', () => {
  test('at a shard whose records are all its members’ lists its poolers, then its pods, and asks nobody', async () => {
    const { kube, look } = aWorld();

    const seen = await look();

    expect(kube.calls).toEqual([
      'get Database',
      'poolers postgres/default/0-inf in zone-a',
      'list Pod',
    ]);
    expect(seen).toMatchObject({
      members: { kind: 'present', value: [member] },
      pods: { kind: 'unknown' },
      statuses: [],
    });
  });

  test('at first sight of a record without a member lists the namespace’s pods, and asks nobody', async () => {
    const { kube, look } = aWorld(undefined, [led, dead]);

    const seen = await look();

    expect(kube.calls.slice(2)).toEqual(['list Pod', 'list Pod']);
    expect(seen.pods).toEqual(present([member, 'web-1']));
  });

  test('at one that was seen before, unwritten, asks its pooler and the one that leads', async () => {
    const known = aShard().withPool(1).withRecord('etcd-cleanup', aRecord());
    const { kube, look } = aWorld(known, [led, dead]);

    const seen = await look();

    expect(kube.calls.slice(4)).toEqual([`status ${member}`, 'status gone-1']);
    expect(seen.statuses).toEqual([
      { id: led.id, status: present(aStatus(member)) },
      { id: dead.id, status: unknown('no answer') },
    ]);
  });

  test('asks every cell of every pool, and knows which members are to be made', async () => {
    const { kube, look } = aWorld(twoPools());

    const { shard } = await look();

    expect(kube.calls[1]).toBe('poolers postgres/default/0-inf in zone-a,zone-b');
    expect(shard.groups).toEqual([
      { base, replicas: 2 },
      { base: podBaseName('orders', 'main', 'zone-b'), replicas: 2 },
    ]);
    expect(shard).toMatchObject({
      isEnabled: true,
      quietSeconds: 600,
      deleteAfterSeconds: 86_400,
      maxPerPass: 1,
    });
  });

  test.each([
    ['paused', aShard().withPool(1).paused()],
    ['being deleted', aShard().withPool(1).beingDeleted()],
    [
      'with a record of another object',
      aShard()
        .withPool(1)
        .withRecord('etcd-cleanup', aRecord({ uid: 'other' })),
    ],
    [
      'with a record that cannot be read',
      aShard().withPool(1).withAnnotation('step.millrace.dev/etcd-cleanup', '{}'),
    ],
  ])('at a shard %s reads nothing else', async (_, builder) => {
    const { kube, look } = aWorld(builder);

    await look();

    expect(kube.calls).toEqual([]);
  });

  test('at a shard of a paused Database reads nothing of the data plane', async () => {
    const { kube, look } = aWorld(undefined, undefined, aDatabase({ paused: true }));

    await look();

    expect(kube.calls).toEqual(['get Database']);
  });

  test('takes pods that cannot be listed for unknown', async () => {
    const { kube, look } = aWorld(undefined, [led, dead]);
    kube.makeUnknown('list Pod');

    const seen = await look();

    expect(seen).toMatchObject({ members: { kind: 'unknown' }, statuses: [] });
  });

  test('knows whom drain-step brings out, and when that cannot be told', async () => {
    const open = await aWorld(
      aShard()
        .withPool(1)
        .withRecord('drain-step', aDrainOf(aShard().build(), 0, 'draining')),
    ).look();
    const broken = await aWorld(
      aShard().withPool(1).withAnnotation('step.millrace.dev/drain-step', '{}'),
    ).look();

    expect(open.drain).toMatchObject({ kind: 'open', pod: member });
    expect(broken.drain.kind).toBe('unknown');
  });
});
