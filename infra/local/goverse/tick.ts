import type { LiveView } from './cluster-view.ts';
import { type LeaderMemory, type LeaderWork, leaderWork } from './leader.ts';
import type { LocalObjects } from './objects.ts';
import {
  type Rewrite,
  claimsOf,
  evictionsOf,
  isStable,
  mustCampaign,
  releasesOf,
} from './rules.ts';
import { timing } from './timing.ts';

/** What a node keeps from tick to tick. */
export interface GoverseNodeState {
  readonly self: string;
  readonly shardCount: number;
  readonly speed: number;
  readonly view: LiveView;
  readonly objects: LocalObjects;
  memory: LeaderMemory;
}

/** What a tick does to etcd. */
export interface TickLink {
  /** Takes the leader's key while its mod revision is this one; who else took it shows in the view. */
  campaign(leaderRevision: number): Promise<void>;
  /** One transaction for each. Those that were written are in the view when it resolves, and in the answer. */
  write(writes: readonly Rewrite[]): Promise<readonly Rewrite[]>;
}

/** What a tick wrote, for whoever wants to know who did it. */
export interface TickReport {
  readonly work: Exclude<LeaderWork['kind'], 'nothing'> | 'claim' | 'release';
  readonly count: number;
}

/**
 * One look of a node at the keys: it tries to lead where nobody does, leads where it should, and else claims, evicts and
 * releases. In a tick in which it changed anything as the leader it does none of these.
 *
 * @param clock in milliseconds; asked at each step, because thousands of writes take a while
 */
export async function tick(
  node: GoverseNodeState,
  link: TickLink,
  clock: () => number,
): Promise<readonly TickReport[]> {
  const { self, view, objects } = node;
  const isQuiet = () => isStable(view, { self, stableMs: timing.stableMs / node.speed }, clock());
  if (mustCampaign(view, self)) {
    await link.campaign(view.leaderRevision);
  }
  const led = view.leader === self && isQuiet() ? await lead(node, link, clock()) : undefined;
  if (led !== undefined) {
    return [led];
  }
  const claimed = isQuiet() ? await link.write(claimsOf(view, self)) : [];
  objects.load(claimed.map(({ shard }) => shard));
  if (isQuiet()) {
    objects.evict(evictionsOf(view, self, objects));
  }
  const released = isQuiet() ? await link.write(releasesOf(view, self, objects)) : [];
  return [...reportOf('claim', claimed), ...reportOf('release', released)];
}

/** `undefined` where nothing was changed; a batch of the rebalance that is not whole counts as such, as in GoVerse. */
async function lead(
  node: GoverseNodeState,
  link: TickLink,
  nowMs: number,
): Promise<TickReport | undefined> {
  const { kind, writes, memory } = leaderWork(node.view, node.memory, node, nowMs);
  node.memory = memory;
  if (kind === 'nothing') {
    return undefined;
  }
  const written = await link.write(writes);
  const isWhole = written.length === writes.length;
  return written.length > 0 && (isWhole || kind !== 'rebalance')
    ? { work: kind, count: written.length }
    : undefined;
}

function reportOf(work: 'claim' | 'release', written: readonly Rewrite[]): TickReport[] {
  return written.length === 0 ? [] : [{ work, count: written.length }];
}
