import type { JsonObject, JsonValue } from '#shared/kube/json.ts';
import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import {
  Refusal,
  badRequest,
  cause,
  failure,
  invalid,
  malformedPatch,
  unexpected,
} from './api-answers.ts';
import { hasTexts, mustBe } from './creation.ts';
import { isList, isObject, objectAt, textAt } from './json-data.ts';
import { kindRules } from './kind-rules.ts';
import type { StoredObject } from './object-shelf.ts';
import {
  KeylessItem,
  jsonPatch,
  mergePatch,
  refusedPatch,
  strategicMergePatch,
} from './patches.ts';

const contentTypes = {
  'application/json-patch+json': 'json',
  'application/merge-patch+json': 'merge',
  'application/strategic-merge-patch+json': 'strategic',
  'application/apply-patch+yaml': 'apply',
} as const;

/** A patch whose body has the form that its content type asks for. */
export type Patch =
  | { readonly type: 'json'; readonly operations: readonly JsonValue[] }
  | { readonly type: 'merge' | 'strategic'; readonly body: JsonObject }
  | { readonly type: 'apply'; readonly body: JsonObject };

export function readPatch(
  kind: ResourceKind,
  contentType: string | undefined,
  body: JsonValue | undefined,
): Patch | Refusal {
  const accepted = Object.entries(contentTypes).filter(
    ([, type]) => type !== 'strategic' || kindRules[kind].mergeKeys !== undefined,
  );
  const type = accepted.find(([name]) => name === contentType)?.[1];
  if (type === undefined) {
    const names = accepted.map(([name]) => name).join(', ');
    return new Refusal(
      failure(
        415,
        'UnsupportedMediaType',
        `the body of the request was in an unknown format - accepted media types include: ${names}`,
      ),
    );
  }
  if (type === 'json') {
    return isList(body)
      ? { type, operations: body }
      : undecodable('error decoding patch: ', 'object', '[]handlers.jsonPatchOp');
  }
  return isObject(body)
    ? { type, body }
    : undecodable(
        type === 'strategic' ? '' : 'error decoding patch: ',
        'array',
        'map[string]interface {}',
      );
}

function undecodable(start: string, found: string, wanted: string): Refusal {
  return new Refusal(
    badRequest(`${start}json: cannot unmarshal ${found} into Go value of type ${wanted}`),
  );
}

/** The object as a patch that is no application wants it. */
export function patchedObject(
  kind: ResourceKind,
  object: StoredObject,
  patch: Exclude<Patch, { type: 'apply' }>,
): JsonObject | Refusal {
  let patched: ReturnType<typeof applyPatch>;
  try {
    patched = applyPatch(kind, object, patch);
  } catch (error) {
    if (error instanceof KeylessItem) {
      return new Refusal(unexpected(error.message));
    }
    throw error;
  }
  return patched === refusedPatch || !isObject(patched)
    ? new Refusal(malformedPatch)
    : (refuseForm(kind, object, patched) ?? patched);
}

function applyPatch(
  kind: ResourceKind,
  object: StoredObject,
  patch: Parameters<typeof patchedObject>[2],
): JsonValue | typeof refusedPatch {
  switch (patch.type) {
    case 'json':
      return jsonPatch(object, patch.operations);
    case 'merge':
      return mergePatch(object, patch.body);
    case 'strategic':
      return strategicMergePatch(object, patch.body, kindRules[kind].mergeKeys ?? {});
  }
}

/** A patch may have made something of the object that is none any more. */
function refuseForm(
  kind: ResourceKind,
  { metadata: { name } }: StoredObject,
  patched: JsonObject,
): Refusal | undefined {
  if (patched['kind'] !== kind) {
    const { group } = resourceTypes[kind];
    return group === 'millrace.dev'
      ? new Refusal(
          invalid(kind, name, [mustBe(kind, patched['kind'])], textAt(patched, 'kind') ?? ''),
        )
      : new Refusal(badRequest(`no kind "${textAt(patched, 'kind') ?? ''}" is registered`));
  }
  const metadata = objectAt(patched, 'metadata');
  const wanted = textAt(metadata, 'name');
  if (wanted === undefined) {
    return new Refusal(
      badRequest(
        `the name of the object (${name} based on URL) was undeterminable: name must be provided`,
      ),
    );
  }
  if (wanted !== name) {
    return new Refusal(
      badRequest(`the name of the object (${wanted}) does not match the name on the URL (${name})`),
    );
  }
  return ['labels', 'annotations'].every((field) => hasTexts(metadata[field]))
    ? undefined
    : new Refusal(
        failure(422, 'Invalid', ' "" is invalid: patch: Invalid value', {
          causes: [cause('patch', 'Invalid', 'Invalid value')],
        }),
      );
}
