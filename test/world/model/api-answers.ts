import type { KubeResponse } from '#shared/kube/connection.ts';
import type { JsonObject, JsonValue } from '#shared/kube/json.ts';
import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';

/** One reason why an object is refused. */
export interface Cause extends JsonObject {
  /** `FieldValueInvalid` */
  readonly reason: string;
  /** `Invalid value: "x": field is immutable` */
  readonly message: string;
  /** `metadata.uid` */
  readonly field: string;
}

/** The only cause, as the server words it. */
export function cause(
  field: string,
  type: 'Invalid' | 'Required' | 'Forbidden' | 'Duplicate' | 'NotSupported' | 'TooLong' | 'TooMany',
  message: string,
): Cause {
  return { reason: `FieldValue${type}`, message, field };
}

/** An answer that ends a request before anything is written. */
export class Refusal {
  readonly response: KubeResponse;

  constructor(response: KubeResponse) {
    this.response = response;
  }
}

export function notFound(kind: ResourceKind, name: string): KubeResponse {
  const { group, plural } = resourceTypes[kind];
  return failure(404, 'NotFound', `${resourceOf(kind)} "${name}" not found`, {
    name,
    ...groupOf(group),
    kind: plural,
  });
}

export function alreadyExists(
  kind: ResourceKind,
  name: string,
  isBeingDeleted: boolean,
): KubeResponse {
  const { group, plural } = resourceTypes[kind];
  const why = isBeingDeleted ? 'object is being deleted: ' : '';
  return failure(409, 'AlreadyExists', `${why}${resourceOf(kind)} "${name}" already exists`, {
    name,
    ...groupOf(group),
    kind: plural,
  });
}

/**
 * @param what what stands where the resource's name is expected: deletions name the kind, a binding its subresource
 */
export function conflict(
  kind: ResourceKind,
  name: string,
  why: string,
  what = resourceTypes[kind].plural,
): KubeResponse {
  const { group } = resourceTypes[kind];
  return failure(
    409,
    'Conflict',
    `Operation cannot be fulfilled on ${qualified(what, group)} "${name}": ${why}`,
    { name, ...groupOf(group), kind: what },
  );
}

export const modifiedMeanwhile =
  'the object has been modified; please apply your changes to the latest version and try again';

export function invalid(
  kind: ResourceKind,
  name: string,
  causes: readonly Cause[],
  what: string = kind,
): KubeResponse {
  const { group } = resourceTypes[kind];
  const told = causes.map(({ field, message }) => `${field}: ${message}`);
  const list = told.length === 1 ? told[0] : `[${told.join(', ')}]`;
  return failure(422, 'Invalid', `${qualified(what, group)} "${name}" is invalid: ${list}`, {
    ...(name === '' ? {} : { name }),
    ...groupOf(group),
    kind: what,
    causes,
  });
}

export function badRequest(message: string): KubeResponse {
  return failure(400, 'BadRequest', message);
}

/** What the server did not expect to go wrong: no reason word, and the words of whatever failed. */
export function unexpected(message: string): KubeResponse {
  const { body, ...rest } = failure(500, '', message);
  const { reason: _reason, ...told } = body as JsonObject;
  return { ...rest, body: told };
}

export function failure(
  code: number,
  reason: string,
  message: string,
  details?: JsonObject,
): KubeResponse {
  return {
    status: code,
    body: {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message,
      reason,
      ...(details === undefined ? {} : { details }),
      code,
    },
  };
}

/** What a deletion is answered with where the deleted object itself is not. */
export function deleted(kind: ResourceKind, name: string, uid: string): KubeResponse {
  const { group, plural } = resourceTypes[kind];
  return ok(200, {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Success',
    details: { name, ...groupOf(group), kind: plural, uid },
  });
}

export function ok(status: number, body: JsonValue): KubeResponse {
  return { status, body };
}

/** `pods`, `shards.millrace.dev` */
export function resourceOf(kind: ResourceKind): string {
  const { group, plural } = resourceTypes[kind];
  return qualified(plural, group);
}

function qualified(what: string, group: string): string {
  return group === '' ? what : `${what}.${group}`;
}

function groupOf(group: string): JsonObject {
  return group === '' ? {} : { group };
}

/** A uid that an update or a binding names, and that the object does not have. */
export function staleUid(
  kind: ResourceKind,
  namespace: string | undefined,
  name: string,
  wanted: string,
  found: string,
): KubeResponse {
  const { group, plural } = resourceTypes[kind];
  const place = [
    '/registry',
    ...(group.includes('.') && !group.endsWith('.k8s.io') ? [group] : []),
    plural,
    ...(namespace === undefined ? [] : [namespace]),
    name,
  ];
  return conflict(
    kind,
    name,
    `StorageError: invalid object, Code: 4, Key: ${place.join('/')}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ${wanted}, UID in object meta: ${found}`,
  );
}

/** A patch that is well formed and does not fit the object: a `test` that fails, most often. */
export const malformedPatch: KubeResponse = failure(
  422,
  'Invalid',
  'the server rejected our request due to an error in our request',
  {},
);

export function notAllowed(kind: ResourceKind, verb: 'create' | 'delete'): KubeResponse {
  const { group, plural } = resourceTypes[kind];
  return group === 'millrace.dev'
    ? failure(
        405,
        'MethodNotAllowed',
        `${verb} is not supported on resources of kind "${resourceOf(kind)}"`,
        { group, kind: plural },
      )
    : failure(
        405,
        'MethodNotAllowed',
        'the server does not allow this method on the requested resource',
        {},
      );
}

export function terminatingNamespace(
  kind: ResourceKind,
  namespace: string,
  name: string,
): KubeResponse {
  const { group, plural } = resourceTypes[kind];
  return failure(
    403,
    'Forbidden',
    `${resourceOf(kind)} "${name}" is forbidden: unable to create new content in namespace ${namespace} because it is being terminated`,
    {
      name,
      ...groupOf(group),
      kind: plural,
      causes: [
        {
          reason: 'NamespaceTerminating',
          message: `namespace ${namespace} is being terminated`,
          field: 'metadata.namespace',
        },
      ],
    },
  );
}
