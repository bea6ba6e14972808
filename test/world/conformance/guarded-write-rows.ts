import type { JsonObject } from '#shared/kube/json.ts';
import { aCondition, aLease, aShard, guardOf, ownedBy, uidOf, versionOf } from './manifests.ts';
import type { Row, Script } from './script.ts';

const key = '/metadata/annotations/step.millrace.dev~1drain-step';

function add(path: string, value: string): JsonObject {
  return { op: 'add', path, value };
}

function test(path: string, value: string | number | null): JsonObject {
  return { op: 'test', path, value };
}

async function annotated(script: Script, annotations: JsonObject = { other: 'x' }) {
  return script.create('Shard', aShard('a', { metadata: { annotations } }));
}

/** Records under compare-and-swap, and every other write that must lose when the world has moved on. */
export const guardedWriteRows: readonly Row[] = [
  {
    name: 'an object that is made is answered with all that the server adds to it',
    play: async (script) => {
      await script.create('Shard', aShard('a'));
      await script.get('Shard', 'a');
    },
  },
  {
    name: 'a name that is taken is refused, whatever the object',
    play: async (script) => {
      await script.create('Shard', aShard('a'));
      await script.create('Shard', aShard('a', { spec: { paused: true } }));
      await script.get('Shard', 'a');
    },
  },
  {
    name: 'what a client says of fields that only the server writes is not taken',
    play: async (script) => {
      const metadata = {
        uid: 'x',
        generation: 7,
        creationTimestamp: '2001-01-01T00:00:00Z',
        deletionTimestamp: '2001-01-01T00:00:00Z',
        deletionGracePeriodSeconds: 5,
      };
      await script.create('Shard', {
        ...aShard('a', { metadata }),
        status: { observedGeneration: 3 },
      });
    },
  },
  {
    name: 'a name that came back has another uid and a newer version',
    play: async (script) => {
      await script.create('Shard', aShard('a'));
      await script.delete('Shard', 'a');
      await script.create('Shard', aShard('a'));
    },
  },
  {
    name: 'what is not there is not found, by any verb',
    play: async (script) => {
      await script.get('Shard', 'a');
      await script.merge('Shard', 'a', { spec: { paused: true } });
      await script.json('Shard', 'a', [test('/metadata/uid', 'x')]);
      await script.put('Shard', 'a', aShard('a'));
      await script.delete('Shard', 'a');
      await script.delete('Shard', 'a', { preconditions: { uid: 'x' } });
      await script.apply('a', 'drain-step', { observedGeneration: 1 });
      await script.merge('Shard', 'a', { status: {} }, { subresource: 'status' });
    },
  },
  {
    name: 'a JSON patch whose tests hold writes',
    play: async (script) => {
      const shard = await annotated(script);
      await script.json('Shard', 'a', [
        test('/metadata/uid', uidOf(shard)),
        test('/metadata/generation', 1),
        test(key, null),
        add(key, '{"v":1}'),
      ]);
      await script.json('Shard', 'a', [test(key, '{"v":1}'), { op: 'remove', path: key }]);
    },
  },
  {
    name: 'a JSON patch whose test fails writes nothing, however much of it would do',
    play: async (script) => {
      await annotated(script);
      await script.json('Shard', 'a', [add(key, '1'), test('/metadata/uid', 'another')]);
      await script.json('Shard', 'a', [test('/metadata/generation', 2), add(key, '1')]);
      await script.json('Shard', 'a', [test('/metadata/generation', '1'), add(key, '1')]);
      await script.json('Shard', 'a', [test(key, 'old'), add(key, '1')]);
      await script.json('Shard', 'a', [test('/metadata/annotations/other', null), add(key, '1')]);
      await script.get('Shard', 'a');
    },
  },
  {
    name: 'a JSON patch cannot add into a map that is not there',
    play: async (script) => {
      await script.create('Shard', aShard('a'));
      await script.json('Shard', 'a', [add(key, '1')]);
      await script.json('Shard', 'a', [test(key, null)]);
    },
  },
  {
    name: 'a JSON patch cannot take away, replace or move what is not there',
    play: async (script) => {
      await annotated(script);
      await script.json('Shard', 'a', [{ op: 'remove', path: key }]);
      await script.json('Shard', 'a', [{ op: 'replace', path: key, value: '1' }]);
      await script.json('Shard', 'a', [{ op: 'move', from: key, path: '/metadata/annotations/a' }]);
      await script.json('Shard', 'a', [{ op: 'copy', from: key, path: '/metadata/annotations/a' }]);
    },
  },
  {
    name: 'a JSON patch moves, copies, replaces and reaches into lists',
    play: async (script) => {
      await annotated(script);
      await script.json('Shard', 'a', [
        { op: 'copy', from: '/metadata/annotations/other', path: '/metadata/annotations/copy' },
        { op: 'move', from: '/metadata/annotations/other', path: '/metadata/annotations/moved' },
        { op: 'replace', path: '/spec/paused', value: true },
        test('/spec/pools/0/cells/0', 'zone-a'),
        add('/spec/pools/0/cells/-', 'zone-c'),
        add('/spec/pools/0/cells/1', 'zone-b'),
      ]);
      await script.json('Shard', 'a', [test('/spec/pools/1/name', null)]);
      await script.json('Shard', 'a', [add('/spec/pools/0/cells/7', 'zone-d')]);
    },
  },
  {
    name: 'a JSON patch with an operation that is none is refused as a whole',
    play: async (script) => {
      await annotated(script);
      await script.json('Shard', 'a', [{ op: 'swap', path: key }]);
      await script.json('Shard', 'a', [{ op: 'add', path: 'metadata', value: '1' }]);
      await script.json('Shard', 'a', { op: 'add', path: key, value: '1' });
      await script.json('Shard', 'a', []);
    },
  },
  {
    name: 'a JSON patch of something else does not lose to another write',
    play: async (script) => {
      const shard = await annotated(script);
      await script.merge('Shard', 'a', { metadata: { labels: { of: 'another' } } });
      await script.json('Shard', 'a', [test('/metadata/uid', uidOf(shard)), add(key, '1')]);
    },
  },
  {
    name: 'a merge patch loses under an old version',
    play: async (script) => {
      const shard = await annotated(script);
      await script.merge('Shard', 'a', { metadata: { labels: { by: 'one' } } });
      const { resourceVersion } = guardOf(shard);
      await script.merge('Shard', 'a', { metadata: { resourceVersion, labels: { by: 'two' } } });
      await script.get('Shard', 'a');
    },
  },
  {
    name: 'a merge patch loses under another uid, and an old version is found before it',
    play: async (script) => {
      const shard = await annotated(script);
      await script.merge('Shard', 'a', { metadata: { uid: 'another', labels: { by: 'two' } } });
      await script.merge('Shard', 'a', {
        metadata: { ...guardOf(shard), uid: 'another', labels: { by: 'two' } },
      });
      await script.merge('Shard', 'a', { metadata: { uid: 'another', resourceVersion: '1' } });
      await script.get('Shard', 'a');
    },
  },
  {
    name: 'a merge patch under uid and version writes, and a null takes away',
    play: async (script) => {
      const shard = await annotated(script);
      await script.merge('Shard', 'a', {
        metadata: { ...guardOf(shard), annotations: { other: null, mine: 'y' } },
      });
    },
  },
  {
    name: 'a merge patch without a guard writes over everything',
    play: async (script) => {
      await annotated(script);
      await script.merge('Shard', 'a', { metadata: { annotations: { other: 'mine' } } });
    },
  },
  {
    name: 'a merge patch that takes the version away is refused',
    play: async (script) => {
      await annotated(script);
      await script.merge('Shard', 'a', { metadata: { resourceVersion: null } });
      await script.merge('Shard', 'a', { metadata: { uid: null, labels: { a: 'b' } } });
    },
  },
  {
    name: 'a write that changes nothing keeps the version',
    play: async (script) => {
      await annotated(script);
      await script.merge('Shard', 'a', { metadata: { annotations: { other: 'x' } } });
      await script.merge('Shard', 'a', { metadata: { annotations: { none: null } } });
      await script.merge('Shard', 'a', {});
      await script.json('Shard', 'a', [test('/metadata/generation', 1)]);
    },
  },
  {
    name: 'taking away the last annotation leaves no empty map behind',
    play: async (script) => {
      await annotated(script);
      await script.json('Shard', 'a', [{ op: 'remove', path: '/metadata/annotations/other' }]);
      await script.merge('Shard', 'a', { metadata: { labels: { a: 'b' } } });
      await script.merge('Shard', 'a', { metadata: { labels: { a: null } } });
    },
  },
  {
    name: 'the generation counts changes of the spec and nothing else',
    play: async (script) => {
      await annotated(script);
      await script.merge('Shard', 'a', { metadata: { labels: { a: 'b' } } });
      await script.merge('Shard', 'a', { spec: { paused: true } });
      await script.merge('Shard', 'a', { spec: { paused: true } });
      await script.merge('Shard', 'a', { metadata: { generation: 77 } });
      await script.merge(
        'Shard',
        'a',
        { status: { observedGeneration: 2 } },
        { subresource: 'status' },
      );
    },
  },
  {
    name: 'a write of the object does not reach its status, nor the other way round',
    play: async (script) => {
      await annotated(script);
      await script.merge('Shard', 'a', { status: { observedGeneration: 2 } });
      await script.merge(
        'Shard',
        'a',
        {
          status: { observedGeneration: 3 },
          spec: { paused: true },
          metadata: { labels: { a: 'b' }, annotations: { other: null }, finalizers: ['a/b'] },
        },
        { subresource: 'status' },
      );
      await script.merge('Shard', 'a', {
        status: { observedGeneration: 4 },
        spec: { paused: true },
      });
    },
  },
  {
    name: 'a write of the status compares the version and lets another uid pass',
    play: async (script) => {
      const shard = await annotated(script);
      const status = { observedGeneration: 2 };
      await script.merge(
        'Shard',
        'a',
        { metadata: { uid: 'another' }, status },
        { subresource: 'status' },
      );
      await script.merge(
        'Shard',
        'a',
        { metadata: { resourceVersion: versionOf(shard) }, status: { observedGeneration: 3 } },
        { subresource: 'status' },
      );
    },
  },
  {
    name: 'a deletion under another uid or an old version deletes nothing',
    play: async (script) => {
      const shard = await annotated(script);
      await script.merge('Shard', 'a', { metadata: { labels: { a: 'b' } } });
      const { resourceVersion } = guardOf(shard);
      await script.delete('Shard', 'a', { preconditions: { uid: 'another' } });
      await script.delete('Shard', 'a', {
        preconditions: { uid: 'another', resourceVersion: '1' },
      });
      await script.delete('Shard', 'a', { preconditions: { resourceVersion: '1' } });
      await script.delete('Shard', 'a', {
        preconditions: { uid: uidOf(shard), resourceVersion: '1' },
      });
      await script.get('Shard', 'a');
      await script.delete('Shard', 'a', { preconditions: { uid: uidOf(shard) } });
      await script.delete('Shard', 'a', { preconditions: { resourceVersion } });
    },
  },
  {
    name: 'a deletion does not reach the one that came back under the name',
    play: async (script) => {
      const old = await annotated(script);
      await script.delete('Shard', 'a', { preconditions: guardOf(old) });
      await annotated(script);
      await script.delete('Shard', 'a', { preconditions: { uid: uidOf(old) } });
      await script.get('Shard', 'a');
    },
  },
  {
    name: 'an update needs a version, the name of the path and an object of the kind',
    play: async (script) => {
      const shard = await annotated(script);
      await script.put('Shard', 'a', aShard('a'));
      await script.put('Shard', 'a', aShard('b'));
      await script.put('Shard', 'a', { metadata: { name: 'a' } });
      await script.put('Shard', 'a', { ...shard, apiVersion: 'v1' });
      await script.put('Shard', 'a', aShard('a', { metadata: { ...guardOf(shard), uid: 'x' } }));
      await script.put('Shard', 'a', aShard('a', { metadata: { resourceVersion: '1' } }));
      await script.put('Shard', 'a', aShard('a', { metadata: guardOf(shard) }));
    },
  },
  {
    name: 'of two updates of a Lease under one version the first one counts',
    play: async (script) => {
      const lease = await script.create('Lease', aLease('a'));
      const spec = lease['spec'] as JsonObject;
      await script.put('Lease', 'a', { ...lease, spec: { ...spec, holderIdentity: 'two' } });
      await script.put('Lease', 'a', { ...lease, spec: { ...spec, holderIdentity: 'three' } });
      await script.get('Lease', 'a');
    },
  },
  {
    name: 'an update of a Lease that is gone finds nobody of that uid, and without a uid makes a new one',
    play: async (script) => {
      const lease = await script.create('Lease', aLease('a'));
      await script.delete('Lease', 'a');
      await script.put('Lease', 'a', lease);
      await script.put('Lease', 'a', aLease('a'));
      await script.create('Lease', aLease('a'));
    },
  },
  {
    name: 'a Lease in a namespace that does not exist says so',
    play: async (script) => {
      const path = '/apis/coordination.k8s.io/v1/namespaces/nowhere/leases';
      await script.ask({ method: 'GET', path: `${path}/a` });
      await script.ask({ method: 'POST', path, body: aLease('a') });
      await script.ask({ method: 'GET', path });
    },
  },
  {
    name: 'an object that is none of the kind, the version or the namespace is refused',
    play: async (script) => {
      await script.create('Shard', {});
      await script.create('Shard', { ...aShard('a'), kind: 'Pod' });
      await script.create('Shard', { ...aShard('a'), apiVersion: 'v1' });
      await script.create('Shard', aShard('a', { metadata: { namespace: 'other' } }));
      await script.create('Shard', aShard(''));
      await script.merge('Shard', 'a', {});
    },
  },
  {
    name: 'a patch cannot make another kind or another name of an object',
    play: async (script) => {
      await annotated(script);
      await script.merge('Shard', 'a', { kind: 'Pod' });
      await script.merge('Shard', 'a', { metadata: { name: 'b' } });
      await script.json('Shard', 'a', [{ op: 'remove', path: '/metadata' }]);
      await script.merge('Shard', 'a', { metadata: { creationTimestamp: null } });
    },
  },
  {
    name: 'a patch in a form that the kind does not take is refused with the ones it takes',
    play: async (script) => {
      await annotated(script);
      const path = script.path('Shard', 'a');
      await script.strategic('Shard', 'a', {});
      await script.ask({ method: 'PATCH', path, contentType: 'application/json', body: {} });
      await script.merge('Shard', 'a', []);
    },
  },
  {
    name: 'a path that no kind is served under is not found as a page',
    play: async (script) => {
      const group = '/apis/millrace.dev/v1alpha1';
      await script.ask({
        method: 'GET',
        path: `${group}/namespaces/${script.namespace}/nothing/a`,
      });
      await script.ask({ method: 'GET', path: '/apis/nowhere.dev/v1/things' });
    },
  },
  {
    name: 'a status is replaced as a whole by an update of it',
    play: async (script) => {
      const shard = await annotated(script);
      const manner = { subresource: 'status' } as const;
      await script.apply('a', 'drain-step', { observedGeneration: 1 });
      const status = { primary: { pod: 'a', pooler: 'b', rule: '1.1' }, nonsense: 1 };
      await script.put('Shard', 'a', { ...shard, status }, manner);
      const fresh = await script.get('Shard', 'a');
      await script.put('Shard', 'a', { ...fresh, status, spec: { paused: true } }, manner);
      await script.apply('a', 'drain-step', {});
    },
  },
  {
    name: 'a status that is written is validated, and what nobody knows is taken away',
    play: async (script) => {
      await annotated(script);
      const manner = { subresource: 'status' } as const;
      const condition = aCondition('Ready');
      await script.merge('Shard', 'a', { status: { nonsense: 1 } }, manner);
      await script.merge('Shard', 'a', { status: { conditions: [{ type: 'Ready' }] } }, manner);
      await script.merge('Shard', 'a', { status: { conditions: [condition, condition] } }, manner);
      await script.merge('Shard', 'a', { status: { observedGeneration: 'x' } }, manner);
      await script.merge('Shard', 'a', { status: { conditions: [condition] } }, manner);
    },
  },
  {
    name: 'a null in a merge patch makes nothing where there was nothing',
    play: async (script) => {
      await script.create('Shard', aShard('a'));
      await script.merge('Shard', 'a', { metadata: { annotations: { a: null } } });
      await script.merge('Shard', 'a', { metadata: { annotations: { a: null, b: 'c' } } });
      await script.merge('Shard', 'a', { metadata: { annotations: null } });
    },
  },
  {
    name: 'slashes and tildes in a pointer are written as two signs',
    play: async (script) => {
      await annotated(script, { 'a/b': '1', other: 'x' });
      await script.json('Shard', 'a', [test('/metadata/annotations/a~1b', '1')]);
      await script.json('Shard', 'a', [test('/metadata/annotations/a/b', '1')]);
      await script.json('Shard', 'a', [test('/metadata/annotations/a~01b', null)]);
    },
  },
  {
    name: 'an owner can be added and taken away',
    play: async (script) => {
      const shard = await annotated(script);
      await script.create('Lease', aLease('a'));
      const ownerReferences = [ownedBy(shard)];
      await script.merge('Lease', 'a', { metadata: { ownerReferences } });
      await script.merge('Lease', 'a', { metadata: { ownerReferences: [] } });
    },
  },
  {
    name: 'a collection can neither be replaced nor patched',
    play: async (script) => {
      for (const kind of ['Shard', 'Pod'] as const) {
        const path = script.path(kind);
        const contentType = 'application/merge-patch+json';
        await script.ask({ method: 'PUT', path, body: {} });
        await script.ask({ method: 'PATCH', path, contentType, body: {} });
      }
    },
  },
  {
    name: 'times of a Lease have six digits behind the second',
    play: async (script) => {
      await script.create('Lease', aLease('a', { renewTime: '2001-02-03T04:05:06.789Z' }));
      await script.create('Lease', aLease('a', { acquireTime: '2001-02-03T04:05:07Z' }));
      const lease = await script.create('Lease', aLease('a', { acquireTime: null }));
      await script.put('Lease', 'a', { ...lease, spec: { renewTime: '2001-02-03T04:05:07Z' } });
    },
  },
  {
    name: 'a status cannot be made or deleted by itself',
    play: async (script) => {
      await annotated(script);
      const path = `${script.path('Shard', 'a')}/status`;
      await script.ask({ method: 'POST', path, body: aShard('a') });
      await script.ask({ method: 'DELETE', path });
      await script.ask({ method: 'GET', path });
    },
  },
  {
    name: 'annotations of 256 KiB are taken, one byte more is not',
    play: async (script) => {
      await script.create('Shard', aShard('a'));
      await script.merge('Shard', 'a', { metadata: { annotations: { a: 'x'.repeat(262_143) } } });
      await script.merge('Shard', 'a', { metadata: { annotations: { b: '' } } });
      await script.merge('Shard', 'a', { metadata: { annotations: { a: 'x'.repeat(262_144) } } });
    },
  },
  {
    name: 'labels and names that are none are refused',
    play: async (script) => {
      await script.create('Shard', aShard('a', { metadata: { labels: { a: '?' } } }));
      await script.create('Shard', aShard('a', { metadata: { labels: { a: 'x'.repeat(64) } } }));
      await script.create('Shard', aShard('A_b'));
      await script.create('Shard', aShard('a'.repeat(31)));
    },
  },
];
