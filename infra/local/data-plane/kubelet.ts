import { setTimeout as delay } from 'node:timers/promises';
import { cellLabel } from '#shared/api/labels.ts';
import { describeError } from '#shared/kernel/errors.ts';
import type { Logger } from '#shared/kernel/logger.ts';
import type { KubeConnection, KubeRequest, KubeResponse } from '#shared/kube/connection.ts';
import { type PodView, podView } from './core.ts';
import type { Engine } from './engine.ts';
import { followObjects } from './follow-objects.ts';
import {
  type Claim,
  type Pod,
  bindClaim,
  bindPod,
  claimsOf,
  createNode,
  deletionGraceSeconds,
  markUnready,
  patchPodStatus,
  podOnNode,
  removePod,
  reportNode,
} from './node-requests.ts';
import { podStatus } from './pod-status.ts';
import { hasFault } from './state.ts';

/** How often a node says that it lives. */
const heartbeatMs = 10_000;

const retryMs = 250;

/** Pods looked after at the same time: enough that a node full of pods does not wait for one request after the other. */
const podsAtOnce = 8;

export interface KubeletOptions {
  readonly connection: KubeConnection;
  /** One for each data plane whose members run on this node. */
  readonly engines: readonly Engine[];
  /** Whose member a pod is; `undefined` where it is nobody's, and then it is bound and never started. */
  readonly engineOf: (pod: Pod) => Engine | undefined;
  readonly nodeName: string;
  /** Which pods are bound to this node. */
  readonly selector: string;
  readonly log: Logger;
}

/**
 * The kubelet of one node, and the scheduler and volume binder it needs: takes the pods of the selector, starts and stops
 * their poolers in the core, and writes what became of them. It compares what is with what should be, pod by pod, so an
 * event that is lost or seen twice changes nothing.
 */
export class Kubelet {
  readonly #options: KubeletOptions;
  readonly #pods = new Map<string, Pod>();
  readonly #claims = new Map<string, Claim>();
  readonly #dirty = new Set<string>();
  readonly #inWork = new Set<string>();
  readonly #closing = new AbortController();
  /** Ends the wait for the next heartbeat. */
  #nodeChange = new AbortController();
  #running: Promise<unknown> | undefined;

  constructor(options: KubeletOptions) {
    this.#options = options;
  }

  /** Resolves when the node is there and the pods were listed once. */
  async start(): Promise<void> {
    const { connection, selector, log } = this.#options;
    const { signal } = this.#closing;
    const listed = Promise.withResolvers<void>();
    const claims = followObjects(
      connection,
      'PersistentVolumeClaim',
      undefined,
      {
        onList: (objects) => {
          this.#claims.clear();
          for (const claim of objects) {
            this.#claims.set(claimKey(claim.metadata), claim);
          }
          this.#lookAtPods();
        },
        onChange: (claim) => {
          this.#claims.set(claimKey(claim.metadata), claim);
          this.#lookAtUsers(claim);
        },
        onGone: (claim) => this.#claims.delete(claimKey(claim.metadata)),
      },
      { signal, log },
    );
    const pods = followObjects(
      connection,
      'Pod',
      selector,
      {
        onList: (objects) => {
          this.#replacePods(objects);
          listed.resolve();
        },
        onChange: (pod) => this.#see(pod),
        onGone: (pod) => this.#forget(pod.metadata.uid),
      },
      { signal, log },
    );
    this.#running = Promise.all([claims, pods, this.#beat()]);
    await listed.promise;
  }

  async stop(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  /** The pod, or what the core says of it, may have changed. */
  lookAt(podUid: string): void {
    this.#dirty.add(podUid);
    // Not at once: whoever calls may be in the middle of an event of the core.
    queueMicrotask(() => this.#work());
  }

  /** The node and each of its pods. */
  lookAtAll(): void {
    this.#nodeChange.abort();
    this.#lookAtPods();
  }

  #lookAtPods(): void {
    for (const uid of this.#pods.keys()) {
      this.lookAt(uid);
    }
  }

  #lookAtUsers({ metadata: { namespace, name } }: Claim): void {
    for (const { metadata, spec } of this.#pods.values()) {
      const isUser =
        metadata.namespace === namespace &&
        spec?.volumes?.some((volume) => volume.persistentVolumeClaim?.claimName === name) === true;
      if (isUser) {
        this.lookAt(metadata.uid);
      }
    }
  }

  #see(pod: Pod): void {
    this.#pods.set(pod.metadata.uid, pod);
    this.lookAt(pod.metadata.uid);
  }

  #forget(podUid: string): void {
    this.#pods.delete(podUid);
    this.#options.engines
      .find(({ state }) => state.members[podUid] !== undefined)
      ?.take({ kind: 'podGone', podUid });
  }

  #replacePods(pods: readonly Pod[]): void {
    const listed = new Set(pods.map(({ metadata }) => metadata.uid));
    const members = this.#options.engines.flatMap(({ state }) => Object.keys(state.members));
    for (const uid of [...this.#pods.keys(), ...members].filter((uid) => !listed.has(uid))) {
      this.#forget(uid);
    }
    for (const pod of pods) {
      this.#see(pod);
    }
  }

  /** Takes what is dirty, as much as may be in work at a time; never the same pod twice at once. */
  #work(): void {
    for (const uid of this.#dirty) {
      if (this.#closing.signal.aborted || this.#inWork.size >= podsAtOnce) {
        return;
      }
      if (!this.#inWork.has(uid)) {
        this.#dirty.delete(uid);
        void this.#lookAfter(uid);
      }
    }
  }

  /** Never rejects: a pod that cannot be looked after now is looked at again a little later. */
  async #lookAfter(uid: string): Promise<void> {
    this.#inWork.add(uid);
    try {
      await this.#reconcile(uid);
    } catch (error) {
      this.#options.log.warn({ error: describeError(error) }, 'a pod cannot be looked after');
      setTimeout(() => this.lookAt(uid), retryMs).unref();
    }
    this.#inWork.delete(uid);
    this.#work();
  }

  async #reconcile(uid: string): Promise<void> {
    const pod = this.#pods.get(uid);
    if (pod === undefined) {
      return;
    }
    const { nodeName } = this.#options;
    if ((pod.spec?.nodeName ?? '') === '') {
      await this.#sendIfAny(bindPod(pod, nodeName));
      return;
    }
    const engine = this.#options.engineOf(pod);
    if (pod.spec?.nodeName !== nodeName || engine === undefined) {
      return;
    }
    if (this.#isNodeLost()) {
      await this.#patchStatus(pod, markUnready(pod, new Date()));
    } else if (pod.metadata.deletionTimestamp !== undefined) {
      await this.#stop(pod, engine);
    } else if (pod.status?.phase !== 'Failed' && pod.status?.phase !== 'Succeeded') {
      await this.#run(pod, engine);
    }
  }

  /** The node is one for all: a fault that any of its data planes was told of. */
  #isNodeLost(): boolean {
    return this.#options.engines.some(({ state }) => hasFault(state, 'nodeNotReady'));
  }

  /** A pod is started once, when its claims are there; from then on its status follows the core's. */
  async #run(pod: Pod, engine: Engine): Promise<void> {
    const { uid } = pod.metadata;
    if (engine.state.members[uid] === undefined) {
      const { namespace } = pod.metadata;
      const claims = claimsOf(pod, (name) => this.#claims.get(claimKey({ namespace, name })));
      const cell = pod.metadata.labels?.[cellLabel];
      if (claims === undefined || cell === undefined) {
        return;
      }
      for (const { claim } of claims) {
        await this.#sendIfAny(bindClaim(claim));
      }
      if (!this.#pods.has(uid)) {
        return;
      }
      engine.take({ kind: 'podAssigned', pod: podOnNode(pod, cell, claims) });
    }
    const view = podView(engine.state, uid);
    if (view?.phase === 'vanished') {
      await this.#send(removePod(pod));
    } else if (view !== undefined) {
      await this.#report(pod, view);
    }
  }

  async #stop(pod: Pod, engine: Engine): Promise<void> {
    const { uid } = pod.metadata;
    const graceSeconds = deletionGraceSeconds(pod);
    const graceMs = (graceSeconds ?? 0) * 1_000;
    engine.take({ kind: 'podDeletionAsked', podUid: uid, graceMs });
    const view = podView(engine.state, uid);
    if (view?.phase === 'running') {
      await this.#report(pod, view);
    } else if (graceSeconds !== 0) {
      await this.#send(removePod(pod));
    }
  }

  async #report(pod: Pod, view: PodView): Promise<void> {
    const status = podStatus(pod, view);
    await this.#patchStatus(pod, status && patchPodStatus(pod, status));
  }

  async #patchStatus(pod: Pod, request: KubeRequest | undefined): Promise<void> {
    if (request === undefined) {
      return;
    }
    const { uid } = pod.metadata;
    const { status: code, body } = await this.#send(request);
    // What the watch told of meanwhile is newer than this answer.
    if (code === 200 && this.#pods.get(uid) === pod) {
      this.#pods.set(uid, body as Pod);
    }
  }

  async #sendIfAny(request: KubeRequest | undefined): Promise<void> {
    if (request !== undefined) {
      await this.#send(request);
    }
  }

  /** 404 and 409: the pod is gone or another one; the watch says so. */
  async #send(request: KubeRequest): Promise<KubeResponse> {
    const { connection } = this.#options;
    const response = await connection.request({ ...request, signal: this.#closing.signal });
    if (response.status >= 300 && response.status !== 404 && response.status !== 409) {
      throw new Error(
        `${request.method} ${request.path} is answered with ${response.status}: ${JSON.stringify(response.body)}`,
      );
    }
    return response;
  }

  async #beat(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      this.#nodeChange = new AbortController();
      const signal = AbortSignal.any([this.#closing.signal, this.#nodeChange.signal]);
      const isDone = await this.#reportNode().then(
        () => true,
        (error: unknown) => {
          this.#options.log.warn({ error: describeError(error) }, 'the node cannot be written');
          return false;
        },
      );
      await delay(isDone ? heartbeatMs : retryMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Writes the node's condition; a node that is ready makes its object again when somebody removed it. */
  async #reportNode(): Promise<void> {
    const { nodeName } = this.#options;
    const isReady = !this.#isNodeLost();
    const write = () => this.#send(reportNode(nodeName, isReady, new Date()));
    const { status } = await write();
    if (status === 404 && isReady) {
      await this.#send(createNode(nodeName));
      await write();
    }
  }
}

function claimKey({
  namespace,
  name,
}: {
  readonly namespace?: string | undefined;
  readonly name: string;
}): string {
  return `${namespace ?? ''}/${name}`;
}
