/** Where GoVerse keeps its keys when it is not told otherwise. */
export const defaultPrefix = '/goverse';

/** How many shards a cluster has when it is not told otherwise. */
export const defaultShardCount = 8_192;

const prefixPath = /^(\/[A-Za-z0-9._-]+)+$/;

/** The places of one cluster's keys; all but the leader's are prefixes. */
export interface GoverseKeys {
  /** Of everything below. */
  readonly all: string;
  readonly nodes: string;
  readonly gates: string;
  readonly shards: string;
  readonly leader: string;
}

/** @throws RangeError where the prefix is not made of names: another cluster's keys must not be met */
export function keysOf(prefix: string): GoverseKeys {
  if (!prefixPath.test(prefix)) {
    throw new RangeError('the prefix is not a path of names that begins with a slash');
  }
  return {
    all: `${prefix}/`,
    nodes: `${prefix}/nodes/`,
    gates: `${prefix}/gates/`,
    shards: `${prefix}/shard/`,
    leader: `${prefix}/leader`,
  };
}

export function shardKey(keys: GoverseKeys, shard: number): string {
  return `${keys.shards}${shard}`;
}

/** The number that a shard's key ends in; `undefined` where it is none, as GoVerse would write it, below the count. */
export function shardNumber(
  keys: GoverseKeys,
  key: string,
  shardCount: number,
): number | undefined {
  const digits = key.slice(keys.shards.length);
  const number = /^(0|[1-9]\d{0,8})$/.test(digits) ? Number(digits) : shardCount;
  return number < shardCount ? number : undefined;
}
