import type { Workload } from '#test/world/run/workload.ts';
import {
  aWorld,
  claims,
  databasePausedForAWhile,
  editPool,
  missingMembers,
  pods,
  removePod,
  scale,
  lastPod,
} from './cluster.ts';

const bound = { deliveries: 80, perFault: 80 };

/** pool-pods alone: nobody leaves. */
export const workloads: readonly Workload[] = [
  {
    name: '1 to 3',
    steps: ['pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 1, requiredCount: 1 }),
    begin: (world) => scale(world, 3),
    edits: [{ name: 'scaled to 4', act: (world) => scale(world, 4) }, databasePausedForAWhile],
    missing: missingMembers,
    bound,
  },
  {
    name: '1 to 2 in three cells',
    steps: ['pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 1, cells: ['zone-a', 'zone-b', 'zone-c'] }),
    begin: (world) => scale(world, 2),
    missing: missingMembers,
    bound: { deliveries: 120, perFault: 120 },
  },
  {
    name: 'a pod is deleted from outside',
    steps: ['pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) => removePod(world, lastPod(world)),
    edits: [databasePausedForAWhile],
    missing: (world) => [
      ...missingMembers(world),
      ...(claims(world).length === 3 ? [] : [`there are ${claims(world).length} claims`]),
    ],
    bound,
  },
  {
    name: 'labels follow the template',
    steps: ['pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 3 }),
    begin: (world) =>
      editPool(world, {
        podTemplate: {
          metadata: { labels: { tier: 'gold' } },
          spec: { containers: [{ name: 'pooler', image: 'pooler:2' }] },
        },
      }),
    missing: (world) => [
      ...missingMembers(world),
      ...pods(world)
        .filter(({ metadata }) => metadata.labels?.['tier'] !== 'gold')
        .map(({ metadata }) => `${metadata.name} has not the new label`),
    ],
    bound,
  },
];
