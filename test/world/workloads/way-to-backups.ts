import { sharedBackupClaimName } from '#shared/api/names.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { worldNamespace } from '#test/world/run/handler.ts';
import { edit, remove } from '#test/world/run/person.ts';
import type { Workload } from '#test/world/run/workload.ts';
import type { World } from '#test/world/run/world.ts';
import {
  aWorld,
  claims,
  databasePausedForAWhile,
  editDatabase,
  missingMembers,
  pods,
  scale,
  theShard,
} from './cluster.ts';

const bound = { deliveries: 80, perFault: 80 };
const name = sharedBackupClaimName('orders');
const ref = { kind: 'PersistentVolumeClaim', namespace: worldNamespace, name } as const;

/** How long a stranger's claim stays, and how long it then takes to go, in seconds. */
const visitSeconds = 40;

/** pool-pods alone: members are made for backups in a file system that all share. */
export const workloads: readonly Workload[] = [
  {
    name: '1 to 3 with backups in a file system',
    steps: ['pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 1, requiredCount: 1 }),
    begin: growOnFileSystem,
    edits: [databasePausedForAWhile],
    missing,
    bound,
  },
  {
    name: 'a stranger has the claim of the backups',
    steps: ['pool-pods'],
    create: (tally) => aWorld(tally, { replicas: 1, requiredCount: 1 }),
    begin: (world) => {
      makeStranger(world);
      growOnFileSystem(world);
      world.later('the stranger’s claim is deleted', visitSeconds, (at) => remove(at, ref));
      world.later('the stranger’s snapshot is taken', 2 * visitSeconds, (at) =>
        edit(at, ref, { metadata: { finalizers: null } }),
      );
    },
    missing,
    bound,
  },
];

function growOnFileSystem(world: World): void {
  const filesystem = {
    path: '/backups',
    storage: { size: '5Gi', accessModes: ['ReadWriteMany'] },
  };
  editDatabase(world, { spec: { backup: { repository: { type: 'filesystem', filesystem } } } });
  scale(world, 3);
}

/** A claim of the right name without our label, which takes its time to go. */
function makeStranger(world: World): void {
  world.person({
    method: 'POST',
    path: collectionPath('PersistentVolumeClaim', worldNamespace),
    body: {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name, namespace: worldNamespace, finalizers: ['example.com/snapshot'] },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    },
  });
}

/**
 * Members that are missing; those that cannot reach the backups and are not told of, as one made by an old view of the
 * Database is; and claims besides one of each, and the shared one where somebody mounts it.
 */
function missing(world: World): string[] {
  const told = theShard(world)?.status?.conditions?.find(({ type }) => type === 'PodsUpToDate');
  const off = pods(world).filter((pod) => !mountsBackups(pod));
  const untold = off.filter(
    ({ metadata }) => told?.reason !== 'TemplateChanged' || !told.message.includes(metadata.name),
  );
  const all = claims(world).map(({ metadata }) => metadata.name);
  const isNeeded = off.length < pods(world).length;
  return [
    ...missingMembers(world),
    ...untold.map(
      ({ metadata }) => `${metadata.name} cannot reach the backups, and nobody says so`,
    ),
    ...(all.filter((claim) => claim !== name).length === 3 && (all.includes(name) || !isNeeded)
      ? []
      : [`the claims are ${all.join(', ')}`]),
  ];
}

function mountsBackups({ spec }: KubeObject<'Pod'>): boolean {
  return (spec?.volumes ?? []).some(
    ({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName === name,
  );
}
