import { mkdtemp, readFile, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { writeCredentials } from '#infra/cli/dev/credentials.ts';
import type { KubeAccess, KubeCredentials } from '#shared/kube/connection.ts';

let folder: string;

beforeEach(async () => {
  folder = join(await mkdtemp(join(tmpdir(), 'millrace-sign-in-')), 'sign-in');
});

afterEach(() => rm(join(folder, '..'), { recursive: true }));

function anAccess(credentials: KubeCredentials): KubeAccess {
  return { server: 'https://127.0.0.1:6443', ca: 'the CA', credentials: async () => credentials };
}

describe('the files the handlers sign in with', () => {
  test('hold a token and can be read by this user alone', async () => {
    const variables = await writeCredentials(folder, anAccess({ token: 'secret' }));

    expect(variables).toEqual({
      MILLRACE_KUBE_SERVER: 'https://127.0.0.1:6443',
      MILLRACE_KUBE_CA: join(folder, 'ca.crt'),
      MILLRACE_KUBE_TOKEN_FILE: join(folder, 'token'),
    });
    expect(await readFile(join(folder, 'token'), 'utf8')).toBe('secret');
    for (const file of await readdir(folder)) {
      expect((await stat(join(folder, file))).mode & 0o777).toBe(0o600);
    }
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
  });

  test('hold a client certificate and its key', async () => {
    const variables = await writeCredentials(
      folder,
      anAccess({ certificate: 'the certificate', key: 'the key' }),
    );

    expect(variables).toMatchObject({
      MILLRACE_KUBE_CERT_FILE: join(folder, 'client.crt'),
      MILLRACE_KUBE_KEY_FILE: join(folder, 'client.key'),
    });
    expect(await readFile(join(folder, 'client.crt'), 'utf8')).toBe('the certificate');
    expect(await readFile(join(folder, 'client.key'), 'utf8')).toBe('the key');
  });

  test('C3: put no secret into a variable', async () => {
    const variables = await writeCredentials(
      folder,
      anAccess({ token: 'secret', certificate: 'the certificate', key: 'the key' }),
    );

    expect(Object.values(variables)).not.toContain('secret');
    expect(Object.values(variables)).not.toContain('the key');
  });
});
