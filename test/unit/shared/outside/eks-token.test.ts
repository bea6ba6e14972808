import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { signEksToken } from '#shared/outside/eks-token.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: new Date('2026-01-01T00:00:00Z') });
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIDEXAMPLE');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY');
  vi.stubEnv('AWS_SESSION_TOKEN', undefined);
});

afterEach(() => {
  vi.unstubAllEnvs();
  vi.useRealTimers();
});

/** The URL in a token. */
function urlIn(token: string): URL {
  expect(token).toMatch(/^k8s-aws-v1\.[A-Za-z0-9_-]+$/);
  const url = Buffer.from(token.replace('k8s-aws-v1.', ''), 'base64url');
  return new URL(url.toString());
}

describe('a token for EKS', () => {
  /** The signatures are those that botocore 1.43.106, which `aws eks get-token` is made with, has for the same request. */
  test('of a role’s session is the question who is asking, as botocore signs it', async () => {
    vi.stubEnv('AWS_SESSION_TOKEN', 'session/to+ken==');

    const url = urlIn(await signEksToken('orders', 'eu-central-1'));

    expect(url.origin + url.pathname).toBe('https://sts.eu-central-1.amazonaws.com/');
    expect(Object.fromEntries(url.searchParams)).toEqual({
      Action: 'GetCallerIdentity',
      Version: '2011-06-15',
      'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
      'X-Amz-Credential': 'AKIDEXAMPLE/20260101/eu-central-1/sts/aws4_request',
      'X-Amz-Date': '20260101T000000Z',
      'X-Amz-Expires': '60',
      'X-Amz-SignedHeaders': 'host;x-k8s-aws-id',
      'X-Amz-Security-Token': 'session/to+ken==',
      'X-Amz-Signature': 'fe78ac8c6e967cc6bb066025d8223a9b87acd882e819f490b7d8a02a89033ddd',
    });
  });

  test('in China is signed for the STS there, as botocore signs it', async () => {
    const url = urlIn(await signEksToken('orders', 'cn-north-1'));

    expect(url.origin).toBe('https://sts.cn-north-1.amazonaws.com.cn');
    expect(url.searchParams.get('X-Amz-Signature')).toBe(
      '755e658eb12c4aedf62a4e5715176bee227c78f7559a394a9a42040bcdb01f72',
    );
  });

  test('for one cluster is none for another', async () => {
    const [one, other] = await Promise.all(
      ['orders', 'stock'].map(async (name) => urlIn(await signEksToken(name, 'eu-central-1'))),
    );

    expect(one?.searchParams.get('X-Amz-Signature')).not.toBe(
      other?.searchParams.get('X-Amz-Signature'),
    );
  });

  test('is not made without credentials', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', undefined);

    await expect(signEksToken('orders', 'eu-central-1')).rejects.toThrow(/credentials/);
  });
});
