import { describe, expect, test } from 'vitest';
import { releasedClaim } from '#shared/api/annotations.ts';
import { claimName, sharedBackupClaimName } from '#shared/api/names.ts';
import type { Database } from '#shared/api/database.ts';
import { decide } from '#functions/pool-pods/decide.ts';
import { mayLackClaims, needsClaims } from '#functions/pool-pods/plan.ts';
import { aShard } from '#test/builders/shard.ts';
import { Run } from './a-run.ts';
import {
  aSnapshotOf,
  conditionIn,
  effectOf,
  notRead,
  now,
  onSharedClaim,
  writesOf,
} from './a-snapshot.ts';

const name = sharedBackupClaimName('orders');

const onFilesystem: Pick<Database['spec'], 'backup'> = {
  backup: {
    repository: {
      type: 'filesystem',
      filesystem: {
        path: '/backups',
        storage: { size: '50Gi', className: 'nfs', accessModes: ['ReadWriteMany'] },
      },
    },
  },
};

/** A converged shard of so many, with the claim that its backups are on; modifiers take it away from there. */
function aSharingShardOf(count: number) {
  return aSnapshotOf(count).withWiring(onSharedClaim).withSharedClaim();
}

describe('the claim of the backups', () => {
  test('has a name of its own, which no member’s claim has', () => {
    expect(name).toBe('backup-data-orders');
  });

  test('is made before the first pod that mounts it, once for the shard', () => {
    const shard = aShard().withPool(2, { cells: ['zone-a', 'zone-b'] });
    const builder = aSnapshotOf(0, shard).withWiring(onSharedClaim);

    const writes = writesOf(decide(builder.snapshot, now));

    expect(writes.filter((write) => write.endsWith(name))).toEqual([
      `create PersistentVolumeClaim ${name}`,
    ]);
    expect(writes.indexOf(`create PersistentVolumeClaim ${name}`)).toBeLessThan(
      writes.findIndex((write) => write.startsWith('create Pod ')),
    );
  });

  test('has the repository’s storage, the shard’s label, no member’s, and no owner', async () => {
    const run = new Run(aShard().withPool(3), onFilesystem);

    await run.settle();

    const claim = run.kube.the('PersistentVolumeClaim', name);
    expect(claim.metadata.labels).toEqual({ 'millrace.dev/shard': 'orders' });
    expect(claim.metadata.ownerReferences).toBeUndefined();
    expect(claim.spec).toEqual({
      accessModes: ['ReadWriteMany'],
      resources: { requests: { storage: '50Gi' } },
      storageClassName: 'nfs',
    });
    expect(run.kube.all('Pod').map(({ spec }) => spec?.volumes)).toEqual(
      [0, 1, 2].map((index) => [
        { name: 'backup', persistentVolumeClaim: { claimName: name } },
        { name: 'data', persistentVolumeClaim: { claimName: claimName(run.pod(index)) } },
      ]),
    );
  });

  test('is not asked for while nobody needs it, though the Database names a file system', () => {
    const { snapshot } = aSnapshotOf(3).withWiring(onSharedClaim).with({ claims: notRead });

    expect([mayLackClaims(snapshot), needsClaims(snapshot)]).toEqual([false, false]);
    expect(writesOf(decide(snapshot, now))).toEqual([]);
  });

  test('is made again where a member has yet to start', () => {
    const builder = aSnapshotOf(3)
      .withWiring(onSharedClaim)
      .withPod(1, { isReady: false, hasStarted: false });

    const decision = decide(builder.snapshot, now);

    expect(writesOf(decision)).toEqual([`create PersistentVolumeClaim ${name}`]);
  });

  test('is left as it is, whatever its mark says, when a member is made', () => {
    const builder = aSharingShardOf(3).withoutPod(1);

    const decision = decide(builder.snapshot, now);

    expect(writesOf(decision)).toEqual([`create Pod ${builder.pod(1)}`]);
  });

  test('keeps members off while it is going, and is waited for', () => {
    const { snapshot } = aSnapshotOf(3)
      .withWiring(onSharedClaim)
      .withSharedClaim({ isBeingDeleted: true })
      .withoutPod(1);

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({
      outcome: 'waiting',
      reason: 'NameBeingFreed',
      wake: { every: 5 },
      message: `waiting until the former object of this name is gone: PersistentVolumeClaim ${name}`,
    });
    expect(writesOf(decision)).toEqual(['advance']);
    expect(conditionIn(decision, 'Reconciling')).toBe('True NameBeingFreed');
  });

  test.each([
    ['has other labels', { labels: {} }],
    ['has a controller', { hasController: true }],
  ])('is never used where it %s', (_what, changes) => {
    const { snapshot } = aSnapshotOf(3)
      .withWiring(onSharedClaim)
      .withSharedClaim(changes)
      .withoutPod(1);

    const decision = decide(snapshot, now);

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'NameTaken' });
    expect(decision.message).toContain(`PersistentVolumeClaim ${name}`);
    expect(writesOf(decision)).toEqual(['advance']);
  });

  test('keeps off only those who mount it', () => {
    const spec = { containers: [{ name: 'pooler', image: 'pooler:1' }] };
    const shard = aShard().withPool(1, { podTemplate: { spec } });
    const builder = aSnapshotOf(1, shard)
      .withWiring(onSharedClaim)
      .withSharedClaim({ labels: {} })
      .withoutPod(0);

    expect(writesOf(decide(builder.snapshot, now))).toEqual([`create Pod ${builder.pod(0)}`]);
  });

  test('is needed by those who mount it alone, without a claim of their own', () => {
    const spec = {
      containers: [{ name: 'agent', volumeMounts: [{ name: 'backup', mountPath: '/repo' }] }],
    };
    const shard = aShard().withPool(1, { podTemplate: { spec } });
    const builder = aSnapshotOf(0, shard).withWiring(onSharedClaim);

    expect(writesOf(decide(builder.snapshot, now))).toEqual([
      `create PersistentVolumeClaim ${name}`,
      `create Pod ${builder.pod(0)}`,
    ]);
    expect(decide(builder.with({ claims: notRead }).snapshot, now)).toMatchObject({
      outcome: 'waiting',
      reason: 'ClaimsUnknown',
    });
  });

  test('is found by its name where somebody has it without our label', async () => {
    const run = new Run(aShard().withPool(1), onFilesystem);
    run.kube.put('PersistentVolumeClaim', {
      metadata: { name, namespace: 'db', uid: 'theirs', resourceVersion: '1' },
    });

    const decision = await run.settle();

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'NameTaken' });
    expect(run.indices).toEqual([]);
    expect(run.kube.the('PersistentVolumeClaim', name).metadata.uid).toBe('theirs');
  });

  test('of an earlier Shard of this name is used again', async () => {
    const run = new Run(aShard().withPool(1), onFilesystem);
    run.kube.put('PersistentVolumeClaim', {
      metadata: {
        name,
        namespace: 'db',
        uid: 'kept',
        resourceVersion: '1',
        labels: { 'millrace.dev/shard': 'orders' },
      },
    });

    await run.settle();

    expect(run.indices).toEqual([0]);
    expect(run.kube.the('PersistentVolumeClaim', name).metadata.uid).toBe('kept');
  });

  test('is counted with no member, and never marked, while members go and come', async () => {
    const run = new Run(aShard().withPool(3), onFilesystem);
    await run.settle();
    run.scaleTo(2);
    run.openDrain(2, 'finished', 'surplus');
    run.stop(2);
    await run.settle();
    run.closeDrain(2);
    run.scaleTo(3);

    await run.settle();

    const claim = run.kube.the('PersistentVolumeClaim', name);
    expect(run.indices).toEqual([0, 1, 2]);
    expect(run.kube.all('PersistentVolumeClaim')).toHaveLength(4);
    expect(claim.metadata.annotations?.[releasedClaim]).toBeUndefined();
  });

  test('D10: a look that was killed before any of its writes is made good by the next', async () => {
    const writesOfTheFirstLook = 10;

    for (let killedBefore = 0; killedBefore < writesOfTheFirstLook; killedBefore += 1) {
      const run = new Run(aShard().withPool(3), onFilesystem);
      let writes = 0;
      run.kube.beforeWrite = () => {
        if (writes === killedBefore) {
          throw new Error('the sandbox is killed here');
        }
        writes += 1;
      };

      await expect(run.look()).rejects.toThrow('the sandbox is killed here');
      run.kube.beforeWrite = () => undefined;
      await run.settle();

      expect(run.indices).toEqual([0, 1, 2]);
      expect(run.kube.all('PersistentVolumeClaim')).toHaveLength(4);
    }
  });
});

describe('a repository that changes', () => {
  test('shows on the pods that were made for another one, and a pod made anew has it', async () => {
    const run = new Run(aShard().withPool(2));
    await run.settle();
    run.editDatabase({
      backup: {
        repository: {
          type: 's3',
          s3: { bucket: 'backups', region: 'eu-west-1', credentialsSecret: 'backup-keys' },
        },
      },
    });

    const shown = await run.look();
    run.stop(1);
    await run.settle();

    const [old, anew] = run.kube.all('Pod');
    expect(conditionIn(shown, 'PodsUpToDate')).toBe('False TemplateChanged');
    expect(old?.spec?.containers[0]?.env).toBeUndefined();
    expect(anew?.spec?.containers[0]?.env?.map((variable) => variable.name)).toEqual([
      'AWS_ACCESS_KEY_ID',
      'AWS_SECRET_ACCESS_KEY',
    ]);
    expect(
      run.shard.status?.conditions?.find(({ type }) => type === 'PodsUpToDate')?.message,
    ).toContain(`${run.pod(0)};`);
  });

  test('without a repository a pod of any version before is as the spec has it', () => {
    const madeBefore = aSnapshotOf(1);
    const { pods } = madeBefore.snapshot;

    expect(pods).toMatchObject({
      value: [{ annotations: { 'millrace.dev/template': '1e56af8d' } }],
    });
    expect(conditionIn(decide(madeBefore.snapshot, now), 'PodsUpToDate')).toBe('True PodsUpToDate');
  });

  test('settles: a converged shard on a file system is not written to', async () => {
    const run = new Run(aShard().withPool(3), onFilesystem);
    await run.settle();
    await run.look();
    run.kube.calls.length = 0;

    await run.look();

    expect(run.kube.calls.filter((call) => !/^(get|list) /.test(call))).toEqual([]);
    expect(run.kube.calls).not.toContain('list PersistentVolumeClaim');
  });
});

describe('a Database that is not known', () => {
  test.each([
    ['missing', { kind: 'absent' } as const, 'blocked', 'DatabaseMissing'],
    ['unreadable', notRead, 'waiting', 'DatabaseUnknown'],
  ])('is told of also by a shard that lacks nothing: %s', (_what, database, outcome, reason) => {
    const decision = decide(aSnapshotOf(3).with({ database }).snapshot, now);

    expect(decision).toMatchObject({ outcome, reason, wake: { every: 60 } });
    expect(conditionIn(decision, 'PodsUpToDate')).toBe(`Unknown ${reason}`);
    expect(conditionIn(decision, 'Ready')).toBe('True MembersReady');
    expect(conditionIn(decision, 'Stalled')).toBe(`True ${reason}`);
    expect(effectOf(decision, 'advance').record?.wake).toEqual({ every: 60 });
  });

  test('is no matter for pods that are all somebody else’s', () => {
    const builder = aSnapshotOf(0, aShard().withAttachedPool(2)).with({ database: notRead });

    expect(decide(builder.snapshot, now).outcome).toBe('settled');
  });
});
