import type { Instant } from '#shared/kernel/instant.ts';
import type { JsonObject, JsonValue } from '#shared/kube/json.ts';
import { type ResourceKind, apiVersionOf, resourceTypes } from '#shared/kube/resources.ts';
import { Refusal, badRequest, cause, invalid } from './api-answers.ts';
import { checkCustom, completeCustom, isCustom } from './custom-resources.ts';
import { freeze, isObject, objectAt, textAt, withFields } from './json-data.ts';
import { kindRules, timeText } from './kind-rules.ts';
import { checkMetadata, tidyMetadata } from './metadata-rules.ts';
import type { StoredObject } from './object-shelf.ts';

/** What a client sent as a whole object, with the fields that the server fills in where they are left out. */
export interface Sent {
  readonly object: JsonObject;
  readonly metadata: JsonObject;
  readonly name: string;
}

/** The object in a body, or the answer to a body that is none of this kind and place. */
export function readSent(
  kind: ResourceKind,
  namespace: string | undefined,
  body: JsonValue | undefined,
): Sent | Refusal {
  const object = isObject(body) ? body : undefined;
  const apiVersion = apiVersionOf(kind);
  const found = textAt(object, 'kind');
  if (object === undefined || found === undefined) {
    const said = JSON.stringify(body ?? null);
    return new Refusal(
      badRequest(
        `the object provided is unrecognized (must be of type ${kind}): Object 'Kind' is missing in '${said}' (${said})`,
      ),
    );
  }
  if (object['apiVersion'] !== apiVersion) {
    return new Refusal(
      badRequest(
        `the API version in the data (${textAt(object, 'apiVersion') ?? ''}) does not match the expected API version (${apiVersion})`,
      ),
    );
  }
  const metadata = objectAt(object, 'metadata');
  const name = textAt(metadata, 'name') ?? '';
  const cannotBe = `${found} in version "${resourceTypes[kind].version}" cannot be handled as a ${kind}`;
  if (found !== kind) {
    return new Refusal(
      isCustom(kind)
        ? invalid(kind, name, [mustBe(kind, found)], found)
        : badRequest(`${cannotBe}: converting (v1.${found}) to (core.${kind}): unknown conversion`),
    );
  }
  const wrong = ['labels', 'annotations'].find((field) => !hasTexts(metadata[field]));
  if (wrong !== undefined) {
    return new Refusal(
      badRequest(
        `${cannotBe}: json: cannot unmarshal number into Go struct field ObjectMeta.${wrong} of type string`,
      ),
    );
  }
  const coarse = coarseTime(kind, objectAt(object, 'spec'));
  if (coarse !== undefined) {
    const rest = coarse.replace(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/, '');
    return new Refusal(
      badRequest(
        `${cannotBe}: parsing time "${coarse}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "${rest}" as ".000000"`,
      ),
    );
  }
  const place = textAt(metadata, 'namespace') ?? '';
  return namespace !== undefined && place !== '' && place !== namespace
    ? new Refusal(
        badRequest(
          'the namespace of the provided object does not match the namespace sent on the request',
        ),
      )
    : { object, metadata, name };
}

/** A time that should have six digits behind the second, and has not. */
function coarseTime(kind: ResourceKind, spec: JsonObject): string | undefined {
  return (kindRules[kind].microTimes ?? [])
    .map((field) => textAt(spec, field))
    .find((time) => time !== undefined && !/\.\d{6}(Z|[+-]\d\d:\d\d)$/.test(time));
}

export function mustBe(kind: ResourceKind, found: JsonValue | undefined) {
  return cause('kind', 'Invalid', `Invalid value: ${JSON.stringify(found)}: must be ${kind}`);
}

/** Labels and annotations are texts by their names; a null is as good as none. */
export function hasTexts(value: JsonValue | undefined): boolean {
  return (
    (value ?? null) === null ||
    (isObject(value) &&
      Object.values(value).every((text) => typeof text === 'string' || text === null))
  );
}

/** The object to store for one that was sent, or the answer that refuses it. */
export function newObject(
  kind: ResourceKind,
  namespace: string | undefined,
  { object, metadata, name }: Sent,
  now: Instant,
): StoredObject | Refusal {
  const rules = kindRules[kind];
  const given = freeze({
    ...object,
    metadata: {
      ...cleaned(metadata),
      ...(namespace === undefined ? {} : { namespace }),
      // Both are given to it when it is stored.
      uid: '',
      resourceVersion: '',
      creationTimestamp: timeText(now),
      ...(rules.hasGeneration === true ? { generation: 1 } : {}),
    },
  });
  const completed = freeze(rules.complete?.(given) ?? given);
  const custom = isCustom(kind)
    ? withFields(completeCustom(kind, completed), {
        // A status has a subresource of its own and cannot be made with the object.
        status: undefined,
      })
    : completed;
  const created = (rules.normalise?.(custom) ?? custom) as StoredObject;
  const known =
    name === ''
      ? [cause('metadata.name', 'Required', 'Required value: name or generateName is required')]
      : checkMetadata(kind, created.metadata, undefined);
  const causes = isCustom(kind) ? checkCustom(kind, created, undefined, known) : known;
  return causes.length > 0 ? new Refusal(invalid(kind, name, causes)) : created;
}

/** What only the server writes is not taken from a client. */
function cleaned(metadata: JsonObject): JsonObject {
  return withFields(tidyMetadata(metadata), {
    generation: undefined,
    deletionTimestamp: undefined,
    deletionGracePeriodSeconds: undefined,
    managedFields: undefined,
    selfLink: undefined,
  });
}
