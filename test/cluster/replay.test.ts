import { spawn } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import * as z from 'zod';
import { deadLetterQueueName, queueName } from '#events/hint.ts';
import { stepsOf } from '#events/routes.ts';
import { installDefinitions } from '#infra/cli/install.ts';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { collectionPath, kubeClient } from '#shared/kube/http-kube.ts';
import { databaseManifest, pooledShardManifest } from '#test/builders/manifest.ts';
import { runMillrace } from '#test/unit/infra/cli/run-millrace.ts';
import { LineLog } from '#test/unit/infra/local/worker/line-log.ts';
import { missingControlPlane, useControlPlane } from './local-control-plane.ts';
import { countMessages, openQueueClient } from './queue-contents.ts';

const binary = fileURLToPath(new URL('../../infra/cli/millrace.mjs', import.meta.url));

/** Five looks fail, each with a longer wait after it: a minute and a half on average. */
const untilDeadMs = 400_000;

const namespace = 'default';
const rbac = '/apis/rbac.authorization.k8s.io/v1';

/** What Millrace asks for by name, besides the Shard that it may not read at first. */
const readable = [
  'customresourcedefinitions',
  'databases',
  'goverseclusters',
  'jobs',
  'namespaces',
  'nodes',
  'persistentvolumeclaims',
  'pods',
  'poddisruptionbudgets',
  'secrets',
  'services',
];

const previewSchema = z.looseObject({
  hints: z.number(),
  previews: z.array(
    z.looseObject({
      step: z.string(),
      letters: z.number(),
      now: z.looseObject({ kind: z.string(), reason: z.string().optional() }),
      before: z.looseObject({ outcome: z.string(), reason: z.string() }).optional(),
      isDifferent: z.boolean().optional(),
    }),
  ),
});

const resultSchema = z.looseObject({
  counts: z.looseObject({ sent: z.number() }),
  journal: z.string(),
});

describe.skipIf(missingControlPlane !== undefined)('dead letters', () => {
  const controlPlane = useControlPlane();

  async function post(api: KubeConnection, path: string, body: unknown): Promise<unknown> {
    const answer = await api.request({ method: 'POST', path, body });
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
    return answer.body;
  }

  /** Lets the operator do something everywhere. */
  async function grant(
    api: KubeConnection,
    name: string,
    rules: readonly { readonly resources: readonly string[]; readonly verbs: readonly string[] }[],
  ): Promise<void> {
    const kind = 'ClusterRole';
    await post(api, `${rbac}/clusterroles`, {
      metadata: { name },
      rules: rules.map((rule) => ({ apiGroups: ['*'], ...rule })),
    });
    await post(api, `${rbac}/clusterrolebindings`, {
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name },
      subjects: [{ kind: 'ServiceAccount', name: 'operator', namespace }],
    });
  }

  async function operatorsKubeconfig(api: KubeConnection, folder: string): Promise<string> {
    const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
    await post(api, accounts, { metadata: { name: 'operator' } });
    const answer = await post(api, `${accounts}/operator/token`, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: 3600 },
    });
    const { status } = z
      .looseObject({ status: z.looseObject({ token: z.string() }) })
      .parse(answer);
    const { server, ca } = controlPlane();
    const path = join(folder, 'kubeconfig');
    await writeKubeconfig(path, { server, ca, user: 'operator', token: status.token });
    return path;
  }

  async function startDev(kubeconfig: string, stateHome: string) {
    const child = spawn(process.execPath, [binary, 'dev', '--json', '--kubeconfig', kubeconfig], {
      // Nothing but the replay shall tell of the target a second time.
      env: { HOME: stateHome, XDG_STATE_HOME: stateHome, MILLRACE_SWEEP_SECONDS: '86400' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const lines = new LineLog();
    createInterface({ input: child.stdout }).on('line', lines.add);
    const [ready] = await lines.until({ ready: true });
    return { child, queue: z.looseObject({ queue: z.url() }).parse(ready).queue };
  }

  test(
    'of a target that could not be read: a dry run says so; once it can be, and they are replayed, its members are made',
    { timeout: 2 * untilDeadMs + 120_000 },
    async () => {
      const stateHome = await mkdtemp(join(tmpdir(), 'millrace-replay-'));
      onTestFinished(() => rm(stateHome, { recursive: true, force: true }));
      const api = connectKube(controlPlane().access());
      onTestFinished(() => api.close());
      await installDefinitions(api);
      const kubeconfig = await operatorsKubeconfig(api, stateHome);
      const others = ['list', 'watch', 'create', 'update', 'patch', 'delete'];
      await grant(api, 'operator', [
        { resources: ['*'], verbs: others },
        { resources: readable, verbs: ['get'] },
      ]);
      await post(api, collectionPath('Database', namespace), databaseManifest('main'));
      await post(
        api,
        collectionPath('Shard', namespace),
        pooledShardManifest('orders', { replicasPerCell: 1 }),
      );
      const { queue, child } = await startDev(kubeconfig, stateHome);
      const client = openQueueClient(queue);
      onTestFinished(() => client.destroy());
      const dead = () => countMessages(client, queue, deadLetterQueueName('local', 'pool-pods'));
      const environment = { HOME: stateHome, XDG_STATE_HOME: stateHome };
      const replay = (...words: readonly string[]) =>
        runMillrace(
          ['replay', '--dlq', 'pool-pods', '--kubeconfig', kubeconfig, ...words],
          environment,
        );
      // No step may look before the replay does: what it does would wake the others.
      const owed = async () => {
        const counts = await Promise.all(
          stepsOf('Shard').map((step) => countMessages(client, queue, queueName('local', step))),
        );
        return counts.reduce((sum, count) => sum + count, 0);
      };
      await expect.poll(dead, { timeout: untilDeadMs, interval: 1_000 }).toBeGreaterThan(0);
      await expect.poll(owed, { timeout: untilDeadMs, interval: 1_000 }).toBe(0);
      const letters = await dead();

      const broken = await replay('--dry-run', '--json');
      await grant(api, 'reader', [{ resources: ['shards'], verbs: ['get'] }]);
      const mended = await replay('--dry-run', '--json');
      const forPeople = await replay('--dry-run');
      const unasked = await replay();
      const deadBefore = await dead();
      const replayed = await replay('--yes', '--json');

      expect(previewSchema.parse(JSON.parse(broken.stdout)).previews).toMatchObject([
        {
          step: 'pool-pods',
          letters,
          now: { kind: 'failed', reason: 'TargetUnknown' },
          before: { outcome: 'failed', reason: 'TargetUnknown' },
          isDifferent: false,
        },
      ]);
      expect(previewSchema.parse(JSON.parse(mended.stdout)).previews).toMatchObject([
        { now: { kind: 'decided', outcome: 'acting' }, isDifferent: true },
      ]);
      expect([broken.exitCode, mended.exitCode, unasked.exitCode]).toEqual([1, 1, 2]);
      expect(forPeople.stdout).toMatch(
        /shd\/default\/orders +\d+ +differs: failed TargetUnknown +acting ObjectsMade/,
      );
      expect(forPeople.stderr).toContain('nothing was sent, and every letter stays');
      expect(deadBefore).toBe(letters);
      expect([replayed.exitCode, replayed.stderr]).toEqual([0, expect.any(String)]);
      const { counts, journal } = resultSchema.parse(JSON.parse(replayed.stdout));
      expect(counts.sent).toBe(letters);
      expect(await dead()).toBe(0);
      const pods = kubeClient(api);
      await expect
        .poll(
          async () => {
            const read = await pods.list('Pod', { namespace });
            return read.kind === 'present' ? read.value.length : -1;
          },
          { timeout: 60_000 },
        )
        .toBe(1);
      expect(await readdir(join(journal, '..'))).toContain('replays.jsonl');

      child.kill('SIGTERM');
      await expect
        .poll(async () => (await replay('--yes')).stderr, { timeout: 60_000 })
        .toContain('nothing says where the queues are');
    },
  );
});
