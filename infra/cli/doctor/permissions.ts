import pLimit from 'p-limit';
import * as z from 'zod';
import type { Access } from '#infra/kubernetes/access.ts';
import { describeError } from '#shared/kernel/errors.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { resourceTypes } from '#shared/kube/resources.ts';
import { type Check, failed, ok } from './check.ts';

/** Questions asked side by side. */
const questionsAtOnce = 8;

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
