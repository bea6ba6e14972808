import { GoverseObserver } from '#infra/local/goverse/observer.ts';
import { type GoverseMemberProcess, startGoverseNode } from '#infra/local/goverse/start.ts';
import { connectGoverse } from '#shared/goverse/connect.ts';
import {
  type GoverseStore,
  type GoverseView,
  type ShardWrite,
  maxBatch,
} from '#shared/goverse/goverse.ts';

/** Three ticks without a change: a leader that had anything left to do would have done it. */
const quietMs = 15_000;
const settleTimeoutMs = 300_000;

/** A write that meets one of GoVerse's is decided anew, this often. */
const attempts = 5;

/** One cluster for one measurement. */
export interface GoverseStage extends AsyncDisposable {
  readonly observer: GoverseObserver;
  readonly store: GoverseStore;
  /** Addresses in their order. */
  readonly addresses: readonly string[];
  node(address: string): GoverseMemberProcess;
  start(): Promise<GoverseMemberProcess>;
  settled(): ReturnType<GoverseObserver['settled']>;
  /** Writes what the change makes of the shards as they are, until none of it meets a write of others. */
  apply(change: (view: GoverseView) => readonly ShardWrite[]): Promise<number>;
}

/**
 * A settled cluster of so many nodes, in processes of their own. The last one in the order of addresses leads, so that it
 * is never the first among equals.
 */
export async function openGoverseStage(
  endpoint: string,
  prefix: string,
  { nodes, shardCount }: { readonly nodes: number; readonly shardCount: number },
): Promise<GoverseStage> {
  await using stack = new AsyncDisposableStack();
  const observer = stack.use(await GoverseObserver.open({ endpoint, prefix, shardCount }));
  const store = connectGoverse(
    { endpoints: [endpoint], prefix, shards: shardCount },
    { namespace: 'default' },
  );
  stack.defer(() => store.close());
  const members = new Map<string, GoverseMemberProcess>();
  // Who starts a node later finds the stack moved on to the stage.
  let owner: AsyncDisposableStack = stack;
  const startNode = async (number: number): Promise<GoverseMemberProcess> => {
    const address = `10.0.0.${number}:48000`;
    const { told: onTick } = observer;
    const node = owner.use(
      await startGoverseNode({ endpoint, prefix, address, shardCount, onTick }),
    );
    members.set(address, node);
    return node;
  };
  for (let number = nodes; number > 0; number -= 1) {
    await startNode(number);
  }
  const settled = () => observer.settled(quietMs, settleTimeoutMs);
  await settled();
  const kept = stack.move();
  owner = kept;
  return {
    observer,
    store,
    addresses: [...members.keys()].toSorted(),
    node(address) {
      const node = members.get(address);
      if (node === undefined) {
        throw new Error(`there is no ${address}`);
      }
      return node;
    },
    start: () => startNode(nodes + 1),
    settled,
    apply: (change) => apply(store, change),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

async function apply(
  store: GoverseStore,
  change: (view: GoverseView) => readonly ShardWrite[],
): Promise<number> {
  let transactions = 0;
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const view = await store.view();
    if (view.kind !== 'present') {
      throw new Error(view.kind === 'unknown' ? view.why : 'there are no keys');
    }
    const writes = change(view.value);
    let isWhole = true;
    for (let first = 0; first < writes.length; first += maxBatch) {
      const batch = writes.slice(first, first + maxBatch);
      const answer = await store.writeShards(batch);
      transactions += 1;
      isWhole &&= answer.kind === 'written';
    }
    if (isWhole) {
      return transactions;
    }
  }
  throw new Error('the shards are written by others all the time');
}
