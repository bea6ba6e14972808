import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { connectOutside } from '#shared/outside/connect.ts';

const signal = new AbortController().signal;

/**
 * An API server that knows no object, and nobody with one of these tokens, beside a parameter store that holds one token;
 * keeps what it was signed with.
 */
async function serve(...refused: readonly string[]) {
  const credentials: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    if (request.headers['x-amz-target'] === 'AmazonSSM.GetParameter') {
      response.setHeader('content-type', 'application/x-amz-json-1.1');
      response.end(JSON.stringify({ Parameter: { Value: 'from the parameter' } }));
      return;
    }
    credentials.push(request.headers.authorization);
    response.statusCode = refused.some(
      (token) => request.headers.authorization === `Bearer ${token}`,
    )
      ? 401
      : 404;
    response.end(JSON.stringify({ kind: 'Status', reason: 'NotFound' }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, credentials };
}

function writeFile(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-outside-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'token');
  writeFileSync(path, text);
  return path;
}

/** What a handler is told besides how it signs in. */
const told = { MILLRACE_CLUSTER_ID: 'one' };

beforeEach(() => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
});

afterEach(() => void vi.unstubAllEnvs());

describe('a handler signs in', () => {
  test('with the token of its parameter', async () => {
    const { url, credentials } = await serve();
    vi.stubEnv('AWS_ENDPOINT_URL_SSM', url);
    const environment = {
      ...told,
      MILLRACE_KUBE_SERVER: url,
      MILLRACE_KUBE_TOKEN_PARAMETER: '/millrace/test/kube-token',
    };

    const { kube } = await connectOutside(environment, 'drain-step');
    await kube.get({ kind: 'Shard', namespace: 'db', name: 'orders' }, signal);

    expect(credentials).toEqual(['Bearer from the parameter']);
  });

  test('with the token of its file, read again after ten seconds', async () => {
    const { url, credentials } = await serve();
    const path = writeFile('first\n');
    const environment = {
      ...told,
      MILLRACE_KUBE_SERVER: url,
      MILLRACE_KUBE_TOKEN_FILE: path,
    };

    const { kube } = await connectOutside(environment, 'drain-step');
    const get = () => kube.get({ kind: 'Shard', namespace: 'db', name: 'orders' }, signal);
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    await get();
    writeFileSync(path, 'second\n');
    vi.setSystemTime(Date.now() + 9_000);
    await get();
    vi.setSystemTime(Date.now() + 1_000);
    await get();

    expect(credentials).toEqual(['Bearer first', 'Bearer first', 'Bearer second']);
  });

  test('with a new token at once where the old one was refused', async () => {
    const { url, credentials } = await serve('first');
    const path = writeFile('first');
    const environment = { ...told, MILLRACE_KUBE_SERVER: url, MILLRACE_KUBE_TOKEN_FILE: path };
    const { kube } = await connectOutside(environment, 'drain-step');
    const get = () => kube.get({ kind: 'Shard', namespace: 'db', name: 'orders' }, signal);

    const before = await get();
    writeFileSync(path, 'second');
    await get();

    expect(before.kind).toBe('unknown');
    expect(credentials).toEqual(['Bearer first', 'Bearer second']);
  });

  test('to EKS with one token for eight minutes, signed by its role’s credentials', async () => {
    const { url, credentials } = await serve();
    const environment = { ...told, MILLRACE_KUBE_SERVER: url, MILLRACE_EKS_CLUSTER: 'orders' };
    const { kube } = await connectOutside(environment, 'drain-step');
    const get = () => kube.get({ kind: 'Shard', namespace: 'db', name: 'orders' }, signal);
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());

    await get();
    vi.setSystemTime(Date.now() + 8 * 60_000 - 1);
    await get();
    vi.setSystemTime(Date.now() + 1);
    await get();

    const [first, second, third] = credentials;
    expect(first).toMatch(/^Bearer k8s-aws-v1\./);
    expect(second).toBe(first);
    expect(third).not.toBe(first);
  });

  test('not at all where the parameter cannot be read: the object is unknown, not absent', async () => {
    const { url, credentials } = await serve();
    vi.stubEnv('AWS_ENDPOINT_URL_SSM', 'http://127.0.0.1:1');
    const environment = {
      ...told,
      MILLRACE_KUBE_SERVER: url,
      MILLRACE_KUBE_TOKEN_PARAMETER: '/millrace/test/kube-token',
    };

    const { kube } = await connectOutside(environment, 'drain-step');
    const read = await kube.get({ kind: 'Shard', namespace: 'db', name: 'orders' }, signal);

    expect(read.kind).toBe('unknown');
    expect(credentials).toEqual([]);
  });
});

test('a handler that is told wrongly how to sign in names what is wrong and no value', async () => {
  const environment = {
    ...told,
    MILLRACE_KUBE_SERVER: 'here',
    MILLRACE_KUBE_CA_DATA: '-----BEGIN',
    MILLRACE_KUBE_TOKEN_PARAMETER: 'a secret by mistake!',
  };

  const connecting = connectOutside(environment, 'drain-step');

  await expect(connecting).rejects.toThrow(/MILLRACE_KUBE_SERVER[\s\S]*CA_DATA[\s\S]*PARAMETER/);
  await expect(connecting).rejects.not.toThrow(/a secret by mistake|BEGIN/);
});

test('a handler that is told no way to sign in says which there are', async () => {
  const environment = { ...told, MILLRACE_KUBE_SERVER: 'https://kubernetes.example' };

  const connecting = connectOutside(environment, 'drain-step');

  await expect(connecting).rejects.toThrow(
    /TOKEN_FILE, .*TOKEN_PARAMETER, .*EKS_CLUSTER, or .*CERT_FILE/,
  );
});

test('a handler that is told two ways to sign in, and half of a third, hears of both', async () => {
  const environment = {
    ...told,
    MILLRACE_KUBE_SERVER: 'https://kubernetes.example',
    MILLRACE_KUBE_TOKEN_PARAMETER: '/millrace/test/kube-token',
    MILLRACE_EKS_CLUSTER: 'orders',
    MILLRACE_KUBE_KEY_FILE: '/key',
  };

  const connecting = connectOutside(environment, 'drain-step');

  await expect(connecting).rejects.toThrow(/2 problem[\s\S]*more than one way[\s\S]*KEY_FILE/);
});

test('a handler whose clock is wrong reads nothing (F26)', async () => {
  const { url } = await serve();
  const environment = {
    ...told,
    MILLRACE_KUBE_SERVER: url,
    MILLRACE_KUBE_TOKEN_FILE: writeFile('token'),
  };
  const { kube } = await connectOutside(environment, 'drain-step');
  const get = () => kube.get({ kind: 'Shard', namespace: 'db', name: 'orders' }, signal);
  const before = await get();
  const shift = vi.spyOn(Date, 'now').mockReturnValue(Date.now() - 3_600_000);
  onTestFinished(() => shift.mockRestore());

  const after = await get();

  expect(before).toEqual({ kind: 'absent' });
  expect(after).toEqual({
    kind: 'unknown',
    why: expect.stringMatching(/^reading Shard db\/orders: this clock is at least 3\d{3} s behind/),
  });
});
