import { type DataPlaneEvent, podView } from '#infra/local/data-plane/core.ts';
import {
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
} from '#infra/local/data-plane/node-requests.ts';
import { podStatus } from '#infra/local/data-plane/pod-status.ts';
import { type DataPlaneState, hasFault } from '#infra/local/data-plane/state.ts';
import { cellLabel, shardLabel } from '#shared/api/labels.ts';
import { type Instant, plusSeconds } from '#shared/kernel/instant.ts';
import type { KubeRequest } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { ApiServer, Commit } from './api-server.ts';

/** What runs in the pods of the node. */
export interface Processes {
  readonly state: DataPlaneState;
  take(event: DataPlaneEvent): void;
}

export interface KubeletOptions {
  readonly nodeName: string;
  /** The value of its pods' shard label; without it, every pod with that label is its own. */
  readonly shardName?: string;
}

/** One look at the cluster, and what was written in it so far. */
interface Look {
  readonly api: ApiServer;
  readonly processes: Processes;
  readonly now: Instant;
  readonly commits: Commit[];
}

/** A machine that was taken away. The objects of its pods outlive it. */
interface GoneNode {
  readonly name: string;
  readonly since: Instant;
}

/** For so long pods of a node without an object are left alone: `quarantineTime` of Kubernetes' pod garbage collector. */
const quarantineSeconds = 40;

/**
 * One node with its kubelet, and the scheduler, volume binder and node's controllers it needs. It sends the requests that
 * the stand-in's kubelet sends (infra/local/data-plane), at once, and without heartbeats. It compares what is with what
 * should be, so a look at a cluster in which nothing changed writes nothing.
 *
 * Beyond the stand-in, the machine itself can be taken away and another one come, under a name of its own.
 */
export class Kubelet {
  readonly #options: KubeletOptions;
  /** Pods as they were when they were looked after last, by uid. An object never changes: the same one needs nothing. */
  #seen = new Map<string, Pod>();
  /** Pods whose claims are not there yet. */
  #waiting = new Set<string>();
  /** `undefined`: there is no machine. */
  #nodeName: string | undefined;
  /** What this node's object was last told. */
  #reported: 'nothing' | 'ready' | 'lost' = 'nothing';
  #gone: readonly GoneNode[] = [];
  #machines = 1;

  constructor(options: KubeletOptions, copyOf?: Kubelet) {
    this.#options = options;
    this.#nodeName = options.nodeName;
    if (copyOf !== undefined) {
      this.#seen = new Map(copyOf.#seen);
      this.#waiting = new Set(copyOf.#waiting);
      this.#nodeName = copyOf.#nodeName;
      this.#reported = copyOf.#reported;
      this.#gone = copyOf.#gone;
      this.#machines = copyOf.#machines;
    }
  }

  fork(): Kubelet {
    return new Kubelet(this.#options, this);
  }

  /** What runs in this pod, or the node of all pods, has changed. */
  lookAgain(podUid?: string): void {
    if (podUid === undefined) {
      this.#seen.clear();
    } else {
      this.#seen.delete(podUid);
    }
  }

  /** The machine is gone for good, and what ran on it ended without a word. The next pass removes its object. */
  takeMachineAway(processes: Processes, now: Instant): void {
    if (this.#nodeName === undefined) {
      return;
    }
    this.#gone = [...this.#gone, { name: this.#nodeName, since: now }];
    this.#nodeName = undefined;
    this.lookAgain();
    for (const podUid of Object.keys(processes.state.members)) {
      processes.take({ kind: 'podGone', podUid });
    }
  }

  /** Where there is no machine, another one comes: `<name>-2` and so on. */
  bringMachine(): void {
    if (this.#nodeName === undefined) {
      this.#machines += 1;
      this.#nodeName = `${this.#options.nodeName}-${this.#machines}`;
      this.lookAgain();
    }
  }

  /** The first instant after this one at which there is something to do that no event tells of. */
  nextDue(after: Instant): Instant | undefined {
    const dues = this.#gone.map(({ since }) => plusSeconds(since, quarantineSeconds));
    return dues.find((due) => due > after);
  }

  /** Does what there is to do until nothing is left. Returns what it wrote, in order. */
  pass(api: ApiServer, processes: Processes, now: Instant): readonly Commit[] {
    const look: Look = { api, processes, now, commits: [] };
    this.#keepNode(look);
    this.#clearUpGoneNodes(look);
    for (const podUid of this.#waiting) {
      this.lookAgain(podUid);
    }
    for (;;) {
      const pods = this.#pods(api, processes);
      this.#forgetGone(pods, processes);
      const due = pods.filter((pod) => this.#seen.get(pod.metadata.uid) !== pod);
      if (due.length === 0) {
        return look.commits;
      }
      for (const pod of due) {
        this.#seen.set(pod.metadata.uid, pod);
        this.#waiting.delete(pod.metadata.uid);
        this.#lookAfter(look, pod);
      }
    }
  }

  /** Those with the label, and those that it has started: what runs does not end with a label. */
  #pods(api: ApiServer, { state }: Processes): readonly Pod[] {
    const { shardName } = this.#options;
    return api.list('Pod').filter(({ metadata }) => {
      const shard = metadata.labels?.[shardLabel];
      const isNamed = shard !== undefined && (shardName === undefined || shard === shardName);
      return isNamed || state.members[metadata.uid] !== undefined;
    });
  }

  /** The processes of a pod end with its object. */
  #forgetGone(pods: readonly Pod[], processes: Processes): void {
    const isThere = (podUid: string) => pods.some(({ metadata }) => metadata.uid === podUid);
    for (const podUid of this.#seen.keys()) {
      if (!isThere(podUid)) {
        this.#seen.delete(podUid);
        this.#waiting.delete(podUid);
      }
    }
    // Nobody tells a node that is not heard of; what ran there runs on.
    const isHeardOf = !hasFault(processes.state, 'nodeNotReady');
    for (const podUid in processes.state.members) {
      if (!isThere(podUid) && isHeardOf) {
        processes.take({ kind: 'podGone', podUid });
      }
    }
  }

  #lookAfter(look: Look, pod: Pod): void {
    const boundTo = pod.spec?.nodeName ?? '';
    if (boundTo === '') {
      send(look, this.#nodeName === undefined ? undefined : bindPod(pod, this.#nodeName));
    } else if (this.#isLost(look, boundTo)) {
      send(look, markUnready(pod, new Date(look.now)));
    } else if (boundTo === this.#nodeName) {
      this.#tend(look, pod);
    }
  }

  #tend(look: Look, pod: Pod): void {
    if (pod.metadata.deletionTimestamp !== undefined) {
      this.#stop(look, pod);
    } else if (!hasEnded(pod)) {
      this.#run(look, pod);
    }
  }

  #isLost({ processes }: Look, node: string): boolean {
    return node === this.#nodeName
      ? hasFault(processes.state, 'nodeNotReady')
      : this.#gone.some(({ name }) => name === node);
  }

  /** A pod is started once, when its claims are there; from then on its status follows what runs in it. */
  #run(look: Look, pod: Pod): void {
    const { api, processes } = look;
    const { uid, namespace, labels } = pod.metadata;
    if (processes.state.members[uid] === undefined) {
      const claims = claimsOf(pod, (name) => api.get('PersistentVolumeClaim', namespace, name));
      const cell = labels?.[cellLabel];
      if (claims === undefined || cell === undefined) {
        this.#waiting.add(uid);
        return;
      }
      for (const { claim } of claims) {
        send(look, bindClaim(claim));
      }
      processes.take({ kind: 'podAssigned', pod: podOnNode(pod, cell, claims) });
    }
    if (podView(processes.state, uid)?.phase === 'vanished') {
      send(look, removePod(pod));
    } else {
      report(look, pod);
    }
  }

  #stop(look: Look, pod: Pod): void {
    const { processes } = look;
    const podUid = pod.metadata.uid;
    const graceMs = (deletionGraceSeconds(pod) ?? 0) * 1_000;
    processes.take({ kind: 'podDeletionAsked', podUid, graceMs });
    if (podView(processes.state, podUid)?.phase === 'running') {
      report(look, pod);
    } else {
      send(look, removePod(pod));
    }
  }

  /** The node's object says what its kubelet says, or the node's controller when the kubelet says nothing. */
  #keepNode(look: Look): void {
    const name = this.#nodeName;
    if (name === undefined) {
      return;
    }
    const wanted = this.#isLost(look, name) ? 'lost' : 'ready';
    const isMissing = wanted === 'ready' && look.api.get('Node', undefined, name) === undefined;
    if (isMissing) {
      send(look, createNode(name));
    }
    if (isMissing || this.#reported !== wanted) {
      this.#reported = wanted;
      send(look, reportNode(name, wanted === 'ready', new Date(look.now)));
    }
  }

  /** The cloud's controller removes the object of a machine that is gone, and the pods' garbage collector its pods. */
  #clearUpGoneNodes(look: Look): void {
    for (const { name, since } of this.#gone) {
      if (look.api.get('Node', undefined, name) !== undefined) {
        send(look, { method: 'DELETE', path: `${collectionPath('Node', undefined)}/${name}` });
      }
      const isDue = look.now >= plusSeconds(since, quarantineSeconds);
      const orphans = isDue
        ? this.#pods(look.api, look.processes).filter(({ spec }) => spec?.nodeName === name)
        : [];
      for (const pod of orphans) {
        send(look, hasEnded(pod) ? undefined : patchPodStatus(pod, orphanStatus(look.now)));
        send(look, removePod(pod));
      }
    }
  }
}

function hasEnded({ status }: Pod): boolean {
  return status?.phase === 'Failed' || status?.phase === 'Succeeded';
}

function report(look: Look, pod: Pod): void {
  const view = podView(look.processes.state, pod.metadata.uid);
  const status = view && podStatus(pod, view, new Date(look.now));
  send(look, status && patchPodStatus(pod, status));
}

/** As the garbage collector of pods marks those whose node is no more. */
function orphanStatus(now: Instant): object {
  const condition = { type: 'DisruptionTarget', status: 'True', reason: 'DeletionByPodGC' };
  return {
    phase: 'Failed',
    conditions: [{ ...condition, lastTransitionTime: new Date(now).toISOString() }],
  };
}

/** 404 and 409: the object is gone or another one, and the next look sees it. */
function send({ api, now, commits }: Look, request: KubeRequest | undefined): void {
  if (request === undefined) {
    return;
  }
  const { response, commits: written } = api.handle(request, now);
  if (response.status >= 300 && response.status !== 404 && response.status !== 409) {
    throw new Error(
      `${request.method} ${request.path} is answered with ${response.status}: ${JSON.stringify(response.body)}`,
    );
  }
  commits.push(...written);
}
