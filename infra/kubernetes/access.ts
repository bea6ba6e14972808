import { routing, targetKinds, watchedKinds } from '#events/routes.ts';
import type { EffectKind } from '#shared/kernel/effect.ts';
import type { StepDeclaration } from '#shared/kernel/step.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';

/** One verb on one kind of object, as the API server authorises it. */
export interface Access {
  readonly kind: ResourceKind;
  readonly verb: string;
  readonly subresource?: 'status' | 'proxy';
}

/** What the relay watches: every kind that the routes name. */
export const relayAccess: readonly Access[] = watchedKinds(routing).flatMap((kind): Access[] => [
  { kind, verb: 'list' },
  { kind, verb: 'watch' },
]);

/** What the sweep lists: every kind that some step reconciles. */
export const sweepAccess: readonly Access[] = targetKinds(routing).map((kind) => ({
  kind,
  verb: 'list',
}));

/** What the relay needs in the namespace of the Lease that it agrees by with others. */
export const leaseAccess: readonly Access[] = (['get', 'create', 'update'] as const).map(
  (verb) => ({ kind: 'Lease', verb }),
);

/** Everything a step needs at the API server, from its declaration. Topology and admin are not the API server's. */
export function accessOf(step: StepDeclaration): readonly Access[] {
  const reads = step.reads.flatMap((permission): Access[] =>
    permission.api === 'kubernetes'
      ? permission.verbs.map((verb) => ({ kind: permission.kind, verb }))
      : [],
  );
  const writes = step.writes.flatMap(({ effect, kind }) =>
    accessByEffect[effect](kind ?? step.target, step.target),
  );
  const all = [...reads, ...writes];
  return all.filter(
    (access, position) => all.findIndex((other) => isSame(access, other)) === position,
  );
}

/** What the executor asks of the API server for each effect. A new effect without a row is a type error. */
const accessByEffect: {
  readonly [K in EffectKind]: (object: ResourceKind, target: ResourceKind) => readonly Access[];
} = {
  advance: (_, target) => [{ kind: target, verb: 'patch' }],
  applyStatus: (_, target) => [{ kind: target, verb: 'patch', subresource: 'status' }],
  patchObject: (kind) => [{ kind, verb: 'patch' }],
  createObject: creating,
  deleteObject: (kind) => [{ kind, verb: 'delete' }],
  emitEvent: () => [{ kind: 'Event', verb: 'create' }],
  // These go to the data plane and to buckets, which have permissions of their own.
  topologyTxn: () => [],
  writeShards: () => [],
  putRepositoryObject: () => [],
  switchPrimary: () => [],
  startBackup: () => [],
  startJob: creating,
};

/** AlreadyExists is answered by a look at what is there. */
function creating(kind: ResourceKind): readonly Access[] {
  return [
    { kind, verb: 'create' },
    { kind, verb: 'get' },
  ];
}

function isSame(a: Access, b: Access): boolean {
  return a.kind === b.kind && a.verb === b.verb && a.subresource === b.subresource;
}
