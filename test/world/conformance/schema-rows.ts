import type { JsonObject } from '#shared/kube/json.ts';
import { aDatabase, aPool, aShard } from './manifests.ts';
import type { Row, Script } from './script.ts';

const container = { name: 'pooler', image: 'pooler:1' };

function withPool(change: JsonObject): JsonObject {
  return aShard('a', { spec: { pools: [{ ...aPool, ...change }] } });
}

function withPodSpec(spec: JsonObject): JsonObject {
  return withPool({ podTemplate: { spec: { containers: [container], ...spec } } });
}

function withTopology(topology: JsonObject): JsonObject {
  const admin = { url: 'http://multiadmin:18000' };
  return aDatabase('a', { dataPlane: { topology, admin } });
}

/** Makes each one, and takes away what was made. */
async function tryAll(
  script: Script,
  kind: 'Shard' | 'Database',
  objects: readonly JsonObject[],
): Promise<void> {
  for (const object of objects) {
    await script.create(kind, object);
    await script.delete(kind, 'a');
  }
}

/** What the definitions of Shard and Database refuse, fill in and take away. */
export const schemaRows: readonly Row[] = [
  {
    name: 'every default is filled in, and what nobody knows is taken away but in a pod spec',
    play: async (script) => {
      const podTemplate = {
        metadata: { labels: { a: 'b' }, name: 'x' },
        spec: { containers: [{ ...container, tty: true }], priorityClassName: 'high' },
      };
      const pool = { name: 'main', cells: ['zone-a'], storage: { size: '1Gi', x: 1 }, podTemplate };
      await script.create(
        'Shard',
        aShard('a', { spec: { pools: [pool], databaseRef: { name: 'main', of: 'x' }, more: {} } }),
      );
      await script.create('Database', aDatabase('a'));
    },
  },
  {
    name: 'a null is as good as nothing',
    play: async (script) => {
      await tryAll(script, 'Shard', [
        aShard('a', { spec: { paused: null, tableGroup: null, drain: null } }),
        aShard('a', { spec: { databaseRef: null } }),
        withPool({ replicasPerCell: null, storage: null }),
        aShard('a', { metadata: { labels: null, annotations: null, finalizers: null } }),
      ]);
    },
  },
  {
    name: 'what is required is missed by its name',
    play: async (script) => {
      await tryAll(script, 'Shard', [
        { apiVersion: 'millrace.dev/v1alpha1', kind: 'Shard', metadata: { name: 'a' } },
        aShard('a', { spec: { databaseRef: {} } }),
        withPodSpec({ containers: [{}] }),
        withPool({ storage: {} }),
      ]);
    },
  },
  {
    name: 'another type is refused, and then no rule is asked',
    play: async (script) => {
      await tryAll(script, 'Shard', [
        aShard('a', { spec: { paused: 'yes' } }),
        aShard('a', { spec: { pools: {} } }),
        withPool({ replicasPerCell: '3', cells: ['a', 'a'] }),
        withPool({ cells: 'zone-a' }),
        withPool({ cells: [1] }),
        aShard('a', { spec: { databaseRef: 'main' } }),
      ]);
    },
  },
  {
    name: 'too many, too few, too long and too short are refused',
    play: async (script) => {
      await tryAll(script, 'Shard', [
        aShard('a', { spec: { pools: [] } }),
        aShard('a', {
          spec: {
            pools: Array.from({ length: 9 }, (_, index) => ({ ...aPool, name: `p${index}` })),
          },
        }),
        withPool({ name: 'a'.repeat(26) }),
        withPool({ name: '' }),
        withPool({ cells: [] }),
      ]);
    },
  },
  {
    name: 'a value that is none of those known is refused with all of them',
    play: async (script) => {
      await tryAll(script, 'Shard', [
        withPool({ pvcPolicy: { whenScaled: 'Keep' } }),
        withPool({ storage: { size: '1Gi', accessModes: ['ReadOnlyMany'] } }),
      ]);
    },
  },
  {
    name: 'two pools, or two containers, of one name are refused',
    play: async (script) => {
      await tryAll(script, 'Shard', [
        aShard('a', { spec: { pools: [aPool, aPool] } }),
        withPodSpec({ containers: [container, container] }),
      ]);
    },
  },
  {
    name: 'the rules of a pool are kept',
    play: async (script) => {
      await tryAll(script, 'Shard', [
        withPool({ replicasPerCell: 0 }),
        withPool({ replicasPerCell: 33 }),
        withPool({ cells: ['a', 'b', 'a'] }),
        withPool({ cells: ['Zone'] }),
        withPool({ storage: undefined }),
        withPool({ storage: { size: 'much' } }),
        withPool({ storage: { size: '0' } }),
        withPool({ storage: { size: '1.5Ti', className: 'Fast' } }),
      ]);
    },
  },
  {
    name: 'the rules of a pod template are kept, all of them at once',
    play: async (script) => {
      await tryAll(script, 'Shard', [
        withPodSpec({ nodeName: 'a', hostname: 'b' }),
        withPodSpec({ restartPolicy: 'Never' }),
        withPodSpec({ activeDeadlineSeconds: 5 }),
        withPodSpec({ terminationGracePeriodSeconds: 0 }),
        withPodSpec({ volumes: [{ name: 'data', emptyDir: {} }] }),
        withPool({
          podTemplate: {
            metadata: {
              labels: { 'millrace.dev/x': '' },
              annotations: { 'drain.millrace.dev/a': '' },
            },
            spec: { containers: [container] },
          },
        }),
      ]);
    },
  },
  {
    name: 'the rules of a Shard are kept, all of them at once',
    play: async (script) => {
      await tryAll(script, 'Shard', [
        aShard('a', { spec: { tableGroup: 'x', shard: 'y', drain: { deadline: '5s' } } }),
        aShard('a', { spec: { drain: { deadline: 'soon' } } }),
        aShard('a', { spec: { drain: { deadline: '9999ms' } } }),
        aShard('a', { spec: { drain: { deadline: '1h30m' } } }),
        aShard('b', { spec: { cleanup: { quietFor: '4s', maxPerPass: 9 } } }),
        aShard('b', { spec: { cleanup: { quietFor: '1h', deleteAfter: '59m' } } }),
        aShard('b', { spec: { cleanup: { quietFor: '5s', deleteAfter: '5s', maxPerPass: 8 } } }),
      ]);
    },
  },
  {
    name: 'what may not change is compared with what was there',
    play: async (script) => {
      await script.create('Shard', aShard('a'));
      await script.merge('Shard', 'a', { spec: { databaseRef: { name: 'other' } } });
      await script.merge('Shard', 'a', { spec: { pools: [{ ...aPool, name: 'other' }] } });
      await script.merge('Shard', 'a', {
        spec: { pools: [{ ...aPool, cells: ['zone-b'], storage: { size: '11Gi' } }] },
      });
      const { podTemplate: _podTemplate, ...attached } = aPool;
      await script.merge('Shard', 'a', { spec: { pools: [attached] } });
      await script.merge('Shard', 'a', {
        spec: {
          pools: [
            { ...aPool, cells: ['zone-b', 'zone-a'] },
            { ...aPool, name: 'second' },
          ],
        },
      });
      await script.merge('Shard', 'a', { spec: null });
    },
  },
  {
    name: 'a refused change leaves everything as it was, and what was left out comes back as a default',
    play: async (script) => {
      await script.create('Shard', aShard('a', { spec: { paused: true } }));
      await script.merge('Shard', 'a', { spec: { tableGroup: 'x', paused: false } });
      await script.merge('Shard', 'a', { spec: { paused: null, nonsense: 1 } });
      await script.merge('Shard', 'a', { nonsense: 1 });
    },
  },
  {
    name: 'the rules of a Database are kept',
    play: async (script) => {
      const service = { name: 'topo', port: 2379 };
      const endpoints = ['http://topo:2379'];
      await tryAll(script, 'Database', [
        aDatabase('a', { name: 'orders' }),
        withTopology({}),
        withTopology({ service, endpoints }),
        withTopology({ endpoints, tlsSecret: 'tls' }),
        withTopology({ endpoints: ['https://a:1', 'http://b:1'] }),
        withTopology({ endpoints: ['http://topo'] }),
        withTopology({ service, globalRoot: '/a/' }),
        withTopology({ service: { ...service, port: 65_536 }, authSecret: 'A B' }),
        aDatabase('a', { dataPlane: { topology: { service }, admin: { service, url: 'x' } } }),
        aDatabase('a', { dataPlane: { kind: 'other', topology: { service }, admin: { service } } }),
      ]);
    },
  },
];
