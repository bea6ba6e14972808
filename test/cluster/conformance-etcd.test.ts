import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Etcd as RealEtcd, startEtcd } from '#infra/local/control-plane/etcd.ts';
import { type Gateway, etcdRows, tell } from '#test/world/conformance/etcd-rows.ts';
import { missingControlPlane } from './local-control-plane.ts';

/** How long etcd may take for the end of a lease of two seconds; it looks for such leases every half second. */
const leaseEndTimeoutMs = 30_000;

function openGateway(endpoint: string): Gateway {
  const send = (path: string, body: object, init: RequestInit = {}) =>
    fetch(`${endpoint}/v3${path}`, { method: 'POST', body: JSON.stringify(body), ...init });
  return {
    async post(path, body) {
      const response = await send(path, body);
      return { status: response.status, body: await response.json() };
    },
    async leaseDeletes(key, since) {
      const request = { key: Buffer.from(key).toString('base64'), start_revision: since };
      const response = await send(
        '/watch',
        { create_request: request },
        { signal: AbortSignal.timeout(leaseEndTimeoutMs) },
      );
      let heard = '';
      for await (const part of response.body ?? expect.unreachable()) {
        heard += Buffer.from(part).toString('utf8');
        if (heard.includes('"DELETE"')) {
          return;
        }
      }
      expect.unreachable(`the watch ended: ${heard}`);
    },
  };
}

describe.skipIf(missingControlPlane !== undefined)(
  'a real etcd answers as the rows have it',
  () => {
    let folder: string;
    let etcd: RealEtcd;

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'millrace-etcd-rows-'));
      etcd = await startEtcd({ dataDir: folder });
    });

    afterAll(async () => {
      await etcd.stop();
      await rm(folder, { recursive: true, force: true });
    });

    test.each(etcdRows)('$name', async (row) => {
      const answers = await tell(row, openGateway(etcd.endpoint));

      expect(answers).toEqual(row.answers);
    });
  },
);
