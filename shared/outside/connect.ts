import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import type { Database } from '#shared/api/database.ts';
import type { DatabaseRef } from '#shared/kernel/effect.ts';
import { readConfig } from '#shared/kernel/config.ts';
import { keepRead } from '#shared/kernel/kept-read.ts';
import { RetryableError } from '#shared/kernel/errors.ts';
import { type Clock, wallClock } from '#shared/kernel/instant.ts';
import { type Connect, type Outside, handlerConfigSchema } from '#shared/kernel/pipeline.ts';
import { checkingClock } from '#shared/kube/clock-check.ts';
import type { KubeAccess, KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { kubeClient } from '#shared/kube/http-kube.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import { connectSqsReceiver } from '#shared/queue/sqs-receiver.ts';
import { dataPlanes } from './data-plane.ts';
import { tokenFromParameter } from './token-parameter.ts';

/**
 * How a handler signs in to the API server: its endpoint, and where its authority and a credential are; never a
 * kubeconfig (it may name a program to run), and never the credential itself.
 */
const accessSchema = z
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
      message:
        'give MILLRACE_KUBE_TOKEN_FILE, MILLRACE_KUBE_TOKEN_PARAMETER, or MILLRACE_KUBE_CERT_FILE with MILLRACE_KUBE_KEY_FILE',
    },
  );

/** Reading files for each request took a fifth of a look's processor time, as measured. */
const credentialsKeptMs = 10_000;

type AccessConfig = z.infer<typeof accessSchema>;

/** Connects everything a handler talks to. Nothing is sent before the first read. */
export const connectOutside: Connect = async (environment, stepName) => {
  const config = readConfig(handlerConfigSchema, environment);
  const access = readConfig(accessSchema, environment);
  const connection = checkingClock(
    connectKube({ ...(await kubeAccess(access)), userAgent: `millrace/${stepName}` }),
    wallClock,
  );
  const queues = connectSqsReceiver({
    region: access.AWS_REGION,
    ...(config.MILLRACE_QUEUE_ENDPOINT === undefined
      ? {}
      : { endpoint: config.MILLRACE_QUEUE_ENDPOINT }),
  });
  return outsideOver(connection, async (receiptHandle, seconds) => {
    if (config.MILLRACE_QUEUE_URL === undefined) {
      throw new Error('MILLRACE_QUEUE_URL is not set, so the queue’s own visibility applies');
    }
    await queues.changeVisibility(config.MILLRACE_QUEUE_URL, receiptHandle, seconds);
  });
};

/** Everything a handler talks to, by one connection to the API server; data planes are reached as their Database says. */
export function outsideOver(
  connection: KubeConnection,
  changeVisibility: Outside['changeVisibility'],
  clock: Clock = wallClock,
): Outside {
  const kube = kubeClient(connection);
  const planes = dataPlanes(kube, connection, clock);
  return {
    kube,
    ports: { kube, topology: planes.topologyReader, admin: planes.adminReader },
    writers: {
      kube,
      topology: async (ref, signal) =>
        planes.topology(await sameDatabase(kube, ref, signal), signal),
      admin: async (ref, signal) => planes.admin(await sameDatabase(kube, ref, signal)),
    },
    changeVisibility,
  };
}

/** Files are read every few seconds, so that a rotated credential is soon used; a parameter is kept for minutes. */
async function kubeAccess(config: AccessConfig): Promise<KubeAccess> {
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
async function authorityOf(config: AccessConfig): Promise<string | undefined> {
  const { MILLRACE_KUBE_CA: path, MILLRACE_KUBE_CA_DATA: data } = config;
  return path === undefined && data !== undefined
    ? Buffer.from(data, 'base64').toString('utf8')
    : readOptional(path);
}

/** A file comes before a parameter. */
function tokenReader(config: AccessConfig): () => Promise<string | undefined> {
  const { MILLRACE_KUBE_TOKEN_FILE: path, MILLRACE_KUBE_TOKEN_PARAMETER: parameter } = config;
  return path === undefined && parameter !== undefined
    ? tokenFromParameter(parameter, config.AWS_REGION)
    : async () => (await readOptional(path))?.trim();
}

async function readOptional(path: string | undefined): Promise<string | undefined> {
  return path === undefined ? undefined : readFile(path, 'utf8');
}

/** A write goes to the data plane of the very Database object that the decision read. */
async function sameDatabase(
  kube: KubeReader,
  ref: DatabaseRef,
  signal: AbortSignal,
): Promise<Database> {
  const read = await kube.get(
    { kind: 'Database', namespace: ref.namespace, name: ref.name },
    signal,
  );
  if (read.kind !== 'present' || read.value.metadata.uid !== ref.uid) {
    throw new RetryableError(
      'DatabaseMoved',
      `the Database ${ref.name} is not the one the decision was made for`,
    );
  }
  return read.value;
}
