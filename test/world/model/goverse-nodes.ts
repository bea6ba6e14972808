import { LiveView } from '#infra/local/goverse/cluster-view.ts';
import { type LeaderMemory, leaderWork, noMemory } from '#infra/local/goverse/leader.ts';
import { LocalObjects } from '#infra/local/goverse/objects.ts';
import {
  type Rewrite,
  claimsOf,
  isRoutable,
  mustCampaign,
  releasesOf,
} from '#infra/local/goverse/rules.ts';
import { type TickMove, tickMoves } from '#infra/local/goverse/tick.ts';
import { timing } from '#infra/local/goverse/timing.ts';
import { bindPod } from '#infra/local/data-plane/node-requests.ts';
import { releaseMirror } from '#shared/api/annotations.ts';
import { goverseLabel } from '#shared/api/labels.ts';
import { keysOf, shardKey } from '#shared/goverse/keys.ts';
import { formatShard } from '#shared/goverse/shard-value.ts';
import { type Instant, parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import type { KubeRequest } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import type { ApiServer, Commit } from './api-server.ts';
import type { Entry, Etcd } from './etcd.ts';

type Pod = KubeObject<'Pod'>;

/** What the nodes live in. */
interface Surroundings {
  readonly api: ApiServer;
  readonly etcd: Etcd;
}

export interface GoverseParts {
  readonly namespace: string;
  /** Of the GoverseCluster, which the pods name in their label, and are named after: `world-0`. */
  readonly cluster: string;
  readonly prefix: string;
  readonly shardCount: number;
  /** What each pod has to stop in, in seconds. */
  readonly graceSeconds: number;
}

/** A node that runs and is registered. */
interface Process {
  readonly podUid: string;
  readonly address: string;
  /** Of its own key, so that nobody ends another's registration. */
  readonly modRevision: string;
  readonly startedAt: Instant;
  readonly dueAt: Instant;
  readonly memory: LeaderMemory;
}

interface Start {
  readonly podUid: string;
  readonly at: Instant;
}

/** A registration that nobody keeps alive any more. */
interface LeaseEnd {
  readonly address: string;
  readonly modRevision: string;
  readonly at: Instant;
}

/** A pod that was deleted, and asks when it may stop. */
interface Stop {
  readonly podUid: string;
  readonly asksAt: Instant;
  /** It is killed then. */
  readonly until: Instant;
}

/** From a write to where a watch tells of it, in milliseconds: an elected leader's own tick misses the window by it. */
const latencyMs = 3;

/** From a pod to its node; each pod takes a little longer than the one before, so that nodes tick apart. */
const startSeconds = 1;
const apartSeconds = 1.3;

/** Until a killed process is started again in its pod: longer than its lease. */
const restartSeconds = 30;

/** What the hook of a pod that is deleted waits before it asks first, and then between two questions. */
const firstAskSeconds = 5;
const askSeconds = 1;

const machine = 'millrace-node';

/** Nothing in memory: what a node evicts is gone in the same tick in any case. */
const noObjects = new LocalObjects([], 1);

/**
 * The nodes of one GoVerse cluster, each in a pod of a StatefulSet, by the rules of the stand-in (infra/local/goverse) on the
 * world's etcd. A tick is one instant here, and a view is what etcd holds at it.
 *
 * A pod that is deleted goes as the step's README wants it: it asks for its mirror, and stops in order unless that says
 * `draining`. A process that is killed leaves its key behind until its lease is over, and is started again in its pod.
 *
 * All that it holds is replaced and never changed, so a fork is a copy of its fields.
 */
export class GoverseNodes {
  readonly parts: GoverseParts;
  readonly #keys: ReturnType<typeof keysOf>;
  #replicas: number;
  #processes: readonly Process[] = [];
  #starts: readonly Start[] = [];
  #leaseEnds: readonly LeaseEnd[] = [];
  #stops: readonly Stop[] = [];
  #members = '';
  #changedAt = 0 as Instant;
  #diedAt = 0 as Instant;
  #seenRevision = 0;
  #unroutableSince: ReadonlyMap<number, Instant> = new Map();
  #longestOutageSeconds = 0;

  constructor(parts: GoverseParts, replicas: number, copyOf?: GoverseNodes) {
    this.parts = parts;
    this.#keys = keysOf(parts.prefix);
    this.#replicas = replicas;
    if (copyOf !== undefined) {
      this.#processes = copyOf.#processes;
      this.#starts = copyOf.#starts;
      this.#leaseEnds = copyOf.#leaseEnds;
      this.#stops = copyOf.#stops;
      this.#members = copyOf.#members;
      this.#changedAt = copyOf.#changedAt;
      this.#diedAt = copyOf.#diedAt;
      this.#seenRevision = copyOf.#seenRevision;
      this.#unroutableSince = copyOf.#unroutableSince;
      this.#longestOutageSeconds = copyOf.#longestOutageSeconds;
    }
  }

  fork(): GoverseNodes {
    return new GoverseNodes(this.parts, this.#replicas, this);
  }

  /** How many pods there shall be: those with the highest numbers go first. */
  get replicas(): number {
    return this.#replicas;
  }

  scale(replicas: number): void {
    this.#replicas = replicas;
  }

  /** When a node, a gate or the leader changed last. */
  get changedAt(): Instant {
    return this.#changedAt;
  }

  /** When a node was last lost that nobody had let go. */
  get diedAt(): Instant {
    return this.#diedAt;
  }

  /** The longest that a shard could not be reached, in seconds, those counted that still cannot. */
  get longestOutageSeconds(): number {
    return this.#longestOutageSeconds;
  }

  /** What was measured so far does not count. */
  startMeasuring(): void {
    this.#longestOutageSeconds = 0;
  }

  /** Everything that what happens next depends on, as JSON. */
  get remembered(): object {
    return {
      replicas: this.#replicas,
      processes: this.#processes.map(({ memory, ...process }) => ({
        ...process,
        checkedAtMs: memory.checkedAtMs,
        unclaimedSinceMs: [...memory.unclaimedSinceMs],
      })),
      starts: this.#starts,
      leaseEnds: this.#leaseEnds,
      stops: this.#stops,
      changedAt: this.#changedAt,
      diedAt: this.#diedAt,
    };
  }

  /** Of every node that runs. */
  get running(): readonly string[] {
    return this.#processes.map(({ address }) => address);
  }

  addressOf(pod: string): string {
    return `${pod}:48000`;
  }

  /** The keys as they are, or were at a revision, as a node reads them; `undefined` where that was compacted away. */
  viewAt({ etcd }: Pick<Surroundings, 'etcd'>, revision = 0): LiveView | undefined {
    const prefix = Buffer.from(this.#keys.all);
    const rangeEnd = Buffer.from(prefix);
    rangeEnd[rangeEnd.length - 1] = (rangeEnd.at(-1) ?? 0) + 1;
    const range = etcd.range({ key: prefix, rangeEnd, revision });
    if (range.kind === 'refused') {
      return undefined;
    }
    return this.viewOf(range.entries);
  }

  /** What these keys say, as a node reads them. */
  viewOf(entries: readonly Pick<Entry, 'key' | 'value' | 'modRevision'>[]): LiveView {
    const view = new LiveView(this.#keys, this.parts.shardCount);
    const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString();
    view.load(
      entries.map(({ key, value, modRevision }) => ({
        key: textOf(key),
        value: textOf(value),
        modRevision,
      })),
      0,
    );
    return view;
  }

  /** When `pass` is to be called at the latest, though nothing else happened; `undefined`: never. */
  nextDue(): Instant | undefined {
    const dues = [
      ...this.#processes.map(({ dueAt }) => dueAt),
      ...this.#starts.map(({ at }) => at),
      ...this.#leaseEnds.map(({ at }) => at),
      ...this.#stops.map(({ asksAt }) => asksAt),
    ];
    return dues.length === 0 ? undefined : (Math.min(...dues) as Instant);
  }

  /**
   * Does everything that is due until now, each at its instant, and what has to follow from what others wrote.
   *
   * @returns what was written to the API server, in order
   */
  pass(outside: Surroundings, now: Instant): readonly Commit[] {
    const commits: Commit[] = [];
    this.#look(outside, now);
    for (;;) {
      const due = this.nextDue();
      if (due === undefined || due > now) {
        break;
      }
      this.#endLeases(outside, due);
      this.#start(outside, due);
      commits.push(...this.#stop(outside, due));
      this.#tick(outside, due);
    }
    commits.push(...this.#lookAtPods(outside, now));
    this.#look(outside, now);
    return commits;
  }

  /** Whether nothing is under way and the next tick of each node would change nothing. */
  isStill({ etcd }: Pick<Surroundings, 'etcd'>): boolean {
    const isWaiting = [this.#starts, this.#leaseEnds, this.#stops].some(({ length }) => length > 0);
    const view = isWaiting ? undefined : this.viewAt({ etcd });
    if (view === undefined || this.#processes.length !== this.#replicas) {
      return false;
    }
    const { shardCount } = this.parts;
    const isUnclaimed = [...view.shards.values()].some(
      ({ current, target }) => current === '' && view.nodes.has(target),
    );
    return (
      !isUnclaimed &&
      leaderWork(view, noMemory, { shardCount, speed: 1 }, 0).kind === 'nothing' &&
      this.#processes.every(
        ({ address }) =>
          !mustCampaign(view, address) &&
          claimsOf(view, address).length === 0 &&
          releasesOf(view, address, noObjects).length === 0,
      )
    );
  }

  /** Lets time pass in which nothing happens: for nodes that are still. */
  jump(now: Instant): void {
    this.#processes = this.#processes.map((process) => {
      const ticks = Math.max(0, Math.floor((now - process.dueAt) / timing.tickMs) + 1);
      return { ...process, dueAt: (process.dueAt + ticks * timing.tickMs) as Instant };
    });
  }

  /** The process dies without a word. */
  kill(address: string, now: Instant): void {
    const process = this.#processes.find((other) => other.address === address);
    if (process !== undefined) {
      this.#die(process, now);
      const restart = { podUid: process.podUid, at: plusSeconds(now, restartSeconds) };
      this.#starts = [...this.#starts, restart];
    }
  }

  /** Its registration ends though it runs: it begins anew a second later. */
  loseLease(address: string, etcd: Etcd, now: Instant): void {
    const process = this.#processes.find((other) => other.address === address);
    if (process !== undefined) {
      this.#processes = this.#processes.filter((other) => other !== process);
      this.#unregister(process, etcd);
      this.#diedAt = now;
      const at = plusSeconds(now, timing.retryMs / 1000);
      this.#starts = [...this.#starts, { podUid: process.podUid, at }];
    }
  }

  registerGate(address: string, etcd: Etcd): void {
    etcd.put(`${this.#keys.gates}${address}`, Buffer.from(address));
  }

  #endLeases({ etcd }: Surroundings, due: Instant): void {
    const over = this.#leaseEnds.filter(({ at }) => at <= due);
    this.#leaseEnds = this.#leaseEnds.filter(({ at }) => at > due);
    over.forEach((lease) => this.#unregister(lease, etcd));
    this.#look({ etcd }, due);
  }

  #unregister({ address, modRevision }: Pick<Process, 'address' | 'modRevision'>, etcd: Etcd) {
    const key = `${this.#keys.nodes}${address}`;
    if (String(etcd.read(key)?.modRevision) === modRevision) {
      etcd.delete(key);
    }
  }

  #start({ api, etcd }: Surroundings, due: Instant): void {
    const starts = this.#starts.filter(({ at }) => at <= due);
    this.#starts = this.#starts.filter(({ at }) => at > due);
    for (const { podUid } of starts) {
      const pod = this.#pods(api).find(({ metadata }) => metadata.uid === podUid);
      if (pod !== undefined && pod.metadata.deletionTimestamp === undefined) {
        const address = this.addressOf(pod.metadata.name);
        const modRevision = etcd.put(`${this.#keys.nodes}${address}`, Buffer.from(address));
        const startedAt = (due + latencyMs) as Instant;
        const dueAt = (due + timing.tickMs) as Instant;
        const process = { podUid, address, modRevision, startedAt, dueAt, memory: noMemory };
        this.#processes = [...this.#processes, process];
        this.#look({ etcd }, due);
      }
    }
  }

  #stop({ api, etcd }: Surroundings, due: Instant): readonly Commit[] {
    const commits: Commit[] = [];
    for (const stop of this.#stops.filter(({ asksAt }) => asksAt <= due)) {
      const pod = this.#pods(api).find(({ metadata }) => metadata.uid === stop.podUid);
      const process = this.#processes.find(({ podUid }) => podUid === stop.podUid);
      const isHeld = pod?.metadata.annotations?.[releaseMirror] === 'draining';
      this.#stops = this.#stops.filter((other) => other !== stop);
      if (isHeld && due < stop.until) {
        const asksAt = Math.min(plusSeconds(due, askSeconds), stop.until) as Instant;
        this.#stops = [...this.#stops, { ...stop, asksAt }];
        continue;
      }
      if (process !== undefined && isHeld) {
        this.#die(process, due);
      } else if (process !== undefined) {
        this.#processes = this.#processes.filter((other) => other !== process);
        this.#unregister(process, etcd);
        this.#look({ etcd }, due);
      }
      if (pod !== undefined) {
        commits.push(...send(api, goneRequest(pod), due));
      }
    }
    return commits;
  }

  /** Its key stays until the lease is over that its last tick kept alive. */
  #die(process: Process, now: Instant): void {
    this.#diedAt = now;
    const { address, modRevision, dueAt } = process;
    const at = (dueAt - timing.tickMs + timing.leaseMs) as Instant;
    this.#processes = this.#processes.filter((other) => other !== process);
    this.#leaseEnds = [...this.#leaseEnds, { address, modRevision, at }];
  }

  #tick({ etcd }: Surroundings, due: Instant): void {
    for (const process of this.#processes.filter(({ dueAt }) => dueAt <= due)) {
      const { address: self, startedAt } = process;
      const { shardCount } = this.parts;
      const view = this.viewAt({ etcd }) ?? new LiveView(this.#keys, shardCount);
      view.changedAtMs = Math.max(this.#changedAt, startedAt);
      const node = {
        self,
        shardCount,
        speed: 1,
        view,
        objects: noObjects,
        memory: process.memory,
      };
      const moves = tickMoves(node, () => due);
      let next = moves.next([]);
      while (next.done !== true) {
        next = moves.next(this.#carryOut(next.value, { self, view, etcd }, due));
      }
      const after = { ...process, dueAt: plusSeconds(due, timing.tickMs / 1000) };
      this.#processes = this.#processes.map((other) =>
        other === process ? { ...after, memory: node.memory } : other,
      );
      this.#look({ etcd }, due);
    }
  }

  #carryOut(
    move: TickMove,
    { self, view, etcd }: { readonly self: string; readonly view: LiveView; readonly etcd: Etcd },
    at: Instant,
  ): readonly Rewrite[] {
    if (move.kind === 'campaign') {
      const key = this.#keys.leader;
      if ((etcd.read(key)?.modRevision ?? 0) === move.leaderRevision) {
        const modRevision = Number(etcd.put(key, Buffer.from(self)));
        view.take({ key, value: self, modRevision }, at + latencyMs);
      }
      return [];
    }
    return move.writes.filter(({ shard, modRevision, ...value }) => {
      const key = shardKey(this.#keys, shard);
      if ((etcd.read(key)?.modRevision ?? 0) !== modRevision) {
        return false;
      }
      view.wrote(shard, value, Number(etcd.put(key, Buffer.from(formatShard(value)))));
      return true;
    });
  }

  /** Takes in what was written since the last look: who is there, and which shards cannot be reached. */
  #look({ etcd }: Pick<Surroundings, 'etcd'>, at: Instant): void {
    this.#measure(at);
    if (etcd.revision === this.#seenRevision) {
      return;
    }
    this.#seenRevision = etcd.revision;
    const { nodes, gates, leader } = this.#keys;
    const members = [nodes, gates, leader]
      .flatMap((prefix) => etcd.list(prefix))
      .map(({ key, modRevision }) => `${Buffer.from(key).toString()} ${modRevision}`)
      .join('\n');
    if (members !== this.#members) {
      this.#members = members;
      this.#changedAt = (at + latencyMs) as Instant;
    }
    const view = this.viewAt({ etcd });
    const alive = new Set(this.#processes.map(({ address }) => address));
    const lost = [...(view?.shards ?? [])].filter(([, shard]) => !isRoutable(alive, shard));
    this.#unroutableSince = new Map(
      lost.map(([shard]) => [shard, this.#unroutableSince.get(shard) ?? at]),
    );
  }

  #measure(at: Instant): void {
    for (const since of this.#unroutableSince.values()) {
      this.#longestOutageSeconds = Math.max(this.#longestOutageSeconds, (at - since) / 1000);
    }
  }

  #pods(api: ApiServer): readonly Pod[] {
    return api
      .list('Pod')
      .filter(({ metadata }) => metadata.labels?.[goverseLabel] === this.parts.cluster);
  }

  /** The StatefulSet's controller, the scheduler, and the kubelet of the one machine. */
  #lookAtPods({ api }: Surroundings, now: Instant): readonly Commit[] {
    const pods = this.#pods(api);
    const { cluster, namespace } = this.parts;
    const names = Array.from({ length: this.#replicas }, (_, index) => `${cluster}-${index}`);
    const commits = names
      .filter((name) => pods.every(({ metadata }) => metadata.name !== name))
      .flatMap((name) => send(api, this.#podRequest(name), now));
    for (const pod of pods) {
      const { name, uid, deletionTimestamp } = pod.metadata;
      if (deletionTimestamp === undefined && !names.includes(name)) {
        const path = `${collectionPath('Pod', namespace)}/${name}`;
        commits.push(...send(api, { method: 'DELETE', path }, now));
      } else if ((pod.spec?.nodeName ?? '') === '') {
        commits.push(...send(api, bindPod(pod, machine), now));
      } else if (deletionTimestamp !== undefined) {
        this.#askLater(uid, parseInstant(deletionTimestamp) ?? now, now);
      } else {
        this.#startLater(pod, now);
      }
    }
    for (const process of this.#processes) {
      if (pods.every(({ metadata }) => metadata.uid !== process.podUid)) {
        this.#die(process, now);
      }
    }
    return commits;
  }

  #askLater(podUid: string, until: Instant, now: Instant): void {
    if (this.#stops.every((stop) => stop.podUid !== podUid)) {
      const asksAt = Math.min(plusSeconds(now, firstAskSeconds), until) as Instant;
      this.#stops = [...this.#stops, { podUid, asksAt, until }];
    }
  }

  #startLater({ metadata: { uid, name } }: Pod, now: Instant): void {
    const isKnown = [...this.#processes, ...this.#starts].some(({ podUid }) => podUid === uid);
    if (!isKnown) {
      const place = Number(/\d+$/.exec(name)?.[0] ?? 0);
      const at = plusSeconds(now, startSeconds + (place % 3) * apartSeconds);
      this.#starts = [...this.#starts, { podUid: uid, at }];
    }
  }

  #podRequest(name: string): KubeRequest {
    const { namespace, cluster, graceSeconds } = this.parts;
    return {
      method: 'POST',
      path: collectionPath('Pod', namespace),
      body: {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name, labels: { [goverseLabel]: cluster } },
        spec: {
          terminationGracePeriodSeconds: graceSeconds,
          containers: [{ name: 'node', image: 'goverse:1' }],
        },
      },
    };
  }
}

function goneRequest({ metadata: { namespace, name, uid } }: Pod): KubeRequest {
  return {
    method: 'DELETE',
    path: `${collectionPath('Pod', namespace)}/${name}`,
    body: { gracePeriodSeconds: 0, preconditions: { uid } },
  };
}

function send(api: ApiServer, request: KubeRequest | undefined, now: Instant): readonly Commit[] {
  if (request === undefined) {
    return [];
  }
  const { response, commits } = api.handle(request, now);
  if (response.status >= 300 && response.status !== 404 && response.status !== 409) {
    throw new Error(
      `${request.method} ${request.path} is answered with ${response.status}: ${JSON.stringify(response.body)}`,
    );
  }
  return commits;
}
