import pLimit from 'p-limit';
import { describeError } from '#shared/kernel/errors.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { openAdmin, openTopology } from '#shared/outside/data-plane.ts';
import type { PoolerListing } from '#shared/topology/topology.ts';
import type { Cluster } from '../cluster.ts';
import { type Check, failed, ok, skipped } from './check.ts';
import { listAll } from './list-all.ts';
import { checkGracePeriods } from './pods.ts';

/** Shards that are looked at side by side. */
const shardsAtOnce = 4;

const topologyAdvice =
  "the steps must reach it from where they run: check spec.dataPlane.topology, or name a service there to go through the API server's proxy";
const adminAdvice =
  "the steps must reach it from where they run: check spec.dataPlane.admin, or name a service there to go through the API server's proxy";

/** Every Database's data plane, as its Shards need it, and the pod templates of the Shards. */
export async function checkDatabases(
  cluster: Cluster,
  namespaces: readonly string[],
): Promise<readonly Check[]> {
  const databases = await listAll(cluster.kube, 'Database', namespaces);
  const shards = await listAll(cluster.kube, 'Shard', namespaces);
  if (typeof databases === 'string') {
    return [skipped('databases', databases)];
  }
  if (typeof shards === 'string') {
    return [skipped('databases', shards)];
  }
  if (databases.length === 0 && shards.length === 0) {
    return [skipped('databases', 'there are none yet')];
  }
  const limit = pLimit(shardsAtOnce);
  const ofShards = await Promise.all(
    shards.map((shard) => limit(() => checkShard(cluster, shard, databases))),
  );
  const unused = databases.filter((database) => !shards.some((shard) => isOf(shard, database)));
  return [
    ...unused.map((database) => skipped(`mdb/${database.metadata.name}`, 'no Shard names it yet')),
    ...ofShards.flat(),
  ];
}

function isOf(shard: KubeObject<'Shard'>, database: KubeObject<'Database'>): boolean {
  return (
    shard.spec.databaseRef.name === database.metadata.name &&
    shard.metadata.namespace === database.metadata.namespace
  );
}

async function checkShard(
  cluster: Cluster,
  shard: KubeObject<'Shard'>,
  databases: readonly KubeObject<'Database'>[],
): Promise<readonly Check[]> {
  const subject = `shd/${shard.metadata.name}`;
  const database = databases.find((candidate) => isOf(shard, candidate));
  if (database === undefined) {
    const name = shard.spec.databaseRef.name;
    return [
      failed(
        `database of ${subject}`,
        `there is no mdb/${name}`,
        `create the Database ${name} in its namespace`,
      ),
      ...checkGracePeriods(shard),
    ];
  }
  return [...(await checkDataPlane(cluster, shard, database)), ...checkGracePeriods(shard)];
}

async function checkDataPlane(
  cluster: Cluster,
  shard: KubeObject<'Shard'>,
  database: KubeObject<'Database'>,
): Promise<readonly Check[]> {
  const subject = `mdb/${database.metadata.name} for shd/${shard.metadata.name}`;
  try {
    const listing = await listPoolers(cluster, shard, database);
    if (typeof listing === 'string') {
      return [
        failed(`topology of ${subject}`, listing, topologyAdvice),
        skipped(`admin of ${subject}`, 'no pooler is known to ask about'),
      ];
    }
    const broken = listing.undecodable.length;
    const count = `${listing.poolers.length} pooler records`;
    return [
      broken === 0
        ? ok(`topology of ${subject}`, count)
        : failed(
            `topology of ${subject}`,
            `${count}, and ${broken} that cannot be decoded`,
            'look at these keys: nothing is deleted while they are there',
          ),
      await checkAdmin(cluster, database, listing, subject),
    ];
  } catch (error) {
    return [failed(`topology of ${subject}`, describeError(error), topologyAdvice)];
  }
}

async function listPoolers(
  { kube, connection }: Cluster,
  shard: KubeObject<'Shard'>,
  database: KubeObject<'Database'>,
): Promise<PoolerListing | string> {
  const topology = await openTopology(kube, connection, database);
  try {
    const cells = [...new Set(shard.spec.pools.flatMap((pool) => pool.cells))];
    const key = {
      database: database.spec.name,
      tableGroup: shard.spec.tableGroup,
      shard: shard.spec.shard,
    };
    const read = await topology.poolers(key, cells);
    return read.kind === 'present'
      ? read.value
      : read.kind === 'unknown'
        ? read.why
        : 'it is not there';
  } finally {
    await topology.close();
  }
}

async function checkAdmin(
  { connection }: Cluster,
  database: KubeObject<'Database'>,
  listing: PoolerListing,
  subject: string,
): Promise<Check> {
  const name = `admin of ${subject}`;
  const pooler = listing.poolers.find((candidate) => candidate.lifecycle === 'active');
  if (pooler === undefined) {
    return skipped(name, 'no active pooler is there to ask about');
  }
  const read = await openAdmin(connection, database).poolerStatus(pooler.id);
  return read.kind === 'unknown'
    ? failed(name, read.why, adminAdvice)
    : ok(name, `it answers for ${pooler.id.name}`);
}
