import { drainRequest, forceDrain } from '#shared/api/annotations.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { worldNamespace } from '#test/world/run/handler.ts';
import { moveLead } from '#test/world/run/faults.ts';
import { remove } from '#test/world/run/person.ts';
import type { Edit, Workload } from '#test/world/run/workload.ts';
import type { World } from '#test/world/run/world.ts';
import {
  aWorld,
  claims,
  databasePausedForAWhile,
  drainState,
  editPool,
  editPod,
  editShard,
  leaderPod,
  leftClaims,
  missingMembers,
  pods,
  removePod,
  scale,
  theShard,
  lastPod,
} from './cluster.ts';

const bound = { deliveries: 80, perFault: 80 };

const pausedForAWhile: Edit = {
  name: 'paused for 20 s',
  act: (world) => {
    editShard(world, { spec: { paused: true } });
    world.later('nobody pauses it any more', 20, (at) =>
      editShard(at, { spec: { paused: false } }),
    );
  },
};

/** The last pod, and it is no longer one too many when anybody looks. */
function loseLastPod(world: World): void {
  scale(world, 2);
  removePod(world, lastPod(world));
}

/** Nobody could take the lead on a node that is lost, and who gives it up takes it back from nobody else. */
function hasNode({ multigres }: World): boolean {
  return multigres.state.faults.every(({ kind }) => kind !== 'nodeNotReady');
}

function isSomebodyStill({ inFlight }: World): boolean {
  return inFlight.some(({ hangsUntil }) => hangsUntil !== undefined);
}

/** A person's own pod, with none of our labels, for as long as it is needed. */
const inspector = 'inspector';

function inspectClaim(world: World, claim: string): void {
  const namespace = theShard(world)?.metadata.namespace ?? '';
  world.person({
    method: 'POST',
    path: collectionPath('Pod', namespace),
    body: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: inspector, namespace },
      spec: {
        containers: [{ name: 'shell', image: 'shell:1' }],
        volumes: [{ name: 'old', persistentVolumeClaim: { claimName: claim } }],
      },
    },
  });
}

/** drain-step alone: the pods are there, and nobody makes new ones. With pool-pods where a claim is used again. */
export const workloads: readonly Workload[] = [
  {
    name: '3 to 2',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) => scale(world, 2),
    edits: [pausedForAWhile, databasePausedForAWhile],
    missing: missingMembers,
    bound,
  },
  {
    name: '5 to 2',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 5 }),
    begin: (world) => scale(world, 2),
    edits: [pausedForAWhile],
    missing: missingMembers,
    bound,
  },
  {
    name: '3 to 2, claims deleted',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 3, whenScaled: 'Delete' }),
    begin: (world) => scale(world, 2),
    missing: (world) => [...missingMembers(world), ...leftClaims(world)],
    bound,
  },
  {
    name: '3 to 2, and from then on claims are deleted',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) => {
      scale(world, 2);
      world.plan({
        name: 'a person wants surplus claims deleted',
        when: (at) => drainState(at) === 'none' && pods(at).length === 2,
        act: (at) => editPool(at, { pvcPolicy: { whenScaled: 'Delete' } }),
      });
    },
    missing: (world) => [...missingMembers(world), ...leftClaims(world)],
    bound,
  },
  {
    name: 'a surplus member goes unseen and runs on',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 3, whenScaled: 'Delete' }),
    begin: (world) => {
      const name = lastPod(world);
      world.fault({ kind: 'nodeNotReady' });
      remove(world, { kind: 'Pod', namespace: worldNamespace, name }, 0);
      scale(world, 2);
      world.later('the node is heard of again', 60, (at) => at.lift('nodeNotReady'));
    },
    missing: (world) => [...missingMembers(world), ...leftClaims(world)],
    needsResync: true,
    bound: { deliveries: 150, perFault: 150 },
  },
  {
    name: 'a finalizer holds the leaver',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) => {
      const last = lastPod(world);
      editPod(world, last, { metadata: { finalizers: ['example.com/backup'] } });
      scale(world, 2);
      world.plan({
        name: 'whose finalizer it is sees to the leaver, for a while',
        when: (at) => pods(at).some(({ metadata }) => metadata.deletionTimestamp !== undefined),
        act: (at) =>
          at.later('and lets it go', 40, (later) =>
            editPod(later, last, { metadata: { finalizers: null } }),
          ),
      });
    },
    edits: [pausedForAWhile],
    missing: missingMembers,
    bound,
  },
  {
    name: 'a surplus member goes unseen',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 3, whenScaled: 'Delete' }),
    begin: loseLastPod,
    edits: [pausedForAWhile],
    missing: (world) => [...missingMembers(world), ...leftClaims(world)],
    bound,
  },
  {
    name: 'a left claim is looked into',
    needsResync: true,
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 3, whenScaled: 'Delete' }),
    begin: (world) => {
      loseLastPod(world);
      world.plan({
        name: 'a person mounts the claim, for a minute',
        when: (at) => drainState(at) === 'draining',
        act: (at) => {
          inspectClaim(at, claims(at).at(-1)?.metadata.name ?? '');
          at.later('and has seen enough', 60, (later) => removePod(later, inspector));
        },
      });
    },
    missing: (world) => [...missingMembers(world), ...leftClaims(world)],
    bound,
  },
  {
    name: 'a left claim is wanted again',
    choicesDependOnTime: 'who goes',
    steps: ['drain-step', 'pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 3, whenScaled: 'Delete' }),
    begin: (world) => {
      loseLastPod(world);
      world.plan({
        name: 'a person scales back to 3',
        when: (at) => drainState(at) === 'draining',
        act: (at) => scale(at, 3),
      });
    },
    edits: [{ name: 'scaled to 3', act: (world) => scale(world, 3) }],
    missing: (world) => [...missingMembers(world), ...leftClaims(world)],
    bound: { deliveries: 160, perFault: 160 },
  },
  {
    name: '2 to 1 in three cells',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 2, cells: ['zone-a', 'zone-b', 'zone-c'] }),
    begin: (world) => scale(world, 1),
    missing: missingMembers,
    bound: { deliveries: 120, perFault: 120 },
  },
  {
    name: 'wanted again while it drains',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) => {
      scale(world, 2);
      world.plan({
        name: 'a person scales back to 3',
        when: (at) => drainState(at) === 'draining',
        act: (at) => scale(at, 3),
      });
    },
    missing: missingMembers,
    bound,
  },
  {
    name: 'paused while it drains',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) => {
      scale(world, 2);
      world.plan({
        name: 'a person pauses the shard, for a minute',
        when: (at) => drainState(at) === 'draining',
        act: (at) => {
          editShard(at, { spec: { paused: true } });
          at.later('and goes on', 60, (later) => editShard(later, { spec: { paused: false } }));
        },
      });
    },
    missing: missingMembers,
    bound,
  },
  {
    name: 'a request taken back',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) => {
      const pod = leaderPod(world) ?? '';
      editPod(world, pod, { metadata: { annotations: { [drainRequest]: 'maintenance' } } });
      world.later('the request is taken back', 3, (at) =>
        editPod(at, pod, { metadata: { annotations: { [drainRequest]: null } } }),
      );
    },
    missing: missingMembers,
    bound,
  },
  {
    name: 'more is asked for than can be spared',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 2 }),
    begin: (world) => {
      scale(world, 1);
      world.later('a person gives up', 400, (at) => scale(at, 2));
    },
    missing: missingMembers,
    bound: { deliveries: 150, perFault: 150 },
  },
  {
    name: 'the leaver comes to lead past the point of no return',
    choicesDependOnTime: 'who goes',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 2, requiredCount: 1 }),
    begin: (world) => {
      scale(world, 1);
      world.plan({
        name: 'the admin service goes away, and the lead moves meanwhile',
        when: (at) => drainState(at) === 'finished',
        act: (at) => {
          at.interrupt('admin', 10);
          moveLead(at);
        },
      });
    },
    missing: missingMembers,
    bound,
  },
  {
    name: 'the leaver comes to lead while somebody is about to delete it',
    choicesDependOnTime: 'who goes',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 2, requiredCount: 1 }),
    begin: (world) => {
      scale(world, 1);
      world.plan({
        name: 'the lead moves while a handler stands still',
        when: (at) => drainState(at) === 'finished' && isSomebodyStill(at) && hasNode(at),
        act: moveLead,
      });
      world.plan({
        name: 'a person pauses the shard before anything else is done',
        when: (at) => drainState(at) === 'requested' && isSomebodyStill(at),
        act: pausedForAWhile.act,
      });
    },
    missing: missingMembers,
    bound,
  },
  {
    name: 'forced past the quorum',
    steps: ['drain-step'],
    create: (tally) => aWorld(tally, { replicas: 2 }),
    begin: (world) => {
      scale(world, 1);
      world.later('a person forces the leaver out', 30, (at) => {
        const leader = leaderPod(at);
        const leaver = pods(at).find(({ metadata }) => metadata.name !== leader);
        editShard(at, { metadata: { annotations: { [forceDrain]: leaver?.metadata.uid ?? '' } } });
      });
    },
    givesUpQuorum: true,
    // The data plane keeps whom it cannot spare in its cohort, so only the pods are counted.
    missing: (world) => missingMembers(world).filter((problem) => !problem.includes('cohort')),
    bound: { deliveries: 150, perFault: 150 },
  },
];
