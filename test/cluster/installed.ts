import { afterAll, beforeAll, expect } from 'vitest';
import * as z from 'zod';
import { installDefinitions } from '#infra/cli/install.ts';
import type { Manifest } from '#infra/kubernetes/manifest.ts';
import type { IdentityName } from '#infra/kubernetes/rbac.ts';
import type { ControlPlane } from '#infra/local/control-plane/control-plane.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { missingControlPlane } from './local-control-plane.ts';

/** Where each kind of an installation is served. */
const collections: { readonly [kind: string]: string } = {
  ClusterRole: 'clusterroles',
  ClusterRoleBinding: 'clusterrolebindings',
  ConfigMap: 'configmaps',
  Deployment: 'deployments',
  Lease: 'leases',
  Namespace: 'namespaces',
  NetworkPolicy: 'networkpolicies',
  PodDisruptionBudget: 'poddisruptionbudgets',
  Role: 'roles',
  RoleBinding: 'rolebindings',
  Service: 'services',
  ServiceAccount: 'serviceaccounts',
  ValidatingAdmissionPolicy: 'validatingadmissionpolicies',
  ValidatingAdmissionPolicyBinding: 'validatingadmissionpolicybindings',
};

const tokenSchema = z.looseObject({ status: z.looseObject({ token: z.string() }) });

export interface Installed {
  /** As the cluster's administrator. */
  readonly api: KubeConnection;
  /** Signed in with a token that the API server has issued for the identity's service account. */
  as(identity: IdentityName): KubeConnection;
  token(identity: IdentityName): string;
  apply(manifest: Manifest): Promise<void>;
}

/** Applies the definitions, and what is to be installed, as a person would, and signs in as each identity. */
export function useInstalled(
  controlPlane: () => ControlPlane,
  namespace: string,
  identities: readonly IdentityName[],
  manifests: () => readonly Manifest[],
): () => Installed {
  let installed: (Installed & { close(): void }) | undefined;

  beforeAll(async () => {
    if (missingControlPlane !== undefined) {
      return;
    }
    const { server, ca } = controlPlane();
    const api = connectKube(controlPlane().access());
    const apply = async (manifest: Manifest) => applyTo(api, manifest);
    await installDefinitions(api);
    for (const manifest of manifests()) {
      await apply(manifest);
    }
    const tokens = new Map<IdentityName, string>();
    for (const identity of identities) {
      tokens.set(identity, await requestToken(api, namespace, identity));
    }
    const connections = new Map(
      [...tokens].map(([identity, token]) => [
        identity,
        connectKube({ server, ca, credentials: async () => ({ token }) }),
      ]),
    );
    installed = {
      api,
      as: (identity) => connections.get(identity) ?? expect.unreachable(`no ${identity}`),
      token: (identity) => tokens.get(identity) ?? expect.unreachable(`no ${identity}`),
      apply,
      close() {
        api.close();
        for (const connection of connections.values()) {
          connection.close();
        }
      },
    };
  });

  afterAll(() => installed?.close());

  return () => installed ?? expect.unreachable('it is installed only during tests');
}

/** Applies it, and fails the test where that is refused. */
export async function applyTo(api: KubeConnection, manifest: Manifest): Promise<void> {
  const { apiVersion, kind, metadata } = manifest;
  const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const scope = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`;
  const answer = await api.request({
    method: 'PATCH',
    path: `${root}${scope}/${collections[kind] ?? expect.unreachable(`unknown ${kind}`)}/${metadata.name}`,
    query: { fieldManager: 'test', force: 'true', fieldValidation: 'Strict' },
    contentType: 'application/apply-patch+yaml',
    body: manifest,
  });
  expect(answer.status, `${kind} ${metadata.name}: ${JSON.stringify(answer.body)}`).toBeLessThan(
    300,
  );
}

async function requestToken(
  api: KubeConnection,
  namespace: string,
  identity: IdentityName,
): Promise<string> {
  const answer = await api.request({
    method: 'POST',
    path: `/api/v1/namespaces/${namespace}/serviceaccounts/${identity}/token`,
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: 3600 },
    },
  });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  return tokenSchema.parse(answer.body).status.token;
}
