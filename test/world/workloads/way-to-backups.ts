import { indexLabel } from '#shared/api/labels.ts';
import { sharedBackupClaimName } from '#shared/api/names.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
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

/** Members that are missing or cannot reach the backups; and claims but for one of each and the one that they share. */
function missing(world: World): string[] {
  const all = claims(world);
  // The first was made before there was a repository.
  const off = pods(world).filter(
    ({ metadata, spec }) =>
      metadata.labels?.[indexLabel] !== '0' &&
      !(spec?.volumes ?? []).some(
        ({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName === name,
      ),
  );
  return [
    ...missingMembers(world),
    ...off.map(({ metadata }) => `${metadata.name} does not mount the claim of the backups`),
    ...(all.length === 4 && all.some(({ metadata }) => metadata.name === name)
      ? []
      : [`the claims are ${all.map(({ metadata }) => metadata.name).join(', ')}`]),
  ];
}
