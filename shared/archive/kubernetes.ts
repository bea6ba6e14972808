import type { V1PodSpec } from '@kubernetes/client-node';
import * as z from 'zod';
import { conditionSchema, isOfStep } from '#shared/api/condition.ts';
import type { JobTemplate } from '#shared/api/job-template.ts';
import type { TargetView } from '#shared/kernel/target-view.ts';
import type { AsJson } from '#shared/kube/json.ts';
import { allow, entriesOf } from './allow-list.ts';
import { hashed, hashPattern } from './hashed.ts';

/*
 * What may be archived of what stands in Kubernetes. Whatever people put into templates, labels and annotations is theirs:
 * of it the names are kept that decisions look at, and hashes of the rest. Their salt is the target's uid, so that nobody
 * finds in them that two targets have the same secret.
 */

/** A target, as every step sees it. */
export const targetFields = {
  namespace: z.string(),
  name: z.string(),
  uid: z.string(),
  generation: z.number(),
  resourceVersion: z.string(),
  isPaused: z.boolean(),
  isBeingDeleted: z.boolean(),
} satisfies { readonly [Field in keyof TargetView]: z.ZodType<TargetView[Field]> };

/** Those of steps. What anybody else says of an object is left out. */
export const conditions = z.array(conditionSchema).transform((found) => found.filter(isOfStep));

/** One that a step has written. */
export const condition = conditionSchema.refine(isOfStep);

type Entries = { readonly [key: string]: string };

/** Labels, annotations or a selector. */
export const texts = entriesOf(z.string());

/** Labels, annotations or a selector, with hashes for the values under keys that are not Millrace's. */
export function hiddenEntries(entries: Entries, salt: string): Entries {
  return Object.fromEntries(
    Object.entries(entries).map(([key, value]) => [
      key,
      /^([^/]*\.)?millrace\.dev\//.test(key) ? value : hashed(value, salt, key),
    ]),
  );
}

type PodSpec = AsJson<V1PodSpec>;

/** Of all that is in an object and is not kept: one hash, so that nobody can try values one by one. */
const rest = z.string().regex(hashPattern);

const container = z.object({
  name: z.string(),
  env: z.array(z.object({ name: z.string() })).exactOptional(),
  volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string() })).exactOptional(),
  volumeDevices: z.array(z.object({ name: z.string(), devicePath: z.string() })).exactOptional(),
  rest,
});

/** Of a pod's spec: what there is, what it mounts and where, and as whom it runs. */
export const podSpec: z.ZodType<PodSpec> = z.object({
  containers: z.array(container),
  initContainers: z.array(container).exactOptional(),
  volumes: z.array(z.object({ name: z.string(), rest })).exactOptional(),
  serviceAccountName: z.string().exactOptional(),
  serviceAccount: z.string().exactOptional(),
  rest,
});

type Metadata = NonNullable<JobTemplate['metadata']>;

/** Labels and annotations of a template. */
export const podMetadata = allow<Metadata>({
  labels: texts.optional(),
  annotations: texts.optional(),
});

interface Template {
  readonly metadata?: Metadata;
  readonly spec: PodSpec;
}

/** A template as {@link podMetadata} and {@link podSpec} keep it. */
export function hiddenTemplate<T extends Template>({ metadata, spec, ...others }: T, salt: string) {
  const { labels, annotations } = metadata ?? {};
  return {
    ...others,
    ...(metadata === undefined
      ? {}
      : {
          metadata: {
            ...(labels === undefined ? {} : { labels: hiddenEntries(labels, salt) }),
            ...(annotations === undefined ? {} : { annotations: hiddenEntries(annotations, salt) }),
          },
        }),
    spec: hiddenPodSpec(spec, salt),
  };
}

function hiddenPodSpec(spec: PodSpec, salt: string): PodSpec {
  const { containers, initContainers, volumes, serviceAccountName, serviceAccount, ...others } =
    spec;
  return {
    containers: containers.map((each) => hiddenContainer(each, salt)),
    ...listed('initContainers', initContainers, (each) => hiddenContainer(each, salt)),
    ...listed('volumes', volumes, ({ name, ...more }) => ({ name, ...restOf(more, salt) })),
    ...(serviceAccountName === undefined ? {} : { serviceAccountName }),
    ...(serviceAccount === undefined ? {} : { serviceAccount }),
    ...restOf(others, salt),
  };
}

/** What is mounted under this name, and where; a template may lack the place. */
interface Mount {
  readonly name: string;
  readonly mountPath?: string;
  readonly devicePath?: string;
}

function hiddenContainer(
  { name, ...given }: PodSpec['containers'][number],
  salt: string,
): PodSpec['containers'][number] {
  const { env, volumeMounts, volumeDevices, ...others } = given;
  const kept = {
    ...listed('env', env, (item) => ({ name: item.name })),
    ...listed('volumeMounts', volumeMounts, (item: Mount) => ({
      name: item.name,
      mountPath: item.mountPath ?? '',
    })),
    ...listed('volumeDevices', volumeDevices, (item: Mount) => ({
      name: item.name,
      devicePath: item.devicePath ?? '',
    })),
  };
  const isAllKept = canonicalJson({ ...kept, ...others }) === canonicalJson(given);
  return { name, ...kept, ...restOf(isAllKept ? others : given, salt) };
}

/** The API server does not look into the lists of a template, so what has no name, or is no list, is no part of what is kept. */
function listed<Field extends string, Item extends { readonly name: string }, Kept>(
  field: Field,
  items: readonly Item[] | undefined,
  keep: (item: Item) => Kept,
): { readonly [F in Field]?: Kept[] } {
  const isList: boolean = Array.isArray(items);
  const kept = isList ? (items ?? []).filter(hasName).map(keep) : undefined;
  return (kept === undefined ? {} : { [field]: kept }) as { readonly [F in Field]?: Kept[] };
}

function hasName(item: unknown): boolean {
  return (
    typeof item === 'object' && item !== null && 'name' in item && typeof item.name === 'string'
  );
}

/** The hash of what is left; of what has been hidden before, the one that is there. */
function restOf(
  left: { readonly [key: string]: unknown },
  salt: string,
): { readonly rest: string } {
  const { rest: before, ...more } = left;
  return typeof before === 'string' && hashPattern.test(before) && Object.keys(more).length === 0
    ? { rest: before }
    : { rest: hashed(canonicalJson(left), salt) };
}

/** JSON with sorted keys: the order of keys says nothing. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
