import { mkdir, symlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as z from 'zod';
import { type Component, startComponent } from '#infra/local/control-plane/component.ts';
import { startOnFreePort } from '#infra/local/control-plane/port.ts';
import type { OnProgress } from '#infra/local/control-plane/progress.ts';
import { obtainCloudPython } from './install.ts';

const probeTimeoutMs = 2_000;

/** What a deployment of Millrace uses, and its removal: osls asks for images that it might have pushed. */
const services = [
  'cloudformation',
  'ecr',
  'events',
  'iam',
  'lambda',
  'logs',
  's3',
  'sqs',
  'ssm',
  'sts',
];

/** The stand-in's own account. */
export const cloudAccount = '000000000000';

export const cloudRegion = 'eu-central-1';

/** The administrator of the account, whose requests are always allowed. */
export const cloudAdministrator = { accessKeyId: 'test', secretAccessKey: 'test' };

export interface CloudOptions {
  /** Made when it is missing. Holds `cloud.log`, which has the functions' output too, and the functions' sandboxes. */
  readonly dataDir: string;
  readonly onProgress?: OnProgress | undefined;
  readonly onUnexpectedExit?: ((message: string) => void) | undefined;
}

export interface Cloud extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`, for every service. */
  readonly endpoint: string;
  readonly logPath: string;
  stop(): Promise<void>;
}

/**
 * Starts a stand-in for AWS on a free port of this machine and resolves when it serves. It keeps everything in memory,
 * and ends with this process, however it ends.
 *
 * It evaluates IAM: a request passes when the policies of who signed it, or of the resource, allow it and none denies
 * it. Functions run in processes of this machine's Node, under their own roles.
 */
export async function startCloud(options: CloudOptions): Promise<Cloud> {
  const python = await obtainCloudPython(options.onProgress);
  const dataDir = resolve(options.dataDir);
  const sandboxes = join(dataDir, 'sandboxes');
  await mkdir(sandboxes, { recursive: true, mode: 0o700 });
  await provideSdk(dataDir);
  const logPath = join(dataDir, 'cloud.log');
  return startOnFreePort(async (port) => {
    const endpoint = `http://127.0.0.1:${port}`;
    const component: Component = await startComponent({
      name: 'the AWS stand-in',
      command: python,
      flags: ['-m', 'ministack'],
      environment: environmentOf(port, endpoint, sandboxes),
      logPath,
      isReady: () => isServing(endpoint),
      onProgress: options.onProgress,
      onUnexpectedExit: options.onUnexpectedExit,
    });
    return {
      endpoint,
      logPath,
      stop: () => component.stop(),
      [Symbol.asyncDispose]: () => component.stop(),
    };
  });
}

function environmentOf(port: number, endpoint: string, sandboxes: string): Record<string, string> {
  return {
    // Functions run with the first `node` there is: the one that runs this.
    PATH: `${dirname(process.execPath)}:/usr/bin:/bin`,
    GATEWAY_PORT: String(port),
    BIND_HOST: '127.0.0.1',
    MINISTACK_REGION: cloudRegion,
    MINISTACK_ACCOUNT_ID: cloudAccount,
    AUTH: 'true',
    SERVICES: services.join(','),
    IOT_MTLS_ENABLED: '0',
    SFTP_ENABLED: '0',
    TMPDIR: sandboxes,
    // What functions get besides their own: the services' addresses one by one. With the general variable the stand-in
    // would rewrite a function's HTTPS requests to this machine, of which the API server's are some.
    AWS_ENDPOINT_URL: '',
    ...Object.fromEntries(
      services.map((service) => [`AWS_ENDPOINT_URL_${service.toUpperCase()}`, endpoint]),
    ),
  };
}

/** Lambda's runtime brings the AWS SDK along; here Node finds the project's in a folder above the sandboxes. */
async function provideSdk(dataDir: string): Promise<void> {
  const modules = fileURLToPath(new URL('../../../node_modules', import.meta.url));
  await mkdir(join(dataDir, 'node_modules'), { recursive: true });
  await symlink(join(modules, '@aws-sdk'), join(dataDir, 'node_modules', '@aws-sdk'));
}

const health = z.object({ services: z.record(z.string(), z.string()), auth: z.string() });

async function isServing(endpoint: string): Promise<boolean> {
  const response = await fetch(`${endpoint}/_ministack/health`, {
    signal: AbortSignal.timeout(probeTimeoutMs),
  });
  return health.parse(await response.json()).auth === 'enabled';
}
