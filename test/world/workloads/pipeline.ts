import { drainRequest } from '#shared/api/annotations.ts';
import type { Workload } from '#test/world/run/workload.ts';
import {
  aWorld,
  drainState,
  editPod,
  leaderPod,
  leftClaims,
  missingMembers,
  pods,
  removePod,
  scale,
} from './cluster.ts';

const bound = { deliveries: 160, perFault: 160 };

/** Both steps, as they run in a cluster. */
export const workloads: readonly Workload[] = [
  {
    name: '3 to 2 to 3',
    choicesDependOnTime: 'who goes',
    steps: ['drain-step', 'pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) => {
      scale(world, 2);
      world.plan({
        name: 'a person scales back to 3',
        when: (at) => drainState(at) === 'finished',
        act: (at) => scale(at, 3),
      });
    },
    edits: [
      { name: 'scaled to 2', act: (world) => scale(world, 2) },
      { name: 'scaled to 4', act: (world) => scale(world, 4) },
    ],
    missing: missingMembers,
    bound,
  },
  {
    name: 'the leader is asked to leave',
    steps: ['drain-step', 'pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) =>
      editPod(world, leaderPod(world) ?? '', {
        metadata: { annotations: { [drainRequest]: 'maintenance' } },
      }),
    edits: [{ name: 'scaled to 2', act: (world) => scale(world, 2) }],
    missing: (world) => [
      ...missingMembers(world),
      ...pods(world)
        .filter(({ metadata }) => metadata.annotations?.[drainRequest] !== undefined)
        .map(({ metadata }) => `${metadata.name} is still asked to leave`),
    ],
    bound,
  },
  {
    name: 'a member fails',
    steps: ['drain-step', 'pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 3, whenScaled: 'Delete' }),
    begin: (world) => {
      const leader = leaderPod(world);
      const pod = pods(world).find(({ metadata }) => metadata.name !== leader)?.metadata.name ?? '';
      world.fault({ kind: 'podDeath', pod, leaves: 'failed' });
    },
    missing: missingMembers,
    bound,
  },
  {
    name: 'the leaver dies without a word',
    losesMember: true,
    choicesDependOnTime: 'who goes',
    steps: ['drain-step', 'pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 3, whenScaled: 'Delete' }),
    begin: (world) => {
      scale(world, 2);
      world.plan({
        name: 'the leaver is killed',
        when: (at) => drainState(at) === 'acknowledged' || drainState(at) === 'finished',
        act: (at) => {
          const pod = pods(at).at(-1)?.metadata.name ?? '';
          at.fault({ kind: 'podDeath', pod, leaves: 'nothing' });
        },
      });
    },
    missing: (world) => [...missingMembers(world), ...leftClaims(world)],
    bound,
  },
  {
    name: 'pods go while it scales',
    choicesDependOnTime: 'who goes',
    steps: ['drain-step', 'pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) => {
      scale(world, 2);
      world.plan({
        name: 'a person deletes the leaver',
        when: (at) => drainState(at) === 'draining',
        act: (at) => removePod(at, pods(at).at(-1)?.metadata.name ?? ''),
      });
    },
    missing: missingMembers,
    bound,
  },
  {
    name: 'the leader dies past the point of no return',
    choicesDependOnTime: 'how many go',
    steps: ['drain-step', 'pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 4 }),
    begin: (world) => {
      scale(world, 3);
      world.plan({
        name: 'the leader has two seconds left',
        when: (at) => drainState(at) === 'finished',
        act: (at) =>
          at.later('the leader is killed', 2, (later) => {
            const pod = leaderPod(later) ?? '';
            later.fault({ kind: 'podDeath', pod, leaves: 'failed' });
          }),
      });
    },
    missing: missingMembers,
    bound,
  },
];
