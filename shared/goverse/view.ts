import type { StoredValue } from '#shared/topology/etcd-store.ts';
import type { GoverseMember, GoverseShard, GoverseView } from './goverse.ts';
import { type GoverseKeys, shardNumber } from './keys.ts';
import { isNodeAddress, parseShard } from './shard-value.ts';

/** What one key turned out to be. */
type Found =
  | { readonly kind: 'node' | 'gate' | 'leader'; readonly member: GoverseMember }
  | { readonly kind: 'shard'; readonly shard: GoverseShard }
  | { readonly kind: 'unreadable'; readonly key: string; readonly why: string }
  | { readonly kind: 'foreign' };

/**
 * Sorts the keys of a cluster into what they are. Keys of other kinds below the prefix are left out: GoVerse does not know
 * them either.
 *
 * @param shardCount a shard's key beyond it is unreadable: then the cluster is not the one that was described
 */
export function viewOf(
  keys: GoverseKeys,
  shardCount: number,
  revision: string,
  entries: readonly StoredValue[],
): GoverseView {
  const found = entries.map((entry) => findingOf(keys, shardCount, entry));
  return {
    revision,
    nodes: membersOf(found, 'node'),
    gates: membersOf(found, 'gate'),
    leader: membersOf(found, 'leader')[0] ?? null,
    shards: found
      .flatMap((each) => (each.kind === 'shard' ? each.shard : []))
      .toSorted((a, b) => a.shard - b.shard),
    unreadable: found.flatMap((each) =>
      each.kind === 'unreadable' ? { key: each.key, why: each.why } : [],
    ),
  };
}

function membersOf(found: readonly Found[], kind: 'node' | 'gate' | 'leader'): GoverseMember[] {
  return found
    .flatMap((each) => (each.kind === kind ? each.member : []))
    .toSorted((a, b) => (a.address < b.address ? -1 : 1));
}

function findingOf(keys: GoverseKeys, shardCount: number, entry: StoredValue): Found {
  if (entry.key.startsWith(keys.shards)) {
    return shardOf(keys, shardCount, entry);
  }
  if (entry.key === keys.leader) {
    return memberOf('leader', '', entry);
  }
  if (entry.key.startsWith(keys.nodes)) {
    return memberOf('node', keys.nodes, entry);
  }
  return entry.key.startsWith(keys.gates)
    ? memberOf('gate', keys.gates, entry)
    : { kind: 'foreign' };
}

function shardOf(keys: GoverseKeys, shardCount: number, entry: StoredValue): Found {
  const shard = shardNumber(keys, entry.key, shardCount);
  if (shard === undefined) {
    return { kind: 'unreadable', key: entry.key, why: `it is none of ${shardCount} shards` };
  }
  const value = parseShard(textOf(entry));
  return value === undefined
    ? { kind: 'unreadable', key: entry.key, why: 'its value has parts of unknown meaning' }
    : { kind: 'shard', shard: { shard, modRevision: entry.modRevision, ...value } };
}

/** GoVerse takes the address from the value when a member comes, and from the key when it goes. */
function memberOf(kind: 'node' | 'gate' | 'leader', prefix: string, entry: StoredValue): Found {
  const address = textOf(entry);
  if (!isNodeAddress(address)) {
    return { kind: 'unreadable', key: entry.key, why: 'its value is no address' };
  }
  if (kind !== 'leader' && entry.key !== `${prefix}${address}`) {
    return { kind: 'unreadable', key: entry.key, why: 'its value is not what its key names' };
  }
  return { kind, member: { address, modRevision: entry.modRevision } };
}

function textOf({ value }: StoredValue): string {
  return Buffer.from(value).toString('utf8');
}
