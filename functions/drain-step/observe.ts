import { isReady } from '#shared/kube/readiness.ts';
import pLimit from 'p-limit';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { drainMirror, drainRequest, forceDrain, releasedClaim } from '#shared/api/annotations.ts';
import { durationSeconds } from '#shared/api/duration.ts';
import { cellLabel, indexLabel, poolLabel, shardLabel } from '#shared/api/labels.ts';
import type { Database } from '#shared/api/database.ts';
import { claimName, podBaseName, podName } from '#shared/api/names.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { type Present, type Read, unknown, mapRead } from '#shared/kernel/read.ts';
import { databaseView } from '#shared/kernel/shard-database.ts';
import { targetView } from '#shared/kernel/target-view.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { type PoolerListing, hasStopped } from '#shared/topology/topology.ts';
import { mayHaveClaimsLeft, mayHaveLeavers } from './leaving.ts';
import { leavingRecord } from './moves.ts';
import type {
  ClaimMember,
  ClaimView,
  DrainSnapshot,
  Member,
  NodeView,
  PoolView,
  ShardView,
} from './snapshot.ts';

/** Marks of another operator's drain on a pod: that pod is in its hands. */
const foreignDrainMark = 'drain.multigres.com/';

/** Poolers or nodes asked at the same time. */
const questionsAtOnce = 5;

/**
 * Reads what drain-step decides from. The topology's records come first, because one of them may be compared when it is
 * written; pods, poolers and nodes are the evidence and are read after it.
 *
 * A shard from which nobody leaves costs the reads of its Database and its pods, and the topology. Where surplus claims
 * are to be deleted it costs one more, of its claims; and if one has lost its pod, that of whoever mounts it.
 */
export async function observe(
  target: Present<KubeObject<'Shard'>>,
  ports: Ports,
  signal: AbortSignal,
): Promise<DrainSnapshot> {
  const { metadata, spec } = target.value;
  const namespace = metadata.namespace ?? '';
  const shard = shardView(target.value);
  const record = readDrainRecord(metadata);
  const quiet = { shard, record, ...nothingAsked };
  if (
    shard.isPaused ||
    shard.isBeingDeleted ||
    record.kind === 'unreadable' ||
    record.kind === 'foreign'
  ) {
    return quiet;
  }

  const database = await ports.kube.get(
    { kind: 'Database', namespace, name: spec.databaseRef.name },
    signal,
  );
  const cells = [...new Set(spec.pools.flatMap((pool) => pool.cells))];
  const view = mapRead(database, (value) => databaseView(value, target.value));
  const topology: Read<PoolerListing> =
    database.kind === 'present' && view.kind === 'present'
      ? await ports.topology(database.value).poolers(view.value.shard, cells, signal)
      : unknown('the Database that says where it is cannot be read');
  const pods = await ports.kube.list(
    'Pod',
    { namespace, labels: { [shardLabel]: metadata.name } },
    signal,
  );
  const members = mapRead(pods, (list) => list.flatMap((pod) => memberOf(pod, shard)));
  if (members.kind !== 'present') {
    return { ...quiet, database: view, topology, members };
  }
  const nodes = await nodesOf(members, record, ports, signal);
  const seen = await withClaims(
    { ...quiet, database: view, topology, members, nodes },
    ports,
    signal,
  );
  return database.kind === 'present' && (mayMembersLeave(seen) || mayHaveClaimsLeft(seen))
    ? { ...seen, statuses: await statusesOf(database.value, topology, ports, signal) }
    : seen;
}

/**
 * Adds the claims where they matter, and who mounts them where one may have to be deleted. In this order: a claim's
 * version may be compared by a write.
 */
async function withClaims(
  seen: DrainSnapshot,
  ports: Ports,
  signal: AbortSignal,
): Promise<DrainSnapshot> {
  const { shard, members } = seen;
  const mayLeave = mayMembersLeave(seen);
  if (mayLeave ? seen.database.kind !== 'present' : !mayHaveClaimsLeft(seen)) {
    return seen;
  }
  const labels = { [shardLabel]: shard.name };
  const list = await ports.kube.list(
    'PersistentVolumeClaim',
    { namespace: shard.namespace, labels },
    signal,
  );
  const known = {
    ...seen,
    claims: mapRead(list, (claims) => claims.map((claim) => claimView(claim, shard))),
  };
  const leaver = leavingRecord(seen)?.data;
  const isUseAsked = mayLeave
    ? leaver !== undefined && isGone(members, leaver.podUid)
    : list.kind === 'present' && mayHaveClaimsLeft(known);
  return isUseAsked
    ? { ...known, claimsInUse: await claimsMounted(shard.namespace, ports, signal) }
    : known;
}

/** Whether a member is leaving, or has to. */
function mayMembersLeave(seen: DrainSnapshot): boolean {
  return leavingRecord(seen) !== null || mayHaveLeavers(seen);
}

const notAsked = unknown('it was not asked');

const nothingAsked = {
  database: notAsked,
  topology: notAsked,
  members: notAsked,
  statuses: [],
  nodes: {},
  claims: notAsked,
  claimsInUse: notAsked,
} as const;

function shardView(shard: KubeObject<'Shard'>): ShardView {
  const { metadata, spec, status } = shard;
  return {
    ...targetView(shard),
    forcedPodUid: metadata.annotations?.[forceDrain] ?? null,
    databaseName: spec.databaseRef.name,
    deadlineSeconds: durationSeconds(spec.drain.deadline),
    pools: spec.pools.map((pool): PoolView => ({
      name: pool.name,
      cells: pool.cells,
      replicasPerCell: pool.replicasPerCell,
      isAttached: pool.podTemplate === undefined,
      whenScaled: pool.pvcPolicy.whenScaled,
    })),
    drained: status?.conditions?.find((condition) => condition.type === 'Drained') ?? null,
    primary: status?.primary ?? null,
    drain: status?.drain ?? null,
  };
}

/** A pod as a member; none where its labels name no pool of the shard. */
function memberOf(pod: KubeObject<'Pod'>, shard: ShardView): Member[] {
  const { metadata, spec, status } = pod;
  const labels = metadata.labels ?? {};
  const pool = shard.pools.find((candidate) => candidate.name === labels[poolLabel]);
  const controller = pod.metadata.ownerReferences?.find((owner) => owner.controller === true);
  const index = Number(labels[indexLabel] ?? metadata.name.split('-').at(-1));
  const data = spec?.volumes?.find((volume) => volume.name === 'data');
  return [
    {
      pod: metadata.name,
      uid: metadata.uid,
      resourceVersion: metadata.resourceVersion,
      pool: labels[poolLabel] ?? '',
      cell: labels[cellLabel] ?? '',
      index: Number.isSafeInteger(index) && index >= 0 ? index : 0,
      node: spec?.nodeName ?? '',
      hasEnded: status?.phase === 'Failed' || status?.phase === 'Succeeded',
      isReady: isReady(pod),
      isBeingDeleted: metadata.deletionTimestamp !== undefined,
      control:
        pool?.isAttached === true ? 'attached' : controller?.uid === shard.uid ? 'ours' : 'foreign',
      isMarkedByOthers: Object.keys(metadata.annotations ?? {}).some((key) =>
        key.startsWith(foreignDrainMark),
      ),
      request: metadata.annotations?.[drainRequest] ?? null,
      mirror: metadata.annotations?.[drainMirror] ?? null,
      claim: data?.persistentVolumeClaim?.claimName ?? '',
    },
  ];
}

function claimView(claim: KubeObject<'PersistentVolumeClaim'>, shard: ShardView): ClaimView {
  const { metadata } = claim;
  return {
    name: metadata.name,
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    isBeingDeleted: metadata.deletionTimestamp !== undefined,
    released: metadata.annotations?.[releasedClaim] ?? null,
    member: claimMember(claim, shard),
  };
}

/** Name and labels must agree, and nobody may control it: then it is a claim as pool-pods makes them. */
function claimMember(
  { metadata }: KubeObject<'PersistentVolumeClaim'>,
  shard: ShardView,
): ClaimMember | null {
  const {
    [poolLabel]: pool = '',
    [cellLabel]: cell = '',
    [indexLabel]: digits = '',
  } = metadata.labels ?? {};
  if (!/^(0|[1-9]\d?)$/.test(digits)) {
    return null;
  }
  const index = Number(digits);
  const pod = podName(podBaseName(shard.name, pool, cell), index);
  const isControlled =
    metadata.ownerReferences?.some((owner) => owner.controller === true) ?? false;
  return metadata.name === claimName(pod) && !isControlled ? { pod, pool, cell, index } : null;
}

function isGone(members: Read<readonly Member[]>, uid: string): boolean {
  return members.kind === 'present' && !members.value.some((member) => member.uid === uid);
}

/** The nodes of members that are not ready (one may be gone), and the node the leaver ran on. */
async function nodesOf(
  members: Read<readonly Member[]>,
  record: DrainSnapshot['record'],
  ports: Ports,
  signal: AbortSignal,
): Promise<DrainSnapshot['nodes']> {
  const doubtful =
    members.kind === 'present' ? members.value.filter((member) => !member.isReady) : [];
  const leaver =
    record.kind === 'ours' && record.record.state !== 'choosing' ? record.record.data : undefined;
  const needed = leaver !== undefined && isGone(members, leaver.podUid) ? [leaver.node] : [];
  const names = new Set(
    [...doubtful.map((member) => member.node), ...needed].filter((name) => name !== ''),
  );
  const limit = pLimit(questionsAtOnce);
  const answers = await Promise.all(
    [...names].map((name) =>
      limit(
        async () =>
          [name, mapRead(await ports.kube.get({ kind: 'Node', name }, signal), nodeView)] as const,
      ),
    ),
  );
  return Object.fromEntries(answers);
}

function nodeView(node: KubeObject<'Node'>): NodeView {
  return { isReady: isReady(node) };
}

/** Every registered pooler that has not said it is gone is asked what it knows. */
async function statusesOf(
  database: Database,
  topology: Read<PoolerListing>,
  ports: Ports,
  signal: AbortSignal,
): Promise<DrainSnapshot['statuses']> {
  if (topology.kind !== 'present') {
    return [];
  }
  const admin = ports.admin(database);
  const limit = pLimit(questionsAtOnce);
  const live = topology.value.poolers.filter((pooler) => !hasStopped(pooler));
  return Promise.all(
    live.map(({ id }) => limit(async () => ({ id, status: await admin.poolerStatus(id, signal) }))),
  );
}

/** Every claim that any pod of the namespace mounts, whoever the pod belongs to. */
async function claimsMounted(
  namespace: string,
  ports: Ports,
  signal: AbortSignal,
): Promise<Read<readonly string[]>> {
  const pods = await ports.kube.list('Pod', { namespace }, signal);
  return mapRead(pods, (list) =>
    list.flatMap((pod) =>
      (pod.spec?.volumes ?? []).flatMap((volume) => volume.persistentVolumeClaim?.claimName ?? []),
    ),
  );
}
