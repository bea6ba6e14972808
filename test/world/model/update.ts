import type { JsonObject } from '#shared/kube/json.ts';
import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import { Refusal, cause, conflict, invalid, modifiedMeanwhile } from './api-answers.ts';
import type { Subresource } from './api-routes.ts';
import { checkCustom, completeCustom, isCustom } from './custom-resources.ts';
import { isSame, objectAt, textAt, withFields } from './json-data.ts';
import { kindRules } from './kind-rules.ts';
import { checkMetadata, tidyMetadata } from './metadata-rules.ts';
import type { StoredMetadata, StoredObject } from './object-shelf.ts';

/**
 * What a write makes of an object that is there: the version is compared, what this request may not write stays as it
 * was, and the result is checked. The same object where nothing changes, the answer where it is refused.
 *
 * @param candidate the object as the client wants it
 * @param isApplied the candidate comes from server-side apply, whose values are checked as they are
 */
export function updatedObject(
  kind: ResourceKind,
  subresource: Subresource | undefined,
  candidate: JsonObject,
  before: StoredObject,
  isApplied = false,
): StoredObject | Refusal {
  const refusal = refuseVersion(kind, candidate, before);
  if (refusal !== undefined) {
    return refusal;
  }
  const rules = kindRules[kind];
  const merged = merge(kind, subresource, candidate, before);
  const filled = isCustom(kind) && !isApplied ? completeCustom(kind, merged, before) : merged;
  const normal = (rules.normalise?.(filled) ?? filled) as StoredObject;
  const known = [
    ...checkMetadata(kind, normal.metadata, before.metadata),
    ...(normal['spec'] === before['spec'] ? [] : (rules.checkUpdate?.(normal, before) ?? [])),
  ];
  const causes = isCustom(kind) ? checkCustom(kind, normal, before, known) : known;
  if (causes.length > 0) {
    return new Refusal(invalid(kind, before.metadata.name, causes));
  }
  const after =
    rules.hasGeneration === true && !isSame(normal['spec'], before['spec'])
      ? withFields(normal, {
          metadata: withFields(normal.metadata, {
            generation: (before.metadata.generation ?? 0) + 1,
          }),
        })
      : normal;
  return isSame(after, before) ? before : after;
}

function refuseVersion(
  kind: ResourceKind,
  candidate: JsonObject,
  { metadata }: StoredObject,
): Refusal | undefined {
  const version = textAt(objectAt(candidate, 'metadata'), 'resourceVersion') ?? '';
  if (version !== '' && version !== '0') {
    return version === metadata.resourceVersion
      ? undefined
      : new Refusal(conflict(kind, metadata.name, modifiedMeanwhile));
  }
  const { plural } = resourceTypes[kind];
  return kindRules[kind].takesUnversioned === true
    ? undefined
    : new Refusal(
        invalid(
          kind,
          metadata.name,
          [
            cause(
              'metadata.resourceVersion',
              'Invalid',
              'Invalid value: 0: must be specified for an update',
            ),
          ],
          plural,
        ),
      );
}

function merge(
  kind: ResourceKind,
  subresource: Subresource | undefined,
  candidate: JsonObject,
  before: StoredObject,
): JsonObject {
  const { hasStatus, statusTakesMetadata } = kindRules[kind];
  if (subresource === 'status') {
    const metadata =
      statusTakesMetadata === true
        ? withFields(mergeMetadata(candidate, before), {
            ownerReferences: before.metadata.ownerReferences,
          })
        : before.metadata;
    return withFields(before, { metadata, status: candidate['status'] });
  }
  return withFields(candidate, {
    metadata: mergeMetadata(candidate, before),
    ...(hasStatus === true ? { status: before['status'] } : {}),
  });
}

/** What only the server writes stays; a uid and a name that are given are compared later. */
function mergeMetadata(candidate: JsonObject, { metadata }: StoredObject): StoredMetadata {
  const given = objectAt(candidate, 'metadata');
  if (given === metadata) {
    return metadata;
  }
  const uid = textAt(given, 'uid') ?? '';
  const merged = withFields(tidyMetadata(given), {
    name: textAt(given, 'name') ?? metadata.name,
    uid: uid === '' ? metadata.uid : uid,
    namespace: metadata.namespace,
    resourceVersion: metadata.resourceVersion,
    generation: metadata.generation,
    creationTimestamp: metadata.creationTimestamp,
    deletionTimestamp: metadata.deletionTimestamp,
    deletionGracePeriodSeconds: metadata.deletionGracePeriodSeconds,
    managedFields: undefined,
  });
  return (isSame(merged, metadata) ? metadata : merged) as StoredMetadata;
}
