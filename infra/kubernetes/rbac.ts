import { type FunctionName, stepNames, sweepName } from '#shared/api/steps.ts';
import type { StepDeclaration } from '#shared/kernel/step.ts';
import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import { type Access, accessOf, leaseAccess, relayAccess, sweepAccess } from './access.ts';
import { declarations } from './declarations.ts';
import { type Manifest, partOf } from './manifest.ts';

/** Whoever signs in to the API server for Millrace: each function, and the relay. */
export type IdentityName = FunctionName | 'relay';

export const identityNames: readonly IdentityName[] = [...stepNames, sweepName, 'relay'];

/** The Lease that relays agree by, in Millrace's own namespace. */
export const leaseName = 'millrace-relay';

/** One object of the user's that a Database or a GoverseCluster names. */
export interface NamedObject {
  readonly namespace: string;
  readonly name: string;
}

export interface Grants {
  /** Where Millrace's own objects are. */
  readonly namespace: string;
  /** Where it may work; empty: everywhere. */
  readonly workNamespaces: readonly string[];
  /** Secrets that may be read. Nobody but their owner knows their names, and whoever may read all of them holds the cluster. */
  readonly secrets: readonly NamedObject[];
  /** Who else signs in as an identity, besides its service account: names of users as the API server knows them. */
  readonly users?: { readonly [Name in IdentityName]?: readonly string[] };
  /** Services that may be reached through the API server, as it names them: `topo:2379`, `https:topo:2379`. */
  readonly services: readonly NamedObject[];
}

/** By which names the API server knows an identity: that of its service account, and those of the users given for it. */
export function usersOf(identity: IdentityName, { namespace, users }: Grants): readonly string[] {
  return [`system:serviceaccount:${namespace}:${identity}`, ...(users?.[identity] ?? [])];
}

/** A service account for each identity. Only the relay is a pod, which finds its token in itself. */
export function accounts(
  namespace: string,
  relayAnnotations: { readonly [key: string]: string } = {},
): readonly Manifest[] {
  return identityNames.map((name) => ({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: {
      name,
      namespace,
      labels: partOf,
      ...(name === 'relay' && Object.keys(relayAnnotations).length > 0
        ? { annotations: relayAnnotations }
        : {}),
    },
    automountServiceAccountToken: false,
  }));
}

/** What each identity may do: what it declares, and nothing else. */
export function roles(grants: Grants): readonly Manifest[] {
  return identityNames.flatMap((identity) => [
    ...generalRoles(identity, grants),
    ...namedRoles(identity, grants),
  ]);
}

/** Objects of which a step reads one that the user names; granted by that name alone. */
export const namedKinds: ReadonlySet<ResourceKind> = new Set(['Secret']);

/** They follow from the method of the request: GET and POST are all that a data plane is asked by. */
export const proxyVerbs = ['get', 'create'] as const;

function accessOfIdentity(identity: IdentityName): readonly Access[] {
  if (identity === 'relay') {
    return relayAccess;
  }
  return identity === sweepName ? sweepAccess : accessOf(declarations[identity]);
}

/** The kinds of objects that everybody knows: for the namespaces where Millrace works, and for the cluster's own. */
function generalRoles(identity: IdentityName, grants: Grants): readonly Manifest[] {
  const access = accessOfIdentity(identity).filter(({ kind }) => !namedKinds.has(kind));
  const inNamespaces = access.filter(({ kind }) => resourceTypes[kind].namespaced);
  const ofCluster = access.filter(({ kind }) => !resourceTypes[kind].namespaced);
  const name = `millrace-${identity}`;
  return [
    role('ClusterRole', { name }, rulesOf(inNamespaces)),
    ...(grants.workNamespaces.length === 0
      ? [binding('ClusterRoleBinding', { name }, 'ClusterRole', name, identity, grants)]
      : grants.workNamespaces.map((namespace) =>
          binding('RoleBinding', { name, namespace }, 'ClusterRole', name, identity, grants),
        )),
    ...(ofCluster.length === 0
      ? []
      : [
          role('ClusterRole', { name: `${name}-cluster` }, rulesOf(ofCluster)),
          binding(
            'ClusterRoleBinding',
            { name: `${name}-cluster` },
            'ClusterRole',
            `${name}-cluster`,
            identity,
            grants,
          ),
        ]),
  ];
}

/** Single objects by their names: the relay's Lease, and what the user's Databases and GoverseClusters name. */
function namedRoles(identity: IdentityName, grants: Grants): readonly Manifest[] {
  if (identity === 'relay') {
    return leaseRoles(grants);
  }
  const step: StepDeclaration | undefined =
    identity === sweepName ? undefined : declarations[identity];
  const secrets = step !== undefined && readsSecrets(step) ? grants.secrets : [];
  const services = step !== undefined && reachesServices(step) ? grants.services : [];
  const namespaces = [...new Set([...secrets, ...services].map(({ namespace }) => namespace))];
  const namesIn = (objects: readonly NamedObject[], namespace: string): readonly string[] =>
    objects.filter((object) => object.namespace === namespace).map(({ name }) => name);
  return namespaces.toSorted().flatMap((namespace) => {
    const metadata = { name: `millrace-${identity}-named`, namespace };
    return [
      role('Role', metadata, [
        ...ruleOnNames('secrets', ['get'], namesIn(secrets, namespace)),
        ...ruleOnNames('services/proxy', proxyVerbs, namesIn(services, namespace)),
      ]),
      binding('RoleBinding', metadata, 'Role', metadata.name, identity, grants),
    ];
  });
}

export function readsSecrets({ reads }: StepDeclaration): boolean {
  return reads.some(
    (permission) => permission.api === 'kubernetes' && permission.kind === 'Secret',
  );
}

export function reachesServices({ reads }: StepDeclaration): boolean {
  return reads.some(({ api }) => api === 'topology' || api === 'goverse' || api === 'admin');
}

function leaseRoles(grants: Grants): readonly Manifest[] {
  const metadata = { name: 'millrace-relay-lease', namespace: grants.namespace };
  const { group, plural } = resourceTypes.Lease;
  // An object that is not there yet has no name that could be compared.
  const creating = leaseAccess.filter(({ verb }) => verb === 'create');
  const verbs = leaseAccess.flatMap(({ verb }) => (verb === 'create' ? [] : [verb]));
  return [
    role('Role', metadata, [
      ...rulesOf(creating),
      { apiGroups: [group], resources: [plural], resourceNames: [leaseName], verbs },
    ]),
    binding('RoleBinding', metadata, 'Role', metadata.name, 'relay', grants),
  ];
}

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** One rule for each resource, its verbs in it. */
function rulesOf(access: readonly Access[]): readonly Rule[] {
  const verbs = new Map<string, { readonly group: string; readonly verbs: string[] }>();
  for (const { kind, verb, subresource } of access) {
    const { group, plural } = resourceTypes[kind];
    const resource = subresource === undefined ? plural : `${plural}/${subresource}`;
    const known = verbs.get(resource) ?? { group, verbs: [] };
    known.verbs.push(verb);
    verbs.set(resource, known);
  }
  return [...verbs].map(([resource, of]) => ({
    apiGroups: [of.group],
    resources: [resource],
    verbs: of.verbs.toSorted(),
  }));
}

/** No rule for no name: a rule without names is one for every name. */
function ruleOnNames(
  resource: string,
  verbs: readonly string[],
  resourceNames: readonly string[],
): readonly Rule[] {
  return resourceNames.length === 0
    ? []
    : [{ apiGroups: [''], resources: [resource], resourceNames, verbs }];
}

function role(
  kind: 'Role' | 'ClusterRole',
  metadata: { readonly name: string; readonly namespace?: string },
  rules: readonly Rule[],
): Manifest {
  return {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind,
    metadata: { ...metadata, labels: partOf },
    rules,
  };
}

function binding(
  kind: 'RoleBinding' | 'ClusterRoleBinding',
  metadata: { readonly name: string; readonly namespace?: string },
  roleKind: 'Role' | 'ClusterRole',
  roleName: string,
  identity: IdentityName,
  { namespace, users }: Grants,
): Manifest {
  return {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind,
    metadata: { ...metadata, labels: partOf },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: roleKind, name: roleName },
    subjects: [
      { kind: 'ServiceAccount', name: identity, namespace },
      ...(users?.[identity] ?? []).map((name) => ({
        apiGroup: 'rbac.authorization.k8s.io',
        kind: 'User',
        name,
      })),
    ],
  };
}
