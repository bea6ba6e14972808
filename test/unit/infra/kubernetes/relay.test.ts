import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { relayConfigSchema } from '#events/relay/config.ts';
import { roles } from '#infra/kubernetes/rbac.ts';
import { type RelaySettings, relayManifests, relaySettingsName } from '#infra/kubernetes/relay.ts';

const settings: RelaySettings = {
  clusterId: 'prod-eu',
  stage: 'prod',
  region: 'eu-west-1',
  queueUrlPrefix: 'https://sqs.eu-west-1.amazonaws.com/1/',
  image: 'relay@sha256:0',
  workNamespaces: ['db', 'more'],
};

const rulesSchema = z.array(z.looseObject({ resourceNames: z.array(z.string()).optional() }));

const deploymentSchema = z.looseObject({
  spec: z.looseObject({
    template: z.looseObject({
      spec: z.looseObject({
        containers: z.tuple([
          z.looseObject({
            env: z.array(z.object({ name: z.string(), value: z.string() })),
            envFrom: z.array(z.unknown()).optional(),
          }),
        ]),
      }),
    }),
  }),
});

function containerOf(given?: RelaySettings) {
  const deployment = relayManifests('millrace', given).find(({ kind }) => kind === 'Deployment');
  return deploymentSchema.parse(deployment).spec.template.spec.containers[0];
}

describe('the relay’s Deployment', () => {
  test('gives it an environment that it starts with', () => {
    const { env } = containerOf(settings);

    const config = relayConfigSchema.parse({
      KUBERNETES_SERVICE_HOST: '10.0.0.1',
      ...Object.fromEntries(env.map(({ name, value }) => [name, value])),
    });

    expect(config).toMatchObject({
      MILLRACE_CLUSTER_ID: 'prod-eu',
      MILLRACE_NAMESPACES: ['db', 'more'],
      MILLRACE_LEASE: { namespace: 'millrace', name: 'millrace-relay' },
      MILLRACE_RELAY_PORT: 8080,
      AWS_REGION: 'eu-west-1',
    });
  });

  test('says where traces go, and the policy lets it go there', () => {
    const traced = { ...settings, otelEndpoint: 'http://collector.observability:4318' };

    const { env } = containerOf(traced);
    const policy = relayManifests('millrace', traced).find(({ kind }) => kind === 'NetworkPolicy');

    expect(env).toContainEqual({
      name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
      value: 'http://collector.observability:4318',
    });
    expect(JSON.stringify(policy)).toContain('{"protocol":"TCP","port":4318}');
    expect(JSON.stringify(relayManifests('millrace', settings))).not.toMatch(/OTEL|4318/);
  });

  test('records the hints that it sends where it is told to, and what it is told is what it reads', () => {
    const { env } = containerOf({ ...settings, archive: 's3://records' });

    expect(env).toContainEqual({ name: 'MILLRACE_ARCHIVE', value: 's3://records' });
    expect(relayConfigSchema.shape.MILLRACE_ARCHIVE.parse('s3://records')).toEqual({
      kind: 's3',
      bucket: 'records',
      prefix: '',
    });
    expect(JSON.stringify(relayManifests('millrace', settings))).not.toContain('ARCHIVE');
  });

  test('of the base leaves what only the installation knows to a ConfigMap', () => {
    const { env, envFrom } = containerOf();

    expect(env.map(({ name }) => name)).toEqual(['MILLRACE_LEASE', 'MILLRACE_RELAY_PORT']);
    expect(envFrom).toEqual([{ configMapRef: { name: relaySettingsName } }]);
  });

  test('is called as nothing that a role names, which kustomize would rename along', () => {
    const named = roles({ namespace: 'millrace', workNamespaces: [], secrets: [], services: [] })
      .flatMap((role) => z.looseObject({ rules: rulesSchema.default([]) }).parse(role).rules)
      .flatMap(({ resourceNames = [] }) => resourceNames);

    expect(named).toContain('millrace-relay');
    expect(named).not.toContain(relaySettingsName);
  });
});
