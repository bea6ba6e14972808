import { setTimeout as delay } from 'node:timers/promises';
import pLimit from 'p-limit';
import * as z from 'zod';
import { reconcileRequest } from '#shared/api/annotations.ts';
import { shardLabel } from '#shared/api/labels.ts';
import type { KubeConnection, KubeRequest, KubeResponse } from '#shared/kube/connection.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { attachedShardManifest } from '#test/builders/manifest.ts';
import type { HintLedger } from './hint-ledger.ts';
import { twoSteps } from '#test/builders/two-steps.ts';

const objectSchema = z.looseObject({
  metadata: z.looseObject({ name: z.string(), uid: z.string(), resourceVersion: z.string() }),
});

type Written = z.infer<typeof objectSchema>['metadata'];

/** Writes on their way at a time. */
const writesAtOnce = 4;

/** Between two tries of a write that the API server could not take, because a test has killed it, in milliseconds. */
const retryMs = 50;

interface Member {
  readonly name: string;
  uid: string;
  /** Counts its pods, so that no two share a name. */
  pods: number;
  isPaused: boolean;
}

/**
 * The Shards of one namespace, each with a pod, and everything that is written to them. Each write goes into the
 * ledgers as soon as the API server has answered it; one without an answer is repeated until it has one.
 */
export class Herd {
  readonly namespace: string;
  readonly #api: KubeConnection;
  readonly #ledgers: readonly HintLedger[];
  readonly #members: Member[] = [];
  #writes = 0;

  constructor(api: KubeConnection, namespace: string, ledgers: readonly HintLedger[]) {
    this.#api = api;
    this.namespace = namespace;
    this.#ledgers = ledgers;
  }

  get size(): number {
    return this.#members.length;
  }

  async populate(count: number): Promise<void> {
    await this.#write({
      method: 'POST',
      path: '/api/v1/namespaces',
      body: { metadata: { name: this.namespace } },
    });
    await this.#untilPodsAreAdmitted();
    await atOnce(count, async (index) => {
      const member = { name: `shard-${index}`, uid: '', pods: 0, isPaused: false };
      await this.#create(member);
      this.#members.push(member);
      await this.#addPod(member);
    });
  }

  /**
   * Writes so many times, in turn to all targets: to their spec, to their annotations, and to their pods, which concern
   * only two steps.
   */
  async change(count: number): Promise<void> {
    await atOnce(count, async (index) => {
      const member = this.#member(index);
      this.#writes += 1;
      switch (Math.floor(index / this.size) % 3) {
        case 0:
          return this.#annotate(member);
        case 1:
          return this.#annotatePod(member);
        default:
          return this.#pause(member);
      }
    });
  }

  /** The first three go for good, the next three give way to others of their names, the next three lose their pods. */
  async turnOver(): Promise<void> {
    const [first, second, third] = [0, 3, 6].map((from) => this.#members.slice(from, from + 3));
    for (const member of first ?? []) {
      await this.#remove(member);
      this.#members.splice(this.#members.indexOf(member), 1);
    }
    for (const member of second ?? []) {
      await this.#remove(member);
      await this.#create(member);
    }
    for (const member of third ?? []) {
      await this.#removePod(member);
      await this.#addPod(member);
    }
  }

  async #create(member: Member): Promise<void> {
    const { uid, resourceVersion } = await this.#write({
      method: 'POST',
      path: collectionPath('Shard', this.namespace),
      body: attachedShardManifest(member.name),
    });
    member.uid = uid;
    member.isPaused = false;
    this.#tell((ledger) => ledger.written(uid, resourceVersion));
  }

  async #remove({ name, uid }: Member): Promise<void> {
    const path = `${collectionPath('Shard', this.namespace)}/${name}`;
    await this.#answer({ method: 'DELETE', path });
    this.#tell((ledger) => ledger.removed(uid));
  }

  /** A new token each time: also a repeated try makes a new version. */
  async #annotate({ name, uid }: Member): Promise<void> {
    const body = { metadata: { annotations: { [reconcileRequest]: String(this.#writes) } } };
    const path = `${collectionPath('Shard', this.namespace)}/${name}`;
    const { resourceVersion } = await this.#patch(path, body);
    this.#tell((ledger) => ledger.written(uid, resourceVersion));
  }

  async #pause(member: Member): Promise<void> {
    member.isPaused = !member.isPaused;
    const path = `${collectionPath('Shard', this.namespace)}/${member.name}`;
    const { resourceVersion } = await this.#patch(path, { spec: { paused: member.isPaused } });
    this.#tell((ledger) => ledger.written(member.uid, resourceVersion));
  }

  async #addPod(member: Member): Promise<void> {
    member.pods += 1;
    const { resourceVersion } = await this.#write({
      method: 'POST',
      path: collectionPath('Pod', this.namespace),
      body: {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: podName(member), labels: { [shardLabel]: member.name } },
        spec: { containers: [{ name: 'main', image: 'main' }] },
      },
    });
    this.#tell((ledger) => ledger.written(member.uid, resourceVersion, twoSteps));
  }

  async #annotatePod(member: Member): Promise<void> {
    const body = { metadata: { annotations: { 'example.com/write': String(this.#writes) } } };
    const path = `${collectionPath('Pod', this.namespace)}/${podName(member)}`;
    const { resourceVersion } = await this.#patch(path, body);
    this.#tell((ledger) => ledger.written(member.uid, resourceVersion, twoSteps));
  }

  /** No kubelet runs it, so it goes at once. */
  async #removePod(member: Member): Promise<void> {
    const path = `${collectionPath('Pod', this.namespace)}/${podName(member)}`;
    await this.#answer({ method: 'DELETE', path, query: { gracePeriodSeconds: '0' } });
    this.#tell((ledger) => ledger.written(member.uid, undefined, twoSteps));
  }

  /** A namespace takes pods when its service account is there, which comes an instant later. */
  async #untilPodsAreAdmitted(): Promise<void> {
    const path = `/api/v1/namespaces/${this.namespace}/serviceaccounts/default`;
    while ((await this.#api.request({ method: 'GET', path })).status !== 200) {
      await delay(retryMs);
    }
  }

  #member(index: number): Member {
    const member = this.#members[index % this.size];
    if (member === undefined) {
      throw new Error('the herd is empty');
    }
    return member;
  }

  #tell(news: (ledger: HintLedger) => void): void {
    this.#ledgers.forEach(news);
  }

  #patch(path: string, body: object): Promise<Written> {
    return this.#write({
      method: 'PATCH',
      path,
      body,
      contentType: 'application/merge-patch+json',
    });
  }

  async #write(request: KubeRequest): Promise<Written> {
    const { body } = await this.#answer(request);
    const written = objectSchema.safeParse(body);
    if (!written.success) {
      throw new Error(`${request.method} ${request.path} answered no object`);
    }
    return written.data.metadata;
  }

  /** An API server that is down, or just starting, is asked again; that a deletion was done already is its answer. */
  async #answer(request: KubeRequest): Promise<KubeResponse> {
    for (let tries = 1; ; tries += 1) {
      const response = await this.#api.request(request).catch(() => undefined);
      if (response !== undefined && response.status < 500 && response.status !== 429) {
        if (response.status < 300 || (tries > 1 && isDone(request, response))) {
          return response;
        }
        const why = `${response.status} ${JSON.stringify(response.body)}`;
        throw new Error(`${request.method} ${request.path}: ${why}`);
      }
      await delay(retryMs);
    }
  }
}

function isDone({ method }: KubeRequest, { status }: KubeResponse): boolean {
  return method === 'DELETE' && status === 404;
}

function podName({ name, pods }: Member): string {
  return `${name}-${pods}`;
}

async function atOnce(count: number, work: (index: number) => Promise<void>): Promise<void> {
  const limit = pLimit(writesAtOnce);
  await Promise.all(Array.from({ length: count }, (_, index) => limit(() => work(index))));
}
