import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { connectKube } from '#shared/kube/http-connection.ts';
import { type Component, startComponent } from './component.ts';
import { startOnFreePort } from './port.ts';
import type { OnProgress } from './progress.ts';
import { readSigningAuthority } from './serving-certificate.ts';

const probeTimeoutMs = 5_000;

/**
 * What Millrace's objects meet in a real cluster: owners, namespaces, accounts, budgets, claims and jobs. Nothing
 * schedules or runs pods here, and nothing makes pods that Millrace did not ask for.
 */
const controllers = [
  'garbage-collector-controller',
  'namespace-controller',
  'serviceaccount-controller',
  'disruption-controller',
  'persistentvolumeclaim-protection-controller',
  'job-controller',
  'cronjob-controller',
  // Says of each admission policy whether its expressions fit what they are about.
  'validatingadmissionpolicy-status-controller',
];

export interface ControllerManagerPlan {
  readonly command: string;
  readonly dataDir: string;
  readonly kubeconfigPath: string;
  readonly onProgress?: OnProgress | undefined;
  readonly onUnexpectedExit?: ((message: string) => void) | undefined;
}

/** Starts the controller manager and resolves when its controllers run. */
export async function startControllerManager(plan: ControllerManagerPlan): Promise<Component> {
  const certificateDir = join(plan.dataDir, 'controller-manager');
  await rm(certificateDir, { recursive: true, force: true });
  return startOnFreePort((port) =>
    startComponent({
      name: 'the controller manager',
      command: plan.command,
      flags: [
        `--kubeconfig=${plan.kubeconfigPath}`,
        `--controllers=${controllers.join(',')}`,
        '--leader-elect=false',
        '--bind-address=127.0.0.1',
        `--secure-port=${port}`,
        `--cert-dir=${certificateDir}`,
        // The defaults of 20 and 30 are made for a shared API server and slow the end of a namespace down.
        '--kube-api-qps=200',
        '--kube-api-burst=400',
        '--profiling=false',
      ],
      logPath: join(plan.dataDir, 'controller-manager.log'),
      isReady: () =>
        areControllersHealthy(
          `https://127.0.0.1:${port}`,
          join(certificateDir, 'kube-controller-manager.crt'),
        ),
      onProgress: plan.onProgress,
      onUnexpectedExit: plan.onUnexpectedExit,
    }),
  );
}

/** The health check lists a controller from the moment it was started, and is good before that already. */
async function areControllersHealthy(server: string, certificatePath: string): Promise<boolean> {
  const connection = connectKube({
    server,
    ca: await readSigningAuthority(certificatePath),
    credentials: async () => ({}),
  });
  try {
    const { status, body } = await connection.request({
      method: 'GET',
      path: '/healthz',
      query: { verbose: '' },
      timeoutMs: probeTimeoutMs,
    });
    return status === 200 && controllers.every((name) => String(body).includes(`[+]${name} ok`));
  } finally {
    connection.close();
  }
}
