import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { obtain } from '#infra/local/control-plane/binaries.ts';
import {
  type Component,
  bareEnvironment,
  startComponent,
} from '#infra/local/control-plane/component.ts';
import { startOnFreePort } from '#infra/local/control-plane/port.ts';
import type { OnProgress } from '#infra/local/control-plane/progress.ts';
import { bucketProgram } from './program.ts';

const run = promisify(execFile);

const probeTimeoutMs = 2_000;

export interface BucketServerOptions {
  /** Made when it is missing; keeps buckets and accounts over stop and start. Holds the server's log as well. */
  readonly dataDir: string;
  readonly region: string;
  readonly onProgress?: OnProgress | undefined;
}

/** Keys to sign in with. */
export interface BucketAccount {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

export interface BucketServer extends Component, AsyncDisposable {
  /** `http://127.0.0.1:<port>`: no TLS, reachable from this machine only. */
  readonly endpoint: string;
  /** May do everything. */
  readonly root: BucketAccount;
  /** Adds an account that may do nothing until the policy of a bucket permits it. */
  addAccount(account: BucketAccount): Promise<void>;
}

/**
 * Starts an S3 server on a free port and resolves when it serves. Conditional writes, versions, accounts and bucket policies
 * are enforced; encryption is not there.
 */
export async function startBucketServer(options: BucketServerOptions): Promise<BucketServer> {
  const command = await obtain(bucketProgram, options.onProgress);
  const dataDir = resolve(options.dataDir);
  const folder = (name: string) => join(dataDir, name);
  await Promise.all(
    ['buckets', 'versions', 'attributes', 'accounts'].map((name) =>
      mkdir(folder(name), { recursive: true, mode: 0o700 }),
    ),
  );
  const root = { accessKeyId: 'root', secretAccessKey: randomBytes(16).toString('hex') };
  return startOnFreePort(async (port) => {
    const address = `127.0.0.1:${port}`;
    const endpoint = `http://${address}`;
    const server = await startComponent({
      name: 'the bucket',
      command,
      flags: [
        `--port=${address}`,
        `--region=${options.region}`,
        `--iam-dir=${folder('accounts')}`,
        '--quiet',
        'posix',
        `--versioning-dir=${folder('versions')}`,
        // Not every file system has the extended attributes that it would use else.
        `--sidecar=${folder('attributes')}`,
        folder('buckets'),
      ],
      logPath: join(dataDir, 'bucket.log'),
      // Everybody on this machine can read the flags of a process.
      environment: {
        ...bareEnvironment,
        ROOT_ACCESS_KEY_ID: root.accessKeyId,
        ROOT_SECRET_ACCESS_KEY: root.secretAccessKey,
      },
      isReady: () => isServing(endpoint),
      onProgress: options.onProgress,
    });
    return {
      endpoint,
      root,
      get pid() {
        return server.pid;
      },
      kill: () => server.kill(),
      restart: () => server.restart(),
      stop: () => server.stop(),
      async addAccount({ accessKeyId, secretAccessKey }) {
        const account = [`--access=${accessKeyId}`, `--secret=${secretAccessKey}`, '--role=user'];
        await run(command, ['admin', 'create-user', ...account], {
          env: {
            ...bareEnvironment,
            ADMIN_ACCESS_KEY_ID: root.accessKeyId,
            ADMIN_SECRET_ACCESS_KEY: root.secretAccessKey,
            ADMIN_ENDPOINT_URL: endpoint,
            ADMIN_REGION: options.region,
          },
        });
      },
      [Symbol.asyncDispose]: () => server.stop(),
    };
  });
}

/** A request without a signature is refused, which is an answer. */
async function isServing(endpoint: string): Promise<boolean> {
  const response = await fetch(endpoint, { signal: AbortSignal.timeout(probeTimeoutMs) });
  await response.body?.cancel();
  return response.headers.get('server') === 'VERSITYGW';
}
