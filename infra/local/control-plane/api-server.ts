import { generateKeyPairSync } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { connectKube } from '#shared/kube/http-connection.ts';
import { auditPolicy } from './audit-log.ts';
import { type Component, bareEnvironment, startComponent } from './component.ts';
import { isFile } from './is-file.ts';
import { startOnFreePort } from './port.ts';
import type { OnProgress } from './progress.ts';
import { readSigningAuthority } from './serving-certificate.ts';

const probeTimeoutMs = 5_000;

/** At 256 MiB the audit log is rotated, and one old file is kept: enough for days of a local run. */
const auditLogMegabytes = 256;

/** Somebody who signs in with a fixed token. */
export interface User {
  /** `relay`, or `system:serviceaccount:millrace:relay` to act as a service account. */
  readonly name: string;
  readonly groups: readonly string[];
}

export interface UserWithToken extends User {
  readonly token: string;
}

export interface ApiServerPlan {
  readonly command: string;
  readonly dataDir: string;
  readonly etcdEndpoint: string;
  readonly users: readonly UserWithToken[];
  /** The token that asks for readiness; its user must be one of `users`. */
  readonly probeToken: string;
  readonly flags: readonly string[];
  readonly onProgress?: OnProgress | undefined;
  readonly onUnexpectedExit?: ((message: string) => void) | undefined;
}

export interface ApiServer {
  readonly component: Component;
  /** `https://127.0.0.1:<port>` */
  readonly server: string;
  /** PEM of the authority to check it against. */
  readonly ca: string;
  readonly auditLogPath: string;
}

/** Starts the API server on a free port and resolves when `/readyz` says ok. */
export async function startApiServer(plan: ApiServerPlan): Promise<ApiServer> {
  const auditLogPath = join(plan.dataDir, 'audit.log');
  const certificateDir = join(plan.dataDir, 'api-server');
  const files = await writeApiServerFiles(plan);
  // A new one each time, since a kept folder may be older than the year its certificate was made for.
  await rm(certificateDir, { recursive: true, force: true });
  return startOnFreePort(async (port) => {
    const server = `https://127.0.0.1:${port}`;
    const certificatePath = join(certificateDir, 'apiserver.crt');
    const component = await startComponent({
      name: 'the API server',
      command: plan.command,
      flags: [
        `--etcd-servers=${plan.etcdEndpoint}`,
        '--bind-address=127.0.0.1',
        `--secure-port=${port}`,
        // Without these two it looks for a network interface with a default route, and a machine may have none.
        '--advertise-address=127.0.0.1',
        '--endpoint-reconciler-type=none',
        `--cert-dir=${certificateDir}`,
        `--token-auth-file=${files.tokensPath}`,
        '--authorization-mode=RBAC',
        '--service-cluster-ip-range=10.96.0.0/16',
        '--service-account-issuer=https://kubernetes.default.svc',
        `--service-account-key-file=${files.verifyingKeyPath}`,
        `--service-account-signing-key-file=${files.signingKeyPath}`,
        `--audit-policy-file=${files.auditPolicyPath}`,
        `--audit-log-path=${auditLogPath}`,
        `--audit-log-maxsize=${auditLogMegabytes}`,
        '--audit-log-maxbackup=1',
        '--profiling=false',
        ...plan.flags,
      ],
      logPath: join(plan.dataDir, 'api-server.log'),
      // Its collector runs a quarter as often, for some hundred megabytes: a third less processor time for each write.
      environment: { ...bareEnvironment, GOGC: '400' },
      isReady: async () =>
        isApiServerReady(server, await readSigningAuthority(certificatePath), plan.probeToken),
      onProgress: plan.onProgress,
      onUnexpectedExit: plan.onUnexpectedExit,
    });
    return { component, server, ca: await readSigningAuthority(certificatePath), auditLogPath };
  });
}

async function isApiServerReady(server: string, ca: string, token: string): Promise<boolean> {
  const connection = connectKube({ server, ca, credentials: async () => ({ token }) });
  try {
    const { status } = await connection.request({
      method: 'GET',
      path: '/readyz',
      timeoutMs: probeTimeoutMs,
    });
    return status === 200;
  } finally {
    connection.close();
  }
}

interface ApiServerFiles {
  readonly tokensPath: string;
  readonly auditPolicyPath: string;
  readonly signingKeyPath: string;
  readonly verifyingKeyPath: string;
}

async function writeApiServerFiles({ dataDir, users }: ApiServerPlan): Promise<ApiServerFiles> {
  const files = {
    tokensPath: join(dataDir, 'tokens.csv'),
    auditPolicyPath: join(dataDir, 'audit-policy.yaml'),
    signingKeyPath: join(dataDir, 'service-accounts.key'),
    verifyingKeyPath: join(dataDir, 'service-accounts.pub'),
  };
  await writeFile(files.tokensPath, tokensFile(users), { mode: 0o600 });
  await writeFile(files.auditPolicyPath, stringify(auditPolicy));
  // Kept over a restart on the same folder: the tokens of service accounts that were handed out stay good.
  if (!(await isFile(files.verifyingKeyPath))) {
    const pair = generateKeyPairSync('ec', {
      namedCurve: 'P-256',
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
      publicKeyEncoding: { type: 'spki', format: 'pem' },
    });
    await writeFile(files.signingKeyPath, pair.privateKey, { mode: 0o600 });
    await writeFile(files.verifyingKeyPath, pair.publicKey);
  }
  return files;
}

/** The static token file: token, user, uid and the groups in one field, each quoted. */
function tokensFile(users: readonly UserWithToken[]): string {
  return users
    .map(({ token, name, groups }) => [token, name, name, groups.join(',')])
    .map((fields) => `${fields.map(quoted).join(',')}\n`)
    .join('');
}

function quoted(field: string): string {
  return `"${field.replaceAll('"', '""')}"`;
}
