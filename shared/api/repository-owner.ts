import * as z from 'zod';

/** The object, below a repository's prefix, that says whose the repository is. */
export const ownerObjectName = 'millrace-owner.json';

/** More than this is not what Millrace wrote, in bytes. */
export const maxOwnerBytes = 4_096;

const ownerSchema = z.looseObject({
  v: z.literal(1),
  cluster: z.string().min(1),
  namespace: z.string().min(1),
  name: z.string().min(1),
  uid: z.string().min(1),
});

/**
 * Whose a repository is. `cluster`, `namespace` and `name` are the Database's identity, which a Database that is made
 * again under the same name has as well. `uid` is the one that wrote it last, and tells two that live at the same time.
 */
export interface RepositoryOwner {
  readonly cluster: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** The text of an owner object; the same for the same Database, so that who wrote it can be seen from it. */
export function ownerText({ cluster, namespace, name, uid }: RepositoryOwner): string {
  return `${JSON.stringify({ v: 1, cluster, namespace, name, uid })}\n`;
}

/** The owner that an object names; `undefined` where it was not written by Millrace, or by a later version. */
export function parseOwner(text: string): RepositoryOwner | undefined {
  try {
    const parsed = ownerSchema.safeParse(JSON.parse(text));
    if (!parsed.success) {
      return undefined;
    }
    const { cluster, namespace, name, uid } = parsed.data;
    return { cluster, namespace, name, uid };
  } catch {
    return undefined;
  }
}

/** `<cluster>/<namespace>/<name>`, for people. */
export function nameOfOwner({ cluster, namespace, name }: Omit<RepositoryOwner, 'uid'>): string {
  return `${cluster}/${namespace}/${name}`;
}
