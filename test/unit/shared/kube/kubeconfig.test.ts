import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { accessFromKubeconfig } from '#shared/kube/kubeconfig.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');

const cluster = {
  server: 'https://one.example:6443',
  'certificate-authority-data': base64('CA ONE'),
};

/** A kubeconfig with the contexts `one` (current) and `two`; JSON is YAML. */
function writeConfig(user: object, clusterFields: object = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'kubeconfig-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'config');
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'one',
    clusters: [
      { name: 'one', cluster: { ...cluster, ...clusterFields } },
      { name: 'two', cluster: { server: 'https://two.example' } },
    ],
    users: [
      { name: 'one', user },
      { name: 'two', user: { token: 'second' } },
    ],
    contexts: [
      { name: 'one', context: { cluster: 'one', user: 'one' } },
      { name: 'two', context: { cluster: 'two', user: 'two' } },
    ],
  };
  writeFileSync(path, JSON.stringify(config));
  return path;
}

describe('access from a kubeconfig', () => {
  test('has the current context’s server, authority and token', async () => {
    const access = await accessFromKubeconfig(writeConfig({ token: 'secret' }));

    expect(access).toMatchObject({ server: 'https://one.example:6443', ca: 'CA ONE' });
    expect(await access.credentials()).toEqual({ token: 'secret' });
  });

  test('is of another context when asked', async () => {
    const access = await accessFromKubeconfig(writeConfig({ token: 'secret' }), 'two');

    expect(access.server).toBe('https://two.example');
    expect(access.ca).toBeUndefined();
    expect(await access.credentials()).toEqual({ token: 'second' });
  });

  test('carries a client certificate and its key', async () => {
    const user = {
      'client-certificate-data': base64('CERTIFICATE'),
      'client-key-data': base64('KEY'),
    };

    const access = await accessFromKubeconfig(writeConfig(user));

    expect(await access.credentials()).toEqual({ certificate: 'CERTIFICATE', key: 'KEY' });
  });

  test('runs the program it names for a token', async () => {
    const credential = {
      apiVersion: 'client.authentication.k8s.io/v1',
      status: { token: 'minted' },
    };
    const exec = {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: process.execPath,
      args: ['-e', `console.log(${JSON.stringify(JSON.stringify(credential))})`],
    };

    const access = await accessFromKubeconfig(writeConfig({ exec }));

    expect(await access.credentials()).toEqual({ token: 'minted' });
  });

  test('runs no program before credentials are asked for, and reports one that fails', async () => {
    const exec = { apiVersion: 'v1', command: process.execPath, args: ['-e', 'process.exit(3)'] };
    const access = await accessFromKubeconfig(writeConfig({ exec }));

    const asking = access.credentials();

    await expect(asking).rejects.toThrow();
  });

  test.each([
    [{ 'insecure-skip-tls-verify': true }, {}, 'insecure-skip-tls-verify'],
    [{ 'proxy-url': 'http://proxy' }, {}, 'proxy-url'],
    [{ 'tls-server-name': 'other' }, {}, 'tls-server-name'],
    [{}, { as: 'admin' }, 'as'],
    [{}, { username: 'u', password: 'p' }, 'username'],
  ])('refuses what it would not do: %j %j', async (clusterFields, user, word) => {
    const path = writeConfig({ ...user }, clusterFields);

    await expect(accessFromKubeconfig(path)).rejects.toThrow(
      `uses ${word}, which is not supported`,
    );
  });

  test('refuses a context that does not exist', async () => {
    await expect(accessFromKubeconfig(writeConfig({}), 'three')).rejects.toThrow('"three"');
  });
});
