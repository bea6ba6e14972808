import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AdminServer } from '#infra/local/data-plane/admin-server.ts';
import type { AdminRequest } from '#infra/local/data-plane/state.ts';
import { type SimulatedCluster, aSettledCluster } from './simulated-cluster.ts';

let cluster: SimulatedCluster;
let admin: AdminServer;
let url: string;

/** Each question is asked of a cluster whose time passes only until it is answered. */
beforeEach(async () => {
  cluster = aSettledCluster();
  admin = new AdminServer((request) => answer(request));
  admin.server.listen(0, '127.0.0.1');
  await once(admin.server, 'listening');
  url = `http://127.0.0.1:${(admin.server.address() as AddressInfo).port}/api/v1`;
});

afterEach(() => {
  admin.server.closeAllConnections();
  admin.server.close();
});

function answer({ id, method, path, query, body }: AdminRequest): void {
  const parameters = Object.entries(query).flatMap(([name, values]) =>
    values.map((value): [string, string] => [name, value]),
  );
  const target = `${path}?${new URLSearchParams(parameters).toString()}`;
  const { reply } = cluster.ask(method === 'POST' ? 'POST' : 'GET', target, body);
  if (reply === 'dropped') {
    admin.drop(id);
  } else {
    admin.reply(id, reply);
  }
}

const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };

async function post(): Promise<string> {
  const response = await fetch(`${url}/backups`, {
    method: 'POST',
    body: JSON.stringify({ ...shard, type: 'full' }),
  });
  const { jobId } = (await response.json()) as { jobId: string };
  return jobId;
}

async function get(path: string): Promise<unknown> {
  const response = await fetch(`${url}${path}?${new URLSearchParams(shard).toString()}`);
  return response.json();
}

describe('backups over HTTP', () => {
  test('a backup is asked for, followed by its job, and listed', async () => {
    const jobId = await post();
    cluster.runFor(1_000);
    const running = await get(`/jobs/${jobId}`);
    cluster.runFor(6_000);
    const completed = (await get(`/jobs/${jobId}`)) as { backupId: string };
    const listed = await get('/backups');

    const job = { jobId, jobType: 'JOB_TYPE_BACKUP', ...shard };
    expect(running).toEqual({ ...job, status: 'JOB_STATUS_RUNNING' });
    expect(completed).toMatchObject({ ...job, status: 'JOB_STATUS_COMPLETED' });
    expect(listed).toMatchObject({
      backups: [{ type: 'full' }, { jobId, backupId: completed.backupId, type: 'full' }],
    });
  });

  test('a request whose answer is lost is a reset connection', async () => {
    cluster.inject({ kind: 'lostBackupReply' });

    await expect(post()).rejects.toThrow('fetch failed');
  });
});
