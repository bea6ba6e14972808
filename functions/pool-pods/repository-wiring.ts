import type { V1Container } from '@kubernetes/client-node';
import type { Database } from '#shared/api/database.ts';
import { sharedBackupClaimName } from '#shared/api/names.ts';
import { type Repository, problemOf } from '#shared/api/repository.ts';
import type { ManagedPool } from '#shared/api/shard.ts';
import type { AsJson } from '#shared/kube/json.ts';

/**
 * What members need so that they reach the backups of their database, as its Database says. Names only: the values of a
 * Secret are the kubelet's to read.
 */
export type RepositoryWiring =
  /** No repository, or one that the members' own node or machine may use. */
  | { readonly kind: 'none' }
  | { readonly kind: 'keys'; readonly secret: string }
  | { readonly kind: 'identity'; readonly serviceAccount: string }
  /** A file system that all members of a shard share, on one claim. */
  | { readonly kind: 'sharedClaim'; readonly path: string; readonly storage: Storage };

type Storage = NonNullable<Repository['filesystem']>['storage'];
type PodSpec = ManagedPool['podTemplate']['spec'];
type Container = AsJson<V1Container>;

/** The volume a template mounts to get its member's claim (public formats, names). */
export const dataVolume = 'data';

/** The volume a template mounts to get the claim that the shard's backups are on (public formats, names). */
const backupVolume = 'backup';

/** What backup-config knows of a credentials Secret, and no more: the data plane reads the same two. */
const keyNames = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'];

/**
 * Of a bucket the names of Secret and ServiceAccount count, also where the definition would refuse the bucket today: the
 * data plane keeps the last good one then, and a member made meanwhile has to reach it. A path that leads elsewhere is
 * not mounted.
 */
export function wiringOf({ backup }: Pick<Database['spec'], 'backup'>): RepositoryWiring {
  const { type, s3, filesystem } = backup?.repository ?? {};
  if (type === 'filesystem') {
    return filesystem === undefined || problemOf({ type, path: filesystem.path }) !== undefined
      ? { kind: 'none' }
      : { kind: 'sharedClaim', path: filesystem.path, storage: filesystem.storage };
  }
  // The topology is told to use the keys where both are named, which the API server admits no longer.
  if (s3?.credentialsSecret !== undefined) {
    return { kind: 'keys', secret: s3.credentialsSecret };
  }
  return s3?.serviceAccountName === undefined
    ? { kind: 'none' }
    : { kind: 'identity', serviceAccount: s3.serviceAccountName };
}

/**
 * A template with what it needs to reach the backups. Only those containers get anything that work on the database's
 * files, which are those that mount the volume `data`; what a template says itself stands. Without a repository it stays
 * as it is, byte for byte, so that no running pod looks out of date.
 */
export function wired(spec: PodSpec, wiring: RepositoryWiring, shardName: string): PodSpec {
  switch (wiring.kind) {
    case 'none':
      return spec;
    case 'keys':
      return inContainers(spec, (container) => withKeys(container, wiring.secret));
    case 'identity':
      return withIdentity(spec, wiring.serviceAccount);
    case 'sharedClaim':
      return withSharedClaim(spec, wiring.path, shardName);
  }
}

/** Whether a container of this pod mounts the claim that the shard's backups are on. */
export function mountsSharedClaim(
  spec: PodSpec,
  wiring: RepositoryWiring,
  shardName: string,
): boolean {
  return (
    wiring.kind === 'sharedClaim' &&
    containersOf(wired(spec, wiring, shardName)).some((container) =>
      mounts(container, backupVolume),
    )
  );
}

/** Whether a container of this pod works on the database's files. */
export function mountsData(spec: PodSpec): boolean {
  return containersOf(spec).some(worksOnData);
}

function withKeys(container: Container, secret: string): Container {
  const own = container.env ?? [];
  const further = keyNames
    .filter((name) => !own.some((variable) => variable.name === name))
    .map((key) => ({ name: key, valueFrom: { secretKeyRef: { name: secret, key } } }));
  return worksOnData(container) && further.length > 0
    ? { ...container, env: [...own, ...further] }
    : container;
}

/** `serviceAccount` is the field's former name, which the API server still takes. */
function withIdentity(spec: PodSpec, serviceAccountName: string): PodSpec {
  const own = [spec.serviceAccountName, spec.serviceAccount].find(
    (name) => name !== undefined && name !== '',
  );
  return own === undefined && mountsData(spec) ? { ...spec, serviceAccountName } : spec;
}

/**
 * A template that mounts the volume by its name says itself who gets it, and where. Otherwise whoever works on the
 * database's files gets it at the repository's path, unless something else is mounted there already: two at one place are
 * refused by the API server.
 */
function withSharedClaim(spec: PodSpec, path: string, shardName: string): PodSpec {
  const isMountedByName = containersOf(spec).some((container) => mounts(container, backupVolume));
  const mounted = isMountedByName
    ? spec
    : inContainers(spec, (container) => withMount(container, path));
  if (!containersOf(mounted).some((container) => mounts(container, backupVolume))) {
    return spec;
  }
  const others = (spec.volumes ?? []).filter(({ name }) => name !== backupVolume);
  const claimName = sharedBackupClaimName(shardName);
  const backup = { name: backupVolume, persistentVolumeClaim: { claimName } };
  return { ...mounted, volumes: [...others, backup] };
}

function withMount(container: Container, path: string): Container {
  const own = container.volumeMounts ?? [];
  const isTaken = own.some(({ mountPath }) => withoutLastSlash(mountPath) === path);
  return worksOnData(container) && !isTaken
    ? { ...container, volumeMounts: [...own, { name: backupVolume, mountPath: path }] }
    : container;
}

function withoutLastSlash(path: string): string {
  return path.replace(/(?<=.)\/+$/, '');
}

function inContainers(spec: PodSpec, change: (container: Container) => Container): PodSpec {
  const { containers, initContainers } = spec;
  return {
    ...spec,
    containers: containers.map(change),
    // An empty list may come as null, which the definition lets pass in a template.
    ...(initContainers?.map === undefined ? {} : { initContainers: initContainers.map(change) }),
  };
}

function containersOf({ containers, initContainers }: PodSpec): readonly Container[] {
  return [...containers, ...(initContainers ?? [])];
}

function worksOnData(container: Container): boolean {
  return mounts(container, dataVolume);
}

function mounts({ volumeMounts, volumeDevices }: Container, volume: string): boolean {
  return [...(volumeMounts ?? []), ...(volumeDevices ?? [])].some(({ name }) => name === volume);
}
