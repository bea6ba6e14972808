import { expect, test } from 'vitest';
import type { Database } from '#shared/api/database.ts';
import { type Instant, parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { kubeClient } from '#shared/kube/http-kube.ts';
import { dataPlanes } from '#shared/outside/data-plane.ts';
import { aDatabase } from '#test/builders/shard.ts';

const signal = new AbortController().signal;
const start = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();

/** An API server that holds one Secret; keeps what it was asked for. */
function anApiServer() {
  const asked: string[] = [];
  const connection: KubeConnection = {
    async request({ method, path }) {
      asked.push(`${method} ${path}`);
      const data = { username: 'bWlsbHJhY2U=', password: 'c2VjcmV0' };
      const metadata = { name: 'users', namespace: 'db', uid: 'secret-uid', resourceVersion: '1' };
      return { status: 200, body: { apiVersion: 'v1', kind: 'Secret', metadata, data } };
    },
    stream: () => expect.unreachable('nothing is watched'),
    close: () => undefined,
  };
  return { connection, asked };
}

/** Opens the topology of one Database at several times. */
async function openAt(database: Database, times: readonly Instant[]) {
  const { connection, asked } = anApiServer();
  let now = start;
  const planes = dataPlanes(kubeClient(connection), connection, () => now);
  const opened = [];
  for (const time of times) {
    now = time;
    opened.push(await planes.topology(database, signal));
  }
  return { opened: new Set(opened).size, asked };
}

function withTopology(changes: Partial<Database['spec']['dataPlane']['topology']>): Database {
  const { dataPlane } = aDatabase().spec;
  return aDatabase({
    dataPlane: { ...dataPlane, topology: { ...dataPlane.topology, ...changes } },
  });
}

test('the users of a topology are read again after five minutes, by the clock that is given', async () => {
  const database = withTopology({ authSecret: 'users' });

  const { opened, asked } = await openAt(database, [
    start,
    plusSeconds(start, 299),
    plusSeconds(start, 300),
  ]);

  expect(opened).toBe(2);
  expect(asked).toEqual(Array.from({ length: 2 }, () => 'GET /api/v1/namespaces/db/secrets/users'));
});

test('a topology without users is opened once for a version of its Database', async () => {
  const { opened, asked } = await openAt(aDatabase(), [start, plusSeconds(start, 86_400)]);

  expect(opened).toBe(1);
  expect(asked).toEqual([]);
});

test('the users of a topology that could not be read are read again at the next look', async () => {
  const { connection, asked } = anApiServer();
  const planes = dataPlanes(kubeClient(connection), connection, () => start);
  const database = withTopology({ authSecret: 'users', endpoints: ['http://127.0.0.1:1'] });
  const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };

  const reads = [
    await planes.topologyReader(database).poolers(shard, ['zone-a']),
    await planes.topologyReader(database).poolers(shard, ['zone-a']),
  ];

  expect(reads.map(({ kind }) => kind)).toEqual(['unknown', 'unknown']);
  expect(asked).toHaveLength(2);
});
