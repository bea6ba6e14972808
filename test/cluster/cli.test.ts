import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import * as z from 'zod';
import { installDefinitions } from '#infra/cli/install.ts';
import { freeze } from '#infra/local/show/freeze.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { kubeClient } from '#shared/kube/http-kube.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { attachedShardManifest, databaseManifest } from '#test/builders/manifest.ts';
import { LineLog } from '../unit/infra/local/worker/line-log.ts';
import { runMillrace } from '../unit/infra/cli/run-millrace.ts';
import { useControlPlane } from './local-control-plane.ts';

const binary = fileURLToPath(new URL('../../infra/cli/millrace.mjs', import.meta.url));
const controlPlane = useControlPlane();
const cleanUp: (() => Promise<unknown>)[] = [];

let stateHome: string;

beforeEach(async () => {
  stateHome = await mkdtemp(join(tmpdir(), 'millrace-state-'));
  cleanUp.push(() => rm(stateHome, { recursive: true }));
});

afterEach(async () => {
  for (const undo of cleanUp.splice(0).toReversed()) {
    await undo();
  }
});

function connect() {
  const connection = connectKube(controlPlane().access());
  cleanUp.push(async () => connection.close());
  return { connection, kube: kubeClient(connection) };
}

/** An attach-mode Shard whose Database does not exist: every step looks at it and nothing is made. */
async function createShard(name: string): Promise<{ uid: string; resourceVersion: string }> {
  const { connection } = connect();
  const answer = await connection.request({
    method: 'POST',
    path: '/apis/millrace.dev/v1alpha1/namespaces/default/shards',
    body: {
      ...attachedShardManifest(name),
      metadata: { name, annotations: { 'millrace.dev/reconcile': '1' } },
    },
  });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  const { metadata } = z
    .looseObject({ metadata: z.looseObject({ uid: z.string(), resourceVersion: z.string() }) })
    .parse(answer.body);
  return metadata;
}

/** Nothing listens where its keys would be. */
async function createGoverseCluster(name: string): Promise<void> {
  const { connection } = connect();
  const answer = await connection.request({
    method: 'POST',
    path: '/apis/millrace.dev/v1alpha1/namespaces/default/goverseclusters',
    body: {
      apiVersion: 'millrace.dev/v1alpha1',
      kind: 'GoverseCluster',
      metadata: { name },
      spec: { topology: { endpoints: ['http://127.0.0.1:1'] } },
    },
  });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
}

interface Dev {
  readonly child: ChildProcess;
  readonly lines: LineLog;
  readonly pids: Record<string, number>;
}

async function startDev(environment: Readonly<Record<string, string>> = {}): Promise<Dev> {
  const child = spawn(
    process.execPath,
    [binary, 'dev', '--json', '--install', '--kubeconfig', controlPlane().kubeconfigPath],
    {
      env: { HOME: stateHome, XDG_STATE_HOME: stateHome, ...environment },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  cleanUp.push(async () => {
    child.kill('SIGKILL');
  });
  const lines = new LineLog();
  createInterface({ input: child.stdout }).on('line', lines.add);
  const [ready] = await lines.until({ ready: true });
  const { pids } = z.object({ pids: z.record(z.string(), z.number()) }).parse(ready);
  return { child, lines, pids };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('millrace dev', () => {
  test('installs the definitions, says who runs where, and prints one line per decision', async () => {
    const { lines } = await startDev();

    await createShard('decided');
    const [decision] = await lines.until({ step: 'drain-step', target: 'shd/default/decided' });

    expect(lines.lines[0]).toEqual({
      ready: true,
      relay: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      worker: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      queue: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      archive: expect.stringMatching(/^file:\/\/\/.*\/archive$/),
      pids: {
        relay: expect.any(Number),
        worker: expect.any(Number),
        queue: expect.any(Number),
      },
    });
    expect(decision).toEqual({
      at: expect.stringMatching(/^\d{4}-/),
      step: 'drain-step',
      target: 'shd/default/decided',
      outcome: expect.stringMatching(/^(settled|waiting|acting|blocked)$/),
      reason: expect.any(String),
      message: expect.any(String),
      effects: expect.any(Array),
    });
    // The function tells its numbers at the end of its invocation, after the decision's line.
    await expect
      .poll(async () => (await fetch(`${String(lines.lines[0]?.['worker'])}/metrics`)).text(), {
        timeout: 60_000,
      })
      .toContain('millrace_looks_total{step="drain-step",outcome=');
  });

  test.each(['relay', 'worker', 'queue'])(
    'starts a killed %s again, and the next change is decided',
    async (name) => {
      const { lines, pids } = await startDev();

      process.kill(pids[name] ?? 0, 'SIGKILL');
      const [restarted] = await lines.until({ restarted: name });
      await createShard(`after-${name}`);
      await lines.until({ step: 'drain-step', target: `shd/default/after-${name}` });

      expect(restarted?.['pid']).not.toBe(pids[name]);
    },
  );

  test('sweeps on its timer: while the relay hangs, a new Shard is looked at all the same', async () => {
    const { lines, pids } = await startDev({ MILLRACE_SWEEP_SECONDS: '1' });
    const frozen = await freeze(pids['relay'] ?? 0);
    cleanUp.push(async () => frozen[Symbol.asyncDispose]());

    await createShard('swept');

    await lines.until({ step: 'drain-step', target: 'shd/default/swept' });
    await lines.until({ step: 'pool-pods', target: 'shd/default/swept' });
  });

  test('SIGTERM ends it and all of its children in order', async () => {
    const { child, pids } = await startDev();

    child.kill('SIGTERM');
    const [exitCode] = (await once(child, 'exit')) as [number | null];

    expect(exitCode).toBe(0);
    expect(Object.values(pids).filter(isAlive)).toEqual([]);
  });

  test('ends as by Ctrl-C where nobody reads its lines any more', async () => {
    const { child, pids } = await startDev();

    child.stdout?.destroy();
    await createShard('unread');
    const [exitCode] = (await once(child, 'exit')) as [number | null];

    expect(exitCode).toBe(0);
    expect(Object.values(pids).filter(isAlive)).toEqual([]);
  });

  test('no child outlives it when it is killed', async () => {
    const { child, pids } = await startDev();
    expect(Object.values(pids).filter(isAlive)).toHaveLength(3);

    child.kill('SIGKILL');

    await vi.waitFor(() => expect(Object.values(pids).filter(isAlive)).toEqual([]), {
      timeout: 10_000,
    });
  });
});

describe('millrace reset', () => {
  test('clears the record of a Database’s step as well', async () => {
    const { connection, kube } = connect();
    await installDefinitions(connection);
    const target = { kind: 'Database', namespace: 'default', name: 'reset' } as const;
    const key = recordAnnotation('backup-config');
    const { metadata, ...manifest } = databaseManifest('reset');
    await kube.create(target, {
      ...manifest,
      metadata: { ...(metadata as JsonObject), annotations: { [key]: '{"v":9}' } },
    });
    const words = ['reset', 'mdb/reset', 'backup-config', '-n', 'default', '--json', '--yes'];

    const { exitCode } = await runMillrace([
      ...words,
      '--kubeconfig',
      controlPlane().kubeconfigPath,
    ]);

    const read = await kube.get(target);
    expect(exitCode).toBe(0);
    expect(read.kind).toBe('present');
    expect(JSON.stringify(read)).not.toContain(`"${key}":`);
  });

  test('clears exactly the record of the step, after a yes', async () => {
    const { connection, kube } = connect();
    await installDefinitions(connection);
    const { uid, resourceVersion } = await createShard('reset');
    const target = { kind: 'Shard', namespace: 'default', name: 'reset' } as const;
    const key = recordAnnotation('drain-step');
    const patch = { metadata: { annotations: { [key]: '{"v":1}' } } };
    await kube.mergePatch(target, patch, { uid, resourceVersion });
    const words = ['reset', 'shd/reset', 'drain-step', '-n', 'default'];
    const options = ['--json', '--kubeconfig', controlPlane().kubeconfigPath];

    const unasked = await runMillrace([...words, ...options]);
    const cleared = await runMillrace([...words, ...options, '--yes']);
    const again = await runMillrace([...words, ...options, '--yes']);
    const read = await kube.get(target);

    expect(unasked.exitCode).toBe(2);
    expect([cleared.exitCode, JSON.parse(cleared.stdout)]).toEqual([
      0,
      { target: 'shd/default/reset', step: 'drain-step', cleared: true, record: '{"v":1}' },
    ]);
    expect([again.exitCode, JSON.parse(again.stdout)]).toMatchObject([0, { cleared: false }]);
    expect(read).toMatchObject({
      kind: 'present',
      value: { metadata: { annotations: { 'millrace.dev/reconcile': '1' } } },
    });
    expect(JSON.stringify(read)).not.toContain(`"${key}":`);
  });

  test('a target that does not exist is a failure', async () => {
    const { connection } = connect();
    await installDefinitions(connection);

    const { exitCode, stderr } = await runMillrace([
      'reset',
      'shd/nobody',
      'drain-step',
      '-n',
      'default',
      '--kubeconfig',
      controlPlane().kubeconfigPath,
    ]);

    expect(exitCode).toBe(1);
    expect(stderr).toContain('there is no such target');
  });
});

function findingsOf(stdout: string) {
  return z
    .object({
      ok: z.boolean(),
      checks: z.array(z.looseObject({ name: z.string(), result: z.string() })),
    })
    .parse(JSON.parse(stdout));
}

describe('millrace doctor', () => {
  test('finds nothing in the way of an administrator, and the Database that a Shard misses', async () => {
    const { connection } = connect();
    await installDefinitions(connection);
    await createShard('orphan');
    await createGoverseCluster('objects');

    const { exitCode, stdout } = await runMillrace(
      ['doctor', '--json', '--kubeconfig', controlPlane().kubeconfigPath],
      { MILLRACE_LEASE: 'millrace/relay' },
    );

    const { ok, checks } = findingsOf(stdout);
    const failures = checks.filter((check) => check.result === 'failed').map(({ name }) => name);
    expect([exitCode, ok]).toEqual([1, false]);
    expect(failures).toContain('database of shd/orphan');
    expect(failures.filter((name) => !name.startsWith('database of '))).toEqual([
      'keys of gvc/objects',
    ]);
    expect(checks.filter((check) => check.result === 'ok').map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        'API server reachable',
        'API server certificate',
        'signed in',
        'clock',
        'definition databases.millrace.dev',
        'definition goverseclusters.millrace.dev',
        'definition shards.millrace.dev',
        'permissions of the relay',
        'permissions of the relay’s lease',
        'permissions of drain-step',
        'permissions of pool-pods',
        'permissions of the sweep',
        'permissions of backup-config',
      ]),
    );
  });

  test('stops at a server that is not there', async () => {
    await controlPlane().kill('apiServer');
    cleanUp.push(() => controlPlane().restart('apiServer'));

    const { exitCode, stdout } = await runMillrace([
      'doctor',
      '--json',
      '--kubeconfig',
      controlPlane().kubeconfigPath,
    ]);

    expect(exitCode).toBe(1);
    expect(findingsOf(stdout).checks).toMatchObject([
      { name: 'API server reachable', result: 'failed' },
    ]);
  });
});
