import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll } from 'vitest';
import { installDefinitions } from '#infra/cli/install.ts';
import type { ControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { FaultyProxy, type FaultyProxyOptions, type Rule } from './faulty-proxy.ts';
import { Herd } from './herd.ts';
import { HintLedger } from './hint-ledger.ts';
import { useControlPlane } from './local-control-plane.ts';
import { type RelayOptions, RelayUnderTest } from './relay-under-test.ts';

/** How long a relay may take to do what it is expected to do, on a machine that runs several of them. */
const patienceMs = 60_000;

/** Between two looks, in milliseconds. */
const intervalMs = 50;

/**
 * Looks until it is so, and resolves with what it then saw. For tests that run beside each other, where the runner's own
 * polling does not know which test it belongs to.
 */
export async function eventually<T>(
  what: string,
  look: () => T | Promise<T>,
  isSo: (seen: T) => boolean,
): Promise<T> {
  const deadlineMs = performance.now() + patienceMs;
  for (;;) {
    const seen = await look();
    if (isSo(seen)) {
      return seen;
    }
    if (performance.now() > deadlineMs) {
      const last = (JSON.stringify(seen) ?? 'nothing').slice(0, 300);
      throw new Error(`after ${patienceMs / 1000} s still not so: ${what}; last seen: ${last}`);
    }
    await delay(intervalMs);
  }
}

/** In one namespace: Databases, Shards, GoverseClusters, and the pods of each of the two kinds of target. */
export const watchedResources = 5;

export interface SceneOptions {
  readonly controlPlane: ControlPlane;
  /** The real queue server's endpoint; it has the queues of the stage. */
  readonly queueUrl: string;
  readonly stage: string;
  /** Its own: no two scenes on one control plane share one. */
  readonly namespace: string;
  readonly targets: number;
  readonly relay: RelayOptions['kind'];
  /** What the API server's stand-in does from the start. */
  readonly rule?: Rule;
  /** Told, beside the ledger, of what the queue answers to whoever comes through its proxy. */
  readonly onQueueAnswer?: FaultyProxyOptions['onAnswer'];
}

/** What stands around the relay of a scene. */
type Surroundings = Pick<
  RelayScene,
  'herd' | 'ledger' | 'otherLedger' | 'apiServer' | 'queue' | 'controlPlane' | 'folder'
>;

/**
 * One relay with a namespace of its own, whose way to the API server and whose way to the queue each lead through a
 * proxy that can fail. What is written there, and what the queue takes, goes into one ledger.
 */
export class RelayScene implements AsyncDisposable {
  readonly herd: Herd;
  readonly ledger: HintLedger;
  /** Told of the same writes, and of no hint: for those that another relay sends. */
  readonly otherLedger: HintLedger;
  /** The relay's way to the API server. */
  readonly apiServer: FaultyProxy;
  /** Its way to the queue. */
  readonly queue: FaultyProxy;
  readonly controlPlane: ControlPlane;
  /** For files that processes of the scene read; gone with it. */
  readonly folder: string;
  readonly #relayOptions: RelayOptions;
  #relay: RelayUnderTest;
  readonly #stack: AsyncDisposableStack;

  private constructor(
    surroundings: Surroundings,
    relayOptions: RelayOptions,
    relay: RelayUnderTest,
    stack: AsyncDisposableStack,
  ) {
    this.herd = surroundings.herd;
    this.ledger = surroundings.ledger;
    this.otherLedger = surroundings.otherLedger;
    this.apiServer = surroundings.apiServer;
    this.queue = surroundings.queue;
    this.controlPlane = surroundings.controlPlane;
    this.folder = surroundings.folder;
    this.#relayOptions = relayOptions;
    this.#relay = relay;
    this.#stack = stack;
  }

  /** Fills the namespace and starts the relay. {@link RelayScene.untilCalm} says when it has caught up. */
  static async open(options: SceneOptions): Promise<RelayScene> {
    const { controlPlane, stage, namespace } = options;
    await using stack = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'millrace-scene-'));
    stack.defer(() => rm(folder, { recursive: true }));
    const api = connectKube(controlPlane.access());
    stack.defer(() => api.close());
    const [ledger, otherLedger] = [new HintLedger(stage), new HintLedger(stage)];
    const herd = new Herd(api, namespace, [ledger, otherLedger]);
    await herd.populate(options.targets);
    const apiServer = stack.use(await startApiServerProxy(controlPlane));
    apiServer.treat(options.rule ?? (() => undefined));
    const queue = stack.use(
      await FaultyProxy.start({
        target: options.queueUrl,
        onAnswer(request, answer) {
          ledger.observe(request, answer);
          options.onQueueAnswer?.(request, answer);
        },
      }),
    );
    const relayOptions = {
      kind: options.relay,
      controlPlane,
      server: apiServer.url,
      queueEndpoint: queue.url,
      stage,
      namespace,
      folder,
    };
    const relay = await RelayUnderTest.start(relayOptions);
    const ledgers = { ledger, otherLedger };
    const surroundings = { herd, ...ledgers, apiServer, queue, controlPlane, folder };
    return new RelayScene(surroundings, relayOptions, relay, stack.move());
  }

  get relay(): RelayUnderTest {
    return this.#relay;
  }

  /** SIGKILL, and another one in its place that remembers nothing. */
  async killAndReplaceRelay(): Promise<void> {
    await this.#relay.kill();
    this.#relay = await RelayUnderTest.start(this.#relayOptions);
  }

  /** One beside it, with a way to the queue of its own and no proxy before the API server. Up to the caller to end. */
  startAnotherRelay(queueEndpoint: string): Promise<RelayUnderTest> {
    const { server } = this.controlPlane;
    return RelayUnderTest.start({ ...this.#relayOptions, server, queueEndpoint });
  }

  /** Every resource's watch is open. */
  async untilWatching(): Promise<void> {
    await eventually(
      'every watch is open',
      () => this.apiServer.openAnswers,
      (open) => open === watchedResources,
    );
  }

  /** The relay is ready, owes nothing, and the queue has a hint after every last write. */
  async untilCalm(): Promise<void> {
    await this.#relay.ready;
    await untilAllTold(this.ledger);
    await eventually(
      'nothing is owed',
      () => this.#relay.metric('dirty'),
      (dirty) => dirty === 0,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#relay[Symbol.asyncDispose]();
    await this.#stack.disposeAsync();
  }
}

/** The queue has a hint after the last write to each target. */
export async function untilAllTold(ledger: HintLedger): Promise<void> {
  await eventually(
    'no final state is without a hint',
    () => ledger.withoutHint(),
    (missing) => missing.length === 0,
  );
}

/** A control plane with Millrace's definitions, for the suite it is called in. */
export function useCluster(apiServerFlags: readonly string[] = []): () => ControlPlane {
  const controlPlane = useControlPlane({ apiServerFlags });
  beforeAll(async () => {
    const api = connectKube(controlPlane().access());
    await installDefinitions(api);
    api.close();
  });
  return controlPlane;
}

/** Speaks TLS with the API server's own certificate, so that its clients check it as they check the real one. */
export async function startApiServerProxy(controlPlane: ControlPlane): Promise<FaultyProxy> {
  const folder = join(controlPlane.dataDir, 'api-server');
  const [key, cert] = await Promise.all(
    ['apiserver.key', 'apiserver.crt'].map((name) => readFile(join(folder, name), 'utf8')),
  );
  return FaultyProxy.start({
    target: controlPlane.server,
    ca: controlPlane.ca,
    identity: { key: key ?? '', cert: cert ?? '' },
  });
}
