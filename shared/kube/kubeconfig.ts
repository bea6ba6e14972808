import { readFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import type { Cluster, KubeConfig } from '@kubernetes/client-node';
import type { KubeAccess, KubeCredentials } from './connection.ts';

/**
 * Reads a kubeconfig. For tools and the relay only, never for handlers: signing in may run the program it names.
 *
 * Throws where the context does not exist or asks for something this client does not do; what it would do instead
 * (skip the server's certificate, act as somebody else) must not happen silently.
 *
 * @param context the context's name; the file's current one when absent
 */
export async function accessFromKubeconfig(path: string, context?: string): Promise<KubeAccess> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  config.loadFromFile(path);
  if (context !== undefined) {
    config.setCurrentContext(context);
  }
  return accessOf(config, path);
}

/** The service account of the pod this process runs in. Its token is read again as the kubelet renews it. */
export async function accessInCluster(): Promise<KubeAccess> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  config.loadFromCluster();
  return accessOf(config, 'the service account');
}

async function accessOf(config: KubeConfig, origin: string): Promise<KubeAccess> {
  const cluster = config.getCurrentCluster();
  const user = config.getCurrentUser();
  const context = config.getCurrentContext();
  if (cluster === null || user === null) {
    throw new Error(
      `${origin}: the context ${JSON.stringify(context)} names no known cluster and user`,
    );
  }
  const unsupported = Object.entries({
    'insecure-skip-tls-verify': cluster.skipTLSVerify,
    'tls-server-name': cluster.tlsServerName !== undefined,
    'proxy-url': cluster.proxyUrl !== undefined,
    as: user.impersonateUser !== undefined,
    username: user.username !== undefined,
  }).flatMap(([field, isSet]) => (isSet ? [field] : []));
  if (unsupported.length > 0) {
    throw new Error(
      `${origin}: the context ${context} uses ${unsupported.join(', ')}, which is not supported`,
    );
  }
  const ca = await authorityOf(cluster);
  return {
    server: cluster.server,
    ...(ca === undefined ? {} : { ca }),
    credentials: () => signIn(config),
  };
}

async function authorityOf({ caFile, caData }: Cluster): Promise<string | undefined> {
  if (caFile !== undefined) {
    return readFile(caFile, 'utf8');
  }
  return caData === undefined ? undefined : Buffer.from(caData, 'base64').toString('utf8');
}

/** Lets the library do what the kubeconfig says: read files, run a program, renew a token. It caches what it got. */
async function signIn(config: KubeConfig): Promise<KubeCredentials> {
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  const header = new Headers(options.headers as Record<string, string> | undefined).get(
    'authorization',
  );
  const token = header?.replace(/^Bearer\s+/i, '').trim();
  return {
    ...(options.cert === undefined ? {} : { certificate: textOf(options.cert) }),
    ...(options.key === undefined ? {} : { key: textOf(options.key) }),
    ...(token === undefined || token === '' ? {} : { token }),
  };
}

function textOf(pem: RequestOptions['key']): string {
  if (typeof pem !== 'string' && !Buffer.isBuffer(pem)) {
    throw new TypeError('a certificate or key of the kubeconfig has an unknown form');
  }
  return pem.toString();
}
