import { versionLabel } from '#infra/kubernetes/manifest.ts';
import { version } from '#shared/api/version.ts';
import type { JsonValue } from '#shared/kube/json.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import { compareVersions } from '../version-order.ts';
import { type Definition, readDefinitions } from '../definitions.ts';
import { type Check, failed, ok, skipped } from './check.ts';

const install = `apply the output of \`millrace manifests\` of ${version}, or run \`millrace dev --install\``;

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
    return judgeDifference(name, read.value.metadata.labels?.[versionLabel], difference, version);
  }
  const isEstablished = read.value.status?.conditions?.some(
    ({ type, status }) => type === 'Established' && status === 'True',
  );
  return isEstablished === true
    ? ok(name, 'it is installed, in this version')
    : failed(name, 'the API server does not serve it', 'look at its status conditions');
}

/**
 * Newer definitions serve older functions; functions that are newer than the definitions write fields which the API server
 * does not know, and it refuses them.
 *
 * @param served what the definition says of its release; those from before there was a label say nothing
 * @param own the release that asks
 */
export function judgeDifference(
  name: string,
  served: string | undefined,
  difference: string,
  own: string,
): Check {
  const found =
    served === undefined
      ? `it is of another version (${difference} differs)`
      : `it is of ${served}, and this is ${own} (${difference} differs)`;
  const isNewer = served !== undefined && (compareVersions(served, own) ?? 0) > 0;
  return failed(
    name,
    found,
    isNewer
      ? `go on to functions and relay of ${served}, and ask its \`millrace doctor\`: definitions go first`
      : install,
  );
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
