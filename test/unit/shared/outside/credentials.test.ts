import { describe, expect, test } from 'vitest';
import { kubeClient } from '#shared/kube/http-kube.ts';
import { type NamedSecrets, readCredentials } from '#shared/outside/credentials.ts';

/** What must be seen nowhere but in the credentials themselves. */
const canary = 'canary-4711';

/** A certificate that signed itself, valid for a hundred years, of nobody and for nothing. */
const certificate = `-----BEGIN CERTIFICATE-----
MIIBeTCCAR+gAwIBAgIULUh7URU96Wq2hSLLpC4EREcfGkYwCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGbm9ib2R5MCAXDTI2MTEyMjEzMjc0MVoYDzIxMjYxMDI5MTMy
NzQxWjARMQ8wDQYDVQQDDAZub2JvZHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AASGkMzCMkrRkKdWY0imXKThNG5L8q7CLCjUuBbYIZpRI8YZ9AcuZc4ps6Zostx+
6SOkAJAMu+93pWuVR21/yf6Eo1MwUTAdBgNVHQ4EFgQU9bk42dR3Bo7wnN3oG2p2
4uPFhYYwHwYDVR0jBBgwFoAU9bk42dR3Bo7wnN3oG2p24uPFhYYwDwYDVR0TAQH/
BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiBktpfpzkWpVq2YLjzCmcZXZKAf2gPc
6U3+kwHagsBgYQIhALDs4c35WLml1QPQCPxGPnTGyDm7tV7yGu8DQtgMWo1P
-----END CERTIFICATE-----
`;
/** A reader of these Secrets, by name and key. */
function aReader(secrets: Readonly<Record<string, Readonly<Record<string, string>>>>) {
  return kubeClient({
    async request({ path }) {
      const name = path.split('/').at(-1) ?? '';
      const texts = secrets[name];
      if (texts === undefined) {
        return { status: 404, body: { kind: 'Status', reason: 'NotFound' } };
      }
      const metadata = { name, namespace: 'db', uid: 'uid', resourceVersion: '1' };
      const data = Object.fromEntries(
        Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]),
      );
      return { status: 200, body: { apiVersion: 'v1', kind: 'Secret', metadata, data } };
    },
    stream: () => expect.unreachable('nothing is watched'),
    close: () => undefined,
  });
}

async function refusal(data: Record<string, string> | undefined, named: NamedSecrets) {
  const reader = aReader(data === undefined ? {} : { it: data });
  const error: unknown = await readCredentials(reader, 'db', named, undefined).catch(
    (thrown: unknown) => thrown,
  );
  return error instanceof Error ? error.message : expect.unreachable('nothing was refused');
}

describe('the credentials of an etcd', () => {
  test('come each from its own Secret', async () => {
    const reader = aReader({
      tls: { 'ca.crt': certificate, username: 'stray', password: 'stray' },
      auth: { username: 'millrace', password: 'secret', 'ca.crt': 'stray' },
    });

    const credentials = await readCredentials(
      reader,
      'db',
      { tlsSecret: 'tls', authSecret: 'auth' },
      undefined,
    );

    expect(credentials).toEqual({ ca: certificate, username: 'millrace', password: 'secret' });
  });

  test.each<[string, Record<string, string> | undefined, RegExp]>([
    ['that is not there', undefined, /names, does not exist: create it in the namespace db/],
    ['without keys', {}, /has no ca\.crt: add/],
    ['without the key', { 'ca.crt': certificate, 'tls.crt': canary }, /tls\.crt and no tls\.key/],
    [
      'without the certificate',
      { 'ca.crt': certificate, 'tls.key': canary },
      /tls\.key and no tls\.crt/,
    ],
    ['with an authority that is none', { 'ca.crt': canary }, /ca\.crt that is no certificate/],
    [
      'with a key that is none',
      { 'ca.crt': certificate, 'tls.crt': certificate, 'tls.key': canary },
      /no certificate and its key/,
    ],
  ])('of a tlsSecret %s are refused in clear words', async (_, data, words) => {
    const message = await refusal(data, { tlsSecret: 'it' });

    expect(message).toMatch(/^the Secret it, which topology\.tlsSecret names,/);
    expect(message).toMatch(words);
    expect(message).not.toContain(canary);
  });

  test.each<[string, Record<string, string> | undefined, RegExp]>([
    ['that is not there', undefined, /does not exist/],
    ['without a name', { password: canary }, /has no username: add it/],
    ['without a password', { username: canary }, /has no password: add it/],
    ['that ends with a line break', { username: 'm', password: `${canary}\n` }, /line break/],
  ])('of an authSecret %s are refused in clear words', async (_, data, words) => {
    const message = await refusal(data, { authSecret: 'it' });

    expect(message).toMatch(/^the Secret it, which topology\.authSecret names,/);
    expect(message).toMatch(words);
    expect(message).not.toContain(canary);
  });
});
