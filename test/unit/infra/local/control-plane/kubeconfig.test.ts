import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'millrace-kubeconfig-test-'));
});

afterEach(async () => {
  await rm(dir, { recursive: true, force: true });
});

describe('a written kubeconfig', () => {
  test('is read by the Kubernetes client as it was meant, and by its owner only', async () => {
    const path = join(dir, 'kubeconfig');
    const server = 'https://127.0.0.1:20443';

    await writeKubeconfig(path, { server, ca: 'PEM', user: 'ada', token: 'secret' });

    const read = new KubeConfig();
    read.loadFromFile(path);
    expect(read.getCurrentCluster()).toMatchObject({
      server,
      caData: Buffer.from('PEM').toString('base64'),
      skipTLSVerify: false,
    });
    expect(read.getCurrentUser()).toMatchObject({ name: 'ada', token: 'secret' });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });
});
