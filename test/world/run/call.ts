import { ownerObjectName } from '#shared/api/repository-owner.ts';
import { defaultPrefix } from '#shared/goverse/keys.ts';
import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import type { BucketRequest } from '#test/world/model/buckets.ts';
import type { Question } from './handler.ts';

/**
 * What a question asks for, in few words: `get Shard`, `list Pod`, `advance`, `range`, `retire`, `remove`, `lease`, `keys`,
 * `switch`, `start backup`, `get owner`.
 */
export interface Call {
  readonly via: 'api' | 'topology' | 'admin' | 'bucket' | 'queue';
  readonly name: string;
  readonly isEffect: boolean;
  /** Whether an answer from a cache, of any age, would do. */
  readonly isCached: boolean;
  /** Of Kubernetes objects. */
  readonly kind: ResourceKind | undefined;
  readonly namespace: string | undefined;
  /** The object, where the path names one. */
  readonly object: string | undefined;
  /** By which labels a list is narrowed down. */
  readonly selector: string | undefined;
  /** For the topology and the admin service: the path behind the service proxy. */
  readonly path: string;
}

const proxied = /^\/api\/v1\/namespaces\/([^/]+)\/services\/(?:https:)?([^/:]+):\d+\/proxy(\/.*)$/;
const resource =
  /^\/(?:api\/v1|apis\/[^/]+\/[^/]+)(?:\/namespaces\/([^/]+))?\/([a-z]+)(?:\/([^/]+))?(?:\/(status|binding))?$/;

const kindOfPlural = new Map(
  Object.entries(resourceTypes).map(([kind, { plural }]) => [plural, kind as ResourceKind]),
);

/** Which service of the world stands behind each Service name. */
export const topologyService = 'topology';
export const adminService = 'multiadmin';

const known = new WeakMap<Question, Call>();

/** Reads a handler's question. Throws for one that no handler has reason to ask. */
export function callOf(question: Question): Call {
  const call = known.get(question) ?? read(question);
  known.set(question, call);
  return call;
}

function read(question: Question): Call {
  if (question.to === 'queue') {
    return { ...nothing, via: 'queue', name: 'change visibility', isEffect: false };
  }
  if (question.to === 'bucket') {
    return { ...nothing, via: 'bucket', ...bucketCallOf(question.request) };
  }
  const { method, path } = question.request;
  const proxy = proxied.exec(path);
  if (proxy !== null) {
    const [, namespace, service, rest = ''] = proxy;
    const via = service === adminService ? 'admin' : 'topology';
    const isEffect = via === 'admin' ? method === 'POST' : rest.endsWith('/txn');
    const name =
      via === 'admin' ? adminCallOf(method, rest) : topologyCallOf(isEffect, question.request.body);
    return { ...nothing, via, name, isEffect, namespace, path: rest };
  }
  const found = resource.exec(path);
  const kind = kindOfPlural.get(found?.[2] ?? '');
  if (found === null || kind === undefined) {
    throw new Error(`a handler asks for ${method} ${path}`);
  }
  const [, namespace, , object, part] = found;
  const isEffect = method !== 'GET';
  const isCached = question.request.query?.['resourceVersion'] !== undefined;
  const name = nameOf(method, kind, object, part, question.request.contentType);
  const selector = question.request.query?.['labelSelector'];
  return { via: 'api', name, isEffect, isCached, kind, namespace, object, selector, path: '' };
}

function adminCallOf(method: string, path: string): string {
  if (path.startsWith('/api/v1/backups')) {
    return method === 'POST' ? 'start backup' : 'backups';
  }
  if (method === 'POST') {
    return 'switch';
  }
  return path.startsWith('/api/v1/jobs/') ? 'job' : 'status';
}

/** By the key that is read or compared: a database's record, the lease of who backs the shard up, GoVerse's, or pooler records. */
function topologyCallOf(isEffect: boolean, body: unknown): string {
  const { key, compare, success } = (body ?? {}) as {
    readonly key?: string;
    readonly compare?: readonly { readonly key?: string }[];
    readonly success?: readonly {
      readonly request_put?: { readonly key?: string };
      readonly request_delete_range?: object;
    }[];
  };
  const written = compare?.[0]?.key ?? success?.[0]?.request_put?.key;
  const path = Buffer.from(key ?? written ?? '', 'base64').toString();
  if (path.endsWith('/Database')) {
    return isEffect ? 'rewrite' : 'database';
  }
  if (path.startsWith(`${defaultPrefix}/`)) {
    return isEffect ? 'write shards' : 'keys';
  }
  if (isEffect) {
    return success?.[0]?.request_delete_range === undefined ? 'retire' : 'remove';
  }
  return /\/backups\/.+\/lock$/.test(path) ? 'lease' : 'range';
}

/** A write of the object that is never there is a question: whether this could be written. */
function bucketCallOf({ operation, key }: BucketRequest): Pick<Call, 'name' | 'isEffect'> {
  switch (operation) {
    case 'getObject':
      return { name: 'get owner', isEffect: false };
    case 'getBucketVersioning':
      return { name: 'versioning', isEffect: false };
    case 'getBucketEncryption':
      return { name: 'encryption', isEffect: false };
    case 'putObject': {
      const isEffect = key.endsWith(`/${ownerObjectName}`);
      return { name: isEffect ? 'put owner' : 'probe', isEffect };
    }
  }
}

const nothing = {
  isCached: false,
  kind: undefined,
  namespace: undefined,
  object: undefined,
  selector: undefined,
  path: '',
} as const;

function nameOf(
  method: string,
  kind: ResourceKind,
  object: string | undefined,
  part: string | undefined,
  contentType: string | undefined,
): string {
  switch (method) {
    case 'GET':
      return `${object === undefined ? 'list' : 'get'} ${kind}`;
    case 'POST':
      return `create ${kind}`;
    case 'DELETE':
      return `delete ${kind}`;
    default:
      if (part === 'status') {
        return 'applyStatus';
      }
      // The first record on an object without annotations goes by a merge patch.
      return kind === 'Shard' ||
        kind === 'Database' ||
        kind === 'GoverseCluster' ||
        contentType === 'application/json-patch+json'
        ? 'advance'
        : `patch ${kind}`;
  }
}
