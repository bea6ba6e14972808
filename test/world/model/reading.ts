import * as z from 'zod';
import type { KubeRequest, KubeResponse } from '#shared/kube/connection.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { type ResourceKind, apiVersionOf } from '#shared/kube/resources.ts';
import { Refusal, badRequest, failure, ok } from './api-answers.ts';
import { isCustom } from './custom-resources.ts';
import { withFields } from './json-data.ts';
import { type Shelf, type StoredObject, keyOf } from './object-shelf.ts';
import { type Selector, parseSelector } from './selectors.ts';

const metadataVersion = 'meta.k8s.io/v1';

/** Which objects of a kind a request is about. */
export interface Scope {
  readonly namespace: string | undefined;
  readonly selector: Selector;
}

export function isInScope({ namespace, selector }: Scope, { metadata }: StoredObject): boolean {
  return (namespace === undefined || metadata.namespace === namespace) && selector(metadata.labels);
}

/** The objects a request asks for, or the answer to a selector that is none. */
export function readScope(
  { query = {} }: KubeRequest,
  namespace: string | undefined,
): Scope | Refusal {
  if (query['fieldSelector'] !== undefined) {
    throw new Error('the model knows no field selectors');
  }
  const text = query['labelSelector'] ?? '';
  const selector = parseSelector(text);
  return selector === undefined
    ? new Refusal(badRequest(`unable to parse requirement: ${text}`))
    : { namespace, selector };
}

/** Whether the client wants metadata alone. */
export function wantsMetadata({ accept = '' }: KubeRequest): boolean {
  return /as=PartialObjectMetadata(List)?;/.test(accept);
}

export function metadataOf({ metadata }: StoredObject): JsonObject {
  return { kind: 'PartialObjectMetadata', apiVersion: metadataVersion, metadata };
}

const tokenSchema = z.object({
  v: z.literal(metadataVersion),
  rv: z.int(),
  /** The first key that is still to come. */
  start: z.string(),
});

/** Where a list stands that is read in pages. */
interface Progress {
  readonly version: number;
  readonly start: string;
}

/**
 * One page of a list, in the order of keys. All pages show the objects as they were when the first one was read.
 *
 * @param version of the newest write of all
 * @param compactedTo the oldest version that can still be shown
 */
export function listObjects(
  request: KubeRequest,
  kind: ResourceKind,
  namespace: string | undefined,
  shelf: Shelf,
  { version, compactedTo }: { readonly version: number; readonly compactedTo: number },
): KubeResponse {
  const scope = readScope(request, namespace);
  if (scope instanceof Refusal) {
    return scope.response;
  }
  const { limit: limitText = '', continue: token = '' } = request.query ?? {};
  if (!/^\d*$/.test(limitText)) {
    return badRequest(`strconv.ParseInt: parsing "${limitText}": invalid syntax`);
  }
  const progress = token === '' ? { version, start: '' } : readToken(token);
  if (progress === undefined) {
    return badRequest('invalid continue token');
  }
  if (progress.version < compactedTo) {
    return expiredToken(progress);
  }
  const found = (token === '' ? shelf.objects() : shelf.objectsAt(progress.version)).filter(
    (object) => isInScope(scope, object) && keyIn(object) >= progress.start,
  );
  const limit = Number(limitText);
  const page = limit > 0 && found.length > limit ? found.slice(0, limit) : found;
  const last = page.length < found.length ? page.at(-1) : undefined;
  const next = last === undefined ? undefined : writeToken(progress.version, `${keyIn(last)}\0`);
  return ok(200, listOf(kind, page, progress.version, next, wantsMetadata(request)));
}

function listOf(
  kind: ResourceKind,
  objects: readonly StoredObject[],
  version: number,
  next: string | undefined,
  isMetadataOnly: boolean,
): JsonObject {
  const metadata = {
    resourceVersion: String(version),
    // Objects of defined kinds have no form in which an empty field could be left out.
    ...(next === undefined && (!isCustom(kind) || isMetadataOnly) ? {} : { continue: next ?? '' }),
  };
  if (isMetadataOnly) {
    const items = objects.length === 0 ? null : objects.map(metadataOf);
    return { kind: 'PartialObjectMetadataList', apiVersion: metadataVersion, metadata, items };
  }
  const listed = isCustom(kind) ? objects : objects.map(withoutKind);
  return { kind: `${kind}List`, apiVersion: apiVersionOf(kind), metadata, items: listed };
}

/** Objects as items of a list, made once for each: a list is asked for much more often than it changes. */
const items = new WeakMap<StoredObject, JsonObject>();

/** Items of a list of built-in objects do not say their kind. */
function withoutKind(object: StoredObject): JsonObject {
  const known = items.get(object);
  if (known !== undefined) {
    return known;
  }
  const item = withFields<JsonObject>(object, { kind: undefined, apiVersion: undefined });
  items.set(object, item);
  return item;
}

function keyIn({ metadata }: StoredObject): string {
  return keyOf(metadata.namespace, metadata.name);
}

function writeToken(rv: number, start: string): string {
  return Buffer.from(JSON.stringify({ v: metadataVersion, rv, start })).toString('base64url');
}

function readToken(token: string): Progress | undefined {
  let content: unknown;
  try {
    content = JSON.parse(Buffer.from(token, 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
  const { data } = tokenSchema.safeParse(content);
  return data === undefined ? undefined : { version: data.rv, start: data.start };
}

/** The answer offers to go on with what is there now; nothing of ours takes that, since it is no list of one moment. */
function expiredToken({ start }: Progress): KubeResponse {
  const expired = failure(
    410,
    'Expired',
    'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.',
  );
  const body = expired.body as JsonObject;
  return { ...expired, body: { ...body, metadata: { continue: writeToken(-1, start) } } };
}
