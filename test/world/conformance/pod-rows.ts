import type { JsonObject } from '#shared/kube/json.ts';
import {
  aBudget,
  aClaim,
  aNode,
  aPod,
  aService,
  anEvent,
  givenTime,
  guardOf,
  mounting,
  uidOf,
  versionOf,
} from './manifests.ts';
import type { Row, Script } from './script.ts';
import { listAt, objectAt } from '#test/world/model/json-data.ts';

async function aBoundPod(script: Script, spec: JsonObject = {}): Promise<JsonObject> {
  await script.create('Pod', aPod('a', { spec }));
  await script.bind('a');
  return script.get('Pod', 'a');
}

const running = {
  phase: 'Running',
  hostIP: '127.0.0.1',
  podIP: '127.0.0.2',
  podIPs: [{ ip: '127.0.0.2' }],
  startTime: '2001-02-03T04:05:06.789Z',
  conditions: [
    { type: 'Initialized', status: 'True', lastTransitionTime: '2001-02-03T04:05:06.789Z' },
    { type: 'Ready', status: 'True', lastTransitionTime: '2001-02-03T04:05:06.789Z' },
  ],
  containerStatuses: [
    {
      name: 'pooler',
      image: 'pooler:1',
      imageID: 'pooler:1',
      ready: true,
      started: true,
      restartCount: 0,
      state: { running: { startedAt: '2001-02-03T04:05:06.789Z' } },
    },
  ],
};

/** The same without fractions of seconds. */
function whole(status: JsonObject): JsonObject {
  return JSON.parse(JSON.stringify(status).replaceAll('.789Z', 'Z')) as JsonObject;
}

async function report(script: Script, status: JsonObject, metadata?: JsonObject) {
  const body = metadata === undefined ? { status } : { metadata, status };
  return script.strategic('Pod', 'a', body, { subresource: 'status' });
}

/** Pods, what they mount, and the objects around them. */
export const podRows: readonly Row[] = [
  {
    name: 'a pod that is made has every default',
    play: async (script) => {
      const spec = { hostname: 'a', subdomain: 'a-service', ...mounting('data-a') };
      await script.create('Pod', aPod('a', { metadata: { labels: { of: 'a' } }, spec }));
      await script.create(
        'Pod',
        aPod('b', {
          spec: {
            terminationGracePeriodSeconds: 5,
            containers: [
              { name: 'a', image: 'a' },
              { name: 'b', image: 'b:latest' },
            ],
          },
        }),
      );
    },
  },
  {
    name: 'a pod is bound once, by its uid, and says that it is scheduled',
    play: async (script) => {
      const pod = await script.create('Pod', aPod('a'));
      await script.bind('a', { uid: 'another' });
      await script.bind('a', { uid: uidOf(pod) });
      await script.bind('a', { uid: uidOf(pod) });
      await script.bind('b');
      await script.get('Pod', 'a');
      await script.ask({ method: 'GET', path: `${script.path('Pod', 'a')}/binding` });
    },
  },
  {
    name: 'a pod with a scheduling gate, or on its way out, is not bound',
    play: async (script) => {
      const metadata = { finalizers: ['example.dev/keep'] };
      await script.create('Pod', aPod('a', { metadata }));
      await script.delete('Pod', 'a');
      await script.bind('a');
    },
  },
  {
    name: 'a deletion marks a bound pod and leaves it there for its grace period',
    play: async (script) => {
      const pod = await aBoundPod(script);
      await script.delete('Pod', 'a', { preconditions: guardOf(pod) });
      await script.get('Pod', 'a');
    },
  },
  {
    name: 'a pod says how long it takes to stop, and whoever deletes it may say otherwise',
    play: async (script) => {
      await aBoundPod(script, { terminationGracePeriodSeconds: 5 });
      await script.delete('Pod', 'a');
      await script.create('Pod', aPod('b'));
      await script.bind('b');
      await script.delete('Pod', 'b', { gracePeriodSeconds: 7 });
      await script.create('Pod', aPod('c'));
      await script.bind('c');
      await script.delete('Pod', 'c', undefined, { query: { gracePeriodSeconds: '8' } });
    },
  },
  {
    name: 'a second deletion changes nothing, unless it gives less time',
    play: async (script) => {
      const pod = await aBoundPod(script);
      await script.delete('Pod', 'a');
      await script.delete('Pod', 'a');
      await script.delete('Pod', 'a', { preconditions: { uid: uidOf(pod) } });
      await script.delete('Pod', 'a', { gracePeriodSeconds: 100 });
      await script.delete('Pod', 'a', { gracePeriodSeconds: 10 });
    },
  },
  {
    name: 'a second deletion under the version before the first one loses',
    play: async (script) => {
      const pod = await aBoundPod(script);
      await script.delete('Pod', 'a', { preconditions: guardOf(pod) });
      await script.delete('Pod', 'a', { preconditions: guardOf(pod) });
    },
  },
  {
    name: 'a deletion without time removes a pod, marked or not',
    play: async (script) => {
      const pod = await aBoundPod(script);
      await script.delete('Pod', 'a');
      await script.delete('Pod', 'a', {
        gracePeriodSeconds: 0,
        preconditions: { uid: 'another' },
      });
      await script.delete('Pod', 'a', {
        gracePeriodSeconds: 0,
        preconditions: { uid: uidOf(pod) },
      });
      await script.get('Pod', 'a');
      await aBoundPod(script);
      await script.delete('Pod', 'a', { gracePeriodSeconds: 0 });
      await script.get('Pod', 'a');
    },
  },
  {
    name: 'a removal is told in two steps: marked without time, then gone',
    play: async (script) => {
      await aBoundPod(script);
      const list = await script.list('Pod');
      const watch = await script.watch('Pod', { query: { resourceVersion: versionOf(list) } });
      await script.delete('Pod', 'a');
      await script.delete('Pod', 'a', { gracePeriodSeconds: 0 });
      await watch.take(3);
      watch.close();
    },
  },
  {
    name: 'a pod that no node has, or that has ended, goes at once',
    play: async (script) => {
      await script.create('Pod', aPod('a'));
      await script.delete('Pod', 'a');
      await script.get('Pod', 'a');
      for (const phase of ['Failed', 'Succeeded']) {
        await aBoundPod(script);
        await report(script, { phase });
        await script.delete('Pod', 'a');
        await script.get('Pod', 'a');
      }
    },
  },
  {
    name: 'a pod with a finalizer stays after its time, until it is taken away',
    play: async (script) => {
      await script.create('Pod', aPod('a', { metadata: { finalizers: ['example.dev/keep'] } }));
      await script.bind('a');
      await script.delete('Pod', 'a', { gracePeriodSeconds: 0 });
      await script.delete('Pod', 'a', { gracePeriodSeconds: 0 });
      await script.merge('Pod', 'a', { metadata: { finalizers: null } });
      await script.get('Pod', 'a');
    },
  },
  {
    name: 'a finalizer that goes before the time is over leaves the pod there',
    play: async (script) => {
      await script.create('Pod', aPod('a', { metadata: { finalizers: ['example.dev/keep'] } }));
      await script.bind('a');
      await script.delete('Pod', 'a');
      await script.merge('Pod', 'a', { metadata: { finalizers: null } });
      await script.delete('Pod', 'a', { gracePeriodSeconds: 0 });
      await script.get('Pod', 'a');
    },
  },
  {
    name: 'a pod reports its status to the second, condition by condition',
    play: async (script) => {
      const pod = await aBoundPod(script);
      await report(script, running, { uid: uidOf(pod) });
      // Fractions of a second again would count as a change, once the second is another one.
      await report(script, whole(running), { uid: uidOf(pod) });
      await report(script, {
        conditions: [{ type: 'Ready', status: 'False', lastTransitionTime: givenTime }],
      });
      await report(script, {
        conditions: [
          { type: 'New', status: 'True', lastTransitionTime: givenTime },
          { type: 'Initialized', status: 'False', lastTransitionTime: givenTime },
        ],
      });
    },
  },
  {
    name: 'a report of containers replaces the one before it as a whole',
    play: async (script) => {
      await aBoundPod(script);
      await report(script, running);
      await report(script, {
        phase: 'Failed',
        reason: 'Error',
        message: 'its containers were killed',
        containerStatuses: [
          {
            name: 'pooler',
            state: {
              terminated: {
                exitCode: 137,
                startedAt: givenTime,
                finishedAt: '2001-02-03T04:05:06.5Z',
              },
            },
          },
        ],
      });
    },
  },
  {
    name: 'a status is not reported to a pod of another uid or under an old version',
    play: async (script) => {
      const pod = await aBoundPod(script);
      await report(script, running, { uid: 'another' });
      await script.merge('Pod', 'a', { metadata: { labels: { a: 'b' } } });
      await report(script, running, { resourceVersion: versionOf(pod) });
      await script.get('Pod', 'a');
    },
  },
  {
    name: 'a report may change annotations, and neither spec nor owners',
    play: async (script) => {
      await aBoundPod(script);
      await script.strategic(
        'Pod',
        'a',
        {
          metadata: {
            annotations: { by: 'kubelet' },
            ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'x', uid: 'x' }],
          },
          spec: { nodeName: 'node-2' },
          status: { phase: 'Running' },
        },
        { subresource: 'status' },
      );
    },
  },
  {
    name: 'a write of a pod does not reach its status',
    play: async (script) => {
      await script.create('Pod', aPod('a'));
      await script.merge('Pod', 'a', {
        metadata: { annotations: { a: 'b' } },
        status: { phase: 'Running' },
      });
    },
  },
  {
    name: 'a pod’s labels and annotations change under a guard, its generation does not',
    play: async (script) => {
      const pod = await script.create('Pod', aPod('a'));
      const labels = { a: 'b' };
      await script.merge('Pod', 'a', { metadata: { ...guardOf(pod), labels } });
      await script.merge('Pod', 'a', { metadata: { ...guardOf(pod), labels: { a: 'c' } } });
      await script.merge('Pod', 'a', { metadata: { uid: 'another' } });
      await script.merge('Pod', 'a', { metadata: { resourceVersion: null, labels: { a: 'd' } } });
    },
  },
  {
    name: 'most of a pod’s spec cannot be changed, its image can',
    play: async (script) => {
      await script.create('Pod', aPod('a'));
      await script.json('Pod', 'a', [
        { op: 'replace', path: '/spec/containers/0/image', value: 'pooler:2' },
      ]);
      await script.get('Pod', 'a');
    },
  },
  {
    name: 'a pod’s command and a claim’s size cannot be changed',
    play: async (script) => {
      await script.create('Pod', aPod('a'));
      await script.json('Pod', 'a', [
        { op: 'add', path: '/spec/containers/0/command', value: ['sh'] },
      ]);
      await script.merge('Pod', 'a', { spec: { hostname: 'b' } });
      await script.create('PersistentVolumeClaim', aClaim('a'));
      await script.merge('PersistentVolumeClaim', 'a', {
        spec: { resources: { requests: { storage: '2Gi' } } },
      });
      await script.get('Pod', 'a');
    },
  },
  {
    name: 'an item without the field that tells items apart cannot be merged',
    play: async (script) => {
      await aBoundPod(script);
      await report(script, { conditions: [{ status: 'True' }] });
      await script.strategic('Pod', 'a', [], { subresource: 'status' });
    },
  },
  {
    name: 'a pod that is deleted in the foreground and owns nothing gets its time all the same',
    play: async (script) => {
      await aBoundPod(script);
      await script.delete('Pod', 'a', { propagationPolicy: 'Foreground' });
      const hasFinalizers = (pod: JsonObject | undefined) =>
        listAt(objectAt(pod, 'metadata'), 'finalizers').length > 0;
      await script.until('Pod', 'a', (pod) => !hasFinalizers(pod));
      await script.delete('Pod', 'a', { gracePeriodSeconds: 0 });
      await script.get('Pod', 'a');
    },
  },
  {
    name: 'a claim is protected from its first moment',
    play: async (script) => {
      await script.create('PersistentVolumeClaim', aClaim('a'));
      await script.create(
        'PersistentVolumeClaim',
        aClaim('b', { finalizers: ['example.dev/keep'] }),
      );
    },
  },
  {
    name: 'a claim is bound through its status',
    play: async (script) => {
      const claim = await script.create('PersistentVolumeClaim', aClaim('a'));
      const status = {
        phase: 'Bound',
        accessModes: ['ReadWriteOnce'],
        capacity: { storage: '1Gi' },
      };
      const manner = { subresource: 'status' } as const;
      await script.merge('PersistentVolumeClaim', 'a', { metadata: { uid: 'x' }, status }, manner);
      const metadata = { uid: uidOf(claim) };
      await script.merge('PersistentVolumeClaim', 'a', { metadata, status }, manner);
      await script.merge('PersistentVolumeClaim', 'a', { metadata, status }, manner);
    },
  },
  {
    name: 'a claim takes marks under a guard',
    play: async (script) => {
      const claim = await script.create('PersistentVolumeClaim', aClaim('a'));
      const annotations = { 'millrace.dev/released': 'a-uid' };
      await script.merge('PersistentVolumeClaim', 'a', {
        metadata: { ...guardOf(claim), annotations },
      });
      await script.merge('PersistentVolumeClaim', 'a', {
        metadata: { ...guardOf(claim), annotations: { 'millrace.dev/released': null } },
      });
    },
  },
  {
    name: 'a Service without an address of its own keeps having none',
    play: async (script) => {
      await script.create('Service', aService('a'));
      await script.merge('Service', 'a', { spec: { clusterIP: '10.96.0.10' } });
      await script.merge('Service', 'a', { spec: { selector: { of: 'b' } } });
      await script.delete('Service', 'a');
      await script.get('Service', 'a');
    },
  },
  {
    name: 'a budget counts generations, and is deleted with a word about it',
    play: async (script) => {
      await script.create('PodDisruptionBudget', aBudget('a'));
      await script.delete('PodDisruptionBudget', 'a');
    },
  },
  {
    name: 'a node reports itself condition by condition',
    play: async (script) => {
      const name = script.clusterName('node');
      await script.create('Node', aNode(name));
      const ready = { type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'runs' };
      const beat = (status: JsonObject) =>
        script.strategic('Node', name, { status }, { subresource: 'status' });
      await beat({
        addresses: [{ type: 'InternalIP', address: '127.0.0.1' }],
        conditions: [{ ...ready, lastHeartbeatTime: '2001-02-03T04:05:06.789Z' }],
      });
      await beat({ conditions: [{ ...ready, status: 'Unknown' }] });
      await script.delete('Node', name);
      await beat({ conditions: [ready] });
    },
  },
  {
    name: 'an event is written once under its name',
    play: async (script) => {
      await script.create('Event', anEvent('a', script.namespace));
      await script.create('Event', anEvent('a', script.namespace));
      await script.create('Event', {
        ...anEvent('b', script.namespace),
        firstTimestamp: '2001-02-03T04:05:06.789Z',
      });
    },
  },
  {
    name: 'a secret keeps what is given as text in base64',
    play: async (script) => {
      await script.create('Secret', {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: 'a' },
        data: { a: 'YQ==' },
        stringData: { b: 'b' },
      });
      await script.get('Secret', 'a');
      await script.delete('Secret', 'a');
    },
  },
];
