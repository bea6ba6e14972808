import { type ResourceKind, resourceTypes, apiVersionOf } from '#shared/kube/resources.ts';
import type { JsonObject, JsonValue } from '#shared/kube/json.ts';
import { foregroundDeletion, orphanDependents } from './deletion.ts';
import { isObject, listAt, objectAt, textAt } from './json-data.ts';
import { claimProtection } from './kind-rules.ts';
import type { OwnerReference, StoredObject } from './object-shelf.ts';

/** Something a controller wants done to an object that it looked at. */
export type Chore = {
  readonly kind: ResourceKind;
  readonly object: StoredObject;
} & (
  | { readonly work: 'delete'; readonly propagationPolicy: 'Background' | 'Foreground' }
  | { readonly work: 'setFinalizers'; readonly finalizers: readonly string[] }
  | { readonly work: 'setOwners'; readonly owners: readonly OwnerReference[] }
  /** A namespace that is empty at last. */
  | { readonly work: 'remove' }
);

/** What controllers see. */
export interface ControlledServer {
  get(kind: ResourceKind, namespace: string | undefined, name: string): StoredObject | undefined;
  objects(kind: ResourceKind): readonly StoredObject[];
}

const kinds = Object.keys(resourceTypes) as ResourceKind[];

const kindsByName: ReadonlyMap<string, ResourceKind> = new Map(
  kinds.map((kind) => [`${apiVersionOf(kind)}/${kind}`, kind] as const),
);

/**
 * What the garbage collector, the protection of claims and the namespace controller have to do now: one step of each, for
 * every object. What that leads to is the work of the next pass.
 */
export function choresOf(server: ControlledServer): readonly Chore[] {
  const owned = dependentsByOwner(server);
  return kinds.flatMap((kind) =>
    server
      .objects(kind)
      .flatMap((object) => [
        ...collect(kind, object, server, owned),
        ...release(kind, object, owned),
        ...(kind === 'PersistentVolumeClaim' ? unprotect(object, server) : []),
        ...(kind === 'Namespace' ? empty(object, server) : []),
      ]),
  );
}

interface Dependent {
  readonly kind: ResourceKind;
  readonly object: StoredObject;
  readonly reference: OwnerReference;
}

function dependentsByOwner(server: ControlledServer): ReadonlyMap<string, readonly Dependent[]> {
  const owned = new Map<string, Dependent[]>();
  for (const kind of kinds) {
    for (const object of server.objects(kind)) {
      for (const reference of object.metadata.ownerReferences ?? []) {
        const others = owned.get(reference.uid) ?? [];
        owned.set(reference.uid, [...others, { kind, object, reference }]);
      }
    }
  }
  return owned;
}

/** `attemptToDeleteItem` of the garbage collector: an object goes when none of its owners is left. */
function collect(
  kind: ResourceKind,
  object: StoredObject,
  server: ControlledServer,
  owned: ReadonlyMap<string, readonly Dependent[]>,
): readonly Chore[] {
  const { ownerReferences = [], deletionTimestamp, finalizers = [] } = object.metadata;
  if (ownerReferences.length === 0 || deletionTimestamp !== undefined) {
    return [];
  }
  const owners = ownerReferences.map((reference) => ownerOf(reference, object, server));
  if (owners.includes('unknown')) {
    return [];
  }
  const isWaiting = (owner: StoredObject | 'absent' | 'unknown') =>
    typeof owner === 'object' &&
    owner.metadata.deletionTimestamp !== undefined &&
    owner.metadata.finalizers?.includes(foregroundDeletion) === true;
  const isSolid = (owner: StoredObject | 'absent' | 'unknown') =>
    typeof owner === 'object' && !isWaiting(owner);
  if (owners.some(isSolid)) {
    const kept = ownerReferences.filter((_reference, index) => isSolid(owners[index] ?? 'absent'));
    return kept.length === ownerReferences.length
      ? []
      : [{ kind, object, work: 'setOwners', owners: kept }];
  }
  const hasDependents = (owned.get(object.metadata.uid) ?? []).length > 0;
  const isForeground =
    (owners.some(isWaiting) && hasDependents) || finalizers.includes(foregroundDeletion);
  return [
    {
      kind,
      object,
      work: 'delete',
      propagationPolicy: isForeground ? 'Foreground' : 'Background',
    },
  ];
}

/** The object a reference names; another one under its name is not it. */
function ownerOf(
  { apiVersion, kind: name, name: ownerName, uid }: OwnerReference,
  { metadata: { namespace } }: StoredObject,
  server: ControlledServer,
): StoredObject | 'absent' | 'unknown' {
  const kind = kindsByName.get(`${apiVersion}/${name}`);
  if (kind === undefined) {
    return 'unknown';
  }
  const place = resourceTypes[kind].namespaced ? namespace : undefined;
  const owner = server.get(kind, place, ownerName);
  return owner?.metadata.uid === uid ? owner : 'absent';
}

/** An object that waits for its dependents goes on when those that block it are gone, or have forgotten it. */
function release(
  kind: ResourceKind,
  object: StoredObject,
  owned: ReadonlyMap<string, readonly Dependent[]>,
): readonly Chore[] {
  const { uid, deletionTimestamp, finalizers = [] } = object.metadata;
  if (deletionTimestamp === undefined) {
    return [];
  }
  const dependents = owned.get(uid) ?? [];
  const without = (finalizer: string): Chore => ({
    kind,
    object,
    work: 'setFinalizers',
    finalizers: finalizers.filter((name) => name !== finalizer),
  });
  if (finalizers.includes(orphanDependents)) {
    return dependents.length === 0
      ? [without(orphanDependents)]
      : dependents.map((dependent) => ({
          kind: dependent.kind,
          object: dependent.object,
          work: 'setOwners',
          owners: (dependent.object.metadata.ownerReferences ?? []).filter(
            (reference) => reference.uid !== uid,
          ),
        }));
  }
  const isBlocked = dependents.some(({ reference }) => reference.blockOwnerDeletion === true);
  return finalizers.includes(foregroundDeletion) && !isBlocked ? [without(foregroundDeletion)] : [];
}

/** A claim that is to go stays while a pod that has a node mounts it. */
function unprotect(claim: StoredObject, server: ControlledServer): readonly Chore[] {
  const { namespace, name, deletionTimestamp, finalizers = [] } = claim.metadata;
  if (deletionTimestamp === undefined || !finalizers.includes(claimProtection)) {
    return [];
  }
  const isInUse = server
    .objects('Pod')
    .some((pod) => pod.metadata.namespace === namespace && mounts(pod, name));
  return isInUse
    ? []
    : [
        {
          kind: 'PersistentVolumeClaim',
          object: claim,
          work: 'setFinalizers',
          finalizers: finalizers.filter((finalizer) => finalizer !== claimProtection),
        },
      ];
}

function mounts(pod: JsonObject, claim: string): boolean {
  const spec = objectAt(pod, 'spec');
  const isOf = (volume: JsonValue) =>
    isObject(volume) && textAt(objectAt(volume, 'persistentVolumeClaim'), 'claimName') === claim;
  return (textAt(spec, 'nodeName') ?? '') !== '' && listAt(spec, 'volumes').some(isOf);
}

/** Whatever is in a namespace that is to go is deleted, and the namespace when nothing is left. */
function empty(namespace: StoredObject, server: ControlledServer): readonly Chore[] {
  const { name, deletionTimestamp } = namespace.metadata;
  if (deletionTimestamp === undefined) {
    return [];
  }
  const contents = kinds.flatMap((kind) =>
    server
      .objects(kind)
      .filter(({ metadata }) => metadata.namespace === name)
      .map((object) => ({ kind, object })),
  );
  if (contents.length === 0) {
    return [{ kind: 'Namespace', object: namespace, work: 'remove' }];
  }
  return contents
    .filter(({ object }) => object.metadata.deletionTimestamp === undefined)
    .map(({ kind, object }) => ({ kind, object, work: 'delete', propagationPolicy: 'Background' }));
}
