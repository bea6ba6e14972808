import { describe, expect, test } from 'vitest';
import { confirmRepository, recordAnnotation } from '#shared/api/annotations.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { present } from '#shared/kernel/read.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { observe } from '#functions/backup-config/observe.ts';
import { KubeModel } from '#test/builders/kube-model.ts';
import { aDatabase, aShard } from '#test/builders/shard.ts';
import { type Repository, aBucket, aFilesystem, sound } from './a-look.ts';
import { noGoverse } from '#test/builders/no-goverse.ts';

const signal = new AbortController().signal;

/** A Database, and ports that write down what they answer. */
function aWorld(repository: Repository | null, changes: Partial<KubeObject<'Database'>> = {}) {
  const database: KubeObject<'Database'> = {
    ...aDatabase(repository === null ? {} : { backup: { repository } }),
    ...changes,
  };
  const kube = new KubeModel();
  const ports: Ports = {
    clusterId: 'test',
    kube,
    goverse: noGoverse,
    topology: () => ({
      poolers: () => expect.unreachable('no pooler is asked for'),
      backupLease: () => expect.unreachable('no lease is asked for'),
      database: async (name) => {
        kube.calls.push(`topology ${name}`);
        return present({ modRevision: '42', place: null, mustEncrypt: false });
      },
    }),
    admin: () => expect.unreachable('the admin service is not asked'),
    repository: () => ({
      survey: async () => {
        kube.calls.push('bucket');
        return sound;
      },
    }),
  };
  return { kube, look: () => observe(present(database), ports, signal) };
}

function withMetadata(metadata: Partial<KubeObject<'Database'>['metadata']>) {
  return { metadata: { ...aDatabase().metadata, ...metadata } };
}

function withRecord(data: object, uid = 'database-uid') {
  const record = {
    v: 1,
    uid,
    key: `backup-config/${uid}/1`,
    state: 'applying',
    generation: 1,
    attempt: 0,
    since: '2026-01-01T00:00:00Z',
    reason: 'RepositoryApplied',
    wake: { every: 5 },
    data,
  };
  const annotations = { [recordAnnotation('backup-config')]: JSON.stringify(record) };
  return withMetadata({ annotations });
}

const intent = { intent: { modRevision: '42', generation: 1 } };

describe('observing', () => {
  test('asks the topology, whose revision may be compared, before the bucket (X6)', async () => {
    const { kube, look } = aWorld(aBucket);

    expect(await look()).toMatchObject({
      topology: { kind: 'present' },
      survey: sound,
      shards: { kind: 'unknown', why: 'it was not asked' },
    });
    expect(kube.calls).toEqual(['topology postgres', 'bucket']);
  });

  test('asks nothing where nothing is wanted', async () => {
    const { kube, look } = aWorld(null);

    await look();

    expect(kube.calls).toEqual([]);
  });

  test('asks the topology all the same where a write of ours may be under way', async () => {
    const { kube, look } = aWorld(null, withRecord(intent));

    expect(await look()).toMatchObject({ record: { kind: 'ours' }, topology: { kind: 'present' } });
    expect(kube.calls).toEqual(['topology postgres']);
  });

  test.each([
    ['is being deleted', withMetadata({ deletionTimestamp: '2026-01-01T00:00:00Z' })],
    ['has a record of another object', withRecord(intent, 'another')],
    ['has a record that cannot be read', withRecord({ intent: 'x' })],
    [
      'is paused',
      { spec: { ...aDatabase({ backup: { repository: aBucket } }).spec, paused: true } },
    ],
  ])('asks nothing about a Database that %s', async (_what, changes) => {
    const { kube, look } = aWorld(aBucket, changes);

    await look();

    expect(kube.calls).toEqual([]);
  });

  test('counts who shares a file system that one node at a time can mount', async () => {
    const { kube, look } = aWorld(aFilesystem);
    kube
      .put(
        'Shard',
        aShard('orders')
          .withPool(2, { cells: ['a', 'b'] })
          .withPool(1)
          .build(),
      )
      .put('Shard', elsewhere());

    expect(await look()).toMatchObject({
      shards: { kind: 'present', value: [{ name: 'orders', members: 5, cells: 3 }] },
    });
    expect(kube.calls).toEqual(['topology postgres', 'list Shard']);
  });

  test('takes what people confirmed, and the status as it stands', async () => {
    const repository = { hash: 'abc', owner: 'test/db/main', checkedAt: '2026-01-01T00:00:00Z' };
    const { look } = aWorld(aBucket, {
      ...withMetadata({ annotations: { [confirmRepository]: 'abc' }, generation: 4 }),
      status: { observedGeneration: 3, repository },
    });

    expect((await look()).database).toMatchObject({
      cluster: 'test',
      generation: 4,
      confirmed: 'abc',
      observedGeneration: 3,
      repository,
      dataPlaneName: 'postgres',
    });
  });
});

/** A Shard of another Database. */
function elsewhere(): KubeObject<'Shard'> {
  const shard = aShard('users').withPool(3).build();
  return { ...shard, spec: { ...shard.spec, databaseRef: { name: 'users' } } };
}
