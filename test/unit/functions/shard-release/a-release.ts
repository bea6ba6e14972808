import { decide } from '#functions/shard-release/decide.ts';
import {
  type Leaver,
  type ReleaseData,
  type ReleaseRecord,
  type ReleaseState,
  readReleaseRecord,
} from '#functions/shard-release/record.ts';
import type { ClusterView, PodView, ReleaseSnapshot } from '#functions/shard-release/snapshot.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { fnv1a32 } from '#shared/api/names.ts';
import type { GoverseShard, GoverseView } from '#shared/goverse/goverse.ts';
import { type Instant, toText } from '#shared/kernel/instant.ts';
import { present, unknown } from '#shared/kernel/read.ts';
import { recordText } from '#shared/kernel/record.ts';

/** The instant at which every test looks. */
export const now = Date.parse('2026-01-01T00:00:00Z') as Instant;
export const mark = '0badcafe';
export const shardCount = 24;

export function aPod(name: string, changes: Partial<PodView> = {}): PodView {
  return {
    name,
    uid: `uid-${name}`,
    resourceVersion: '5',
    ips: [],
    address: null,
    isBeingDeleted: false,
    isAskedToLeave: false,
    mode: null,
    graceSeconds: 120,
    mirror: null,
    ...changes,
  };
}

/** Shards `0` and up, each with its node, spread by their numbers; revision 10 and up. */
export function shardsOf(nodes: readonly string[], count = shardCount): GoverseShard[] {
  return Array.from({ length: count }, (_, shard) => {
    const node = nodes[shard % nodes.length] ?? '';
    return { shard, target: node, current: node, flags: [], modRevision: String(10 + shard) };
  });
}

/** Nodes of these names with a pod each, the first of which leads; quiet for long, every shard in its place. */
export function aReleaseOf(...nodes: readonly string[]): ReleaseBuilder {
  const member = (address: string) => ({ address, modRevision: '3' });
  const view: GoverseView = {
    revision: '1000',
    nodes: nodes.map(member),
    gates: [],
    leader: member(nodes[0] ?? ''),
    shards: shardsOf(nodes),
    unreadable: [],
  };
  const cluster: ClusterView = {
    namespace: 'games',
    name: 'world',
    uid: 'cluster-uid',
    generation: 1,
    resourceVersion: '7',
    isPaused: false,
    isBeingDeleted: false,
    shardCount,
    mode: 'clean',
    timeoutSeconds: 30,
    rebalance: 'inside',
    mark,
    status: null,
  };
  return new ReleaseBuilder({
    cluster,
    record: { kind: 'none', text: null },
    view: present(view),
    pods: present(nodes.map((node) => aPod(node))),
  });
}

export class ReleaseBuilder {
  readonly #snapshot: ReleaseSnapshot;

  constructor(snapshot: ReleaseSnapshot) {
    this.#snapshot = snapshot;
  }

  with(changes: Partial<ReleaseSnapshot>): ReleaseBuilder {
    return new ReleaseBuilder({ ...this.#snapshot, ...changes });
  }

  withCluster(changes: Partial<ClusterView>): ReleaseBuilder {
    return this.with({ cluster: { ...this.#snapshot.cluster, ...changes } });
  }

  withPod(name: string, changes: Partial<PodView>): ReleaseBuilder {
    const { pods } = this.#snapshot;
    return pods.kind === 'present'
      ? this.with({
          pods: present(
            pods.value.map((pod) => (pod.name === name ? { ...pod, ...changes } : pod)),
          ),
        })
      : this;
  }

  withoutPod(name: string): ReleaseBuilder {
    const { pods } = this.#snapshot;
    return pods.kind === 'present'
      ? this.with({ pods: present(pods.value.filter((pod) => pod.name !== name)) })
      : this;
  }

  withView(change: (view: GoverseView) => Partial<GoverseView>): ReleaseBuilder {
    const { view } = this.#snapshot;
    return view.kind === 'present'
      ? this.with({ view: present({ ...view.value, ...change(view.value) }) })
      : this;
  }

  withShards(change: (shard: GoverseShard) => Partial<GoverseShard>): ReleaseBuilder {
    return this.withView(({ shards }) => ({
      shards: shards.map((shard) => ({ ...shard, ...change(shard) })),
    }));
  }

  withUnknownKeys(): ReleaseBuilder {
    return this.with({ view: unknown('etcd does not answer') });
  }

  /** A record that says that nothing has changed for so long. */
  withRecord(
    state: ReleaseState,
    { leavers, stillFor = 60 }: { leavers?: Leaver[]; stillFor?: number } = {},
  ): ReleaseBuilder {
    const { view, cluster } = this.#snapshot;
    const hash = view.kind === 'present' ? hashOf(view.value) : '00000000';
    const data: ReleaseData = {
      still: [hash, now / 1000 - stillFor],
      ...(leavers === undefined ? {} : { leavers }),
    };
    const record: ReleaseRecord = {
      v: 1,
      uid: cluster.uid,
      key: `shard-release/${cluster.uid}/${state}`,
      state,
      generation: cluster.generation,
      attempt: 0,
      since: toText(now),
      reason: 'ShardsInPlace',
      data,
    };
    return this.withRecordText(recordText(record));
  }

  withRecordText(text: string): ReleaseBuilder {
    const { uid } = this.#snapshot.cluster;
    const annotations = { [recordAnnotation('shard-release')]: text };
    return this.with({ record: readReleaseRecord({ uid, annotations }) });
  }

  build(): ReleaseSnapshot {
    return this.#snapshot;
  }

  decide(at: Instant = now) {
    return decide(this.#snapshot, at);
  }
}

/** The entry of a node that was first seen to go so long ago. */
export function aLeaver(name: string, seconds: number, changes: Partial<Leaver> = {}): Leaver {
  return {
    pod: name,
    uid: `uid-${name}`,
    node: name,
    why: 'deleted',
    since: now / 1000 - seconds,
    had: 8,
    ...changes,
  };
}

function hashOf({ nodes, gates, leader }: GoverseView): string {
  const lists = [nodes, gates, leader === null ? [] : [leader]];
  return fnv1a32(
    ...lists.map((list) =>
      list.map(({ address, modRevision }) => `${address} ${modRevision}`).join('\n'),
    ),
  );
}
