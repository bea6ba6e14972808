import { beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { identityOf } from '#events/relay/identity.ts';
import { installDefinitions } from '#infra/cli/install.ts';
import { versionLabel } from '#infra/kubernetes/manifest.ts';
import { leaseName } from '#infra/kubernetes/rbac.ts';
import { relayName } from '#infra/kubernetes/relay.ts';
import { version } from '#shared/api/version.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { collectionPath, kubeClient } from '#shared/kube/http-kube.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import { attachedShardManifest } from '#test/builders/manifest.ts';
import { runMillrace } from '#test/unit/infra/cli/run-millrace.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';

const controlPlane = useControlPlane();
const namespace = 'default';
const own = 'millrace';
let connection: KubeConnection;

beforeAll(async () => {
  if (missingControlPlane === undefined) {
    connection = connectKube(controlPlane().access());
    await installDefinitions(connection);
  }
});

async function create(kind: ResourceKind, manifest: object, into?: string): Promise<void> {
  const path = collectionPath(kind, into);
  const answer = await connection.request({ method: 'POST', path, body: manifest });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
}

const definitionPath = `${collectionPath('CustomResourceDefinition', undefined)}/shards.millrace.dev`;

/** Lets the definition of Shards be one of another release, as far as its label tells. */
async function relabel(release: string): Promise<void> {
  const answer = await connection.request({
    method: 'PATCH',
    path: definitionPath,
    contentType: 'application/merge-patch+json',
    body: { metadata: { labels: { [versionLabel]: release } } },
  });
  expect(answer.status).toBe(200);
}

const checksSchema = z.object({
  checks: z.array(
    z.looseObject({
      name: z.string(),
      result: z.string(),
      found: z.string(),
      advice: z.string().optional(),
    }),
  ),
});

async function doctorSays(name: string) {
  const { stdout } = await runMillrace([
    'doctor',
    '--json',
    '--kubeconfig',
    controlPlane().kubeconfigPath,
  ]);
  return checksSchema.parse(JSON.parse(stdout)).checks.find((check) => check.name === name);
}

describe('functions that are newer than the definitions', () => {
  test.each([
    ['a field', { note: 'x', cause: 'surplus' }, '.status.drain.note'],
    ['a value', { cause: 'rolling' }, 'status.drain.cause'],
  ])('are told which part they have to wait for, with %s', async (what, part, field) => {
    const name = `with-${what.replace(' ', '-')}`;
    const kube = kubeClient(connection);
    const ref = { kind: 'Shard', namespace, name } as const;
    await kube.create(ref, attachedShardManifest(name));
    const shard = await kube.get(ref);
    expect(shard.kind).toBe('present');
    const guard =
      shard.kind === 'present' ? shard.value.metadata : { uid: '', resourceVersion: '' };
    const drain = { pod: 'a', since: '2026-01-01T00:00:00Z', ...part };

    const written = kube.applyStatus(ref, { drain }, 'drain-step', guard);

    await expect(written).rejects.toMatchObject({
      reason: 'DefinitionOutdated',
      afterSeconds: 300,
      message: expect.stringContaining(
        `does not know what ${field} says: apply the definitions of millrace ${version}`,
      ),
    });
  });
});

describe('definitions of a newer release', () => {
  test('are not replaced by older ones, which would take their fields away', async () => {
    await relabel('99.0.0');

    await expect(installDefinitions(connection)).rejects.toThrow(
      `shards.millrace.dev is of 99.0.0, and this is ${version}`,
    );
  });

  test('are in order for doctor where they say the same', async () => {
    await relabel('99.0.0');

    expect(await doctorSays('definition shards.millrace.dev')).toMatchObject({ result: 'ok' });
  });

  test('want functions and relay to follow where they say something else', async () => {
    await relabel('99.0.0');
    const answer = await connection.request({
      method: 'PATCH',
      path: definitionPath,
      contentType: 'application/json-patch+json',
      body: [
        {
          op: 'add',
          path: '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/note',
          value: { type: 'string' },
        },
      ],
    });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);

    const check = await doctorSays('definition shards.millrace.dev');

    expect(check).toMatchObject({ result: 'failed' });
    expect(check?.found).toContain(`it is of 99.0.0, and this is ${version}`);
    expect(check?.advice).toContain('functions and relay of 99.0.0');
  });
});

describe('relays of two releases', () => {
  test('are told apart by doctor, which names who leads with which', async () => {
    await create('Namespace', { metadata: { name: own } });
    await create(
      'Lease',
      {
        metadata: { name: leaseName, namespace: own },
        spec: { holderIdentity: identityOf('relay-b', '99.0.0', 'some-uid') },
      },
      own,
    );
    // Pods are made without their service account's token, as no controller for these runs.
    for (const [name, release] of [
      ['relay-a', version],
      ['relay-b', '99.0.0'],
    ] as const) {
      await create(
        'Pod',
        {
          metadata: {
            name,
            namespace: own,
            labels: { 'app.kubernetes.io/name': relayName, [versionLabel]: release },
          },
          spec: {
            automountServiceAccountToken: false,
            containers: [{ name: 'relay', image: 'relay' }],
          },
        },
        own,
      );
    }

    expect(await doctorSays('version of the relay')).toMatchObject({
      result: 'failed',
      found: `2 of ${version} and 99.0.0, relay-b leads with 99.0.0`,
    });
  });
});
