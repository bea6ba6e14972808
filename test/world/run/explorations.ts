import { drainRequest } from '#shared/api/annotations.ts';
import type { StepName } from '#shared/api/steps.ts';
import {
  type ClusterOptions,
  aWorld,
  claims,
  editPod,
  leaderPod,
  missingMembers,
  pods,
  scale,
  theShard,
} from '#test/world/workloads/cluster.ts';
import { areBackupsWanted, oneSlot, setSuspended } from '#test/world/workloads/backup-trigger.ts';
import { oneDeadRecord, writeDeadRecords } from '#test/world/workloads/etcd-cleanup.ts';
import { deadRecords } from './dead-records.ts';
import type { Exploration } from './explorer.ts';
import { replacePod } from './faults.ts';
import type { Act, Bounds } from './interleavings.ts';
import type { World } from './world.ts';

const calm: Bounds = {
  handlers: 2,
  duplicates: 0,
  crashes: 0,
  lostAnswers: 0,
  pauses: 0,
  acts: [],
  answersIn: 'the order asked',
  horizonSeconds: 400,
};

const scaledTo = (replicas: number): Act => ({
  name: `a person scales to ${replicas}`,
  isPossible: (world) => theShard(world)?.spec.pools[0]?.replicasPerCell !== replicas,
  act: (world) => scale(world, replicas),
});

/** The leaver's, where one is picked. */
const nameReused: Act = {
  name: 'a pod is force-deleted and made again under its name',
  isPossible: (world) =>
    pods(world).some(({ metadata }) => metadata.deletionTimestamp === undefined),
  act: replacePod,
};

/** And wanted again right away: nobody may have seen it. */
const suspended: Act = {
  name: 'a person suspends the schedule, and wants it again',
  isPossible: areBackupsWanted,
  act: (world) => {
    setSuspended(world, true);
    setSuspended(world, false);
  },
};

const writtenAgain: Act = {
  name: 'somebody writes the record of the dead',
  isPossible: (world) => deadRecords(world).length > 0,
  act: writeDeadRecords,
};

const drainAlone: readonly StepName[] = ['drain-step'];
const both: readonly StepName[] = ['drain-step', 'pool-pods'];

/** Bounds that CI has the time for, and those of the long run. */
interface Sized extends Omit<Exploration, 'bounds'> {
  readonly short: Bounds;
  readonly long: Bounds;
}

/**
 * Small ones first, so that what is simple to find is found soon. Several handlers side by side and a person who acts at
 * any moment multiply each other, so CI has them one by one, and the long run together.
 */
const sized: readonly Sized[] = [
  {
    name: 'a drain',
    short: calm,
    long: { ...calm, handlers: 3, answersIn: 'every order' },
    workload: aWorkload(drainAlone, { replicas: 3 }, scaleDown),
  },
  {
    name: 'a drain, three handlers at a time',
    short: { ...calm, handlers: 3 },
    long: { ...calm, handlers: 3, crashes: 1 },
    workload: aWorkload(drainAlone, { replicas: 3 }, scaleDown),
  },
  {
    name: 'a drain, a message delivered twice',
    short: { ...calm, duplicates: 1 },
    long: { ...calm, handlers: 3, duplicates: 1 },
    workload: aWorkload(drainAlone, { replicas: 3 }, scaleDown),
  },
  {
    name: 'a drain, a handler crashes',
    short: { ...calm, crashes: 1 },
    long: { ...calm, crashes: 1, duplicates: 1 },
    workload: aWorkload(drainAlone, { replicas: 3 }, scaleDown),
  },
  {
    name: 'a drain, an answer is lost',
    short: { ...calm, lostAnswers: 1 },
    long: { ...calm, lostAnswers: 1, crashes: 1 },
    workload: aWorkload(drainAlone, { replicas: 3 }, scaleDown),
  },
  {
    name: 'the leader is asked to leave',
    short: calm,
    long: { ...calm, crashes: 1 },
    workload: aWorkload(both, { replicas: 3 }, askLeader),
  },
  {
    name: 'a drain and its claim is deleted',
    short: calm,
    long: { ...calm, lostAnswers: 1 },
    workload: aWorkload(both, { replicas: 3, whenScaled: 'Delete' }, scaleDown),
  },
  {
    name: 'scaled back at any moment',
    short: { ...calm, handlers: 1, acts: [scaledTo(3)], crashes: 1 },
    long: { ...calm, acts: [scaledTo(3)] },
    workload: aWorkload(both, { replicas: 3 }, scaleDown),
  },
  {
    name: 'a drain, a handler hangs',
    short: { ...calm, pauses: 1 },
    long: { ...calm, pauses: 1, duplicates: 1 },
    workload: aWorkload(drainAlone, { replicas: 3 }, scaleDown),
  },
  {
    name: 'a name is used again at any moment',
    short: { ...calm, handlers: 1, acts: [nameReused], crashes: 1 },
    long: { ...calm, acts: [nameReused] },
    workload: aWorkload(both, { replicas: 3 }, scaleDown),
  },
  {
    name: 'a name is used again while its claim is to go',
    short: { ...calm, handlers: 1, acts: [nameReused] },
    long: { ...calm, handlers: 1, acts: [nameReused, scaledTo(3)], crashes: 1, duplicates: 1 },
    workload: aWorkload(both, { replicas: 3, whenScaled: 'Delete' }, scaleDown),
  },
  {
    name: 'a slot',
    short: { ...calm, handlers: 3, answersIn: 'every order' },
    long: { ...calm, handlers: 3, duplicates: 2, answersIn: 'every order' },
    workload: aSlot(),
  },
  {
    name: 'a slot, a handler crashes beside another',
    short: { ...calm, crashes: 1, duplicates: 1 },
    long: { ...calm, handlers: 3, crashes: 2, duplicates: 1 },
    workload: aSlot(),
  },
  {
    name: 'a slot, an answer is lost',
    short: { ...calm, lostAnswers: 1 },
    long: { ...calm, lostAnswers: 2, crashes: 1 },
    workload: aSlot(),
  },
  {
    name: 'a slot, a handler hangs',
    short: { ...calm, pauses: 1 },
    long: { ...calm, pauses: 1, crashes: 1, duplicates: 1 },
    workload: aSlot(),
  },
  {
    name: 'a slot, suspended and wanted again at any moment',
    short: { ...calm, acts: [suspended], crashes: 1 },
    long: { ...calm, acts: [suspended], lostAnswers: 1, crashes: 1, duplicates: 1 },
    workload: aSlot(),
  },
  {
    name: 'a record of the dead',
    short: { ...calm, duplicates: 1 },
    long: { ...calm, handlers: 3, duplicates: 1, answersIn: 'every order' },
    workload: aDeadRecord(),
  },
  {
    name: 'a record of the dead, a handler crashes or an answer is lost',
    short: { ...calm, handlers: 1, crashes: 1, lostAnswers: 1 },
    long: { ...calm, crashes: 1, lostAnswers: 1, duplicates: 1 },
    workload: aDeadRecord(),
  },
  {
    name: 'a record of the dead, written once more at any moment',
    short: { ...calm, handlers: 1, acts: [writtenAgain], crashes: 1 },
    long: { ...calm, acts: [writtenAgain], crashes: 1, duplicates: 1 },
    workload: aDeadRecord(),
  },
  {
    name: 'a record of the dead, a handler hangs',
    short: { ...calm, handlers: 1, pauses: 1 },
    long: { ...calm, pauses: 1, acts: [writtenAgain] },
    workload: aDeadRecord(),
  },
];

/** Every state space, in the bounds of a scale. */
export function explorationsOf(scale: 'short' | 'long'): readonly Exploration[] {
  return sized.map(({ short, long, ...exploration }) => ({
    ...exploration,
    bounds: scale === 'short' ? short : long,
  }));
}

/** What nobody knows is begun once more. */
function aSlot(): Exploration['workload'] {
  return (memory) => ({
    name: 'explored: a slot',
    ...oneSlot({ versions: 'object', memory }, { onUnknown: 'rerun' }),
  });
}

function aDeadRecord(): Exploration['workload'] {
  return (memory) => ({
    name: 'explored: a record of the dead',
    ...oneDeadRecord({ versions: 'object', memory }),
  });
}

function scaleDown(world: World): void {
  scale(world, 2);
}

function askLeader(world: World): void {
  editPod(world, leaderPod(world) ?? '', {
    metadata: { annotations: { [drainRequest]: 'maintenance' } },
  });
}

function aWorkload(
  steps: readonly StepName[],
  options: ClusterOptions,
  begin: (world: World) => void,
): Exploration['workload'] {
  return (memory) => ({
    name: `explored: ${steps.join(' and ')}`,
    steps,
    create: (tally) => aWorld(tally, { ...options, versions: 'object', memory }),
    begin,
    missing: (world) => [
      ...missingMembers(world),
      ...(options.whenScaled !== 'Delete' || claims(world).length === pods(world).length
        ? []
        : ['a surplus claim is left']),
      ...pods(world)
        .filter(({ metadata }) => metadata.annotations?.[drainRequest] !== undefined)
        .map(({ metadata }) => `${metadata.name} is still asked to leave`),
    ],
    bound: { deliveries: 300, perFault: 0 },
  });
}
