import { rebalance } from '#infra/local/goverse/leader.ts';
import type { ClusterView, KnownShard } from '#infra/local/goverse/cluster-view.ts';
import {
  type Leaver,
  type ReleaseRecord,
  readReleaseRecord,
} from '#functions/shard-release/record.ts';
import {
  drainRequest,
  recordAnnotation,
  releaseMirror,
  shutdownMode,
} from '#shared/api/annotations.ts';
import { durationSeconds } from '#shared/api/duration.ts';
import { fnv1a32 } from '#shared/api/names.ts';
import { type Instant, secondsBetween } from '#shared/kernel/instant.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import type { StoredObject } from '#test/world/model/api-server.ts';
import { worldClusterId } from '#test/world/run/handler.ts';
import {
  type InFlight,
  type Operation,
  type Witness,
  type World,
  type Write,
  nameOf,
} from '#test/world/run/world.ts';
import { lookOf } from './oracles.ts';
import type { Tally } from './tally.ts';

type Cluster = KubeObject<'GoverseCluster'>;
type Pod = KubeObject<'Pod'>;

export interface GoverseOracleOptions {
  /** Nobody asks for more than a quick shutdown, so no shard may be written at all. */
  readonly isQuick?: true;
}

/** What a look had of the keys. */
interface KeysRead {
  readonly view: ClusterView;
  readonly revision: number;
  readonly at: Instant;
}

/** GoVerse hands nothing over so long after a node, a gate or the leader changed, in seconds. */
const windowSeconds = 10;

/** Until a node's end is known, and its shards are where they belong. */
const afterDeathSeconds = 60;

const key = recordAnnotation('shard-release');

/**
 * Checks what shard-release promises (H1 to H6), at every transaction on what etcd held before and after it, and by the rules
 * of GoVerse's own leader. What somebody without any right to wrote into the record is held against nobody.
 */
export class GoverseOracles implements Witness {
  readonly #tally: Tally;
  readonly #options: GoverseOracleOptions;
  /** Transactions of ours that wrote shards. */
  #writes = 0;
  #writesAtRest = 0;
  #isTampered = false;
  #isSkewed = false;

  constructor(tally: Tally, options: GoverseOracleOptions = {}) {
    this.#tally = tally;
    this.#options = options;
  }

  fork(): GoverseOracles {
    const copy = new GoverseOracles(this.#tally, this.#options);
    copy.#writes = this.#writes;
    copy.#writesAtRest = this.#writesAtRest;
    copy.#isTampered = this.#isTampered;
    copy.#isSkewed = this.#isSkewed;
    return copy;
  }

  get remembered(): object {
    return { isTampered: this.#isTampered, isSkewed: this.#isSkewed };
  }

  told(): void {
    // Nothing here is decided by words.
  }

  wrote({ actor, commit }: Write, world: World): void {
    this.#isSkewed ||= world.clocks.apiServerMs !== 0;
    const { kind, before, after } = commit;
    const isMoved = kind === 'GoverseCluster' && textOf(before) !== textOf(after);
    if (actor.kind !== 'handler') {
      this.#isTampered ||= isMoved && before !== null;
      if (kind === 'Pod' && before !== null && after === null) {
        this.#checkGone(before, world);
      }
      return;
    }
    const by = actor.handler;
    if (isMoved && before !== null && after !== null) {
      this.#checkMove(by, before, after, world);
    }
    if (kind === 'Pod' && after !== null) {
      this.#checkMirror(by, after, world);
    }
  }

  sent({ by, call }: Operation, world: World): void {
    if (call.name === 'write shards') {
      this.#writes += 1;
      this.#checkWrite(by, world);
    }
  }

  ended(by: InFlight): void {
    const { ending } = by.handler;
    const isUnanswered = by.seen.some(
      ({ call, status }) => call.name === 'write shards' && status !== 200,
    );
    this.#tally.check(
      'P4',
      !isUnanswered ||
        (ending?.kind === 'returned' &&
          ending.response.batchItemFailures.length === by.received.length),
      () => `${nameOf(by)} is done although it does not know what became of its shards`,
    );
  }

  atRest(): void {
    this.#writesAtRest = this.#writes;
  }

  atEnd(world: World): void {
    const view = viewAt(world, 0);
    this.#tally.check(
      'X7',
      this.#writes === this.#writesAtRest,
      () => 'converged, and further looks still write shards',
    );
    for (const [shard, value] of view.shards) {
      const isStuck = isForeign(value) && !view.nodes.has(value.target);
      this.#tally.check(
        'H3',
        isStuck || (value.current === value.target && view.nodes.has(value.current)),
        () => `in the end shard ${shard} is ${told(value)}`,
      );
      this.#tally.check(
        'H4',
        value.flags.every((flag) => !flag.startsWith('millrace-')),
        () => `in the end shard ${shard} carries a mark: ${told(value)}`,
      );
    }
    this.#tally.check(
      'H4',
      leaderMoves(view, world) === 0,
      () => 'in the end the shards are uneven, and GoVerse has work',
    );
    if (this.#options.isQuick === true) {
      this.#tally.check('H6', this.#writes === 0, () => `${this.#writes} writes to shards`);
    }
  }

  #checkWrite(by: InFlight, world: World): void {
    const { revision } = world.etcd;
    const before = viewAt(world, revision - 1);
    const after = viewAt(world, revision);
    const read = keysRead(by, world);
    const known = read?.view ?? before;
    this.#tally.check(
      'H1',
      world.etcd
        .list('')
        .filter(({ modRevision }) => modRevision === revision)
        .every(({ key: name }) => /\/shard\/\d+$/.test(Buffer.from(name).toString())),
      () => `${nameOf(by)} writes something else than shards`,
    );
    for (const [shard, value] of after.shards) {
      const old = before.shards.get(shard);
      if (value.modRevision === revision) {
        this.#checkShard(by, shard, { known: known.shards.get(shard), old, value });
      }
    }
    const look = lookOf(by);
    const pods = look.findIndex(({ call }) => call.name === 'list Pod');
    this.#tally.check(
      'X6',
      pods > look.findIndex(({ call }) => call.name === 'keys'),
      () => `${nameOf(by)} compares revisions that it read after the pods`,
    );
    this.#checkWanted(by, known);
    // What others wrote meanwhile, nobody here could know of.
    if (read !== undefined && revision - 1 - read.revision === writesSince(by)) {
      this.#tally.check(
        'H4',
        leaderMoves(after, world) === 0 || leaderMoves(before, world) > 0,
        () => `${nameOf(by)} leaves an imbalance that GoVerse's leader would work on`,
      );
      this.#checkBegin(by, { before, after }, read, world);
    }
  }

  /** H1, H2, H4, H5 of one shard that was written. */
  #checkShard(
    by: InFlight,
    shard: number,
    {
      known,
      old,
      value,
    }: {
      readonly known: KnownShard | undefined;
      readonly old: KnownShard | undefined;
      readonly value: KnownShard;
    },
  ): void {
    const where = (): string =>
      `${nameOf(by)} makes of shard ${shard} ${told(value)}, which was ${told(old)}`;
    this.#tally.check(
      'H1',
      old !== undefined && known?.modRevision === old.modRevision,
      () => `${where()} and had moved`,
    );
    this.#tally.check('H2', value.current === old?.current, where);
    this.#tally.check(
      'H5',
      old !== undefined &&
        !isForeign(old) &&
        foreignFlags(old).every((f) => value.flags.includes(f)),
      where,
    );
    this.#tally.check('H4', value.flags.includes('pinned') === isMarked(value), where);
  }

  /** H6: shards are written for somebody who goes cleanly, to level a join where that is asked for, or to clean up. */
  #checkWanted(by: InFlight, known: ClusterView): void {
    const look = lookOf(by);
    const target = look[0]?.body as Cluster | undefined;
    const pods = (look.find(({ call }) => call.name === 'list Pod')?.body ?? {}) as {
      readonly items?: readonly Pod[];
    };
    const modeOf = ({ metadata }: Pod): string | undefined =>
      metadata.annotations?.[shutdownMode] ?? target?.spec.shutdown.mode;
    const isLeaving = (pod: Pod): boolean =>
      pod.metadata.deletionTimestamp === undefined
        ? pod.metadata.annotations?.[drainRequest] !== undefined &&
          pod.metadata.annotations[shutdownMode] !== 'quick'
        : modeOf(pod) === 'clean';
    const record = target === undefined ? null : recordIn(target as object as StoredObject);
    this.#tally.check(
      'H6',
      this.#options.isQuick !== true &&
        (pods.items?.some(isLeaving) === true ||
          (record?.data.leavers ?? []).length > 0 ||
          target?.spec.rebalance === 'outside' ||
          [...known.shards.values()].some(isMarked)),
      () => `${nameOf(by)} writes shards though nobody goes cleanly`,
    );
  }

  /** H3: nothing is retargeted before it can be handed over, and while GoVerse moves shards by itself. */
  #checkBegin(
    by: InFlight,
    { before, after }: { readonly before: ClusterView; readonly after: ClusterView },
    read: KeysRead,
    { goverse }: World,
  ): void {
    const isBegin =
      ![...before.shards.values()].some(isMarked) &&
      [...after.shards].some(([shard, { target }]) => {
        const old = before.shards.get(shard)?.target ?? '';
        return target !== old && before.nodes.has(old);
      });
    if (!isBegin || this.#isSkewed || this.#isTampered) {
      return;
    }
    this.#tally.check(
      'H3',
      secondsBetween(goverse?.changedAt ?? read.at, read.at) >= windowSeconds - 1,
      () => `${nameOf(by)} begins though a node, a gate or the leader has changed just now`,
    );
    this.#tally.check(
      'H3',
      [...before.shards.values()].every(
        (shard) => shard.current === shard.target || isForeign(shard),
      ),
      () => `${nameOf(by)} begins though shards are between two nodes`,
    );
  }

  /** X2, H3: who is called released has no shard any more, and nobody waits for those it had. */
  #checkMove(by: InFlight, before: StoredObject, after: StoredObject, world: World): void {
    const read = by.seen.findLast(
      ({ call, status }) => call.kind === 'GoverseCluster' && status === 200,
    );
    const { metadata } = (read?.body ?? {}) as Partial<Cluster>;
    this.#tally.check(
      'X2',
      metadata?.uid === before.metadata.uid &&
        metadata.generation === before.metadata.generation &&
        metadata.annotations?.[key] === textOf(before),
      () => `${nameOf(by)} moves a record that is not as it read it`,
    );
    const keys = keysRead(by, world);
    const view = keys?.view ?? viewAt(world, 0);
    const old = recordIn(before)?.data.leavers ?? [];
    const leavers = recordIn(after)?.data.leavers ?? [];
    const { spec } = before as object as Cluster;
    for (const { uid, pod, node, end, since } of leavers) {
      if (end === undefined || old.find((known) => known.uid === uid)?.end === end) {
        continue;
      }
      if (end !== 'released') {
        this.#tally.check(
          'H3',
          this.#isSkewed ||
            this.#isTampered ||
            world.now >= since * 1000 + durationSeconds(spec.shutdown.timeout) * 1000,
          () => `${nameOf(by)} gives up the hand-over of ${pod} before its time is over`,
        );
        continue;
      }
      const leaving = new Set(leavers.map((leaver) => leaver.node));
      const open = [...view.shards.values()].filter(
        (shard) =>
          !(isForeign(shard) && shard.target === node) &&
          (shard.target === node ||
            shard.current === node ||
            (view.nodes.has(shard.target) &&
              !leaving.has(shard.target) &&
              shard.current !== shard.target)),
      );
      this.#tally.check(
        'H3',
        keys !== undefined && open.length === 0,
        () => `${nameOf(by)} releases ${pod}, and ${open.length} shards are not handed over`,
      );
    }
  }

  /** H3: who is let go as released has no shard when it stops; unless a node died just now, whose shards went to all. */
  #checkGone({ metadata }: StoredObject, world: World): void {
    const { goverse } = world;
    const end = leaverOf(metadata.uid, world)?.end;
    if (goverse === undefined || end !== 'released') {
      return;
    }
    const node = goverse.addressOf(metadata.name);
    const left = [...viewAt(world, 0).shards.values()].filter(
      (shard) => !isForeign(shard) && (shard.target === node || shard.current === node),
    );
    this.#tally.check(
      'H3',
      left.length === 0 || secondsBetween(goverse.diedAt, world.now) < afterDeathSeconds,
      () => `${metadata.name} stops as released, and has ${left.length} shards`,
    );
  }

  /** H3: a pod is let go by what the record says of it. */
  #checkMirror(by: InFlight, { metadata }: StoredObject, world: World): void {
    const end = leaverOf(metadata.uid, world)?.end;
    this.#tally.check(
      'H3',
      metadata.annotations?.[releaseMirror] !== 'released' ||
        this.#isTampered ||
        end === 'released' ||
        end === 'timeout',
      () => `${nameOf(by)} lets ${metadata.name} go, which no record says`,
    );
  }
}

/** What the record in force says of a pod. */
function leaverOf(podUid: string, { api, goverse }: World): Leaver | undefined {
  const { namespace, cluster = '' } = goverse?.parts ?? {};
  const found = api.get('GoverseCluster', namespace, cluster);
  const record = found === undefined ? null : recordIn(found as object as StoredObject);
  return record?.data.leavers?.find(({ uid }) => uid === podUid);
}

/** The mark of the cluster that the workloads are about. */
export function markOf(namespace: string, name: string): string {
  return `millrace-${fnv1a32(worldClusterId, namespace, name)}`;
}

/** The keys as they were, at a revision; 0: as they are. */
function viewAt(world: World, revision: number): ClusterView {
  const view = world.goverse?.viewAt(world, revision);
  if (view === undefined) {
    throw new Error(`what GoVerse's keys were at revision ${revision} is not known any more`);
  }
  return view;
}

/** What the leader would move now by its own rules. */
function leaderMoves(view: ClusterView, { goverse }: World): number {
  return rebalance(view, goverse?.parts.shardCount ?? 0).length;
}

/** Transactions of a look that wrote something. */
function writesSince(by: InFlight): number {
  return lookOf(by).filter(({ call, body }) => {
    const { succeeded } = (body ?? {}) as { readonly succeeded?: boolean };
    return call.name === 'write shards' && succeeded === true;
  }).length;
}

/** The last that a look read of the keys. */
function keysRead(by: InFlight, { goverse }: World): KeysRead | undefined {
  const read = lookOf(by).findLast(({ call, status }) => call.name === 'keys' && status === 200);
  if (read === undefined || goverse === undefined) {
    return undefined;
  }
  const { header, kvs = [] } = read.body as RangeBody;
  const entries = kvs.map(({ key: name, value = '', mod_revision }) => ({
    key: Buffer.from(name, 'base64'),
    value: Buffer.from(value, 'base64'),
    modRevision: Number(mod_revision),
  }));
  return { view: goverse.viewOf(entries), revision: Number(header.revision), at: read.at };
}

/** As etcd's gateway answers. */
interface RangeBody {
  readonly header: { readonly revision: string };
  readonly kvs?: readonly {
    readonly key: string;
    readonly value?: string;
    readonly mod_revision: string;
  }[];
}

function isMarked({ flags }: KnownShard): boolean {
  return flags.some((flag) => flag.startsWith('millrace-'));
}

function isForeign(shard: KnownShard): boolean {
  return shard.flags.includes('pinned') && !isMarked(shard);
}

function foreignFlags({ flags }: KnownShard): readonly string[] {
  return flags.filter((flag) => flag !== 'pinned' && !flag.startsWith('millrace-'));
}

function told(shard: KnownShard | undefined): string {
  return shard === undefined
    ? 'nothing'
    : [`${shard.target || '-'} ← ${shard.current || '-'}`, ...shard.flags].join(' ');
}

function textOf(object: StoredObject | null): string | undefined {
  return object?.metadata.annotations?.[key];
}

function recordIn({ metadata }: StoredObject): ReleaseRecord | null {
  const read = readReleaseRecord(metadata);
  return read.kind === 'ours' ? read.record : null;
}
