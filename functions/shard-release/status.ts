import { type ConditionFacts, applyConditions, hasConditions } from '#shared/api/condition.ts';
import type { GoverseClusterStatus } from '#shared/api/goverse-cluster.ts';
import type { Reason } from '#shared/api/reasons.ts';
import type { GoverseView } from '#shared/goverse/goverse.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import { type Instant, toText } from '#shared/kernel/instant.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { type Books, openLeavers } from './books.ts';
import { shardsLeft, unsettled } from './plan.ts';
import type { ReleaseSnapshot } from './snapshot.ts';

/** Nodes whose shards the status tells. */
const mostTold = 32;

/** Where this look leaves the cluster. */
export interface Standing {
  /**
   * `resting`: nobody waits. `moving`: it goes on by itself. `unmet`: something is not as it must be. `unknown`: it cannot be
   * told. `paused`: a person holds it.
   */
  readonly kind: 'resting' | 'moving' | 'unmet' | 'unknown' | 'paused';
  readonly reason: Reason;
  readonly message: string;
}

type OwnStatus = Omit<GoverseClusterStatus, 'conditions' | 'observedGeneration'>;

/**
 * The status of the GoverseCluster, all of which is shard-release's, only where it differs from what stands.
 *
 * @param seen `null` where the keys are not known, or not worth telling anew: then what was told of them stays
 */
export function statusEffects(
  { cluster }: ReleaseSnapshot,
  standing: Standing,
  seen: { readonly view: GoverseView; readonly books: Books } | null,
  now: Instant,
): Effect<'applyStatus'>[] {
  const { status, generation } = cluster;
  const existing = status?.conditions ?? [];
  const facts = factsOf(standing, seen === null ? null : unsettled(seen.view, cluster.shardCount));
  const told = facts.map((fact) =>
    fact === null ? null : applyConditions(existing, [fact], generation, now),
  );
  const kept = existing.filter(({ type }) => type === 'Ready');
  const conditions = told.flatMap((condition) => condition ?? kept);
  const own = seen === null ? ownOf(status) : ownStatus(seen.view, seen.books);
  const isSame =
    hasConditions(existing, conditions) &&
    status?.observedGeneration === generation &&
    textOf(ownOf(status)) === textOf(own);
  const applied: object = { observedGeneration: generation, conditions, ...own };
  return isSame
    ? []
    : [
        {
          kind: 'applyStatus',
          status: applied as JsonObject,
          guard: { uid: cluster.uid, resourceVersion: cluster.resourceVersion },
        },
      ];
}

function ownStatus(view: GoverseView, books: Books): OwnStatus {
  const nodes = new Set(view.nodes.map(({ address }) => address));
  const [first] = openLeavers(books);
  const isLed = view.leader !== null && nodes.has(view.leader.address);
  return {
    nodes: nodes.size,
    ...(isLed ? { leader: view.leader?.address ?? '' } : {}),
    shardsPerNode: [...nodes].slice(0, mostTold).map((node) => ({
      node,
      shards: view.shards.filter(({ current }) => current === node).length,
    })),
    inMigration: view.shards.filter(
      ({ current, target }) => nodes.has(current) && target !== '' && target !== current,
    ).length,
    unowned: view.shards.filter(({ current }) => !nodes.has(current)).length,
    ...(first === undefined
      ? {}
      : {
          draining: {
            pod: first.pod,
            left: shardsLeft(view, first.node),
            since: toText((first.since * 1000) as Instant),
          },
        }),
  };
}

function ownOf(status: GoverseClusterStatus | null): OwnStatus {
  const { conditions: _, observedGeneration: __, ...own } = status ?? {};
  return own;
}

/** `Ready` is `null` where the keys were not looked at. */
function factsOf(
  { kind, reason, message }: Standing,
  open: number | null,
): readonly (ConditionFacts | null)[] {
  const ready: ConditionFacts | null =
    kind === 'unknown'
      ? { type: 'Ready', status: 'Unknown', reason, message }
      : open === null
        ? null
        : open === 0
          ? { type: 'Ready', status: 'True', reason: 'ShardsInPlace', message: everyShard }
          : { type: 'Ready', status: 'False', reason: 'ShardsUnsettled', message: someShards };
  const isStalled = kind === 'unmet' || kind === 'unknown';
  return [
    ready,
    kind === 'moving'
      ? { type: 'Reconciling', status: 'True', reason, message }
      : { type: 'Reconciling', status: 'False', reason: 'NothingToDo', message: 'nothing moves' },
    isStalled
      ? { type: 'Stalled', status: 'True', reason, message }
      : {
          type: 'Stalled',
          status: 'False',
          reason: 'NothingStalled',
          message: 'nothing stands still',
        },
    { type: 'Released', status: releasedStatus(kind), reason, message },
  ];
}

const everyShard = 'every shard is with the node that it is meant for';
const someShards = 'some shards are not with a node that is registered and meant to have them';

function releasedStatus(kind: Standing['kind']): 'True' | 'False' | 'Unknown' {
  switch (kind) {
    case 'resting':
      return 'True';
    case 'moving':
    case 'unmet':
      return 'False';
    case 'unknown':
    case 'paused':
      return 'Unknown';
  }
}

/** The API server orders the fields of what it stores as it likes. */
function textOf(status: OwnStatus): string {
  const { nodes, leader, shardsPerNode = [], inMigration, unowned, draining } = status;
  return JSON.stringify([
    nodes ?? null,
    leader ?? null,
    shardsPerNode.map(({ node, shards }) => [node, shards]),
    inMigration ?? null,
    unowned ?? null,
    draining === undefined ? null : [draining.pod, draining.left, draining.since],
  ]);
}
