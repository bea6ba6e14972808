import {
  type DataPlaneEvent,
  advanceInPlace,
  nextDueMs,
  refuseFault,
} from '#infra/local/data-plane/core.ts';
import type { Fault, FaultKind } from '#infra/local/data-plane/fault.ts';
import { fromBase64, toBase64 } from '#infra/local/data-plane/records.ts';
import {
  type AdminReply,
  type DataPlaneConfig,
  type DataPlaneOutput,
  type DataPlaneState,
  type TopologyEntry,
  copyState,
  createState,
} from '#infra/local/data-plane/state.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { isSamePooler } from '#shared/topology/topology.ts';
import type { ApiServer, Commit } from './api-server.ts';
import type { Etcd } from './etcd.ts';
import { Kubelet, type Processes } from './kubelet.ts';

/** What the data plane lives in. */
export interface Surroundings {
  readonly api: ApiServer;
  readonly etcd: Etcd;
}

export interface MultigresParts {
  readonly config: DataPlaneConfig;
  /** Of everything that is left to chance. */
  readonly seed: number;
  /** Cells that exist from the beginning; others as pods name them. */
  readonly cells: readonly string[];
  readonly nowMs: number;
  readonly nodeName?: string;
  /** Its members are the pods whose shard label has this value; without it, all that have the label. */
  readonly shardName?: string;
}

/** A request to the admin service. */
export interface AdminQuestion {
  readonly method: string;
  /** May end in a query. */
  readonly path: string;
  readonly query?: { readonly [name: string]: string };
  /** A string is sent as it is, anything else as JSON. */
  readonly body?: unknown;
}

export interface AdminAnswer {
  readonly id: number;
  /** `dropped`: the connection was reset instead. */
  readonly reply: AdminReply | 'dropped';
}

/** etcd as it was read at a revision, so that a look at one that did not change costs nothing. */
interface Reading {
  readonly revision: number;
  readonly prefixes: string;
  readonly entries: readonly TopologyEntry[];
}

/**
 * One Multigres cluster with one shard and the node it runs on: the stand-in's core (infra/local/data-plane) in a shell
 * that does at once, in a call, what the process does over the network. What the core says is therefore what the stand-in
 * says; only the time between its words and their effect is none here.
 */
export class Multigres {
  /** Reads and writes of etcd fail while this is false; what should be written is written afterwards. */
  isTopologyReachable = true;
  readonly #parts: MultigresParts;
  readonly #kubelet: Kubelet;
  #state: DataPlaneState;
  /** A fork holds the same state, so whoever changes it first copies it. */
  #isShared = false;
  #replies: readonly AdminAnswer[] = [];
  #questions = 0;
  #reading: Reading | undefined;
  #changes = 0;

  constructor(parts: MultigresParts, copyOf?: Multigres) {
    this.#parts = parts;
    if (copyOf === undefined) {
      const { nodeName = 'millrace-node', shardName } = parts;
      this.#kubelet = new Kubelet({ nodeName, ...(shardName === undefined ? {} : { shardName }) });
      this.#state = createState(parts.config, parts);
      return;
    }
    this.#kubelet = copyOf.#kubelet.fork();
    this.#state = copyOf.#state;
    this.#isShared = true;
    copyOf.#isShared = true;
    this.isTopologyReachable = copyOf.isTopologyReachable;
    this.#replies = copyOf.#replies;
    this.#questions = copyOf.#questions;
    this.#reading = copyOf.#reading;
    this.#changes = copyOf.#changes;
  }

  /** The same data plane, which goes its own way from here. */
  fork(): Multigres {
    return new Multigres(this.#parts, this);
  }

  /** What is so, whatever anybody was told. It changes in place: keep nothing of it over a call. */
  get state(): DataPlaneState {
    return this.#state;
  }

  /** Counts what may have changed the state: the same state and the same count, the same content. */
  get changes(): number {
    return this.#changes;
  }

  /** When `pass` is to be called at the latest, though nothing else happened. Always after what was passed. */
  nextDue(): Instant {
    const dueMs = nextDueMs(this.#state);
    return Math.min(dueMs, this.#kubelet.nextDue(this.#state.nowMs as Instant) ?? dueMs) as Instant;
  }

  /**
   * Does everything that is due until now, each at its instant, and what has to follow from what others wrote.
   *
   * @returns what the node wrote, in order
   */
  pass(outside: Surroundings, now: Instant): readonly Commit[] {
    this.#writeWhatWaits(outside);
    const commits: Commit[] = [];
    for (;;) {
      const due = this.nextDue();
      if (due > now) {
        break;
      }
      this.#take({ kind: 'timePassed' }, outside, due);
      commits.push(...this.#lookAtNode(outside, due));
    }
    commits.push(...this.#lookAtNode(outside, now));
    return commits;
  }

  /** @returns the request's id; its answer is among {@link takeReplies}, at once or after a later pass */
  ask(question: AdminQuestion, outside: Surroundings, now: Instant): number {
    this.#questions += 1;
    const id = this.#questions;
    const { method, body } = question;
    const [path = '', search = ''] = question.path.split('?', 2);
    const query: { [name: string]: string[] } = {};
    for (const [name, value] of new URLSearchParams({ ...question.query })) {
      (query[name] ??= []).push(value);
    }
    for (const [name, value] of new URLSearchParams(search)) {
      (query[name] ??= []).push(value);
    }
    const request = { id, method, path, query, body: textOf(body) };
    this.#take({ kind: 'adminAsked', request }, outside, now);
    return id;
  }

  /** The answers since the last call, in the order they were given. */
  takeReplies(): readonly AdminAnswer[] {
    const replies = this.#replies;
    this.#replies = [];
    return replies;
  }

  /** @returns why this fault makes no sense now and did nothing, or `undefined` */
  inject(fault: Fault, outside: Surroundings, now: Instant): string | undefined {
    const refusal = refuseFault(this.#state, fault);
    if (refusal === undefined) {
      this.#take({ kind: 'faultInjected', fault }, outside, now);
    }
    return refusal;
  }

  /** Lifts one fault, all of a kind, or all there are. */
  lift(
    which: { readonly kind?: FaultKind; readonly pod?: string },
    outside: Surroundings,
    now: Instant,
  ): void {
    const { kind, pod } = which;
    this.#take(
      {
        kind: 'faultLifted',
        ...(kind === undefined ? {} : { fault: kind }),
        ...(pod === undefined ? {} : { pod }),
      },
      outside,
      now,
    );
  }

  /** The machine dies with everything on it, and never comes back; pods find no node until another is brought. */
  takeNodeAway(outside: Surroundings, now: Instant): void {
    this.#kubelet.takeMachineAway(this.#processes(outside, now), now);
  }

  bringNode(): void {
    this.#kubelet.bringMachine();
  }

  /** Whether every member that runs votes, somebody leads, and the next look of multiorch would change nothing. */
  get isStill(): boolean {
    const { timers, outbox, switchover, consensus, faults, members } = this.#state;
    const cohort = consensus.decision?.cohort ?? [];
    return (
      timers.every(({ task }) => task.kind === 'cycle') &&
      outbox.length === 0 &&
      switchover === null &&
      consensus.loss === null &&
      faults.length === 0 &&
      Object.values(members).every(
        ({ id, process, lifecycle, role }) =>
          process !== 'running' ||
          // A leader need not be in its cohort.
          (lifecycle === 'active' &&
            (role === 'primary' || cohort.some((voter) => isSamePooler(voter, id)))),
      ) &&
      cohort.every((voter) =>
        Object.values(members).some(
          ({ id, process }) => process === 'running' && isSamePooler(voter, id),
        ),
      ) &&
      this.#kubelet.nextDue(this.#state.nowMs as Instant) === undefined
    );
  }

  /** Lets time pass in which nothing happens: for a data plane that is still. */
  jump(outside: Surroundings, now: Instant): void {
    this.#take({ kind: 'resumed', config: this.#parts.config }, outside, now);
  }

  #lookAtNode(outside: Surroundings, now: Instant): readonly Commit[] {
    return this.#kubelet.pass(outside.api, this.#processes(outside, now), now);
  }

  #processes(outside: Surroundings, now: Instant): Processes {
    const stateNow = () => this.#state;
    return {
      get state() {
        return stateNow();
      },
      take: (event) => this.#take(event, outside, now),
    };
  }

  #take(event: DataPlaneEvent, outside: Surroundings, now: Instant): void {
    if (this.#isShared) {
      this.#state = copyState(this.#state);
      this.#isShared = false;
    }
    this.#changes += 1;
    for (const output of advanceInPlace(this.#state, now, event)) {
      this.#carryOut(output, outside, now);
    }
  }

  #carryOut(output: DataPlaneOutput, outside: Surroundings, now: Instant): void {
    switch (output.kind) {
      case 'readTopology': {
        const { id, prefixes } = output;
        this.#take(
          this.isTopologyReachable
            ? { kind: 'topologyRead', id, entries: this.#read(prefixes, outside.etcd) }
            : { kind: 'topologyUnreachable', id },
          outside,
          now,
        );
        return;
      }
      case 'writeRecord':
        if (this.isTopologyReachable) {
          this.#write(output, outside, now);
        }
        return;
      case 'podChanged':
        this.#kubelet.lookAgain(output.podUid);
        return;
      case 'nodeChanged':
        this.#kubelet.lookAgain();
        return;
      case 'adminReply':
        this.#replies = [...this.#replies, { id: output.requestId, reply: output.reply }];
        return;
      case 'adminDrop':
        this.#replies = [...this.#replies, { id: output.requestId, reply: 'dropped' }];
    }
  }

  #read(prefixes: readonly string[], etcd: Etcd): readonly TopologyEntry[] {
    const { revision } = etcd;
    const asked = prefixes.join('\n');
    if (this.#reading?.revision !== revision || this.#reading.prefixes !== asked) {
      const entries = prefixes.flatMap((prefix) =>
        etcd.list(prefix).map(({ key, value, modRevision }) => ({
          key: Buffer.from(key).toString(),
          value: toBase64(value),
          modRevision: String(modRevision),
        })),
      );
      this.#reading = { revision, prefixes: asked, entries };
    }
    return this.#reading.entries;
  }

  /** What was handed out while etcd could not be reached is still wanted as long as the core waits for it. */
  #writeWhatWaits(outside: Surroundings): void {
    if (this.isTopologyReachable) {
      for (const write of this.#state.outbox.filter(({ isSent }) => isSent)) {
        this.#write(write, outside, this.#state.nowMs as Instant);
      }
    }
  }

  #write(
    write: Pick<
      Extract<DataPlaneOutput, { kind: 'writeRecord' }>,
      'id' | 'key' | 'value' | 'onlyAt'
    >,
    outside: Surroundings,
    now: Instant,
  ): void {
    const { id, key, value, onlyAt } = write;
    const { etcd } = outside;
    if (onlyAt !== null && onlyAt !== String(etcd.read(key)?.modRevision ?? 0)) {
      this.#take({ kind: 'recordRefused', id }, outside, now);
      return;
    }
    if (value === null) {
      etcd.delete(key);
      this.#take({ kind: 'recordWritten', id, modRevision: '0' }, outside, now);
      return;
    }
    const modRevision = etcd.put(key, fromBase64(value));
    this.#take({ kind: 'recordWritten', id, modRevision }, outside, now);
  }
}

function textOf(body: unknown): string {
  if (body === undefined) {
    return '';
  }
  return typeof body === 'string' ? body : JSON.stringify(body);
}
