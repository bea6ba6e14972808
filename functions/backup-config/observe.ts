import { isOfStep } from '#shared/api/condition.ts';
import { confirmRepository, recordAnnotation } from '#shared/api/annotations.ts';
import { wantedRepository } from '#shared/api/repository.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { type Present, type Read, mapRead, unknown } from '#shared/kernel/read.ts';
import { readRecord } from '#shared/kernel/record.ts';
import { targetView } from '#shared/kernel/target-view.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { backupConfigRecordSchema } from './record.ts';
import type { BackupConfigSnapshot, DatabaseView, ShardView } from './snapshot.ts';

/**
 * Reads what backup-config decides from: the topology's record first, because it may be compared when it is written, then
 * the bucket, or who shares the file system. The bucket is asked at every look: its changes are no event.
 */
export async function observe(
  target: Present<KubeObject<'Database'>>,
  ports: Ports,
  signal: AbortSignal,
): Promise<BackupConfigSnapshot> {
  const { metadata } = target.value;
  const database = databaseView(target.value, ports.clusterId);
  const record = readRecord(
    metadata.annotations?.[recordAnnotation('backup-config')],
    metadata.uid,
    backupConfigRecordSchema,
  );
  const quiet = { database, record, ...nothingAsked };
  const isHandsOff =
    database.isPaused ||
    database.isBeingDeleted ||
    record.kind === 'foreign' ||
    record.kind === 'unreadable';
  const { wanted } = database;
  const mayHaveWritten = record.kind === 'ours' && record.record.data.intent !== undefined;
  if (isHandsOff || (wanted.kind !== 'wanted' && !mayHaveWritten)) {
    return quiet;
  }
  const topology = await ports.topology(target.value).database(database.dataPlaneName, signal);
  if (wanted.kind !== 'wanted') {
    return { ...quiet, topology };
  }
  if (wanted.place.type === 's3') {
    const survey = await ports.repository(target.value).survey(signal);
    return { ...quiet, topology, survey };
  }
  return wanted.isOneNodeOnly
    ? { ...quiet, topology, shards: await shardsOf(database, ports, signal) }
    : { ...quiet, topology };
}

const notAsked = unknown('it was not asked');

const nothingAsked = {
  topology: notAsked,
  survey: {
    credentials: notAsked,
    owner: notAsked,
    keepsConditions: notAsked,
    isVersioned: notAsked,
    isEncrypted: notAsked,
  },
  shards: notAsked,
} as const;

function databaseView(database: KubeObject<'Database'>, cluster: string): DatabaseView {
  const { metadata, spec, status } = database;
  return {
    cluster,
    ...targetView(database),
    dataPlaneName: spec.name,
    wanted: wantedRepository({ metadata, spec }),
    confirmed: metadata.annotations?.[confirmRepository] ?? null,
    conditions: (status?.conditions ?? []).filter(isOfStep),
    observedGeneration: status?.observedGeneration ?? null,
    repository: status?.repository ?? null,
  };
}

async function shardsOf(
  { namespace, name }: DatabaseView,
  { kube }: Ports,
  signal: AbortSignal,
): Promise<Read<readonly ShardView[]>> {
  const shards = await kube.list('Shard', { namespace }, signal);
  return mapRead(shards, (list) =>
    list.filter(({ spec }) => spec.databaseRef.name === name).map(shardView),
  );
}

function shardView({ metadata, spec }: KubeObject<'Shard'>): ShardView {
  return {
    name: metadata.name,
    members: spec.pools.reduce((sum, pool) => sum + pool.cells.length * pool.replicasPerCell, 0),
    cells: new Set(spec.pools.flatMap((pool) => pool.cells)).size,
  };
}
