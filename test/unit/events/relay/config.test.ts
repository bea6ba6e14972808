import { describe, expect, test } from 'vitest';
import { relayConfigSchema } from '#events/relay/config.ts';
import { ConfigurationError, readConfig } from '#shared/kernel/config.ts';

const enough = {
  MILLRACE_CLUSTER_ID: 'prod-eu',
  MILLRACE_STAGE: 'prod',
  MILLRACE_QUEUE_URL_PREFIX: 'https://sqs.eu-west-1.amazonaws.com/123456789012',
  AWS_REGION: 'eu-west-1',
  KUBERNETES_SERVICE_HOST: '10.0.0.1',
};

function problemsOf(environment: Record<string, string>): string[] {
  try {
    readConfig(relayConfigSchema, environment);
    return [];
  } catch (error) {
    if (error instanceof ConfigurationError) {
      return error.problems.map((problem) => problem.split(':', 1)[0] ?? '').toSorted();
    }
    throw error;
  }
}

describe('the relay’s configuration', () => {
  test('needs little and completes the rest', () => {
    const config = readConfig(relayConfigSchema, enough);

    expect(config).toMatchObject({
      MILLRACE_NAMESPACES: [],
      MILLRACE_QUEUE_URL_PREFIX: 'https://sqs.eu-west-1.amazonaws.com/123456789012/',
      MILLRACE_RELAY_PORT: 8080,
      MILLRACE_LOG_LEVEL: 'info',
    });
  });

  test('names an archive that is none', () => {
    expect(problemsOf({ ...enough, MILLRACE_ARCHIVE: 'my bucket' })).toEqual(['MILLRACE_ARCHIVE']);
  });

  test('takes namespaces and a port', () => {
    const config = readConfig(relayConfigSchema, {
      ...enough,
      MILLRACE_NAMESPACES: 'a, b',
      MILLRACE_RELAY_PORT: '0',
    });

    expect([config.MILLRACE_NAMESPACES, config.MILLRACE_RELAY_PORT]).toEqual([['a', 'b'], 0]);
  });

  test('takes a lease by namespace and name, of fifteen seconds unless it says otherwise', () => {
    const lease = { MILLRACE_LEASE: 'millrace-system/relay.prod' };
    const configs = [
      enough,
      { ...enough, ...lease },
      { ...enough, ...lease, MILLRACE_LEASE_SECONDS: '30' },
    ].map((environment) => readConfig(relayConfigSchema, environment));

    expect(
      configs.map(({ MILLRACE_LEASE, MILLRACE_LEASE_SECONDS }) => [
        MILLRACE_LEASE,
        MILLRACE_LEASE_SECONDS,
      ]),
    ).toEqual([
      [undefined, 15],
      [{ namespace: 'millrace-system', name: 'relay.prod' }, 15],
      [{ namespace: 'millrace-system', name: 'relay.prod' }, 30],
    ]);
  });

  test.each([
    'relay',
    '/relay',
    'a/',
    'a/b/c',
    'a/B',
    'A/b',
    'a/-b',
    'a/b.',
    'a/../b',
    `a/${'b'.repeat(254)}`,
  ])('does not take %s for a lease', (MILLRACE_LEASE) => {
    expect(problemsOf({ ...enough, MILLRACE_LEASE })).toEqual(['MILLRACE_LEASE']);
  });

  test.each(['2', '301', '4.5', 'x'])('does not take a lease of %s seconds', (seconds) => {
    expect(problemsOf({ ...enough, MILLRACE_LEASE_SECONDS: seconds })).toEqual([
      'MILLRACE_LEASE_SECONDS',
    ]);
  });

  test('names everything that is missing at once', () => {
    expect(problemsOf({})).toEqual([
      'AWS_REGION',
      'KUBECONFIG',
      'MILLRACE_CLUSTER_ID',
      'MILLRACE_QUEUE_URL_PREFIX',
      'MILLRACE_STAGE',
    ]);
  });

  test('names everything that is wrong at once, beside what is missing', () => {
    const environment = {
      ...enough,
      KUBERNETES_SERVICE_HOST: '',
      MILLRACE_STAGE: 'a b',
      MILLRACE_NAMESPACES: 'ok,Not_Ok',
      MILLRACE_RELAY_PORT: '70000',
      MILLRACE_QUEUE_ENDPOINT: 'nowhere',
    };

    expect(problemsOf(environment)).toEqual([
      'KUBECONFIG',
      'MILLRACE_NAMESPACES.1',
      'MILLRACE_QUEUE_ENDPOINT',
      'MILLRACE_RELAY_PORT',
      'MILLRACE_STAGE',
    ]);
  });
});
