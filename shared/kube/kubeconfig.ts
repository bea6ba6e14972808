import { readFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import { isIPv6 } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import * as z from 'zod';
import { readConfig } from '#shared/kernel/config.ts';
import { keepRead } from '#shared/kernel/kept-read.ts';
import type { KubeAccess, KubeCredentials } from './connection.ts';
import type { KubeconfigUser } from './kubeconfig-file.ts';

/** Where a pod finds its service account, see "Accessing the Kubernetes API from a Pod" in the Kubernetes documentation. */
const serviceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * How old what was read of a file may be, in milliseconds. The kubelet renews a token after four fifths of its life, which
 * has ten minutes at least (TokenRequest API), so a new one is there two minutes before the old one ends.
 */
const rereadMs = 60_000;

/** The fields that change who asks, or whom, and are not obeyed. */
const unsupportedClusterFields = ['insecure-skip-tls-verify', 'tls-server-name', 'proxy-url'];
const unsupportedUserFields = [
  'as',
  'as-uid',
  'as-groups',
  'as-user-extra',
  'username',
  'password',
];

/**
 * Reads a kubeconfig. For tools and the relay only, never for handlers: signing in may run the program it names.
 *
 * Tokens and certificates are read here, and the Kubernetes client library is loaded only for a user who signs in
 * through a program or a provider: it costs a process that runs for ever 85 MB of memory, as measured.
 *
 * Throws where the context does not exist or asks for something this client does not do; what it would do instead
 * (skip the server's certificate, act as somebody else) must not happen silently. No message repeats a secret.
 *
 * @param context the context's name; the file's current one when absent
 */
export async function accessFromKubeconfig(path: string, context?: string): Promise<KubeAccess> {
  // Lazily, because the process that runs in a pod for ever reads none.
  const { readContext } = await import('./kubeconfig-file.ts');
  const { name, cluster, user } = await readContext(path, context);
  const unsupported = [
    ...unsupportedClusterFields.filter((field) => isSet(cluster[field])),
    ...unsupportedUserFields.filter((field) => isSet(user[field])),
  ];
  if (unsupported.length > 0) {
    throw new Error(
      `${path}: the context ${name} uses ${unsupported.join(', ')}, which is not supported`,
    );
  }
  const root = dirname(resolve(path));
  const ca = await readPem(
    root,
    cluster['certificate-authority-data'],
    cluster['certificate-authority'],
  );
  return {
    server: cluster.server.replace(/\/$/, ''),
    ...(ca === undefined ? {} : { ca }),
    credentials:
      isSet(user.exec) || isSet(user['auth-provider'])
        ? libraryCredentials(path, name)
        : plainCredentials(root, user),
    advice: {
      server: `check the server of the context ${name} in ${path}`,
      authority: `give the cluster’s own as the certificate-authority of the context ${name} in ${path}`,
      credentials: `renew those of the context ${name} in ${path}`,
    },
  };
}

/**
 * The service account of the pod this process runs in. Its token is read again as the kubelet renews it.
 *
 * Throws a ConfigurationError outside of a pod.
 *
 * @param folder where the account's files are
 */
export async function accessInCluster(folder = serviceAccountFolder): Promise<KubeAccess> {
  const place = readConfig(
    z.object({
      KUBERNETES_SERVICE_HOST: z.string('is missing: this process runs in no pod'),
      KUBERNETES_SERVICE_PORT: z.string().default('443'),
    }),
  );
  const host = place.KUBERNETES_SERVICE_HOST;
  return {
    server: `https://${isIPv6(host) ? `[${host}]` : host}:${place.KUBERNETES_SERVICE_PORT}`,
    ca: await readFile(join(folder, 'ca.crt'), 'utf8'),
    credentials: plainCredentials(folder, { tokenFile: 'token' }),
    advice: {
      server: 'check the Service kubernetes of the namespace default',
      authority: 'make this pod anew, the cluster’s authority may have changed',
      credentials: 'see that this pod’s service account still exists, and make the pod anew',
    },
  };
}

/** False and the empty string are how these fields say that they are not set. */
function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && value !== false && value !== '';
}

/** Data in the kubeconfig itself goes before the file it names, as in client-go. */
async function readPem(
  root: string,
  data: string | null | undefined,
  file: string | null | undefined,
): Promise<string | undefined> {
  if (isSet(data)) {
    return Buffer.from(data ?? '', 'base64').toString('utf8');
  }
  return isSet(file) ? readFile(resolve(root, file ?? ''), 'utf8') : undefined;
}

/**
 * Tokens and certificates as they stand in a kubeconfig and in the files it names. Asked before every request, so files
 * are read once a minute. One that cannot be read again leaves what was read last in force, as in client-go: it may
 * still be valid, and the API server says so if not.
 */
function plainCredentials(root: string, user: KubeconfigUser): () => Promise<KubeCredentials> {
  const isOfFiles = ['tokenFile', 'client-certificate', 'client-key'].some((field) =>
    isSet(user[field]),
  );
  let last: KubeCredentials | undefined;
  const reread = async (): Promise<KubeCredentials> => {
    try {
      last = await readCredentials(root, user);
    } catch (error) {
      if (last === undefined) {
        throw error;
      }
    }
    return last;
  };
  return keepRead(reread, isOfFiles ? rereadMs : Infinity, () => performance.now());
}

async function readCredentials(root: string, user: KubeconfigUser): Promise<KubeCredentials> {
  const [certificate, key, token] = await Promise.all([
    readPem(root, user['client-certificate-data'], user['client-certificate']),
    readPem(root, user['client-key-data'], user['client-key']),
    isSet(user.tokenFile) ? readFile(resolve(root, user.tokenFile ?? ''), 'utf8') : user.token,
  ]);
  return {
    ...(certificate === undefined ? {} : { certificate }),
    ...(key === undefined ? {} : { key }),
    ...(isSet(token) ? { token: token?.trim() ?? '' } : {}),
  };
}

/** Lets the library do what the kubeconfig says: run a program, renew a token. It caches what it got. */
function libraryCredentials(path: string, context: string): () => Promise<KubeCredentials> {
  const load = async () => {
    const { KubeConfig } = await import('@kubernetes/client-node');
    const config = new KubeConfig();
    config.loadFromFile(path);
    config.setCurrentContext(context);
    return config;
  };
  let loading: ReturnType<typeof load> | undefined;
  return async () => {
    const config = await (loading ??= load());
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
  };
}

function textOf(pem: RequestOptions['key']): string {
  if (typeof pem !== 'string' && !Buffer.isBuffer(pem)) {
    throw new TypeError('a certificate or key of the kubeconfig has an unknown form');
  }
  return pem.toString();
}
