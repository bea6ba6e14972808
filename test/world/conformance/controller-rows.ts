import type { JsonObject } from '#shared/kube/json.ts';
import { aBudget, aClaim, aPod, aService, aShard, mounting, ownedBy, uidOf } from './manifests.ts';
import type { Row } from './script.ts';
import { listAt, objectAt } from '#test/world/model/json-data.ts';

/** Controls and blocks, as Millrace writes it. */
function controlledBy(owner: JsonObject): JsonObject {
  return {
    ownerReferences: [ownedBy(owner, { controller: true, blockOwnerDeletion: true })],
  };
}

const isMarked = (object: JsonObject | undefined) =>
  objectAt(object, 'metadata')['deletionTimestamp'] !== undefined;

const hasOwners = (count: number) => (object: JsonObject | undefined) => {
  const owners = listAt(objectAt(object, 'metadata'), 'ownerReferences');
  return object !== undefined && owners.length === count;
};

/** Finalizers, and what controllers do by themselves: owners, claims in use, namespaces. */
export const controllerRows: readonly Row[] = [
  {
    name: 'a finalizer keeps an object, marked and one generation on, until the last one is taken away',
    play: async (script) => {
      const finalizers = ['example.dev/a', 'example.dev/b'];
      const shard = await script.create('Shard', aShard('a', { metadata: { finalizers } }));
      await script.delete('Shard', 'a', { preconditions: { uid: uidOf(shard) } });
      await script.delete('Shard', 'a');
      await script.merge('Shard', 'a', { metadata: { finalizers: ['example.dev/b'] } });
      await script.merge('Shard', 'a', { metadata: { finalizers: null } });
      await script.get('Shard', 'a');
    },
  },
  {
    name: 'an object that is marked takes no new finalizer, and cannot be unmarked',
    play: async (script) => {
      const finalizers = ['example.dev/a'];
      await script.create('Shard', aShard('a', { metadata: { finalizers } }));
      await script.delete('Shard', 'a');
      await script.merge('Shard', 'a', {
        metadata: { finalizers: [...finalizers, 'example.dev/b'] },
      });
      await script.merge('Shard', 'a', { metadata: { deletionTimestamp: null } });
      await script.merge('Shard', 'a', { spec: { paused: true } });
    },
  },
  {
    name: 'a marked object keeps its name',
    play: async (script) => {
      await script.create('Shard', aShard('a', { metadata: { finalizers: ['example.dev/a'] } }));
      await script.delete('Shard', 'a');
      await script.create('Shard', aShard('a'));
    },
  },
  {
    name: 'what a Shard owns goes after it, what it does not own stays',
    play: async (script) => {
      const shard = await script.create('Shard', aShard('a'));
      await script.create('Service', aService('owned', controlledBy(shard)));
      await script.create('PodDisruptionBudget', aBudget('owned', controlledBy(shard)));
      await script.create('Service', aService('free'));
      await script.delete('Shard', 'a');
      await script.until('Service', 'owned');
      await script.until('PodDisruptionBudget', 'owned');
      await script.get('Service', 'free');
    },
  },
  {
    name: 'a pod whose owner is gone gets its time to stop',
    play: async (script) => {
      const shard = await script.create('Shard', aShard('a'));
      await script.create('Pod', aPod('a-0', { metadata: controlledBy(shard) }));
      await script.bind('a-0');
      await script.delete('Shard', 'a');
      await script.until('Pod', 'a-0', isMarked);
    },
  },
  {
    name: 'an object made for an owner that is gone goes at once, and so for one of another uid',
    play: async (script) => {
      const shard = await script.create('Shard', aShard('a'));
      await script.delete('Shard', 'a');
      await script.create('Service', aService('late', controlledBy(shard)));
      await script.until('Service', 'late');
      await script.create('Shard', aShard('a'));
      await script.create('Service', aService('later', controlledBy(shard)));
      await script.until('Service', 'later');
      await script.get('Shard', 'a');
    },
  },
  {
    name: 'one owner of two is enough, and the other one is forgotten',
    play: async (script) => {
      const [one, other] = [
        await script.create('Shard', aShard('a')),
        await script.create('Shard', aShard('b')),
      ];
      const ownerReferences = [ownedBy(one), ownedBy(other)];
      await script.create('Service', aService('shared', { ownerReferences }));
      await script.delete('Shard', 'a');
      await script.until('Service', 'shared', hasOwners(1));
      await script.delete('Shard', 'b');
      await script.until('Service', 'shared');
    },
  },
  {
    name: 'an owner that is deleted in the foreground waits for what blocks it',
    play: async (script) => {
      const shard = await script.create('Shard', aShard('a'));
      await script.create('Pod', aPod('a-0', { metadata: controlledBy(shard) }));
      await script.bind('a-0');
      await script.delete('Shard', 'a', { propagationPolicy: 'Foreground' });
      await script.until('Pod', 'a-0', isMarked);
      await script.get('Shard', 'a');
      await script.delete('Pod', 'a-0', { gracePeriodSeconds: 0 });
      await script.until('Shard', 'a');
    },
  },
  {
    name: 'what an owner leaves as orphans has no owner any more',
    play: async (script) => {
      const shard = await script.create('Shard', aShard('a'));
      await script.create('Service', aService('kept', controlledBy(shard)));
      await script.delete('Shard', 'a', { propagationPolicy: 'Orphan' });
      await script.until('Shard', 'a');
      await script.until('Service', 'kept', hasOwners(0));
    },
  },
  {
    name: 'a claim that nobody mounts goes',
    play: async (script) => {
      const claim = await script.create('PersistentVolumeClaim', aClaim('a'));
      await script.delete('PersistentVolumeClaim', 'a', { preconditions: { uid: 'x' } });
      await script.delete('PersistentVolumeClaim', 'a', { preconditions: { uid: uidOf(claim) } });
      await script.until('PersistentVolumeClaim', 'a');
    },
  },
  {
    name: 'a claim stays while a pod with a node mounts it, and goes when the pod is gone',
    play: async (script) => {
      await script.create('PersistentVolumeClaim', aClaim('a'));
      await script.create('PersistentVolumeClaim', aClaim('b'));
      await script.create('Pod', aPod('a', { spec: mounting('a') }));
      await script.bind('a');
      await script.create('Pod', aPod('b', { spec: mounting('b') }));
      await script.delete('PersistentVolumeClaim', 'a');
      await script.delete('PersistentVolumeClaim', 'b');
      await script.until('PersistentVolumeClaim', 'b');
      await script.get('PersistentVolumeClaim', 'a');
      await script.delete('Pod', 'a');
      await script.get('PersistentVolumeClaim', 'a');
      await script.delete('Pod', 'a', { gracePeriodSeconds: 0 });
      await script.until('PersistentVolumeClaim', 'a');
    },
  },
  {
    name: 'a claim that is marked can still be mounted by a new pod, which keeps it',
    play: async (script) => {
      await script.create(
        'PersistentVolumeClaim',
        aClaim('a', { finalizers: ['example.dev/keep'] }),
      );
      await script.delete('PersistentVolumeClaim', 'a');
      await script.until(
        'PersistentVolumeClaim',
        'a',
        (claim) => !JSON.stringify(claim).includes('pvc-protection'),
      );
      await script.merge('PersistentVolumeClaim', 'a', { metadata: { finalizers: null } });
      await script.get('PersistentVolumeClaim', 'a');
    },
  },
  {
    name: 'a namespace takes all that is in it along, and nothing new while it goes',
    play: async (script) => {
      const name = script.clusterName('gone');
      const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
      await script.create('Namespace', namespace);
      const path = `/apis/millrace.dev/v1alpha1/namespaces/${name}/shards`;
      const metadata = { finalizers: ['example.dev/keep'] };
      await script.ask({ method: 'POST', path, body: aShard('a', { metadata }) });
      await script.delete('Namespace', name);
      await script.ask({ method: 'POST', path, body: aShard('b') });
    },
  },
];
