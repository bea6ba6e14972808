import { describe, expect, test } from 'vitest';
import type { DrainRecord } from '#shared/api/drain-record.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { type Read, absent, present, unknown } from '#shared/kernel/read.ts';
import { recordText } from '#shared/kernel/record.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import type { PoolerListing } from '#shared/topology/topology.ts';
import { observe } from '#functions/drain-step/observe.ts';
import { aShardOf } from './a-drain.ts';

const signal = new AbortController().signal;

interface World {
  readonly replicas: number;
  readonly pods: readonly unknown[];
  readonly record?: string;
  readonly annotations?: Record<string, string>;
  readonly paused?: boolean;
  readonly database?: Read<unknown>;
  readonly topology?: Read<PoolerListing>;
}

function aPod(
  name: string,
  change: {
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    owner?: string;
    ready?: string;
  } = {},
) {
  return {
    metadata: {
      name,
      uid: `uid-${name}`,
      resourceVersion: '5',
      labels: {
        'millrace.dev/shard': 'orders',
        'millrace.dev/pool': 'main',
        'millrace.dev/cell': 'zone-a',
        'millrace.dev/index': name.split('-').at(-1),
        ...change.labels,
      },
      annotations: change.annotations ?? {},
      ownerReferences: [{ kind: 'Shard', uid: change.owner ?? 'shard-uid', controller: true }],
    },
    spec: {
      nodeName: 'node-1',
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: `data-${name}` } }],
    },
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: change.ready ?? 'True' }] },
  };
}

/** Ports that answer from a world and write down what they were asked, in order. */
function aLook({ replicas, pods, record, annotations, paused = false, database, topology }: World) {
  const asked: string[] = [];
  const ports = {
    kube: {
      get: async ({ kind, name }: { kind: string; name: string }) => {
        asked.push(`get ${kind} ${name}`);
        return kind === 'Database'
          ? (database ??
              present({
                metadata: { name: 'main', namespace: 'db', uid: 'database-uid' },
                spec: { name: 'postgres', paused: false },
              }))
          : present({ status: { conditions: [{ type: 'Ready', status: 'True' }] } });
      },
      list: async (kind: string, options: { labels?: unknown }) => {
        asked.push(`list ${kind}${options.labels === undefined ? ' (all)' : ''}`);
        return kind === 'Pod' ? present(pods) : present([]);
      },
    },
    topology: () => ({
      poolers: async () => {
        asked.push('topology');
        return topology ?? aShardOf(3).build().topology;
      },
    }),
    admin: () => ({
      poolerStatus: async ({ name }: { name: string }) => {
        asked.push(`status ${name}`);
        return absent;
      },
    }),
  } as unknown as Ports;
  const target = present({
    metadata: {
      name: 'orders',
      namespace: 'db',
      uid: 'shard-uid',
      resourceVersion: '7',
      generation: 2,
      annotations: {
        ...annotations,
        ...(record === undefined ? {} : { 'step.millrace.dev/drain-step': record }),
      },
    },
    spec: {
      databaseRef: { name: 'main' },
      tableGroup: 'default',
      shard: '0-inf',
      paused,
      drain: { deadline: '5m' },
      pools: [
        {
          name: 'main',
          cells: ['zone-a'],
          replicasPerCell: replicas,
          podTemplate: {},
          pvcPolicy: { whenScaled: 'Retain' },
        },
      ],
    },
  } as unknown as KubeObject<'Shard'>);
  return { asked, observe: () => observe(target, ports, signal) };
}

const three = ['orders-0', 'orders-1', 'orders-2'].map((name) => aPod(name));

function aRecord(): string {
  const { record } = aShardOf(3).draining('orders-2', 'finished').build();
  const ours = record.kind === 'ours' ? record.record : undefined;
  return recordText({ ...ours, uid: 'shard-uid' } as DrainRecord);
}

describe('observing', () => {
  test('a shard from which nobody leaves costs two reads of the API server and the topology', async () => {
    const look = aLook({ replicas: 3, pods: three });

    const snapshot = await look.observe();

    expect(look.asked).toEqual(['get Database main', 'topology', 'list Pod']);
    expect(snapshot).toMatchObject({ statuses: [], claims: { kind: 'unknown' } });
  });

  test('a surplus is asked about in full, the topology before everything it is compared with (X6)', async () => {
    const look = aLook({ replicas: 2, pods: three });

    await look.observe();

    expect(look.asked.slice(0, 3)).toEqual(['get Database main', 'topology', 'list Pod']);
    expect(look.asked.slice(3).toSorted()).toEqual([
      'list PersistentVolumeClaim',
      'status orders-0',
      'status orders-1',
      'status orders-2',
    ]);
  });

  test('the pods of the whole namespace are listed only when the leaver is gone', async () => {
    const there = aLook({ replicas: 2, pods: three, record: aRecord() });
    const gone = aLook({ replicas: 2, pods: three.slice(0, 2), record: aRecord() });

    await there.observe();
    await gone.observe();

    expect(there.asked).not.toContain('list Pod (all)');
    expect(gone.asked).toContain('list Pod (all)');
    expect(gone.asked).toContain('get Node node-1');
  });

  test('nothing at all is read for a paused shard or a record that is not to be obeyed', async () => {
    const paused = aLook({ replicas: 2, pods: three, paused: true });
    const unreadable = aLook({ replicas: 2, pods: three, record: '{"v":9}' });

    await paused.observe();
    const snapshot = await unreadable.observe();

    expect([...paused.asked, ...unreadable.asked]).toEqual([]);
    expect(snapshot.record.kind).toBe('unreadable');
  });

  test('the node of a pod that is not ready is asked for', async () => {
    const look = aLook({
      replicas: 3,
      pods: [aPod('orders-0', { ready: 'False' }), ...three.slice(1)],
    });

    const snapshot = await look.observe();

    expect(look.asked).toContain('get Node node-1');
    expect(snapshot.nodes).toEqual({ 'node-1': present({ isReady: true }) });
  });

  test('without a Database the topology is unknown, not empty', async () => {
    const look = aLook({ replicas: 2, pods: three, database: unknown('403') });

    const snapshot = await look.observe();

    expect(look.asked).not.toContain('topology');
    expect(snapshot.topology.kind).toBe('unknown');
  });

  test('pods are told apart: ours, of another controller, in another operator’s hands, asked to go', async () => {
    const look = aLook({
      replicas: 3,
      pods: [
        aPod('orders-0'),
        aPod('orders-1', { owner: 'somebody-else' }),
        aPod('orders-2', {
          annotations: { 'drain.multigres.com/state': 'draining', 'millrace.dev/drain': 'please' },
        }),
      ],
    });

    const { members } = await look.observe();

    expect(
      members.kind === 'present' &&
        members.value.map(({ control, isMarkedByOthers, request }) => [
          control,
          isMarkedByOthers,
          request,
        ]),
    ).toEqual([
      ['ours', false, null],
      ['foreign', false, null],
      ['ours', true, 'please'],
    ]);
  });
});
