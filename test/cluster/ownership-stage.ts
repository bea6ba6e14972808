import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { expect } from 'vitest';
import type { DecisionLine } from '#infra/cli/dev/decision-line.ts';
import { startControlPlane } from '#infra/local/control-plane/control-plane.ts';
import { writeKubeconfig } from '#infra/local/control-plane/kubeconfig.ts';
import { type DataPlane, startDataPlane } from '#infra/local/data-plane/start.ts';
import { Changes } from '#infra/local/show/changes.ts';
import { type MillraceProcess, startMillrace } from '#infra/local/show/millrace-process.ts';
import { type World, followWorld } from '#infra/local/show/world.ts';
import type { KubeConnection, KubeResponse } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { isReady } from '#shared/kube/readiness.ts';
import { type KubeObject, type ResourceKind, apiVersionOf } from '#shared/kube/resources.ts';
import {
  CellSchema,
  ComponentType,
  IDSchema,
  MultipoolerSchema,
} from '#shared/topology/proto/clustermetadata_pb.ts';
import { EtcdJournal } from './etcd-journal.ts';
import { isPoolerKey, type OwnerWrite } from './ownership-verdict.ts';
import { type RecordedTxn, type TxnFate, type TxnMoment, recordEtcd } from './recorded-etcd.ts';
import { type ThreeEtcd, startThreeEtcd } from './three-etcd.ts';

const namespace = 'demo';
export const shardName = 'orders';
const cell = 'zone-a';
const members = 3;
/** How much faster than measured the data plane runs. Millrace's own waits are not shortened. */
const dataPlaneSpeed = 8;
/** The sweep looks at Shards as well, and would hide a wake that got lost. */
const neverSeconds = 86_400;
const patienceSeconds = 180;

interface Watchpoint {
  readonly moment: TxnMoment;
  readonly fire: (txn: RecordedTxn) => TxnFate;
}

/**
 * An API server, an etcd of three members with a stand-in data plane, and `millrace dev`, whose every call to etcd goes over a
 * recorded way of its own to each member: there is no other address of etcd that it knows.
 */
export class OwnershipStage implements AsyncDisposable {
  readonly namespace = namespace;
  readonly transactions: RecordedTxn[] = [];
  /** Calls of Millrace to etcd that are neither ranges nor transactions. */
  readonly otherCalls: string[] = [];
  readonly ownerWrites: OwnerWrite[] = [];
  readonly decisions: DecisionLine[] = [];
  readonly remarks: string[] = [];
  readonly #decided = new Changes();
  readonly #stack = new AsyncDisposableStack();
  #watchpoint: Watchpoint | undefined;
  #pokes = 0;
  #parts:
    | {
        readonly etcd: ThreeEtcd;
        readonly recorded: readonly string[];
        readonly journal: EtcdJournal;
        readonly connection: KubeConnection;
        readonly world: World;
        readonly millrace: MillraceProcess;
        readonly dataPlane: DataPlane;
      }
    | undefined;

  /** Resolves when three members of the Shard are ready. Dispose of it also where this throws. */
  async start(folder: string): Promise<void> {
    const users = ['millrace', 'data-plane'].map((name) => ({ name, groups: ['system:masters'] }));
    const controlPlane = this.#stack.use(
      await startControlPlane({ dataDir: join(folder, 'control-plane'), users }),
    );
    const etcd = this.#stack.use(await startThreeEtcd(join(folder, 'topology')));
    const recorded: string[] = [];
    for (const { name, endpoint: target } of etcd.members) {
      const way = await recordEtcd({
        name,
        target,
        onTxn: (txn, moment) => this.#onTxn(txn, moment),
        onOtherCall: (path) => void this.otherCalls.push(path),
      });
      this.#stack.use(way);
      recorded.push(way.endpoint);
    }
    const journal = this.#stack.use(await EtcdJournal.open(etcd.service));
    const dataPlane = await startDataPlane({
      server: controlPlane.server,
      ca: controlPlane.ca,
      token: controlPlane.tokens.get('data-plane') ?? '',
      etcdEndpoint: etcd.service,
      dataDir: join(folder, 'data-plane'),
      speed: dataPlaneSpeed,
      cells: [cell],
    });
    this.#stack.defer(() => dataPlane.stop());
    const connection = connectKube(controlPlane.access());
    this.#stack.defer(() => connection.close());
    await connection.request({
      method: 'POST',
      path: '/api/v1/namespaces',
      body: { metadata: { name: namespace } },
    });
    const kubeconfig = join(folder, 'kubeconfig');
    const { server, ca, tokens } = controlPlane;
    const token = tokens.get('millrace') ?? '';
    await writeKubeconfig(kubeconfig, { server, ca, user: 'millrace', token });
    const millrace = await startMillrace({
      kubeconfig,
      namespace,
      dataDir: join(folder, 'millrace'),
      onDecision: (decision) => {
        this.decisions.push(decision);
        this.#decided.touch();
      },
      onRemark: (line) => void this.remarks.push(line),
      sweepSeconds: neverSeconds,
    });
    this.#stack.defer(() => millrace.stop());
    const world = await followWorld(connection, namespace);
    this.#stack.defer(() => world.close());
    this.#parts = { etcd, recorded, journal, connection, world, millrace, dataPlane };
    await this.#leadToRecordedWays();
    await this.#createShard();
    await this.untilSteady();
  }

  get #built() {
    return this.#parts ?? expect.unreachable('the stage has not started');
  }

  get etcd(): ThreeEtcd {
    return this.#built.etcd;
  }

  /** The recorded ways to the members. */
  get recorded(): readonly string[] {
    return this.#built.recorded;
  }

  get journal(): EtcdJournal {
    return this.#built.journal;
  }

  get world(): World {
    return this.#built.world;
  }

  get millrace(): MillraceProcess {
    return this.#built.millrace;
  }

  get dataPlane(): DataPlane {
    return this.#built.dataPlane;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }

  #onTxn(txn: RecordedTxn, moment: TxnMoment): TxnFate {
    if (moment === 'asked') {
      this.transactions.push(txn);
    }
    const watchpoint = this.#watchpoint;
    if (watchpoint?.moment !== moment || txn.writes.size === 0) {
      return 'goesOn';
    }
    this.#watchpoint = undefined;
    return watchpoint.fire(txn);
  }

  /**
   * Does something in the very moment of Millrace's next write to etcd, or without one where none comes in time. What `act`
   * does before its first `await` is done before the write goes on.
   */
  async atNextWrite(
    moment: TxnMoment,
    timeoutMs: number,
    act: (txn: RecordedTxn | undefined) => Promise<void>,
    fate: TxnFate,
  ): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<Promise<void>>();
    const fire = (txn: RecordedTxn | undefined) => {
      clearTimeout(timer);
      this.#watchpoint = undefined;
      resolve(act(txn));
      return fate;
    };
    const timer = setTimeout(() => fire(undefined), timeoutMs);
    this.#watchpoint = { moment, fire };
    await promise;
  }

  /** What is read of the poolers' cell leads over the recorded ways too. */
  async #leadToRecordedWays(): Promise<void> {
    const { journal, recorded } = this.#built;
    const key = `/multigres/global/cells/${cell}/Cell`;
    await journal.until('the cell is there', 60, () => journal.get(key) !== undefined);
    const message = fromBinary(CellSchema, journal.get(key)?.value ?? new Uint8Array());
    message.serverAddresses = recorded.map((endpoint) => new URL(endpoint).host);
    await this.writeAsOwner(key, Buffer.from(toBinary(CellSchema, message)));
  }

  async #createShard(): Promise<void> {
    await this.create('Database', {
      metadata: { name: 'main' },
      spec: {
        name: 'postgres',
        dataPlane: {
          kind: 'multigres',
          topology: { endpoints: this.recorded },
          admin: { url: this.dataPlane.adminUrl },
        },
      },
    });
    const container = {
      name: 'multipooler',
      image: 'multigres/multipooler',
      volumeMounts: [{ name: 'data', mountPath: '/data' }],
    };
    await this.create('Shard', {
      metadata: { name: shardName },
      spec: {
        databaseRef: { name: 'main' },
        cleanup: { quietFor: '5s', deleteAfter: '6s', maxPerPass: 2 },
        pools: [
          {
            name: 'main',
            cells: [cell],
            replicasPerCell: members,
            storage: { size: '1Gi' },
            podTemplate: { spec: { containers: [container] } },
          },
        ],
      },
    });
  }

  /** The pods of the Shard's members, not those of GoVerse. */
  members(): readonly KubeObject<'Pod'>[] {
    return this.world
      .all('Pod')
      .filter(({ metadata }) => metadata.labels?.['millrace.dev/shard'] !== undefined);
  }

  async untilSteady(): Promise<void> {
    await this.world.until('all members are ready', patienceSeconds, () => {
      const pods = this.members();
      return pods.length === members && pods.every((pod) => isReady(pod));
    });
  }

  /** Keys of the records of poolers. */
  poolerKeys(): string[] {
    return this.journal.keys('/').filter(isPoolerKey);
  }

  /** What a pooler writes, or leaves when it is killed; done when this resolves. */
  async writeAsOwner(key: string, value: Buffer): Promise<void> {
    const { askedAtMs } = await this.journal.put(key, value);
    this.ownerWrites.push({ key, value, askedAtMs });
  }

  /** A living pooler's record under another name: what a pooler of that name would leave if it were killed. */
  async leaveRecord(live: string, key: string, name: string, hostname: string): Promise<void> {
    const value = this.journal.get(live)?.value ?? expect.unreachable(live);
    const message = fromBinary(MultipoolerSchema, value);
    message.id = create(IDSchema, { component: ComponentType.MULTIPOOLER, cell, name });
    message.hostname = hostname;
    await this.writeAsOwner(key, Buffer.from(toBinary(MultipoolerSchema, message)));
  }

  async ask(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    kind: ResourceKind,
    name?: string,
    body?: unknown,
  ): Promise<KubeResponse> {
    const collection = collectionPath(kind, namespace);
    return this.#built.connection.request({
      method,
      path: name === undefined ? collection : `${collection}/${name}`,
      ...(body === undefined ? {} : { body }),
      ...(method === 'PATCH' ? { contentType: 'application/merge-patch+json' } : {}),
    });
  }

  async create(kind: ResourceKind, manifest: object): Promise<void> {
    const body = { apiVersion: apiVersionOf(kind), kind, ...manifest };
    const answer = await this.ask('POST', kind, undefined, body);
    expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  }

  /** Asks for a look, which etcd's changes alone do not. */
  async poke(kind: 'Shard' | 'GoverseCluster', name: string): Promise<void> {
    this.#pokes += 1;
    const annotations = { 'millrace.dev/reconcile': `${this.#pokes}` };
    const answer = await this.ask('PATCH', kind, name, { metadata: { annotations } });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  }

  /** The decision of a look that began after it was asked for. */
  async lookAt(
    step: string,
    kind: 'Shard' | 'GoverseCluster',
    name: string,
  ): Promise<DecisionLine> {
    const from = this.decisions.length;
    const next = () => this.decisions.slice(from).find((decision) => decision.step === step);
    await this.poke(kind, name);
    await this.#decided.until(`${step} has looked`, patienceSeconds, () => next() !== undefined);
    return next() ?? expect.unreachable();
  }

  /** Asks the relay, which may just be dead, until it answers. */
  async mirrorOf(pod: string): Promise<unknown> {
    for (;;) {
      try {
        const answer = await fetch(`${this.millrace.relayUrl}/v1/pods/${namespace}/${pod}`);
        const body: unknown = await answer.json();
        return answer.ok ? body : undefined;
      } catch {
        await delay(100);
      }
    }
  }
}
