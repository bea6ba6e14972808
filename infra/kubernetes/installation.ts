import { type Manifest, partOf } from './manifest.ts';
import { type Grants, accounts, roles } from './rbac.ts';

/** Everything that is installed besides the definitions, in the order in which it can be applied. */
export function installationOf(grants: Grants): readonly Manifest[] {
  return [namespaceOf(grants.namespace), ...accounts(grants.namespace), ...roles(grants)];
}

export function namespaceOf(name: string): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name,
      labels: {
        ...partOf,
        // Nothing here needs more than the strictest of the Pod Security Standards admits.
        'pod-security.kubernetes.io/enforce': 'restricted',
        'pod-security.kubernetes.io/warn': 'restricted',
      },
    },
  };
}
