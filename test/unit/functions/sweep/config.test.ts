import { describe, expect, test } from 'vitest';
import { ConfigurationError, readConfig } from '#shared/kernel/config.ts';
import { sweepConfigSchema } from '#functions/sweep/config.ts';

const enough = {
  MILLRACE_CLUSTER_ID: 'prod-eu',
  MILLRACE_STAGE: 'prod',
  MILLRACE_QUEUE_URL_PREFIX: 'https://sqs.eu-west-1.amazonaws.com/123456789012/',
  MILLRACE_KUBE_SERVER: 'https://kubernetes.example',
  MILLRACE_KUBE_TOKEN_PARAMETER: '/millrace/prod/kube-token',
  AWS_REGION: 'eu-west-1',
};

function problemsOf(environment: Record<string, string>): readonly string[] {
  try {
    readConfig(sweepConfigSchema, environment);
    return [];
  } catch (error) {
    if (error instanceof ConfigurationError) {
      return error.problems.map((problem) => problem.split(':', 1)[0] ?? '').toSorted();
    }
    throw error;
  }
}

describe('the sweep’s configuration', () => {
  test('needs a cluster, queues, an API server and a way to sign in', () => {
    const config = readConfig(sweepConfigSchema, enough);

    expect(config).toMatchObject({
      ...enough,
      MILLRACE_NAMESPACES: [],
      MILLRACE_LOG_LEVEL: 'info',
    });
  });

  test('names everything that is missing at once', () => {
    expect(problemsOf({})).toEqual([
      'AWS_REGION',
      'MILLRACE_CLUSTER_ID',
      'MILLRACE_KUBE_SERVER',
      'MILLRACE_QUEUE_URL_PREFIX',
      'MILLRACE_STAGE',
      'configuration',
    ]);
  });

  test('has to be for the region that the queues are in', () => {
    expect(problemsOf({ ...enough, AWS_REGION: 'us-east-1' })).toEqual(['AWS_REGION']);
  });

  test('names everything that is wrong at once, and no value', () => {
    const wrong = {
      ...enough,
      MILLRACE_CLUSTER_ID: 'x'.repeat(101),
      MILLRACE_STAGE: 'no stage',
      MILLRACE_NAMESPACES: 'db, ../kube-system',
      MILLRACE_QUEUE_URL_PREFIX: 'queues',
      MILLRACE_KUBE_SERVER: 'here',
      MILLRACE_LOG_LEVEL: 'loud',
    };

    expect(problemsOf(wrong)).toEqual([
      'MILLRACE_CLUSTER_ID',
      'MILLRACE_KUBE_SERVER',
      'MILLRACE_LOG_LEVEL',
      'MILLRACE_NAMESPACES.1',
      'MILLRACE_QUEUE_URL_PREFIX',
      'MILLRACE_STAGE',
    ]);
    expect(() => readConfig(sweepConfigSchema, wrong)).not.toThrow(/kube-system|no stage|loud/);
  });
});
