import pLimit from 'p-limit';
import * as z from 'zod';
import type { Access } from '#infra/kubernetes/access.ts';
import { describeError } from '#shared/kernel/errors.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { resourceTypes } from '#shared/kube/resources.ts';
import { type Check, failed, ok } from './check.ts';

/** Questions asked side by side. */
export const questionsAtOnce = 8;

/** Whose permissions are in question: the caller's own, or a service account's. */
export type Asked = 'caller' | { readonly namespace: string; readonly account: string };

/** What is needed of one part of Millrace. */
export interface Need {
  /** What the check is called. */
  readonly name: string;
  readonly access: readonly Access[];
  /** Where; empty = in all at once. */
  readonly namespaces: readonly string[];
  /** The one object that it is about; any when absent. */
  readonly object?: string;
}

/** Asks the API server whether somebody may do all of it (SelfSubjectAccessReview, SubjectAccessReview). */
export async function checkPermissions(
  { name, access: needed, namespaces, object }: Need,
  asked: Asked,
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
          (await isAllowed({ access, namespace, object }, asked, connection))
            ? []
            : [describe(access, namespace)],
        ),
      ),
    );
    const missing = answers.flat();
    return missing.length === 0
      ? ok(name, `all ${questions.length} are granted`)
      : failed(name, `not granted: ${missing.join(', ')}`, remedy(asked));
  } catch (error) {
    return failed(
      name,
      describeError(error),
      asked === 'caller'
        ? 'every user may ask this: look at the API server'
        : 'ask as somebody who may create subjectaccessreviews: an administrator',
    );
  }
}

function remedy(asked: Asked): string {
  return asked === 'caller'
    ? 'grant them to this user by a Role or ClusterRole'
    : `apply the output of \`millrace manifests\`; it binds the roles of ${asked.namespace}/${asked.account}`;
}

const reviewSchema = z.looseObject({ status: z.looseObject({ allowed: z.boolean() }) });

/** May this be done to these objects, or to the one of this name? */
export interface Question {
  readonly access: Access;
  readonly namespace: string | undefined;
  readonly object: string | undefined;
}

export async function isAllowed(
  { access, namespace, object }: Question,
  asked: Asked,
  connection: KubeConnection,
): Promise<boolean> {
  const { group, plural } = resourceTypes[access.kind];
  const resourceAttributes = {
    group,
    resource: plural,
    verb: access.verb,
    ...(access.subresource === undefined ? {} : { subresource: access.subresource }),
    ...(namespace === undefined ? {} : { namespace }),
    // An object that is not there yet has no name that a role could be about; what is proxied to is there.
    ...(object === undefined || (access.verb === 'create' && access.subresource === undefined)
      ? {}
      : { name: object }),
  };
  const kind = asked === 'caller' ? 'SelfSubjectAccessReview' : 'SubjectAccessReview';
  const answer = await connection.request({
    method: 'POST',
    path: `/apis/authorization.k8s.io/v1/${kind.toLowerCase()}s`,
    body: {
      apiVersion: 'authorization.k8s.io/v1',
      kind,
      spec: { resourceAttributes, ...subjectOf(asked) },
    },
  });
  const review = reviewSchema.safeParse(answer.body);
  if (answer.status !== 201 || !review.success) {
    throw new Error(`the API server answers ${answer.status} to a question about permissions`);
  }
  return review.data.status.allowed;
}

/** As the API server itself knows a service account. */
function subjectOf(asked: Asked) {
  if (asked === 'caller') {
    return {};
  }
  const accounts = 'system:serviceaccounts';
  return {
    user: `system:serviceaccount:${asked.namespace}:${asked.account}`,
    groups: [accounts, `${accounts}:${asked.namespace}`, 'system:authenticated'],
  };
}

function describe({ kind, verb, subresource }: Access, namespace: string | undefined): string {
  const what = `${verb} ${resourceTypes[kind].plural}${subresource === undefined ? '' : `/${subresource}`}`;
  return namespace === undefined ? what : `${what} in ${namespace}`;
}
