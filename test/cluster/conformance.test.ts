import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { installDefinitions } from '#infra/cli/install.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { apiServerRows, namespaceOf } from '#test/world/conformance/api-server-rows.ts';
import { serveModel } from '#test/world/conformance/model-api.ts';
import { serveReal } from '#test/world/conformance/real-api.ts';
import { type Row, type Said, Script, type ServedApi } from '#test/world/conformance/script.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

const namespacePath = '/api/v1/namespaces';
const serviceAccounts = '/api/v1/serviceaccounts';

/** Each of them has an account within a second; a loaded machine takes longer. */
const patienceMs = 120_000;

async function play(row: Row, server: ServedApi): Promise<readonly Said[]> {
  const script = new Script(server, namespaceOf(row));
  await row.play(script);
  return script.said;
}

/** Pods are admitted in a namespace when its account is there. */
async function makeNamespaces(connection: KubeConnection, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
    const { status } = await connection.request({ method: 'POST', path: namespacePath, body });
    expect(status).toBe(201);
  }
  const missing = new Set(names);
  const { lines } = await connection.stream({
    method: 'GET',
    path: serviceAccounts,
    query: { watch: '1' },
    signal: AbortSignal.timeout(patienceMs),
  });
  for await (const line of lines) {
    const { object } = JSON.parse(line) as { object: { metadata: { namespace: string } } };
    missing.delete(object.metadata.namespace);
    if (missing.size === 0) {
      return;
    }
  }
}

describe.skipIf(missingControlPlane !== undefined)(
  'the model says what a real API server says',
  () => {
    const controlPlane = useControlPlane();
    let connection: KubeConnection;

    beforeAll(async () => {
      connection = connectKube(controlPlane().access());
      await installDefinitions(connection);
      await makeNamespaces(connection, apiServerRows.map(namespaceOf));
    });

    afterAll(() => {
      connection.close();
    });

    test.each(apiServerRows)('$name', async (row) => {
      const real = await play(row, serveReal(connection, controlPlane().etcdEndpoint));
      const model = await play(row, serveModel([namespaceOf(row)]));

      expect(model).toEqual(real);
    });
  },
);
