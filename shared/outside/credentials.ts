import { X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import type { KubeReader } from '#shared/kube/kube.ts';
import type { TopologyCredentials } from '#shared/topology/access.ts';

/** The Secrets that an etcd's description names. */
export interface NamedSecrets {
  readonly tlsSecret?: string | undefined;
  readonly authSecret?: string | undefined;
}

export function secretsOf({ tlsSecret, authSecret }: NamedSecrets): readonly string[] {
  return [tlsSecret, authSecret].filter((name) => name !== undefined);
}

/**
 * What the named Secrets hold for an etcd.
 *
 * @throws Error naming the Secret that is missing, cannot be read or lacks something, and nothing of what it holds
 */
export async function readCredentials(
  kube: KubeReader,
  namespace: string,
  { tlsSecret, authSecret }: NamedSecrets,
  signal: AbortSignal | undefined,
): Promise<TopologyCredentials> {
  const read = (name: string, field: keyof NamedSecrets) =>
    readSecret(kube, { namespace, name, field }, signal);
  return {
    ...(tlsSecret === undefined ? {} : certificatesOf(await read(tlsSecret, 'tlsSecret'))),
    ...(authSecret === undefined ? {} : userOf(await read(authSecret, 'authSecret'))),
  };
}

/** The values of one Secret, and how to complain about it. */
interface SecretValues {
  /** `undefined` where the key is not there or empty. */
  readonly value: (key: string) => string | undefined;
  /** What every complaint begins with. */
  readonly what: string;
}

async function readSecret(
  kube: KubeReader,
  { namespace, name, field }: { namespace: string; name: string; field: keyof NamedSecrets },
  signal: AbortSignal | undefined,
): Promise<SecretValues> {
  const what = `the Secret ${name}, which topology.${field} names,`;
  const secret = await kube.get({ kind: 'Secret', namespace, name }, signal);
  if (secret.kind !== 'present') {
    throw new Error(
      secret.kind === 'absent'
        ? `${what} does not exist: create it in the namespace ${namespace}`
        : `${what} cannot be read: ${secret.why}`,
    );
  }
  const data = secret.value.data ?? {};
  return {
    what,
    value: (key) => {
      const text = Buffer.from(data[key] ?? '', 'base64').toString('utf8');
      return text === '' ? undefined : text;
    },
  };
}

function certificatesOf({ what, value }: SecretValues): TopologyCredentials {
  const [ca, certificate, key] = [value('ca.crt'), value('tls.crt'), value('tls.key')];
  if (ca === undefined) {
    throw new Error(`${what} has no ca.crt: add the authority that signed the certificate of etcd`);
  }
  if ((certificate === undefined) !== (key === undefined)) {
    const [missing, there] = key === undefined ? ['tls.key', 'tls.crt'] : ['tls.crt', 'tls.key'];
    throw new Error(`${what} has ${there} and no ${missing}: add it, or take both away`);
  }
  refuseUnusable(
    `${what} has a ca.crt that is no certificate in PEM`,
    () => new X509Certificate(ca),
  );
  refuseUnusable(`${what} has a tls.crt and a tls.key that are no certificate and its key`, () =>
    createSecureContext({ cert: certificate, key }),
  );
  return { ca, certificate, key };
}

/** What OpenSSL says of a text that it cannot use helps nobody, and is about a secret: it is left out. */
function refuseUnusable(message: string, use: () => unknown): void {
  try {
    use();
  } catch {
    throw new Error(message);
  }
}

function userOf({ what, value }: SecretValues): TopologyCredentials {
  const [username, password] = [value('username'), value('password')];
  if (username === undefined || password === undefined) {
    throw new Error(`${what} has no ${username === undefined ? 'username' : 'password'}: add it`);
  }
  if (/[\r\n]$/.test(username) || /[\r\n]$/.test(password)) {
    throw new Error(
      `${what} has a username or password that ends with a line break: write it without`,
    );
  }
  return { username, password };
}
