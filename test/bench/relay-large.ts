import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { makeGuardedFolder, startGuarded } from '#infra/local/control-plane/guard.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { percentile } from './distribution.ts';
import { type Figure, figure } from './figure.ts';
import { HintLedger } from './hint-ledger.ts';
import { type Part, scaled } from './part.ts';
import { usageOf } from './process-usage.ts';
import { RecordingQueues } from './recording-queues.ts';
import {
  type Competitor,
  bundleOurs,
  changesPerSecond,
  makeChanges,
  patienceMs,
  peakOf,
  queues,
  settleMs,
  waitUntil,
} from './relay.ts';
import { RelayWorld } from './relay-world.ts';

const podCount = 100_000;
const churnSeconds = 60;
const goalMb = 300;

/** How long the relay may take to list everything and to hint at it once, on a machine that does other things too. */
const startPatienceMs = 600_000;

/**
 * The relay alone with ten times the pods that the part `relay` has: memory while it lists, once it has hinted at all, and at
 * 200 changes a second. The pods are whole, about 6 kB each. No controllers run, which would watch all pods as well.
 */
export const relayLarge: Part = {
  name: 'relay-large',
  title: 'the memory of the relay with 100,000 pods',
  async measure(options) {
    const { log } = options;
    await using stack = new AsyncDisposableStack();
    const guarded = await makeGuardedFolder(join(tmpdir(), 'millrace-bench-relay-'));
    stack.defer(() => guarded.remove());
    log('bundling the relay');
    const ours = await bundleOurs(guarded.path);
    log('starting a control plane');
    const controlPlane = stack.use(
      await startControlPlane({
        dataDir: join(guarded.path, 'control-plane'),
        // Nobody is left to make the account that pods sign in with.
        apiServerFlags: ['--audit-log-path=', '--disable-admission-plugins=ServiceAccount'],
      }),
    );
    await controlPlane.kill('controllerManager');
    const connection = connectKube(controlPlane.access());
    stack.defer(() => connection.close());
    const pods = scaled(podCount, options);
    log(`making ${pods} pods`);
    const world = await RelayWorld.createLarge(connection, controlPlane.etcdEndpoint, pods);
    log(`a pod has ${Math.round(await world.podBytes())} bytes on average`);
    return await measureLarge(ours, world, {
      folder: guarded.path,
      kubeconfig: controlPlane.kubeconfigPath,
      log,
    });
  },
};

/** In a world that is there. */
export async function measureLarge(
  ours: Competitor,
  world: RelayWorld,
  place: {
    readonly folder: string;
    readonly kubeconfig: string;
    readonly log: (text: string) => void;
  },
): Promise<Figure[]> {
  await using stack = new AsyncDisposableStack();
  const ledger = new HintLedger(queues, (body) => ours.read(body));
  const recorder = stack.use(await RecordingQueues.start((arrival) => ledger.add(arrival)));
  const logPath = join(place.folder, 'relay.log');
  const startedMs = performance.now();
  const relay = startGuarded({
    command: process.execPath,
    flags: [ours.entry],
    logPath,
    environment: ours.environment(recorder.endpoint, place.kubeconfig),
  });
  stack.defer(() => relay.stop(settleMs));
  const until = async (what: string, isTrue: () => boolean | Promise<boolean>): Promise<number> => {
    if (!(await waitUntil(isTrue, startPatienceMs))) {
      const text = (await readFile(logPath, 'utf8')).slice(-2_000);
      throw new Error(`${what}: not in ${startPatienceMs / 1000} s\n${text}`);
    }
    return (performance.now() - startedMs) / 1000;
  };
  const readySeconds = await until('everything is listed', async () =>
    (await readFile(logPath, 'utf8')).includes('"ready":true'),
  );
  const listingMb = megabytes(await peakOf(relay.pid));
  place.log(`ready after ${readySeconds.toFixed(1)} s, with ${listingMb.toFixed(0)} MB at most`);
  const all = world.shards * queues.length;
  const hintedSeconds = await until('every target is hinted at', () => ledger.reached >= all);
  const startMb = megabytes(await peakOf(relay.pid));
  await delay(settleMs);
  const before = await usageOf(relay.pid);
  await forgetPeak(relay.pid);
  place.log(`${changesPerSecond} changes a second`);
  const changingMs = performance.now();
  const made = await makeChanges(world, changesPerSecond * churnSeconds);
  const rate = (made.length * 1000) / (performance.now() - changingMs);
  await waitUntil(() => ledger.unheard(made) === 0, patienceMs);
  const after = await usageOf(relay.pid);
  const delaysMs = ledger.delaysMs(made);
  return [
    figure('relay-large: pods', world.pods, 'pods'),
    figure('relay-large: everything listed after', readySeconds, 's'),
    figure('relay-large: every target hinted at after', hintedSeconds, 's'),
    figure('relay-large: memory at most, until listed', listingMb, 'MB', { goal: goalMb }),
    figure('relay-large: memory at most, until all is hinted at', startMb, 'MB', { goal: goalMb }),
    figure('relay-large: memory, all listed', megabytes(before.rssMib), 'MB', { goal: goalMb }),
    figure('relay-large: changes a second', rate, 'changes'),
    figure(
      'relay-large: memory at most, while all changes',
      megabytes(await peakOf(relay.pid)),
      'MB',
      { goal: goalMb },
    ),
    figure('relay-large: memory after the changes', megabytes(after.rssMib), 'MB', {
      goal: goalMb,
    }),
    figure(
      'relay-large: processor time of a change',
      (after.cpuMs - before.cpuMs) / made.length,
      'ms',
    ),
    figure('relay-large: hint delay, median', percentile(delaysMs, 0.5), 'ms'),
    figure('relay-large: changes without a hint after them', ledger.unheard(made), 'changes', {
      goal: 0,
    }),
  ];
}

function megabytes(mib: number): number {
  return (mib * 2 ** 20) / 1e6;
}

/** From now on the most memory is counted anew (proc(5), `clear_refs`). */
async function forgetPeak(pid: number): Promise<void> {
  await writeFile(`/proc/${pid}/clear_refs`, '5');
}
