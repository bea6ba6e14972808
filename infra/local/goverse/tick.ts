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

/** What a tick asks for next. It is told which of its writes were written; of a campaign the view tells. */
export type TickMove =
  | { readonly kind: 'campaign'; readonly leaderRevision: number }
  | { readonly kind: 'write'; readonly writes: readonly Rewrite[] };

type Ticking<Ending> = Generator<TickMove, Ending, readonly Rewrite[]>;

/** A whole tick over a link. */
export async function tick(
  node: GoverseNodeState,
  link: TickLink,
  clock: () => number,
): Promise<readonly TickReport[]> {
  const moves = tickMoves(node, clock);
  let next = moves.next([]);
  while (next.done !== true) {
    next = moves.next(await carryOut(next.value, link));
  }
  return next.value;
}

async function carryOut(move: TickMove, link: TickLink): Promise<readonly Rewrite[]> {
  if (move.kind === 'write') {
    return link.write(move.writes);
  }
  await link.campaign(move.leaderRevision);
  return [];
}

/**
 * One look of a node at the keys: it tries to lead where nobody does, leads where it should, and else claims, evicts and
 * releases. In a tick in which it changed anything as the leader it does none of these.
 *
 * @param clock in milliseconds; asked at each step, because thousands of writes take a while
 */
export function* tickMoves(
  node: GoverseNodeState,
  clock: () => number,
): Ticking<readonly TickReport[]> {
  const { self, view, objects } = node;
  const isQuiet = () => isStable(view, { self, stableMs: timing.stableMs / node.speed }, clock());
  if (mustCampaign(view, self)) {
    yield { kind: 'campaign', leaderRevision: view.leaderRevision };
  }
  const led = view.leader === self && isQuiet() ? yield* lead(node, clock()) : undefined;
  if (led !== undefined) {
    return [led];
  }
  const claimed = isQuiet() ? yield { kind: 'write', writes: claimsOf(view, self) } : [];
  objects.load(claimed.map(({ shard }) => shard));
  if (isQuiet()) {
    objects.evict(evictionsOf(view, self, objects));
  }
  const released = isQuiet()
    ? yield { kind: 'write', writes: releasesOf(view, self, objects) }
    : [];
  return [...reportOf('claim', claimed), ...reportOf('release', released)];
}

/** `undefined` where nothing was changed; a batch of the rebalance that is not whole counts as such, as in GoVerse. */
function* lead(node: GoverseNodeState, nowMs: number): Ticking<TickReport | undefined> {
  const { kind, writes, memory } = leaderWork(node.view, node.memory, node, nowMs);
  node.memory = memory;
  if (kind === 'nothing') {
    return undefined;
  }
  const written = yield { kind: 'write', writes };
  const isWhole = written.length === writes.length;
  return written.length > 0 && (isWhole || kind !== 'rebalance')
    ? { work: kind, count: written.length }
    : undefined;
}

function reportOf(work: 'claim' | 'release', written: readonly Rewrite[]): TickReport[] {
  return written.length === 0 ? [] : [{ work, count: written.length }];
}
