import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import { GoverseObserver, type Observation } from '#infra/local/goverse/observer.ts';
import {
  type GoverseMemberProcess,
  type GoverseNodeOptions,
  startGoverseNode,
} from '#infra/local/goverse/start.ts';
import { timing } from '#infra/local/goverse/timing.ts';
import { shutdownMode } from '#shared/api/annotations.ts';
import { goverseLabel } from '#shared/api/labels.ts';
import { deleteObject, expect, patchObject, post, required } from './acts.ts';
import { counted, progressIn } from './goverse-told.ts';
import type { Stage } from './stage.ts';

/** The longest that anything of GoVerse's may take here: many times what was measured. */
const timeoutMs = 120_000;

/** Longer than a tick, so that every node has looked once more, and had nothing left to do. */
const quietMs = timing.tickMs + 1_000;

const nodeCount = 4;

const tellEveryMs = 3_000;

const askedSchema = z.object({ state: z.string().nullable() });

/**
 * A cluster of GoVerse: four processes of the stand-in with a pod for each, and the GoverseCluster that says that they go
 * cleanly. It runs at GoVerse's own speed, whatever that of the data plane is: Millrace's waits are made for it.
 *
 * Nodes are named by their pods. Disposing of it stops the processes and deletes the objects.
 */
export interface GoverseNodes extends AsyncDisposable {
  readonly observer: GoverseObserver;
  leader(): string;
  /** Those that live and do not lead, in their order. */
  followers(): readonly string[];
  /** What the shards went through while this was done, and until no mark was left and all was quiet again. */
  measure(act: () => Promise<void>): Promise<Observation>;
  /** GoVerse's quick shutdown: its pod is deleted in this mode, and gets SIGTERM at once. */
  stopQuickly(pod: string): Promise<void>;
  /** Its pod is deleted, and its preStop hook asks the relay; SIGTERM comes when that lets it go. */
  stopCleanly(pod: string): Promise<void>;
  /** kill -9, and the pod's object vanishes with the process. */
  kill(pod: string): Promise<void>;
  /** No mark of Millrace's is left, and the GoverseCluster says that nothing waits. */
  untilAtRest(): Promise<void>;
}

/** Starts it, and resolves when every shard has its node; from then on it is told how far hand-overs are. */
export async function startGoverse(stage: Stage, name: string): Promise<GoverseNodes> {
  await using stack = new AsyncDisposableStack();
  const endpoint = stage.topologyEndpoint;
  const prefix = `/${name}`;
  const observer = stack.use(await GoverseObserver.open({ endpoint, prefix }));
  const pods = Array.from({ length: nodeCount }, (_, number) => `${name}-${number}`);
  const processes = stack.use(
    await startProcesses(pods, { endpoint, prefix, onTick: observer.told }),
  );
  await createObjects(stage, name, pods);
  stack.defer(() => deleteObjects(stage, name, pods));
  await observer.settled(0, timeoutMs);
  stage.say(`every shard has its node: ${loadsOf(observer)}`);
  stack.defer(tellStatus(stage, name));
  stack.use(tellReach(stage, observer));
  const owned = stack.move();

  function processOf(pod: string): GoverseMemberProcess {
    return required(processes.get(pod), pod);
  }
  function untilUnmarked(): Promise<void> {
    return observer.until((seen) => seen.marked().length === 0, timeoutMs);
  }
  return {
    observer,
    leader: () => podAt(observer.leader),
    followers: () => observer.nodes.map(podAt).filter((pod) => pod !== podAt(observer.leader)),
    async untilAtRest() {
      await untilUnmarked();
      await untilToldAtRest(stage, name);
    },
    async measure(act) {
      observer.begin();
      await act();
      await untilUnmarked();
      return observer.settled(quietMs, timeoutMs);
    },
    async stopQuickly(pod) {
      const annotations = { [shutdownMode]: 'quick' };
      await patchObject(stage, 'Pod', pod, { metadata: { annotations } });
      await deleteObject(stage, 'Pod', pod);
      await processOf(pod).stop();
      await forget(stage, pod);
    },
    async stopCleanly(pod) {
      await deleteObject(stage, 'Pod', pod);
      const state = await preStop(stage, pod);
      expect(state === 'released', `the relay lets ${pod} go`);
      await processOf(pod).stop();
      await forget(stage, pod);
    },
    async kill(pod) {
      observer.killed(addressOf(pod));
      await processOf(pod).kill();
      await forget(stage, pod);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * One after the other, so that their ticks are spread over the period, as those of nodes are that started at any time. The
 * last by name comes first and so leads: the pins' holder is the first by name.
 */
async function startProcesses(
  pods: readonly string[],
  settings: Pick<GoverseNodeOptions, 'endpoint' | 'prefix' | 'onTick'>,
) {
  await using stack = new AsyncDisposableStack();
  const processes = new Map<string, GoverseMemberProcess>();
  const beganMs = performance.now();
  for (const [place, pod] of pods.toReversed().entries()) {
    const dueMs = beganMs + (place * timing.tickMs) / pods.length;
    await delay(Math.max(0, dueMs - performance.now()));
    processes.set(pod, stack.use(await startGoverseNode({ ...settings, address: addressOf(pod) })));
  }
  const owned = stack.move();
  return {
    get: (pod: string) => processes.get(pod),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function createObjects(stage: Stage, name: string, pods: readonly string[]): Promise<void> {
  const { namespace, topologyEndpoint } = stage;
  for (const pod of pods) {
    await post(stage, 'Pod', {
      metadata: { name: pod, namespace, labels: { [goverseLabel]: name } },
      spec: {
        // So that a deleted pod stays until its kubelet, which is the scene, has stopped it.
        nodeName: 'beside-the-stage',
        terminationGracePeriodSeconds: 180,
        containers: [{ name: 'goverse', image: 'goverse' }],
      },
    });
  }
  await post(stage, 'GoverseCluster', {
    metadata: { name, namespace },
    spec: {
      topology: { endpoints: [topologyEndpoint], prefix: `/${name}` },
      shutdown: { mode: 'clean', timeout: '2m' },
    },
  });
}

async function deleteObjects(stage: Stage, name: string, pods: readonly string[]): Promise<void> {
  await deleteObject(stage, 'GoverseCluster', name);
  for (const pod of pods.filter((each) => stage.world.get('Pod', each) !== undefined)) {
    await forget(stage, pod);
  }
}

/** As a kubelet does once a pod's processes have ended. */
async function forget(stage: Stage, pod: string): Promise<void> {
  await deleteObject(stage, 'Pod', pod, { gracePeriodSeconds: 0 });
  await stage.world.until(
    `${pod} is gone`,
    timeoutMs / 1000,
    () => stage.world.get('Pod', pod) === undefined,
  );
}

/** What the hook on shard-release's page does, and the relay's last answer. */
async function preStop(stage: Stage, pod: string): Promise<string | null> {
  const url = `${stage.millrace.relayUrl}/v1/pods/${stage.namespace}/${pod}`;
  await delay(5_000);
  for (;;) {
    const { state } = askedSchema.parse(await (await fetch(url)).json());
    if (state !== 'draining') {
      return state;
    }
    await delay(1_000);
  }
}

/** Says how far a hand-over is whenever the GoverseCluster's status says something else. The answer ends that. */
function tellStatus(stage: Stage, name: string): () => void {
  let told: string | undefined;
  return stage.world.onChange(() => {
    const status = stage.world.get('GoverseCluster', name)?.status;
    const progress = status === undefined ? undefined : progressIn(status);
    if (progress !== told) {
      told = progress;
      stage.say(`gvc/${name} status: ${progress ?? 'no hand-over is under way'}`);
    }
  });
}

/** Says how many shards' callers get errors, where that has changed; not at each of thousands of writes. */
function tellReach(stage: Stage, observer: GoverseObserver): Disposable {
  let told = 0;
  const timer = setInterval(() => {
    const { unroutableCount } = observer;
    if (unroutableCount !== told) {
      told = unroutableCount;
      stage.say(
        told === 0
          ? 'etcd: every shard is in reach again'
          : `etcd: ${counted(told)} shards are out of their callers’ reach`,
      );
    }
  }, tellEveryMs);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

async function untilToldAtRest({ world }: Stage, name: string): Promise<void> {
  const wanted = { Ready: 'True', Reconciling: 'False', Stalled: 'False', Released: 'True' };
  await world.until(`gvc/${name} is at rest`, timeoutMs / 1000, () => {
    const { conditions = [] } = world.get('GoverseCluster', name)?.status ?? {};
    return Object.entries(wanted).every(([type, status]) =>
      conditions.some((condition) => condition.type === type && condition.status === status),
    );
  });
}

/** Where the node of a pod is registered. */
export function addressOf(pod: string): string {
  return `${pod}.nodes.show.svc:48000`;
}

export function podAt(address: string): string {
  return address.split('.')[0] ?? '';
}

/** `cache-0 2,048, cache-1 2,048`: how many shards are meant for each node that lives. */
export function loadsOf(observer: GoverseObserver): string {
  const loads = observer.loads();
  return observer.nodes
    .map((node) => `${podAt(node)} ${counted(loads.get(node)?.target ?? 0)}`)
    .join(', ');
}
