import pLimit from 'p-limit';
import type { Database } from '#shared/api/database.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { durationSeconds } from '#shared/api/duration.ts';
import { shardLabel } from '#shared/api/labels.ts';
import type { ObjectMetadata } from '#shared/api/metadata.ts';
import { podBaseName } from '#shared/api/names.ts';
import type { Clock } from '#shared/kernel/instant.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { type Present, type Read, mapRead, unknown } from '#shared/kernel/read.ts';
import { databaseView } from '#shared/kernel/shard-database.ts';
import { targetView } from '#shared/kernel/target-view.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import type { PoolerListing } from '#shared/topology/topology.ts';
import { readCleanupRecord } from './record.ts';
import type { CleanupSnapshot, DrainView, ShardView } from './snapshot.ts';
import { poolersToAsk, unexplainedByMembers } from './stale.ts';

/** Poolers asked at the same time. */
const questionsAtOnce = 5;

/**
 * Reads what etcd-cleanup decides from. The topology's records come first, because one of them may be compared when it
 * is written; pods and poolers are the evidence and are read after it.
 *
 * A shard whose records are all its members' costs the reads of its Database and its pods, and the topology. Where one is
 * none of theirs it costs a list of the namespace's pods besides, and on a later sight the questions to those poolers.
 */
export async function observe(
  target: Present<KubeObject<'Shard'>>,
  ports: Ports,
  signal: AbortSignal,
  clock: Clock,
): Promise<CleanupSnapshot> {
  const { metadata, spec } = target.value;
  const shard = shardView(target.value);
  const { namespace } = shard;
  const record = readCleanupRecord(metadata);
  const readAt = clock();
  const quiet = { shard, record, drain: drainView(metadata), readAt, ...nothingAsked };
  if (
    shard.isPaused ||
    shard.isBeingDeleted ||
    record.kind === 'unreadable' ||
    record.kind === 'foreign'
  ) {
    return quiet;
  }
  const database = await ports.kube.get(
    { kind: 'Database', namespace, name: shard.databaseName },
    signal,
  );
  const view = mapRead(database, (value) => databaseView(value, target.value));
  if (database.kind !== 'present' || view.kind !== 'present' || view.value.isPaused) {
    return { ...quiet, database: view };
  }
  const cells = [...new Set(spec.pools.flatMap((pool) => pool.cells))];
  const topology: Read<PoolerListing> = await ports
    .topology(database.value)
    .poolers(view.value.shard, cells, signal);
  if (topology.kind !== 'present') {
    return { ...quiet, database: view, topology };
  }
  const members = await podNames(
    ports,
    { namespace, labels: { [shardLabel]: shard.name } },
    signal,
  );
  const seen = { ...quiet, database: view, topology, members };
  if (unexplainedByMembers(seen).length === 0) {
    return seen;
  }
  const known = { ...seen, pods: await podNames(ports, { namespace }, signal) };
  return { ...known, statuses: await statusesOf(database.value, known, ports, signal) };
}

const notAsked = unknown('it was not asked');

const nothingAsked = {
  database: notAsked,
  topology: notAsked,
  members: notAsked,
  pods: notAsked,
  statuses: [],
} as const;

async function podNames(
  ports: Ports,
  options: Parameters<Ports['kube']['list']>[1],
  signal: AbortSignal,
): Promise<Read<readonly string[]>> {
  const pods = await ports.kube.list('Pod', options, signal);
  return mapRead(pods, (list) => list.map(({ metadata }) => metadata.name));
}

async function statusesOf(
  database: Database,
  seen: CleanupSnapshot,
  ports: Ports,
  signal: AbortSignal,
): Promise<CleanupSnapshot['statuses']> {
  const admin = ports.admin(database);
  const limit = pLimit(questionsAtOnce);
  return Promise.all(
    poolersToAsk(seen).map((id) =>
      limit(async () => ({ id, status: await admin.poolerStatus(id, signal) })),
    ),
  );
}

function shardView(shard: KubeObject<'Shard'>): ShardView {
  const { metadata, spec, status } = shard;
  const { enabled, quietFor, deleteAfter, maxPerPass } = spec.cleanup;
  return {
    ...targetView(shard),
    databaseName: spec.databaseRef.name,
    isEnabled: enabled,
    quietSeconds: durationSeconds(quietFor),
    deleteAfterSeconds: durationSeconds(deleteAfter),
    maxPerPass,
    groups: spec.pools
      .filter((pool) => pool.podTemplate !== undefined)
      .flatMap(({ name, cells, replicasPerCell }) =>
        cells.map((cell) => ({
          base: podBaseName(metadata.name, name, cell),
          replicas: replicasPerCell,
        })),
      ),
    condition: status?.conditions?.find(({ type }) => type === 'TopologyClean') ?? null,
    cleanup: status?.cleanup ?? null,
  };
}

function drainView(metadata: ObjectMetadata): DrainView {
  const record = readDrainRecord(metadata);
  switch (record.kind) {
    case 'unreadable':
      return { kind: 'unknown', why: record.why };
    case 'ours':
      return record.record.state === 'choosing'
        ? { kind: 'none' }
        : { kind: 'open', pod: record.record.data.pod, pooler: record.record.data.pooler };
    case 'none':
    case 'foreign':
      return { kind: 'none' };
  }
}
