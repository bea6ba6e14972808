import pLimit from 'p-limit';
import * as z from 'zod';
import { routing, targetKinds } from '#events/routes.ts';
import type { EffectKind } from '#shared/kernel/effect.ts';
import { describeError } from '#shared/kernel/errors.ts';
import type { StepDeclaration } from '#shared/kernel/step.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import { type Check, failed, ok } from './check.ts';

/** Questions asked side by side. */
const questionsAtOnce = 8;

/** One verb on one kind of object, as the API server authorises it. */
export interface Access {
  readonly kind: ResourceKind;
  readonly verb: string;
  readonly subresource?: 'status';
}

/** What the relay watches, whichever steps there are. */
export const relayAccess: readonly Access[] = (['Shard', 'Database', 'Pod'] as const).flatMap(
  (kind) => [
    { kind, verb: 'list' },
    { kind, verb: 'watch' },
  ],
);

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

/**
 * Asks the API server whether the caller may do all of it (SelfSubjectAccessReview).
 *
 * @param namespaces where; empty = in all at once
 */
export async function checkPermissions(
  name: string,
  needed: readonly Access[],
  namespaces: readonly string[],
  connection: KubeConnection,
): Promise<Check> {
  const limit = pLimit(questionsAtOnce);
  const places = namespaces.length === 0 ? [undefined] : namespaces;
  const questions = needed.flatMap((access) =>
    (resourceTypes[access.kind].namespaced ? places : [undefined]).map((namespace) => ({
      access,
      namespace,
    })),
  );
  try {
    const answers = await Promise.all(
      questions.map(({ access, namespace }) =>
        limit(async () =>
          (await isAllowed(access, namespace, connection)) ? [] : [describe(access, namespace)],
        ),
      ),
    );
    const missing = answers.flat();
    return missing.length === 0
      ? ok(name, `all ${questions.length} are granted`)
      : failed(
          name,
          `not granted: ${missing.join(', ')}`,
          'grant them to this user by a Role or ClusterRole',
        );
  } catch (error) {
    return failed(name, describeError(error), 'every user may ask this: look at the API server');
  }
}

const reviewSchema = z.looseObject({ status: z.looseObject({ allowed: z.boolean() }) });

async function isAllowed(
  access: Access,
  namespace: string | undefined,
  connection: KubeConnection,
): Promise<boolean> {
  const { group, plural } = resourceTypes[access.kind];
  const answer = await connection.request({
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
    body: {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: {
        resourceAttributes: {
          group,
          resource: plural,
          verb: access.verb,
          ...(access.subresource === undefined ? {} : { subresource: access.subresource }),
          ...(namespace === undefined ? {} : { namespace }),
        },
      },
    },
  });
  const review = reviewSchema.safeParse(answer.body);
  if (answer.status !== 201 || !review.success) {
    throw new Error(`the API server answers ${answer.status} to a question about permissions`);
  }
  return review.data.status.allowed;
}

function describe({ kind, verb, subresource }: Access, namespace: string | undefined): string {
  const what = `${verb} ${resourceTypes[kind].plural}${subresource === undefined ? '' : `/${subresource}`}`;
  return namespace === undefined ? what : `${what} in ${namespace}`;
}
