import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import { always } from '#shared/kernel/config.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { type KeptRead, keepRead } from '#shared/kernel/kept-read.ts';
import { checkingClock } from '#shared/kube/clock-check.ts';
import type { KubeAccess, KubeConnection, KubeCredentials } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { tokenFromParameter } from './token-parameter.ts';

/**
 * How a handler signs in to the API server: its endpoint, and where its authority and a credential are; never a
 * kubeconfig (it may name a program to run), and never the credential itself.
 */
export const apiServerSchema = z
  .object({
    MILLRACE_KUBE_SERVER: z.url('is missing or no URL: the API server, https://host:port'),
    MILLRACE_KUBE_CA: z.string().optional(),
    MILLRACE_KUBE_CA_DATA: z
      .base64('is not base64: the PEM as a kubeconfig’s certificate-authority-data has it')
      .optional(),
    MILLRACE_KUBE_TOKEN_FILE: z.string().optional(),
    MILLRACE_KUBE_TOKEN_PARAMETER: z
      .string()
      .regex(/^[a-zA-Z0-9_.\-/]+$/, 'is not the name of a parameter')
      .optional(),
    MILLRACE_EKS_CLUSTER: z
      .string()
      .regex(/^[a-zA-Z0-9][a-zA-Z0-9_-]{0,99}$/, 'is not the name of a cluster in EKS')
      .optional(),
    MILLRACE_KUBE_CERT_FILE: z.string().optional(),
    MILLRACE_KUBE_KEY_FILE: z.string().optional(),
    AWS_REGION: z.string().default('us-east-1'),
  })
  .refine((config) => waysToSignIn(config) > 0, {
    when: always,
    message:
      'no way to sign in: give one of MILLRACE_KUBE_TOKEN_FILE, MILLRACE_KUBE_TOKEN_PARAMETER, MILLRACE_EKS_CLUSTER, or MILLRACE_KUBE_CERT_FILE with MILLRACE_KUBE_KEY_FILE',
  })
  .refine((config) => waysToSignIn(config) < 2, {
    when: always,
    message:
      'more than one way to sign in: give files, MILLRACE_KUBE_TOKEN_PARAMETER or MILLRACE_EKS_CLUSTER alone',
  })
  .refine(
    (config) =>
      (config.MILLRACE_KUBE_CERT_FILE === undefined) ===
      (config.MILLRACE_KUBE_KEY_FILE === undefined),
    {
      when: always,
      path: ['MILLRACE_KUBE_CERT_FILE'],
      message: 'and MILLRACE_KUBE_KEY_FILE belong together: give both or neither',
    },
  );

/** Files count once: a kubeconfig, which they may come from, can have a certificate besides a token. */
function waysToSignIn(config: {
  readonly MILLRACE_KUBE_TOKEN_FILE?: string | undefined;
  readonly MILLRACE_KUBE_CERT_FILE?: string | undefined;
  readonly MILLRACE_KUBE_TOKEN_PARAMETER?: string | undefined;
  readonly MILLRACE_EKS_CLUSTER?: string | undefined;
}): number {
  const ways = [
    config.MILLRACE_KUBE_TOKEN_FILE ?? config.MILLRACE_KUBE_CERT_FILE,
    config.MILLRACE_KUBE_TOKEN_PARAMETER,
    config.MILLRACE_EKS_CLUSTER,
  ];
  return ways.filter((way) => way !== undefined).length;
}

/** Reading files for each request took a fifth of a look's processor time, as measured. */
const credentialsKeptMs = 10_000;

/**
 * How long a token for EKS is used, in milliseconds. EKS takes it for 15 minutes; what is left is for a request that waits and
 * for clocks that differ.
 */
const eksTokenKeptMs = 8 * 60_000;

type ApiServerConfig = z.infer<typeof apiServerSchema>;

/**
 * Connects to the API server as a function does, which reads nothing there while its own clock is certainly wrong.
 *
 * @param name what it calls itself in the API server's audit log, behind `millrace/`
 */
export async function connectApiServer(
  config: ApiServerConfig,
  name: string,
): Promise<KubeConnection> {
  const access = await kubeAccess(config);
  return checkingClock(connectKube({ ...access, userAgent: `millrace/${name}` }), wallClock);
}

/**
 * Files are read every few seconds, so that a rotated credential is soon used; a token from elsewhere is kept for minutes.
 * Whatever was refused is not kept.
 */
async function kubeAccess(config: ApiServerConfig): Promise<KubeAccess> {
  const ca = await authorityOf(config);
  const token = tokenReader(config);
  const certificate = keepRead(() => readCertificate(config), credentialsKeptMs);
  return {
    server: config.MILLRACE_KUBE_SERVER,
    ...(ca === undefined ? {} : { ca }),
    credentials: async () => {
      const [bearer, pair] = await Promise.all([token(), certificate()]);
      return { ...pair, ...(bearer === undefined ? {} : { token: bearer }) };
    },
    onRefused: () => {
      token.forget();
      certificate.forget();
    },
    advice: {
      server: 'check MILLRACE_KUBE_SERVER',
      authority: `give the cluster’s own in ${config.MILLRACE_KUBE_CA === undefined ? 'MILLRACE_KUBE_CA_DATA' : 'the file of MILLRACE_KUBE_CA'}`,
      credentials: credentialsAdvice(config),
    },
  };
}

function credentialsAdvice(config: ApiServerConfig): string {
  const {
    MILLRACE_KUBE_TOKEN_FILE: path,
    MILLRACE_KUBE_TOKEN_PARAMETER: parameter,
    MILLRACE_EKS_CLUSTER: cluster,
  } = config;
  if (parameter !== undefined) {
    return `put a new token into the parameter ${parameter}, the one there has ended or is another cluster’s`;
  }
  if (cluster !== undefined) {
    return `see that this function’s role has an access entry in the cluster ${cluster}, and that this is its name in EKS`;
  }
  return path === undefined
    ? 'renew the certificate of MILLRACE_KUBE_CERT_FILE'
    : `put a new token into ${path}, the one there has ended or is another cluster’s`;
}

/** PEM; a file comes before what stands in the environment. */
async function authorityOf(config: ApiServerConfig): Promise<string | undefined> {
  const { MILLRACE_KUBE_CA: path, MILLRACE_KUBE_CA_DATA: data } = config;
  return path === undefined && data !== undefined
    ? Buffer.from(data, 'base64').toString('utf8')
    : readOptional(path);
}

function tokenReader(config: ApiServerConfig): KeptRead<string | undefined> {
  const {
    MILLRACE_KUBE_TOKEN_FILE: path,
    MILLRACE_KUBE_TOKEN_PARAMETER: parameter,
    MILLRACE_EKS_CLUSTER: cluster,
    AWS_REGION: region,
  } = config;
  if (parameter !== undefined) {
    return tokenFromParameter(parameter, region);
  }
  return cluster === undefined
    ? keepRead(async () => (await readOptional(path))?.trim(), credentialsKeptMs)
    : keepRead(() => eksToken(cluster, region), eksTokenKeptMs);
}

/** Lazily, because only functions on EKS sign. */
async function eksToken(cluster: string, region: string): Promise<string> {
  const { signEksToken } = await import('./eks-token.ts');
  return signEksToken(cluster, region);
}

async function readCertificate(
  config: ApiServerConfig,
): Promise<Pick<KubeCredentials, 'certificate' | 'key'>> {
  const certificate = await readOptional(config.MILLRACE_KUBE_CERT_FILE);
  const key = await readOptional(config.MILLRACE_KUBE_KEY_FILE);
  return certificate === undefined || key === undefined ? {} : { certificate, key };
}

async function readOptional(path: string | undefined): Promise<string | undefined> {
  return path === undefined ? undefined : readFile(path, 'utf8');
}
