import { fnv1a32 } from '#shared/api/names.ts';
import type { GoverseView } from '#shared/goverse/goverse.ts';
import type { Count, Gauge } from '#shared/kernel/decision.ts';
import { type Instant, plusSeconds, secondsBetween } from '#shared/kernel/instant.ts';
import { type Members, membersOf } from './members.ts';
import { isMarked, shardsLeft } from './plan.ts';
import { type Leaver, type ReleaseData, mostCounted, mostLeavers } from './record.ts';
import type { ClusterView, PodView, ReleaseSnapshot } from './snapshot.ts';

/** GoVerse hands nothing over until this long after the last change of a node, a gate or the leader, in seconds. */
const windowSeconds = 10;

/** What this look makes of who goes. */
export interface Books {
  /** As the record shall have them. */
  readonly data: ReleaseData;
  readonly members: Members;
  /** Registered nodes whose shards are to have another node. */
  readonly leaving: ReadonlySet<string>;
  /** Whether no node, gate or leader has been seen to change for as long as GoVerse waits. */
  readonly isStill: boolean;
  /** Pods that go cleanly and are no node that can be told, while there are nodes that no pod is. */
  readonly unidentified: readonly PodView[];
  /** Who goes quickly and was not counted before. */
  readonly quick: readonly PodView[];
  /** Who left the cluster before being let go. */
  readonly broken: readonly Leaver[];
  readonly counts: readonly Count[];
  readonly gauges: readonly Gauge[];
}

/** @param view `null` where it cannot be read: then nobody comes or goes, and only time passes */
export function keepBooks(
  { cluster, record }: ReleaseSnapshot,
  view: GoverseView | null,
  pods: readonly PodView[],
  now: Instant,
): Books {
  const before = record.kind === 'ours' ? record.record.data : {};
  const members =
    view === null
      ? { nodeOf: new Map<string, string>(), strays: [] }
      : membersOf(
          view.nodes.map(({ address }) => address),
          pods,
        );
  const known =
    view === null ? (before.leavers ?? []) : leaversNow(before, view, members, pods, cluster, now);
  const leavers = known.map((leaver) => timedOut(countedAnew(leaver, now), cluster, now));
  const broken = view === null ? [] : vanished(before, leavers, view);
  const ended = [
    ...leavers.filter((leaver) => leaver.end !== undefined && endOf(before, leaver) === undefined),
    ...broken,
  ];
  const quick = quickNow(before.quick ?? [], pods, cluster);
  const still = view === null ? before.still : stillNow(before, view, pods, leavers, cluster, now);
  return {
    data: {
      ...(still === undefined ? {} : { still }),
      ...(leavers.length === 0 ? {} : { leavers }),
      ...(quick.all.length === 0 ? {} : { quick: quick.all }),
    },
    members,
    leaving: new Set(
      leavers
        .filter(({ end, node }) => end !== 'givenUp' && isRegistered(view, node))
        .map(({ node }) => node),
    ),
    isStill: still !== undefined && now >= plusSeconds((still[1] * 1000) as Instant, windowSeconds),
    unidentified: pods.filter(
      (pod) =>
        causeOf(pod, cluster) !== null && !members.nodeOf.has(pod.uid) && members.strays.length > 0,
    ),
    quick: quick.fresh,
    broken,
    ...tellings(ended, view, now, quick.fresh.length),
  };
}

/** The books once every leaver that has no shard left is released. */
export function withReleased(books: Books, view: GoverseView, now: Instant): Books {
  const isReleased = ({ end, node }: Leaver) =>
    end === undefined && books.leaving.has(node) && shardsLeft(view, node) === 0;
  const ended = (books.data.leavers ?? [])
    .filter(isReleased)
    .map((leaver): Leaver => ({ ...leaver, end: 'released' }));
  const leavers = (books.data.leavers ?? []).map(
    (leaver) => ended.find(({ uid }) => uid === leaver.uid) ?? leaver,
  );
  const told = tellings(ended, view, now, 0);
  return {
    ...books,
    data: { ...books.data, ...(leavers.length === 0 ? {} : { leavers }) },
    counts: [...books.counts, ...told.counts],
    gauges: [...books.gauges, ...told.gauges],
  };
}

/** Leavers whose hand-over has not ended. */
export function openLeavers({ data }: Books): readonly Leaver[] {
  return (data.leavers ?? []).filter(({ end }) => end === undefined);
}

/**
 * Why a pod's shards are to be handed over, if they are. A request is a wish for just that, so it needs no mode; but a pod
 * that says `quick` of itself means it.
 */
export function causeOf(pod: PodView, { mode }: ClusterView): Leaver['why'] | null {
  if (pod.isBeingDeleted && (pod.mode ?? mode) === 'clean') {
    return 'deleted';
  }
  return pod.isAskedToLeave && !pod.isBeingDeleted && pod.mode !== 'quick' ? 'requested' : null;
}

function leaversNow(
  before: ReleaseData,
  view: GoverseView,
  members: Members,
  pods: readonly PodView[],
  cluster: ClusterView,
  now: Instant,
): readonly Leaver[] {
  const kept = (before.leavers ?? []).flatMap((leaver) =>
    keep(leaver, view, members, pods, cluster, now),
  );
  const fresh = pods.flatMap((pod): Leaver[] => {
    const node = members.nodeOf.get(pod.uid);
    const why = causeOf(pod, cluster);
    const isKnown = kept.some(({ uid }) => uid === pod.uid);
    return node === undefined || why === null || isKnown
      ? []
      : [newLeaver(pod, node, why, view, now)];
  });
  return [...kept, ...fresh].slice(0, mostLeavers);
}

function newLeaver(
  { name, uid }: PodView,
  node: string,
  why: Leaver['why'],
  view: GoverseView,
  now: Instant,
): Leaver {
  const since = Math.floor(now / 1000);
  return { pod: name, uid, node, why, since, had: shardsLeft(view, node) };
}

/** One that is gone, or that is wanted again, is none any more. One that was released is so as long as it has no shard. */
function keep(
  leaver: Leaver,
  view: GoverseView,
  { nodeOf }: Members,
  pods: readonly PodView[],
  cluster: ClusterView,
  now: Instant,
): Leaver[] {
  if (!isRegistered(view, leaver.node)) {
    return [];
  }
  const pod = pods.find(({ uid }) => uid === leaver.uid);
  if (pod === undefined) {
    // Its key stays until its lease ends, unless another pod has its address by now.
    const isTaken = [...nodeOf.values()].includes(leaver.node);
    return isTaken || leaver.end === 'givenUp' ? [] : [leaver];
  }
  const why = causeOf(pod, cluster);
  if (why === null) {
    return [];
  }
  // Asked for before, deleted now, or given shards again, as when another node died: a new hand-over with its own time.
  const isReleased = leaver.end === 'released';
  const isAnew = isReleased ? shardsLeft(view, leaver.node) > 0 : why !== leaver.why;
  return [isAnew ? newLeaver(pod, leaver.node, why, view, now) : { ...leaver, why }];
}

/** Whether a time is that of a clock that was wrong: nobody is to wait until it has come. */
function isToCome(seconds: number, now: Instant): boolean {
  return seconds * 1000 > plusSeconds(now, windowSeconds);
}

function countedAnew(leaver: Leaver, now: Instant): Leaver {
  return isToCome(leaver.since, now) ? { ...leaver, since: Math.floor(now / 1000) } : leaver;
}

function timedOut(leaver: Leaver, { timeoutSeconds }: ClusterView, now: Instant): Leaver {
  const isOver = now >= plusSeconds((leaver.since * 1000) as Instant, timeoutSeconds);
  return leaver.end === undefined && isOver
    ? { ...leaver, end: leaver.why === 'deleted' ? 'timeout' : 'givenUp' }
    : leaver;
}

/** Those that left the cluster before they were handed over. */
function vanished(
  before: ReleaseData,
  leavers: readonly Leaver[],
  view: GoverseView,
): readonly Leaver[] {
  return (before.leavers ?? []).filter(
    ({ uid, end, node }) =>
      end === undefined &&
      !isRegistered(view, node) &&
      !leavers.some((leaver) => leaver.uid === uid),
  );
}

function quickNow(
  before: readonly string[],
  pods: readonly PodView[],
  { mode }: ClusterView,
): { readonly all: string[]; readonly fresh: readonly PodView[] } {
  const going = pods.filter((pod) => pod.isBeingDeleted && (pod.mode ?? mode) === 'quick');
  const fresh = going.filter(({ uid }) => !before.includes(fnv1a32(uid)));
  // What was counted and is gone is forgotten with the next one: forgetting alone is worth no write.
  return fresh.length === 0
    ? { all: [...before], fresh }
    : { all: going.slice(0, mostCounted).map(({ uid }) => fnv1a32(uid)), fresh };
}

function stillNow(
  before: ReleaseData,
  view: GoverseView,
  pods: readonly PodView[],
  leavers: readonly Leaver[],
  cluster: ClusterView,
  now: Instant,
): ReleaseData['still'] {
  const isOfUse =
    leavers.length > 0 ||
    cluster.mode === 'clean' ||
    cluster.rebalance === 'outside' ||
    pods.some((pod) => pod.mode === 'clean') ||
    isMarked(view, cluster.mark);
  const { nodes, gates, leader } = view;
  const members = [nodes, gates, leader === null ? [] : [leader]].map((list) =>
    list.map(({ address, modRevision }) => `${address} ${modRevision}`).join('\n'),
  );
  const hash = fnv1a32(...members);
  if (!isOfUse) {
    return undefined;
  }
  const isKnown = before.still?.[0] === hash && !isToCome(before.still[1], now);
  return isKnown ? before.still : [hash, Math.ceil(now / 1000)];
}

function endOf({ leavers = [] }: ReleaseData, leaver: Leaver): Leaver['end'] {
  return leavers.find(({ uid, why }) => uid === leaver.uid && why === leaver.why)?.end;
}

function isRegistered(view: GoverseView | null, node: string): boolean {
  return view === null || view.nodes.some(({ address }) => address === node);
}

const timeoutCount: Count = {
  metric: 'goverse_clean_shutdown_timeouts_total',
  labels: {},
  count: 1,
};

/** What is counted of those whose hand-over has ended with this look, in the names of the seed. */
function tellings(
  ended: readonly Leaver[],
  view: GoverseView | null,
  now: Instant,
  quick: number,
): Pick<Books, 'counts' | 'gauges'> {
  const counts = ended.flatMap(({ node, had, end }): Count[] => {
    const status = end === 'released' ? 'success' : end === undefined ? 'error' : 'timeout';
    const released = view === null ? 0 : Math.max(0, had - shardsLeft(view, node));
    return [
      { metric: 'goverse_shutdown_total', labels: { mode: 'clean', status }, count: 1 },
      { metric: 'goverse_shards_released_total', labels: { node }, count: released },
      ...(status === 'timeout' ? [timeoutCount] : []),
    ];
  });
  const quickCount: Count = {
    metric: 'goverse_shutdown_total',
    labels: { mode: 'quick', status: 'success' },
    count: quick,
  };
  return {
    counts: quick === 0 ? counts : [...counts, quickCount],
    gauges: ended.map(({ since }) => ({
      metric: 'goverse_shutdown_duration_seconds',
      labels: { mode: 'clean' },
      value: Math.max(0, secondsBetween((since * 1000) as Instant, now)),
    })),
  };
}
