import { describe, expect, test } from 'vitest';
import { present, unknown } from '#shared/kernel/read.ts';
import type { KubeConnection, KubeRequest } from '#shared/kube/connection.ts';
import { tracedConnection, tracedOutside } from '#shared/outside/traced.ts';
import { aDatabase } from '#test/builders/shard.ts';
import { KubeModel } from '#test/builders/kube-model.ts';
import { RecordedTracer } from '#test/builders/recorded-tracer.ts';

function connected(status: number) {
  const tracer = new RecordedTracer();
  const streams: KubeRequest[] = [];
  const connection: KubeConnection = {
    request: () => Promise.resolve({ status, body: { message: 's3cret' } }),
    stream(request) {
      streams.push(request);
      return Promise.reject(new Error('as asked'));
    },
    close: () => undefined,
  };
  const traced = tracedConnection(connection, tracer, 'https://api.example:6443');
  const ask = async (method: KubeRequest['method'], path: string) => {
    await traced.request({ method, path, query: { q: 's3cret' }, body: { a: 's3cret' } });
    return tracer.spans.at(-1);
  };
  return { tracer, traced, ask };
}

describe('a request to the API server', () => {
  test.each([
    ['/api/v1/namespaces/db/pods', '/api/v1/namespaces/{namespace}/pods'],
    ['/api/v1/namespaces/db/pods/a', '/api/v1/namespaces/{namespace}/pods/{name}'],
    ['/api/v1/namespaces/db', '/api/v1/namespaces/{name}'],
    ['/api/v1/nodes', '/api/v1/nodes'],
    [
      '/apis/millrace.dev/v1alpha1/namespaces/db/shards/a/status',
      '/apis/millrace.dev/v1alpha1/namespaces/{namespace}/shards/{name}/status',
    ],
    [
      '/api/v1/namespaces/db/services/http:admin:80/proxy/api/v1/poolers/a',
      '/api/v1/namespaces/{namespace}/services/{name}/proxy',
    ],
    ['/version', '/version'],
  ])('%s is named %s', async (path, template) => {
    const span = await connected(200).ask('GET', path);

    expect(span?.name).toBe(`GET ${template}`);
    expect(span?.attributes).toMatchObject({
      'http.request.method': 'GET',
      'http.response.status_code': 200,
      'url.template': template,
      'server.address': 'api.example',
      'server.port': 6443,
    });
  });

  test('says nothing of its query, its body or the answer', async () => {
    const { tracer, ask } = connected(422);

    const span = await ask('PATCH', '/api/v1/namespaces/db/pods/a');

    expect(span?.failure).toBe('422');
    expect(JSON.stringify(tracer.spans)).not.toContain('s3cret');
  });

  test('that finds nothing has not failed', async () => {
    const span = await connected(404).ask('GET', '/api/v1/namespaces/db/pods/a');
    const deleted = await connected(404).ask('DELETE', '/api/v1/namespaces/db/pods/a');

    expect(span?.failure).toBeUndefined();
    expect(deleted?.failure).toBe('404');
  });

  test('that never ends, a watch, has no span', async () => {
    const { tracer, traced } = connected(200);

    await expect(traced.stream({ method: 'GET', path: '/api/v1/pods' })).rejects.toThrow();

    expect(tracer.spans).toEqual([]);
  });
});

test('questions to the data plane and to a bucket are spans that say what came of them', async () => {
  const tracer = new RecordedTracer();
  const unasked = () => {
    throw new Error('not asked');
  };
  const kube = new KubeModel();
  const data = { goverse: unasked, admin: unasked, repository: unasked };
  const outside = tracedOutside(
    {
      kube,
      ports: {
        ...data,
        clusterId: 'test',
        kube,
        topology: () => ({
          database: () => Promise.resolve(unknown('s3cret')),
          backupLease: () => Promise.resolve(present({ holder: 's3cret' })),
          poolers: unasked,
        }),
      },
      writers: { ...data, kube, topology: unasked },
      changeVisibility: unasked,
    },
    tracer,
  );
  const topology = outside.ports.topology(aDatabase());

  const answers = [
    await topology.database('postgres'),
    await topology.backupLease({ database: 'postgres', tableGroup: 'default', shard: '0-inf' }),
  ];

  expect(answers.map(({ kind }) => kind)).toEqual(['unknown', 'present']);
  expect(tracer.spans.map(({ name, failure }) => [name, failure])).toEqual([
    ['etcd database', 'unknown'],
    ['etcd backupLease', undefined],
  ]);
  expect(JSON.stringify(tracer.spans)).not.toContain('s3cret');
});
