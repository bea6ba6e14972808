import { admissionPolicies } from './admission.ts';
import { type Manifest, partOf } from './manifest.ts';
import { type Grants, accounts, roles } from './rbac.ts';
import { type RelaySettings, relayManifests } from './relay.ts';

export interface Installation extends Grants {
  readonly relay: Omit<RelaySettings, 'workNamespaces'>;
  /** The role of AWS that the relay sends with, where its pods get one by their service account. */
  readonly relayRoleArn?: string;
}

/** Everything that is installed besides the definitions, in the order in which it can be applied. */
export function installationOf(installation: Installation): readonly Manifest[] {
  const { namespace, workNamespaces, relay, relayRoleArn } = installation;
  return [
    namespaceOf(namespace),
    ...accounts(
      namespace,
      relayRoleArn === undefined ? {} : { 'eks.amazonaws.com/role-arn': relayRoleArn },
    ),
    ...roles(installation),
    ...admissionPolicies(installation),
    ...relayManifests(namespace, { ...relay, workNamespaces }),
  ];
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
