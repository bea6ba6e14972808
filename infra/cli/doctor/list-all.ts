import type { KubeReader } from '#shared/kube/kube.ts';
import type { KubeObject, ResourceKind } from '#shared/kube/resources.ts';

/** All objects of a kind in the namespaces, in all where none is named, or the sentence why they are unknown. */
export async function listAll<K extends ResourceKind>(
  kube: KubeReader,
  kind: K,
  namespaces: readonly string[],
  labels?: Readonly<Record<string, string>>,
): Promise<readonly KubeObject<K>[] | string> {
  const objects: KubeObject<K>[] = [];
  for (const options of namespaces.length === 0
    ? [{}]
    : namespaces.map((namespace) => ({ namespace }))) {
    const read = await kube.list(kind, labels === undefined ? options : { ...options, labels });
    if (read.kind !== 'present') {
      return read.kind === 'unknown' ? read.why : 'the definitions are not installed';
    }
    objects.push(...read.value);
  }
  return objects;
}
