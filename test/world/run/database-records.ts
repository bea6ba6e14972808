import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { RepositoryPlace } from '#shared/api/repository.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { decodeDatabase } from '#shared/topology/database-record.ts';
import { type Database, DatabaseSchema } from '#shared/topology/proto/clustermetadata_pb.ts';
import type { Etcd, Entry } from '#test/world/model/etcd.ts';
import { fieldOfTheFuture } from './pooler-records.ts';
import type { World } from './world.ts';

/** Never written by Millrace, so it is in every version of a record as it was in the first. */
export const authoritativeGeneration = 7n;

const suffix = '/Database';

/** The data plane registers a database, with more than Millrace knows, and with backups in a directory. */
export function registerDatabase(world: World, globalRoot: string): void {
  const name = 'postgres';
  const record = create(DatabaseSchema, {
    name,
    cells: ['zone-a'],
    backupLocation: {
      location: { case: 'filesystem', value: { path: '/backups' } },
      authoritativeGeneration,
    },
  });
  const value = Buffer.concat([toBinary(DatabaseSchema, record), fieldOfTheFuture]);
  world.etcd.put(`${globalRoot}/databases/${name}${suffix}`, value);
}

/** Somebody else writes each record as it is: its revision moves. */
export function rewriteDatabaseRecords({ etcd }: World): void {
  for (const { key, value } of databaseEntries(etcd)) {
    etcd.put(Buffer.from(key).toString(), value);
  }
}

export function databaseEntries(etcd: Etcd): readonly Entry[] {
  return etcd.list('').filter(({ key }) => Buffer.from(key).toString().endsWith(suffix));
}

/** The key of the record that a Database is about. */
export function keyOfRecord({ spec }: KubeObject<'Database'>): string {
  return `${spec.dataPlane.topology.globalRoot}/databases/${spec.name}${suffix}`;
}

/** Where a database's backups are kept, as the data plane has it. */
export function placeIn(etcd: Etcd, database: KubeObject<'Database'>): RepositoryPlace | null {
  const key = keyOfRecord(database);
  const entry = databaseEntries(etcd).find((each) => Buffer.from(each.key).toString() === key);
  return entry === undefined ? null : placeOfRecord(entry.value, database.spec.name);
}

/** Where a record says that backups are kept. */
export function placeOfRecord(value: Uint8Array, name: string): RepositoryPlace | null {
  const decoded = decodeDatabase(value, name);
  return decoded.kind === 'decoded' ? decoded.record.place : null;
}

/** Everything of a record that is none of Millrace's business. */
export function restOfRecord(value: Uint8Array): string {
  const { backupLocation, ...others }: Database = fromBinary(DatabaseSchema, value);
  const { $unknown = [], authoritativeGeneration: generation = 0n } = backupLocation ?? {};
  const unknown = [...$unknown, ...(others.$unknown ?? [])];
  return JSON.stringify([
    others.name,
    others.cells,
    others.bootstrapDurabilityPolicy === undefined ? null : 'policy',
    String(generation),
    unknown.map(({ no, wireType, data }) => [no, wireType, Buffer.from(data).toString('hex')]),
  ]);
}
