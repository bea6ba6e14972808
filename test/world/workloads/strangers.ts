import { drainRequest } from '#shared/api/annotations.ts';
import { budgetName, claimName, podBaseName, podName, serviceName } from '#shared/api/names.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { ObjectRef, ResourceKind } from '#shared/kube/resources.ts';
import { worldNamespace } from '#test/world/run/handler.ts';
import { markOfOthers } from '#test/world/run/faults.ts';
import { edit, remove } from '#test/world/run/person.ts';
import type { Workload } from '#test/world/run/workload.ts';
import type { World } from '#test/world/run/world.ts';
import {
  aWorld,
  claims,
  drainState,
  editPod,
  lastPod,
  leaderPod,
  missingMembers,
  pods,
  removePod,
  scale,
} from './cluster.ts';

const bound = { deliveries: 80, perFault: 80 };
const namespace = worldNamespace;
const base = podBaseName('orders', 'main', 'zone-a');

/** How long strangers stay, in seconds. */
const visitSeconds = 40;

/** Others have objects under our names, and pods of ours in their hands. */
export const workloads: readonly Workload[] = [
  {
    name: 'strangers hold the names',
    steps: ['pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 1, requiredCount: 1 }),
    begin: (world) => {
      makeStrangers(world);
      scale(world, 3);
      world.later('the strangers leave', visitSeconds, removeStrangers);
    },
    missing: missingMembers,
    bound,
  },
  {
    name: 'a claim goes with its pod',
    steps: ['pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) => {
      const pod = lastPod(world);
      const claim = claimName(pod);
      edit(world, refTo('PersistentVolumeClaim', claim), {
        metadata: { finalizers: ['example.com/snapshot'] },
      });
      remove(world, refTo('PersistentVolumeClaim', claim));
      removePod(world, pod);
      world.later('the snapshot is taken', visitSeconds, (at) =>
        edit(at, refTo('PersistentVolumeClaim', claim), { metadata: { finalizers: null } }),
      );
    },
    missing: (world) => [
      ...missingMembers(world),
      ...claims(world)
        .filter(({ metadata }) => metadata.deletionTimestamp !== undefined)
        .map(({ metadata }) => `${metadata.name} is still going`),
    ],
    bound,
  },
  {
    name: 'another operator takes the leaver',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) => {
      const leaver = lastPod(world);
      scale(world, 2);
      world.plan({
        name: 'another operator begins to drain the leaver, and leaves it again',
        when: (at) => drainState(at) === 'draining',
        act: (at) => markForAWhile(at, leaver),
      });
    },
    missing: missingMembers,
    bound,
  },
  {
    name: 'another operator drains the one that is needed',
    // The request is taken back where nobody can say in time that it can be met.
    choicesDependOnTime: 'how many go',
    steps: ['drain-step', 'pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) => {
      const [leader, leaver] = [leaderPod(world), lastPod(world)];
      const names = pods(world).map(({ metadata }) => metadata.name);
      markForAWhile(world, names.find((name) => name !== leader && name !== leaver) ?? '');
      editPod(world, leaver, { metadata: { annotations: { [drainRequest]: 'maintenance' } } });
    },
    missing: missingMembers,
    bound: { deliveries: 160, perFault: 160 },
  },
  {
    name: 'a pod of ours is adopted',
    steps: ['drain-step', 'pool-pods'],
    choicesDependOnTime: 'who goes',
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) => {
      const pod = world.api.get('Pod', namespace, lastPod(world));
      editPod(world, pod?.metadata.name ?? '', { metadata: { ownerReferences: null } });
      world.later('and given back', visitSeconds, (at) =>
        editPod(at, pod?.metadata.name ?? '', {
          metadata: { ownerReferences: pod?.metadata.ownerReferences },
        }),
      );
    },
    missing: missingMembers,
    bound: { deliveries: 160, perFault: 160 },
  },
];

/** Where the next members are to be: a pod, a claim, and the Service and the budget with neither owner nor selector of ours. */
function makeStrangers(world: World): void {
  const containers = [{ name: 'shell', image: 'shell:1' }];
  make(world, 'Pod', podName(base, 1), { spec: { containers } });
  const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } };
  make(world, 'PersistentVolumeClaim', claimName(podName(base, 2)), { spec });
  edit(world, refTo('Service', serviceName('orders')), {
    metadata: { ownerReferences: null },
    spec: { selector: { app: 'theirs' } },
  });
  edit(world, refTo('PodDisruptionBudget', budgetName(base)), {
    metadata: { ownerReferences: null },
    spec: { minAvailable: 0 },
  });
}

function removeStrangers(world: World): void {
  removePod(world, podName(base, 1));
  remove(world, refTo('PersistentVolumeClaim', claimName(podName(base, 2))));
  remove(world, refTo('Service', serviceName('orders')));
  remove(world, refTo('PodDisruptionBudget', budgetName(base)));
}

function markForAWhile(world: World, pod: string): void {
  editPod(world, pod, { metadata: { annotations: { [markOfOthers]: 'draining' } } });
  world.later(`the other operator lets ${pod} be`, visitSeconds, (at) =>
    editPod(at, pod, { metadata: { annotations: { [markOfOthers]: null } } }),
  );
}

function make(world: World, kind: ResourceKind, name: string, object: { spec: object }): void {
  world.person({
    method: 'POST',
    path: collectionPath(kind, namespace),
    body: { apiVersion: 'v1', kind, metadata: { name, namespace }, ...object },
  });
}

function refTo(kind: ResourceKind, name: string): ObjectRef {
  return { kind, namespace, name };
}
