import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { accessFromKubeconfig, accessInCluster } from '#shared/kube/kubeconfig.ts';

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

function writeBeside(path: string, files: Record<string, string>): void {
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(dirname(path), name), text);
  }
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
    [{}, { as: 'admin', 'as-groups': ['all'] }, 'as, as-groups'],
    [{}, { username: 'u', password: 'p' }, 'username, password'],
  ])('refuses what it would not do: %j %j', async (clusterFields, user, word) => {
    const path = writeConfig({ ...user }, clusterFields);

    await expect(accessFromKubeconfig(path)).rejects.toThrow(
      `uses ${word}, which is not supported`,
    );
  });

  test('refuses a context that does not exist', async () => {
    await expect(accessFromKubeconfig(writeConfig({}), 'three')).rejects.toThrow('"three"');
  });

  test('refuses a server that would get the token in the open', async () => {
    const path = writeConfig({ token: 'secret' }, { server: 'http://one.example' });

    await expect(accessFromKubeconfig(path)).rejects.toThrow(
      'cluster one: server: must be an https:// URL',
    );
  });

  test.each(['token: [canary\n', '{"users": "canary"}', 'canary', ''])(
    'refuses a file of %j without repeating it',
    async (text) => {
      const path = writeConfig({});
      writeFileSync(path, text);

      const asking = accessFromKubeconfig(path);

      await expect(asking).rejects.toThrow(path);
      await expect(asking).rejects.not.toThrow('canary');
    },
  );

  test('is not held up by the defects of entries that it does not use', async () => {
    const path = writeConfig({ token: 7 });

    const access = await accessFromKubeconfig(path, 'two');

    expect(await access.credentials()).toEqual({ token: 'second' });
    await expect(accessFromKubeconfig(path)).rejects.toThrow('user one: token');
  });
});

describe('files that a kubeconfig names', () => {
  test('are looked for beside it', async () => {
    const path = writeConfig(
      { tokenFile: 'token', 'client-certificate': './certificate', 'client-key': 'key' },
      { 'certificate-authority-data': undefined, 'certificate-authority': 'ca' },
    );
    writeBeside(path, { token: 'secret\n', certificate: 'CERTIFICATE', key: 'KEY', ca: 'CA' });

    const access = await accessFromKubeconfig(path);

    expect(access.ca).toBe('CA');
    expect(await access.credentials()).toEqual({
      token: 'secret',
      certificate: 'CERTIFICATE',
      key: 'KEY',
    });
  });

  test('come after what stands in it, except for a token’s', async () => {
    const path = writeConfig(
      {
        token: 'old',
        tokenFile: 'token',
        'client-certificate': 'missing',
        'client-certificate-data': base64('CERTIFICATE'),
        'client-key': 'missing',
        'client-key-data': base64('KEY'),
      },
      { 'certificate-authority': 'missing' },
    );
    writeBeside(path, { token: 'new' });

    const access = await accessFromKubeconfig(path);

    expect(access.ca).toBe('CA ONE');
    expect(await access.credentials()).toEqual({
      token: 'new',
      certificate: 'CERTIFICATE',
      key: 'KEY',
    });
  });

  test('are reported when they are missing', async () => {
    const access = await accessFromKubeconfig(writeConfig({ tokenFile: 'token' }));

    await expect(access.credentials()).rejects.toThrow('token');
  });
});

describe('a token in a file', () => {
  test('is read once a minute, so that a renewed one is used and asking costs nothing', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const path = writeConfig({ tokenFile: 'token' });
    writeBeside(path, { token: 'first' });
    const access = await accessFromKubeconfig(path);
    const before = await access.credentials();
    writeBeside(path, { token: 'second' });

    vi.advanceTimersByTime(59_000);
    const within = await access.credentials();
    vi.advanceTimersByTime(2_000);
    const after = await access.credentials();

    expect(before).toEqual({ token: 'first' });
    expect(within).toBe(before);
    expect(after).toEqual({ token: 'second' });
  });

  test('stays in force while its file cannot be read, and is replaced when it can', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const path = writeConfig({ tokenFile: 'token' });
    writeBeside(path, { token: 'first' });
    const access = await accessFromKubeconfig(path);
    await access.credentials();

    rmSync(join(dirname(path), 'token'));
    vi.advanceTimersByTime(61_000);
    const without = await access.credentials();
    writeBeside(path, { token: 'second' });
    vi.advanceTimersByTime(61_000);
    const again = await access.credentials();

    expect(without).toEqual({ token: 'first' });
    expect(again).toEqual({ token: 'second' });
  });
});

describe('access from inside a cluster', () => {
  test.each([
    ['10.0.0.1', '443', 'https://10.0.0.1:443'],
    ['fd00::1', '6443', 'https://[fd00::1]:6443'],
  ])('at %s port %s is %s, with the service account’s authority and token', async (...place) => {
    const [host, port, server] = place;
    const folder = dirname(writeConfig({}));
    writeBeside(join(folder, 'config'), { 'ca.crt': 'CA', token: 'secret' });
    vi.stubEnv('KUBERNETES_SERVICE_HOST', host);
    vi.stubEnv('KUBERNETES_SERVICE_PORT', port);
    onTestFinished(() => void vi.unstubAllEnvs());

    const access = await accessInCluster(folder);

    expect(access).toMatchObject({ server, ca: 'CA' });
    expect(await access.credentials()).toEqual({ token: 'secret' });
  });

  test('is refused where there is no cluster around', async () => {
    vi.stubEnv('KUBERNETES_SERVICE_HOST', '');
    onTestFinished(() => void vi.unstubAllEnvs());

    await expect(accessInCluster()).rejects.toMatchObject({ name: 'ConfigurationError' });
  });
});
