import * as z from 'zod';
import { version } from '#shared/api/version.ts';
import { type Read, absent, present, unknown } from '#shared/kernel/read.ts';
import { RetryableError, TerminalError, describeError } from '#shared/kernel/errors.ts';
import type { KubeConnection, KubeRequest, KubeResponse } from './connection.ts';
import { isNoSuchPath, isOfKubernetes } from './explain.ts';
import type { JsonObject } from './json.ts';
import type { KubePages, KubeReader, KubeWriter, ListOptions, WriteResult } from './kube.ts';
import {
  type KubeObject,
  type ObjectRef,
  type ResourceKind,
  apiVersionOf,
  resourceTypes,
} from './resources.ts';

/** Objects per page of a list. */
const pageSize = 500;

/** A list longer than this is not read to its end: no selector of ours matches so many. */
const maxListLength = 20_000;

const namePattern = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** The typed, guarded client of one API server. All mapping of HTTP codes to endings is here. */
export function kubeClient(connection: KubeConnection): KubeReader & KubeWriter {
  return { ...reader(connection), ...writer(connection) };
}

function reader(connection: KubeConnection): KubeReader {
  return {
    async get<K extends ResourceKind>(
      ref: ObjectRef<K>,
      signal?: AbortSignal,
    ): Promise<Read<KubeObject<K>>> {
      const answer = await ask(connection, { method: 'GET', path: pathOf(ref) }, signal);
      if (answer.kind === 'unknown') {
        return unknown(`reading ${describe(ref)}: ${answer.why}`);
      }
      const { response } = answer;
      if (response.status === 200 && isOfKubernetes(response.body)) {
        return present(response.body as KubeObject<K>);
      }
      if (isNotFound(response)) {
        return absent;
      }
      return unknown(`reading ${describe(ref)}: ${reasonOf(response)}`);
    },
    async list<K extends ResourceKind>(
      kind: K,
      options: ListOptions,
      signal?: AbortSignal,
    ): Promise<Read<readonly KubeObject<K>[]>> {
      const items: KubeObject<K>[] = [];
      for await (const page of pagesOf(connection, kind, options, signal)) {
        if (page.kind !== 'present') {
          return page;
        }
        if (items.length > maxListLength) {
          return unknown(
            `listing ${resourceTypes[kind].plural}: more than ${maxListLength} objects`,
          );
        }
        items.push(...page.value);
      }
      return present(items);
    },
  };
}

/** Lists in parts, over the same requests. */
export function kubePages(connection: KubeConnection): KubePages {
  return { pages: (kind, options, signal) => pagesOf(connection, kind, options, signal) };
}

/** Anything else is no list: without it an answer of whoever else answers would be an empty one. */
const listSchema = z.object({
  items: z
    .array(z.unknown())
    .nullable()
    .transform((items) => items ?? []),
  metadata: z.object({ continue: z.string().optional() }),
});

async function* pagesOf<K extends ResourceKind>(
  connection: KubeConnection,
  kind: K,
  options: ListOptions,
  signal: AbortSignal | undefined,
): AsyncGenerator<Read<readonly KubeObject<K>[]>> {
  let token: string | undefined;
  do {
    const page = await ask(
      connection,
      {
        method: 'GET',
        path: collectionPath(kind, options.namespace),
        query: {
          limit: String(pageSize),
          ...(options.labels === undefined ? {} : { labelSelector: selectorOf(options.labels) }),
          ...(token === undefined ? {} : { continue: token }),
        },
      },
      signal,
    );
    if (page.kind === 'unknown') {
      yield unknown(`listing ${resourceTypes[kind].plural}: ${page.why}`);
      return;
    }
    if (isNoSuchPath(page.response) || isNotFound(page.response)) {
      yield absent;
      return;
    }
    const list = listSchema.safeParse(page.response.body);
    if (page.response.status !== 200 || !list.success) {
      yield unknown(`listing ${resourceTypes[kind].plural}: ${reasonOf(page.response)}`);
      return;
    }
    // Items of a list carry no kind of their own; they are of the kind that was asked for.
    yield present(list.data.items as KubeObject<K>[]);
    token = list.data.metadata.continue === '' ? undefined : list.data.metadata.continue;
  } while (token !== undefined);
}

function writer(connection: KubeConnection): KubeWriter {
  return {
    async swapAnnotation(ref, change, target, signal) {
      return write(connection, ref, swapRequest(ref, change, target), signal);
    },
    async mergePatch(ref, patch, guard, signal) {
      const metadata = (patch['metadata'] ?? {}) as JsonObject;
      const body = {
        ...patch,
        metadata: { ...metadata, uid: guard.uid, resourceVersion: guard.resourceVersion },
      };
      return write(
        connection,
        ref,
        { method: 'PATCH', path: pathOf(ref), contentType: 'application/merge-patch+json', body },
        signal,
      );
    },
    async applyStatus(ref, status, fieldManager, guard, signal) {
      return write(connection, ref, statusRequest(ref, status, fieldManager, guard), signal);
    },
    async create<K extends ResourceKind>(
      ref: ObjectRef<K>,
      manifest: JsonObject,
      signal?: AbortSignal,
    ) {
      const body = { apiVersion: apiVersionOf(ref.kind), kind: ref.kind, ...manifest };
      const answer = await ask(
        connection,
        { method: 'POST', path: collectionPath(ref.kind, ref.namespace), body },
        signal,
      );
      if (
        answer.kind === 'answered' &&
        answer.response.status === 409 &&
        statusReason(answer.response) === 'AlreadyExists'
      ) {
        return { kind: 'exists' as const, object: await reader(connection).get(ref, signal) };
      }
      return endingOf(answer, ref);
    },
    async delete(ref, guard, signal) {
      const answer = await ask(
        connection,
        {
          method: 'DELETE',
          path: pathOf(ref),
          body: { preconditions: { uid: guard.uid, resourceVersion: guard.resourceVersion } },
        },
        signal,
      );
      if (answer.kind === 'answered' && isNotFound(answer.response)) {
        return { kind: 'written', resourceVersion: '' };
      }
      return endingOf(answer, ref);
    },
  };
}

function swapRequest(
  ref: ObjectRef,
  change: Parameters<KubeWriter['swapAnnotation']>[1],
  target: Parameters<KubeWriter['swapAnnotation']>[2],
): KubeRequest {
  if (!target.hasAnnotations) {
    // A JSON patch cannot add into a map that is not there, so the whole version is the guard here.
    return {
      method: 'PATCH',
      path: pathOf(ref),
      contentType: 'application/merge-patch+json',
      body: {
        metadata: {
          uid: change.uid,
          resourceVersion: target.resourceVersion,
          annotations: { [change.key]: change.next },
        },
      },
    };
  }
  const pointer = `/metadata/annotations/${change.key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  return {
    method: 'PATCH',
    path: pathOf(ref),
    contentType: 'application/json-patch+json',
    body: [
      { op: 'test', path: '/metadata/uid', value: change.uid },
      { op: 'test', path: '/metadata/generation', value: change.generation },
      // `null` passes where the annotation is absent.
      { op: 'test', path: pointer, value: change.previous },
      change.next === null
        ? { op: 'remove', path: pointer }
        : { op: 'add', path: pointer, value: change.next },
    ],
  };
}

function statusRequest(
  ref: ObjectRef,
  status: JsonObject,
  fieldManager: string,
  guard: { readonly uid: string; readonly resourceVersion: string },
): KubeRequest {
  return {
    method: 'PATCH',
    path: `${pathOf(ref)}/status`,
    // `force` settles ownership of our own fields after a rename of the manager; it fences nothing.
    query: { fieldManager, force: 'true' },
    contentType: 'application/apply-patch+yaml',
    body: {
      apiVersion: apiVersionOf(ref.kind),
      kind: ref.kind,
      metadata: {
        name: ref.name,
        ...(ref.namespace === undefined ? {} : { namespace: ref.namespace }),
        uid: guard.uid,
        resourceVersion: guard.resourceVersion,
      },
      status,
    },
  };
}

type Answer =
  | { readonly kind: 'answered'; readonly response: KubeResponse }
  | { readonly kind: 'unknown'; readonly why: string };

async function ask(
  connection: KubeConnection,
  request: KubeRequest,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  try {
    const response = await connection.request(
      signal === undefined ? request : { ...request, signal },
    );
    return { kind: 'answered', response };
  } catch (error) {
    return { kind: 'unknown', why: describeError(error) };
  }
}

async function write(
  connection: KubeConnection,
  ref: ObjectRef,
  request: KubeRequest,
  signal: AbortSignal | undefined,
): Promise<WriteResult> {
  return endingOf(await ask(connection, request, signal), ref);
}

/**
 * What a write's answer means for the message that led to it.
 *
 * 409 and 422-by-test are lost races; 404 means that the object went meanwhile, so the view is old: also a lost race.
 */
function endingOf(answer: Answer, ref: ObjectRef): WriteResult {
  if (answer.kind === 'unknown') {
    throw new RetryableError('WriteOutcomeUnknown', `writing ${describe(ref)}: ${answer.why}`);
  }
  const { response } = answer;
  if (response.status >= 200 && response.status < 300) {
    if (!isOfKubernetes(response.body)) {
      throw new RetryableError(
        'WriteOutcomeUnknown',
        `writing ${describe(ref)}: ${reasonOf(response)}`,
      );
    }
    const body = response.body as { metadata?: { resourceVersion?: string } } | undefined;
    return { kind: 'written', resourceVersion: body?.metadata?.resourceVersion ?? '' };
  }
  const why = `writing ${describe(ref)}: ${reasonOf(response)}`;
  refuseOldDefinition(response, ref);
  switch (response.status) {
    case 404:
    case 409:
    case 412:
      return { kind: 'lostRace', why };
    case 422:
      if (isGuardFailure(response)) {
        return { kind: 'lostRace', why };
      }
      throw new TerminalError('WriteInvalid', `${why}${fieldsOf(response)}`);
    case 400:
    case 413:
    case 415:
      throw new TerminalError('WriteInvalid', why);
    case 401:
    case 403:
      if (statusMessage(response).includes('error looking up service account')) {
        // Admission refuses pods in a namespace so new that its service account is still being made.
        throw new RetryableError('ServiceAccountMissing', why, { afterSeconds: 1 });
      }
      // A repaired permission emits no event, so the message comes back slowly instead of being dropped.
      throw new RetryableError('WriteForbidden', why, { afterSeconds: 300 });
    case 429:
    case 503:
      throw new RetryableError(
        'ApiServerBusy',
        why,
        response.retryAfterSeconds === undefined
          ? {}
          : { afterSeconds: response.retryAfterSeconds },
      );
    default:
      throw new RetryableError('WriteFailed', why);
  }
}

/** A status with a field that the definition does not have (server-side apply says so in a 500), or another value. */
const undeclaredField = /(\.status[A-Za-z0-9.[\]"=-]*): field not declared in schema/;

/**
 * Functions that are newer than the definitions write what the API server does not know. Nothing is lost by it but time:
 * the record has moved on, and the status follows once the definitions do, which emits no event.
 */
function refuseOldDefinition(response: KubeResponse, ref: ObjectRef): void {
  const field =
    undeclaredField.exec(statusMessage(response))?.[1] ??
    causesOf(response).find(
      ({ field: at, reason }) => at.startsWith('status.') && reason === 'FieldValueNotSupported',
    )?.field;
  if (field !== undefined) {
    throw new RetryableError(
      'DefinitionOutdated',
      `writing ${describe(ref)}: the installed definition does not know what ${field} says: apply the definitions of millrace ${version}`,
      { afterSeconds: 300 },
    );
  }
}

/** A JSON patch whose `test` fails, or a merge patch that names another uid: both come back as 422 Invalid. */
function isGuardFailure(response: KubeResponse): boolean {
  const message = statusMessage(response);
  return /testing path|test(ed)? value|the server rejected our request due to an error in our request|metadata\.uid/i.test(
    message,
  );
}

function statusReason(response: KubeResponse): string {
  const body = response.body as { reason?: unknown } | null;
  return typeof body === 'object' && typeof body?.reason === 'string' ? body.reason : '';
}

function statusMessage(response: KubeResponse): string {
  const body = response.body as { message?: unknown } | null;
  return typeof body === 'object' && typeof body?.message === 'string' ? body.message : '';
}

/** The API server's word that an object does not exist. A 404 of anything else on the way says nothing about objects. */
function isNotFound(response: KubeResponse): boolean {
  return response.status === 404 && statusReason(response) === 'NotFound';
}

/** `403 Forbidden`: the status and the API server's own reason word, never its message, which may quote the object. */
function reasonOf(response: KubeResponse): string {
  const told = `${response.status} ${statusReason(response)}`.trim();
  const problem = isNoSuchPath(response)
    ? 'the cluster has no such kind: install the definitions, see `millrace manifests`'
    : response.status < 300
      ? (response.problem ?? 'the answer has no known form')
      : response.problem;
  return problem === undefined ? told : `${told}: ${problem}`;
}

/** An admission webhook may put any text there: what is no word, or no path of a field, is not repeated. */
const causeSchema = z.object({
  reason: z.string().regex(/^[A-Za-z]{1,64}$/),
  field: z.string().regex(/^[\w.[\]/-]{1,200}$/),
});

const causesSchema = z.object({
  details: z.object({
    causes: z
      .array(causeSchema.optional().catch(undefined))
      .transform((causes) => causes.filter((cause) => cause !== undefined)),
  }),
});

/** Fields that a refusal names at most. */
const mostFields = 3;

/** ` (spec.backoffLimit: FieldValueInvalid)`: which fields are wrong and how, never what stands in them. */
function fieldsOf(response: KubeResponse): string {
  const causes = causesOf(response).map(({ field, reason }) => `${field}: ${reason}`);
  return causes.length === 0 ? '' : ` (${[...new Set(causes)].slice(0, mostFields).join(', ')})`;
}

function causesOf(response: KubeResponse) {
  return causesSchema.safeParse(response.body).data?.details.causes ?? [];
}

/** `Shard db/orders` */
export function describe(ref: ObjectRef): string {
  return `${ref.kind} ${ref.namespace === undefined ? '' : `${ref.namespace}/`}${ref.name}`;
}

export function pathOf(ref: ObjectRef): string {
  return `${collectionPath(ref.kind, ref.namespace)}/${checkedName(ref.name)}`;
}

/** `/api/v1/namespaces/db/pods`, `/apis/millrace.dev/v1alpha1/shards`. */
export function collectionPath(kind: ResourceKind, namespace: string | undefined): string {
  const { group, version, plural, namespaced } = resourceTypes[kind];
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  return namespaced && namespace !== undefined
    ? `${root}/namespaces/${checkedName(namespace)}/${plural}`
    : `${root}/${plural}`;
}

/** Names are put into URLs only after this: a name from a message or an object must not reach another path. */
function checkedName(name: string): string {
  if (!namePattern.test(name) || name.includes('..')) {
    throw new TerminalError('NameInvalid', 'a name is not a valid Kubernetes name');
  }
  return name;
}

function selectorOf(labels: { readonly [key: string]: string }): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}
