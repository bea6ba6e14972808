import { goverseLabel, shardLabel } from '#shared/api/labels.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import {
  type KubeObject,
  type ObjectRef,
  type ResourceKind,
  type TargetKind,
  shortNames,
} from '#shared/kube/resources.ts';
import type { Scene } from './scene.ts';
import { type SeenPod, type SeenTarget, seenPod, seenTarget } from './seen.ts';

/** In the order in which they are shown: what others belong to comes first. */
export const kindsInOrder = ['Database', 'Shard', 'GoverseCluster'] as const satisfies TargetKind[];

/**
 * Every target of the namespaces, of all where none is named, each with its Database. No pods are read: what a table tells of
 * a target stands on the target.
 *
 * @throws Error where a list is refused or not answered
 */
export async function readTargets(
  kube: KubeReader,
  namespaces: readonly string[],
  now: () => Instant,
): Promise<readonly Scene[]> {
  const lists = await Promise.all(
    kindsInOrder.map(async (kind) =>
      (await listEverywhere(kube, kind, namespaces)).map((object) => seenTarget(kind, object)),
    ),
  );
  return scenesOf(lists.flat(), now());
}

/** Each target with the Database it names, which is among them. */
export function scenesOf(targets: readonly SeenTarget[], now: Instant): readonly Scene[] {
  const databases = new Map(
    targets
      .filter(({ kind }) => kind === 'Database')
      .map((target) => [`${target.namespace}/${target.name}`, target]),
  );
  return targets.map((target) =>
    target.kind === 'Shard'
      ? {
          target,
          now,
          database:
            databases.get(`${target.namespace}/${target.spec.databaseRef?.name ?? ''}`) ?? null,
        }
      : { target, now },
  );
}

async function listEverywhere<K extends ResourceKind>(
  kube: KubeReader,
  kind: K,
  namespaces: readonly string[],
): Promise<readonly KubeObject<K>[]> {
  const asked = namespaces.length === 0 ? [{}] : namespaces.map((namespace) => ({ namespace }));
  const objects: KubeObject<K>[] = [];
  for (const options of asked) {
    const read = await kube.list(kind, options);
    if (read.kind !== 'present') {
      throw new Error(
        `the ${kind}s cannot be listed: ${read.kind === 'unknown' ? read.why : 'the definitions are not installed; see: millrace manifests'}`,
      );
    }
    objects.push(...read.value);
  }
  return objects;
}

export type OneTarget =
  | { readonly kind: 'found'; readonly scene: Scene; readonly remarks: readonly string[] }
  | { readonly kind: 'notFound'; readonly why: string };

/** One target with its pods, and of a Shard its Database. What cannot be read besides the target itself is left out, and said. */
export async function readTarget(
  kube: KubeReader,
  ref: ObjectRef<TargetKind>,
  now: () => Instant,
): Promise<OneTarget> {
  const [read, pods] = await Promise.all([kube.get(ref), readPods(kube, ref)]);
  if (read.kind !== 'present') {
    const name = `${shortNames[ref.kind]}/${ref.namespace ?? ''}/${ref.name}`;
    const why =
      read.kind === 'unknown' ? `${name} cannot be read: ${read.why}` : `there is no ${name}`;
    return { kind: 'notFound', why };
  }
  const target = seenTarget(ref.kind, read.value);
  const database = await readDatabase(kube, target);
  const remarks = [pods, database].flatMap((other) => (typeof other === 'string' ? [other] : []));
  return {
    kind: 'found',
    remarks,
    scene: {
      target,
      now: now(),
      ...(typeof pods === 'string' || pods === undefined ? {} : { pods }),
      ...(typeof database === 'string' || database === undefined ? {} : { database }),
    },
  };
}

const memberLabels: { readonly [K in TargetKind]?: string } = {
  Shard: shardLabel,
  GoverseCluster: goverseLabel,
};

/** The pods of the target; a sentence where they cannot be read, `undefined` where it has none. */
async function readPods(
  kube: KubeReader,
  { kind, namespace = '', name }: ObjectRef<TargetKind>,
): Promise<readonly SeenPod[] | string | undefined> {
  const label = memberLabels[kind];
  if (label === undefined) {
    return undefined;
  }
  const read = await kube.list('Pod', { namespace, labels: { [label]: name } });
  return read.kind === 'present'
    ? read.value.map(seenPod)
    : `Its pods cannot be listed: ${read.kind === 'unknown' ? read.why : 'they are not served'}.`;
}

async function readDatabase(
  kube: KubeReader,
  { kind, namespace, spec }: SeenTarget,
): Promise<SeenTarget | null | string | undefined> {
  const name = spec.databaseRef?.name;
  if (kind !== 'Shard' || name === undefined) {
    return undefined;
  }
  const read = await kube.get({ kind: 'Database', namespace, name });
  switch (read.kind) {
    case 'present':
      return seenTarget('Database', read.value);
    case 'absent':
      return null;
    case 'unknown':
      return `Its Database mdb/${name} cannot be read: ${read.why}.`;
  }
}
