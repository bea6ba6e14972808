import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import { kindRules } from './kind-rules.ts';

export type Subresource = 'status' | 'binding';

/** What a path of the API names: a collection where `name` is absent, of all namespaces where `namespace` is. */
export interface Route {
  readonly kind: ResourceKind;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: Subresource | undefined;
}

const kinds = new Map(
  (Object.keys(resourceTypes) as ResourceKind[]).map((kind) => {
    const { group, version, plural } = resourceTypes[kind];
    return [`${group}/${version}/${plural}`, kind] as const;
  }),
);

const routes = new Map<string, Route | undefined>();

/** Paths kept in memory: more than one world has objects. */
const maxRoutes = 20_000;

/** `undefined` where the server serves no such path. */
export function parseRoute(path: string): Route | undefined {
  if (routes.has(path)) {
    return routes.get(path);
  }
  if (routes.size >= maxRoutes) {
    routes.clear();
  }
  const route = routeOf(path);
  routes.set(path, route);
  return route;
}

function routeOf(path: string): Route | undefined {
  const parts = path.split('/').slice(1).map(decoded);
  if (parts.includes('') || (parts[0] !== 'api' && parts[0] !== 'apis')) {
    return undefined;
  }
  const [group, version, ...rest] = parts[0] === 'api' ? ['', ...parts.slice(1)] : parts.slice(1);
  const isBelowNamespace =
    rest[0] === 'namespaces' && rest.length > 2 && rest[2] !== 'status' && rest[1] !== undefined;
  const namespace = isBelowNamespace ? rest[1] : undefined;
  const [plural, name, subresource, ...more] = isBelowNamespace ? rest.slice(2) : rest;
  const kind = kinds.get(`${group}/${version}/${plural}`);
  if (kind === undefined || more.length > 0) {
    return undefined;
  }
  const { namespaced } = resourceTypes[kind];
  const isPlaced = namespaced ? namespace !== undefined || name === undefined : !isBelowNamespace;
  if (!isPlaced || !isServed(kind, subresource)) {
    return undefined;
  }
  return { kind, namespace, name, subresource };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // What is no escape names nothing.
    return '';
  }
}

function isServed(
  kind: ResourceKind,
  subresource: string | undefined,
): subresource is Subresource | undefined {
  switch (subresource) {
    case undefined:
      return true;
    case 'status':
      return kindRules[kind].hasStatus === true;
    case 'binding':
      return kind === 'Pod';
    default:
      return false;
  }
}
