import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import { always } from '#shared/kernel/config.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { keepRead } from '#shared/kernel/kept-read.ts';
import { checkingClock } from '#shared/kube/clock-check.ts';
import type { KubeAccess, KubeConnection } from '#shared/kube/connection.ts';
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
    MILLRACE_KUBE_CERT_FILE: z.string().optional(),
    MILLRACE_KUBE_KEY_FILE: z.string().optional(),
    AWS_REGION: z.string().default('us-east-1'),
  })
  .refine(
    (config) =>
      config.MILLRACE_KUBE_TOKEN_FILE !== undefined ||
      config.MILLRACE_KUBE_TOKEN_PARAMETER !== undefined ||
      config.MILLRACE_KUBE_CERT_FILE !== undefined,
    {
      when: always,
      message:
        'give MILLRACE_KUBE_TOKEN_FILE, MILLRACE_KUBE_TOKEN_PARAMETER, or MILLRACE_KUBE_CERT_FILE with MILLRACE_KUBE_KEY_FILE',
    },
  );

/** Reading files for each request took a fifth of a look's processor time, as measured. */
const credentialsKeptMs = 10_000;

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

/** Files are read every few seconds, so that a rotated credential is soon used; a parameter is kept for minutes. */
async function kubeAccess(config: ApiServerConfig): Promise<KubeAccess> {
  const ca = await authorityOf(config);
  const readToken = tokenReader(config);
  return {
    server: config.MILLRACE_KUBE_SERVER,
    ...(ca === undefined ? {} : { ca }),
    credentials: keepRead(async () => {
      const token = await readToken();
      const certificate = await readOptional(config.MILLRACE_KUBE_CERT_FILE);
      const key = await readOptional(config.MILLRACE_KUBE_KEY_FILE);
      return {
        ...(token === undefined ? {} : { token }),
        ...(certificate === undefined ? {} : { certificate }),
        ...(key === undefined ? {} : { key }),
      };
    }, credentialsKeptMs),
  };
}

/** PEM; a file comes before what stands in the environment. */
async function authorityOf(config: ApiServerConfig): Promise<string | undefined> {
  const { MILLRACE_KUBE_CA: path, MILLRACE_KUBE_CA_DATA: data } = config;
  return path === undefined && data !== undefined
    ? Buffer.from(data, 'base64').toString('utf8')
    : readOptional(path);
}

/** A file comes before a parameter. */
function tokenReader(config: ApiServerConfig): () => Promise<string | undefined> {
  const { MILLRACE_KUBE_TOKEN_FILE: path, MILLRACE_KUBE_TOKEN_PARAMETER: parameter } = config;
  return path === undefined && parameter !== undefined
    ? tokenFromParameter(parameter, config.AWS_REGION)
    : async () => (await readOptional(path))?.trim();
}

async function readOptional(path: string | undefined): Promise<string | undefined> {
  return path === undefined ? undefined : readFile(path, 'utf8');
}
