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
 * @throws Error naming the Secret that is missing or cannot be read
 */
export async function readCredentials(
  kube: KubeReader,
  namespace: string,
  named: NamedSecrets,
  signal: AbortSignal | undefined,
): Promise<TopologyCredentials> {
  const values: Record<string, string> = {};
  for (const name of secretsOf(named)) {
    const secret = await kube.get({ kind: 'Secret', namespace, name }, signal);
    if (secret.kind !== 'present') {
      throw new Error(secret.kind === 'absent' ? `the Secret ${name} does not exist` : secret.why);
    }
    for (const [key, value] of Object.entries(secret.value.data ?? {})) {
      values[key] = Buffer.from(value, 'base64').toString('utf8');
    }
  }
  return {
    ca: values['ca.crt'],
    certificate: values['tls.crt'],
    key: values['tls.key'],
    username: values['username'],
    password: values['password'],
  };
}
