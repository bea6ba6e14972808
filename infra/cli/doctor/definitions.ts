import type { JsonValue } from '#shared/kube/json.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import { type Definition, readDefinitions } from '../definitions.ts';
import { type Check, failed, ok, skipped } from './check.ts';

const install = 'run `millrace dev --install`, or apply the output of `millrace manifests`';

/** Are the custom resource definitions there, served, and those of this version? */
export function checkDefinitions(kube: KubeReader): Promise<readonly Check[]> {
  return Promise.all(readDefinitions().map((definition) => checkDefinition(definition, kube)));
}

async function checkDefinition(definition: Definition, kube: KubeReader): Promise<Check> {
  const name = `definition ${definition.name}`;
  const read = await kube.get({ kind: 'CustomResourceDefinition', name: definition.name });
  if (read.kind === 'unknown') {
    return skipped(name, read.why);
  }
  if (read.kind === 'absent') {
    return failed(name, 'it is not installed', install);
  }
  const difference = firstDifference(
    definition.manifest['spec'],
    JSON.parse(JSON.stringify(read.value.spec)) as JsonValue,
    'spec',
  );
  if (difference !== undefined) {
    return failed(name, `it is of another version (${difference} differs)`, install);
  }
  const isEstablished = read.value.status?.conditions?.some(
    ({ type, status }) => type === 'Established' && status === 'True',
  );
  return isEstablished === true
    ? ok(name, 'it is installed, in this version')
    : failed(name, 'the API server does not serve it', 'look at its status conditions');
}

/**
 * The path of the first place where the served definition says something else than the shipped one. What the API server
 * adds by itself is no difference, a property more or less of the schema is.
 */
export function firstDifference(
  shipped: JsonValue | undefined,
  served: JsonValue | undefined,
  path: string,
): string | undefined {
  if (Array.isArray(shipped)) {
    if (!Array.isArray(served) || served.length !== shipped.length) {
      return path;
    }
    return firstOf(
      shipped.map((item, position) => [String(position), item as JsonValue]),
      served,
      path,
    );
  }
  if (typeof shipped === 'object' && shipped !== null) {
    if (typeof served !== 'object' || served === null || Array.isArray(served)) {
      return path;
    }
    const isSchemaOfObject = path.endsWith('.properties');
    if (isSchemaOfObject && Object.keys(served).length !== Object.keys(shipped).length) {
      return path;
    }
    return firstOf(Object.entries(shipped), served, path);
  }
  return shipped === served ? undefined : path;
}

function firstOf(
  entries: readonly (readonly [string, JsonValue | undefined])[],
  served: object,
  path: string,
): string | undefined {
  for (const [key, value] of entries) {
    const other = (served as Record<string, JsonValue | undefined>)[key];
    const difference = firstDifference(value, other, `${path}.${key}`);
    if (difference !== undefined) {
      return difference;
    }
  }
  return undefined;
}
