import { describe, expect, test } from 'vitest';
import { shardLabel } from '#shared/api/labels.ts';
import { sharedBackupClaimName } from '#shared/api/names.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { claimsLeftBehind } from '#functions/drain-step/leaving.ts';
import { observe } from '#functions/drain-step/observe.ts';
import { aDrainOf } from '#test/builders/drain-record.ts';
import { KubeModel } from '#test/builders/kube-model.ts';
import { aClaim, aPod } from '#test/builders/pod.ts';
import { type ShardBuilder, aDatabase, aShard } from '#test/builders/shard.ts';
import { aShardOf } from './a-drain.ts';
import { noGoverse } from '#test/builders/no-goverse.ts';

const signal = new AbortController().signal;
const notAsked = unknown('this step does not ask');

/** A shard with three ready members and its Database on a model API server, and ports that write down what they answer. */
function aWorld(builder: ShardBuilder) {
  const shard = builder.build();
  const kube = new KubeModel().put('Shard', shard).put('Database', aDatabase());
  [0, 1, 2].forEach((index) => kube.put('Pod', onNode(aPod(shard, index).ready().build())));
  kube.put('Node', {
    metadata: { name: 'node-1', uid: 'n', resourceVersion: '1' },
    status: { conditions: [{ type: 'Ready', status: 'True' }] },
  });
  const ports: Ports = {
    clusterId: 'test',
    kube,
    goverse: noGoverse,
    topology: () => ({
      poolers: async () => {
        kube.calls.push('topology');
        return aShardOf(3).build().topology;
      },
      database: neverAsked,
      backupLease: async () => notAsked,
    }),
    repository: neverAsked,
    admin: () => ({
      poolerStatus: async ({ name }) => {
        kube.calls.push(`status ${name}`);
        return absent;
      },
      backupJob: async () => notAsked,
      backups: async () => notAsked,
    }),
  };
  return { kube, shard, look: () => observe(present(shard), ports, signal) };
}

function neverAsked(): never {
  throw new Error('drain-step does not ask for backups');
}

function onNode(pod: KubeObject<'Pod'>): KubeObject<'Pod'> {
  return { ...pod, spec: { containers: [], ...pod.spec, nodeName: 'node-1' } };
}

describe('observing', () => {
  test('a shard from which nobody leaves costs two reads of the API server and the topology', async () => {
    const { kube, look } = aWorld(aShard().withPool(3));

    const snapshot = await look();

    expect(kube.calls).toEqual(['get Database', 'topology', 'list Pod']);
    expect(snapshot).toMatchObject({ statuses: [], claims: { kind: 'unknown' } });
  });

  test('a surplus is asked about in full, the topology before everything it is compared with (X6)', async () => {
    const { kube, look } = aWorld(aShard().withPool(2));

    await look();

    expect(kube.calls.slice(0, 3)).toEqual(['get Database', 'topology', 'list Pod']);
    expect(kube.calls.slice(3).toSorted()).toEqual([
      'list PersistentVolumeClaim',
      'status orders-0',
      'status orders-1',
      'status orders-2',
    ]);
  });

  test('the leaver’s node and every pod of the namespace are asked for only when it is gone', async () => {
    const base = aShard().withPool(2);
    const record = aDrainOf(base.build(), 2, 'finished');
    const there = aWorld(base.withRecord('drain-step', record));
    const gone = aWorld(base.withRecord('drain-step', record));
    gone.kube.remove('Pod', record.data.pod);

    await there.look();
    const snapshot = await gone.look();

    const lists = (calls: readonly string[]) => calls.filter((call) => call === 'list Pod').length;
    expect([lists(there.kube.calls), lists(gone.kube.calls)]).toEqual([1, 2]);
    expect(there.kube.calls).not.toContain('get Node');
    expect(Object.keys(snapshot.nodes)).toEqual([record.data.node]);
  });

  test('nothing at all is read for a paused shard or a record that is not to be obeyed', async () => {
    const paused = aWorld(aShard().withPool(2).paused());
    const unreadable = aWorld(
      aShard().withPool(2).withAnnotation('step.millrace.dev/drain-step', '{"v":9}'),
    );

    await paused.look();
    const snapshot = await unreadable.look();

    expect([...paused.kube.calls, ...unreadable.kube.calls]).toEqual([]);
    expect(snapshot.record.kind).toBe('unreadable');
  });

  test('the node of a pod that is not ready is asked for', async () => {
    const { kube, shard, look } = aWorld(aShard().withPool(3));
    kube.put('Pod', onNode(aPod(shard, 1).build()));

    const snapshot = await look();

    expect(snapshot.nodes).toEqual({ 'node-1': present({ isReady: true }) });
  });

  test('without a readable Database the topology is unknown, not empty', async () => {
    const { kube, look } = aWorld(aShard().withPool(2));
    kube.makeUnknown('get Database');

    const snapshot = await look();

    expect(kube.calls).not.toContain('topology');
    expect(snapshot.topology.kind).toBe('unknown');
  });

  test('pods are told apart: ours, of another controller, in another operator’s hands, asked to go', async () => {
    const { kube, shard, look } = aWorld(aShard().withPool(3));
    const [first, second, third] = [0, 1, 2].map((index) => aPod(shard, index).build());
    const stranger = {
      uid: 'somebody-else',
      kind: 'Other',
      apiVersion: 'v1',
      name: 'x',
      controller: true,
    };
    kube.put('Pod', { ...first, metadata: { ...first?.metadata, ownerReferences: [stranger] } });
    kube.put('Pod', {
      ...second,
      metadata: { ...second?.metadata, annotations: { 'drain.multigres.com/state': 'draining' } },
    });
    kube.put('Pod', {
      ...third,
      metadata: { ...third?.metadata, annotations: { 'millrace.dev/drain': 'please' } },
    });

    const { members } = await look();

    const seen = members.kind === 'present' ? members.value : [];
    expect(
      seen
        .toSorted((a, b) => a.index - b.index)
        .map(({ control, isMarkedByOthers, request }) => [control, isMarkedByOthers, request]),
    ).toEqual([
      ['foreign', false, null],
      ['ours', true, null],
      ['ours', false, 'please'],
    ]);
  });
});

describe('observing a shard whose surplus claims are to be deleted', () => {
  const deleting = (replicas: number) =>
    aShard().withPool(replicas, { pvcPolicy: { whenScaled: 'Delete' } });

  /** Three members on their claims, unless some have gone. */
  function withClaims(builder: ShardBuilder) {
    const world = aWorld(builder);
    [0, 1, 2].forEach((index) =>
      world.kube.put('PersistentVolumeClaim', aClaim(world.shard, index).build()),
    );
    return world;
  }

  /** The last pod has gone, and two members are all that are wanted. */
  function withClaimLeft() {
    const world = withClaims(deleting(2));
    world.kube.remove('Pod', aPod(world.shard, 2).build().metadata.name);
    return world;
  }

  test('costs one read more while every claim has its pod', async () => {
    const { kube, look } = withClaims(deleting(3));

    const snapshot = await look();

    expect(kube.calls).toEqual([
      'get Database',
      'topology',
      'list Pod',
      'list PersistentVolumeClaim',
    ]);
    expect(snapshot).toMatchObject({ statuses: [], claimsInUse: { kind: 'unknown' } });
  });

  test('asks nothing about claims while a member is missing, whose place one may take', async () => {
    const { kube, shard, look } = withClaims(deleting(3));
    kube.remove('Pod', aPod(shard, 2).build().metadata.name);

    await look();

    expect(kube.calls).not.toContain('list PersistentVolumeClaim');
  });

  test('asks who mounts a claim that has lost its pod after its version was read, then its pooler (S4)', async () => {
    const { kube, shard, look } = withClaimLeft();
    const { name } = aPod(shard, 2).build().metadata;

    const snapshot = await look();

    expect(kube.calls.slice(0, 5)).toEqual([
      'get Database',
      'topology',
      'list Pod',
      'list PersistentVolumeClaim',
      'list Pod',
    ]);
    expect(kube.calls).toContain('status orders-2');
    expect(snapshot.claims).toMatchObject({
      value: [{}, {}, { member: { pod: name, pool: 'main', cell: 'zone-a', index: 2 } }],
    });
    expect(snapshot.claimsInUse).toMatchObject({ kind: 'present' });
  });

  test("lists the pods of its own shard, and not a neighbour's", async () => {
    const { kube, shard, look } = withClaimLeft();
    const pod = aPod(shard, 0).build();
    kube.put('Pod', {
      ...pod,
      metadata: {
        ...pod.metadata,
        name: 'invoices-0',
        uid: 'invoices-0-uid',
        labels: { ...pod.metadata.labels, 'millrace.dev/shard': 'invoices' },
      },
    });

    const { members } = await look();

    expect(members).toMatchObject({ kind: 'present', value: [{}, {}] });
  });

  test('asks on while it is that claim which leaves', async () => {
    const base = deleting(2);
    const { uid } = aClaim(base.build(), 2).build().metadata;
    const drain = aDrainOf(base.build(), 2, 'requested');
    const record = { ...drain, data: { ...drain.data, podUid: uid, claimUid: uid, node: '' } };
    const world = withClaims(base.withRecord('drain-step', record));
    world.kube.remove('Pod', record.data.pod);

    const snapshot = await world.look();

    expect(world.kube.calls.filter((call) => call === 'list Pod')).toHaveLength(2);
    expect(world.kube.calls).not.toContain('get Node');
    expect(snapshot.claimsInUse.kind).toBe('present');
  });

  test.each([
    ['its cell is not the one its name was made of', { 'millrace.dev/cell': 'zone-b' }],
    ['its pool is not the one its name was made of', { 'millrace.dev/pool': 'other' }],
    ['it has the index of another', { 'millrace.dev/index': '1' }],
    ['its index is written otherwise', { 'millrace.dev/index': '02' }],
    ['its index is none', { 'millrace.dev/index': 'two' }],
    ['its index is higher than any', { 'millrace.dev/index': '100' }],
  ])('knows a claim as nobody’s where %s (S3)', async (_what, label) => {
    const { kube, shard, look } = withClaimLeft();
    const claim = aClaim(shard, 2);
    const labels = { ...claim.build().metadata.labels, ...label };
    kube.put('PersistentVolumeClaim', claim.withLabels(labels).build());

    const { claims } = await look();

    expect(claims).toMatchObject({ value: [{}, {}, { member: null }] });
  });

  test('knows a claim that something controls as nobody’s (S3)', async () => {
    const { kube, shard, look } = withClaimLeft();
    const claim = aClaim(shard, 2).build();
    const owner = { apiVersion: 'v1', kind: 'Pod', name: 'x', uid: 'x', controller: true };
    kube.put('PersistentVolumeClaim', {
      ...claim,
      metadata: { ...claim.metadata, ownerReferences: [owner] },
    });

    const { claims } = await look();

    expect(claims).toMatchObject({ value: [{}, {}, { member: null }] });
  });

  test('takes the claim that all members share for backups for nobody’s, and never for one left behind', async () => {
    const { kube, look } = withClaims(deleting(3));
    kube.put('PersistentVolumeClaim', {
      metadata: {
        name: sharedBackupClaimName('orders'),
        namespace: 'db',
        uid: 'shared',
        resourceVersion: '1',
        labels: { [shardLabel]: 'orders' },
      },
    });

    const snapshot = await look();

    expect(snapshot.claims).toMatchObject({ value: [{}, {}, {}, { uid: 'shared', member: null }] });
    expect(claimsLeftBehind({ ...snapshot, claimsInUse: present([]) })).toEqual(present([]));
  });

  test('does not ask who mounts claims that it cannot list', async () => {
    const { kube, look } = withClaimLeft();
    kube.makeUnknown('list PersistentVolumeClaim');

    const snapshot = await look();

    expect(kube.calls.filter((call) => call === 'list Pod')).toHaveLength(1);
    expect(snapshot).toMatchObject({
      claims: { kind: 'unknown' },
      claimsInUse: { kind: 'unknown' },
    });
  });

  test('asks nothing about claims while the pods are unknown', async () => {
    const { kube, look } = withClaimLeft();
    kube.makeUnknown('list Pod');

    await look();

    expect(kube.calls).toEqual(['get Database', 'topology', 'list Pod']);
  });

  test('asks for claims without its Database, and for no pooler', async () => {
    const { kube, look } = withClaimLeft();
    kube.makeUnknown('get Database');

    const snapshot = await look();

    expect(snapshot.claimsInUse.kind).toBe('present');
    expect(kube.calls.filter((call) => call.startsWith('status'))).toEqual([]);
  });
});
