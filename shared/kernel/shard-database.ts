import type { Database } from '#shared/api/database.ts';
import type { Shard } from '#shared/api/shard.ts';
import type { ShardKey } from '#shared/topology/topology.ts';
import type { DatabaseRef } from './effect.ts';

/** What a step of a Shard needs to know of the Database that the Shard names. */
export interface DatabaseView {
  /** How the data plane names the shard. */
  readonly shard: ShardKey;
  readonly ref: DatabaseRef;
  readonly isPaused: boolean;
}

export function databaseView(
  { metadata, spec }: Pick<Database, 'metadata' | 'spec'>,
  { spec: { tableGroup, shard } }: Pick<Shard, 'spec'>,
): DatabaseView {
  return {
    shard: { database: spec.name, tableGroup, shard },
    ref: { namespace: metadata.namespace ?? '', name: metadata.name, uid: metadata.uid },
    isPaused: spec.paused,
  };
}
