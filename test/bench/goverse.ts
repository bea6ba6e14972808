import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pLimit from 'p-limit';
import { handOver } from '#functions/shard-release/plan.ts';
import { startEtcd } from '#infra/local/control-plane/etcd.ts';
import type { GoverseView, ShardWrite } from '#shared/goverse/goverse.ts';
import { defaultShardCount, keysOf, shardKey } from '#shared/goverse/keys.ts';
import { formatShard, withoutPin } from '#shared/goverse/shard-value.ts';
import { type Figure, figure } from './figure.ts';
import { type Seen, outageFigures } from './goverse-figures.ts';
import { type GoverseStage, openGoverseStage } from './goverse-stage.ts';
import { type Part, type PartOptions, scaled } from './part.ts';

/** Whoever waits for hand-overs that do not come lets the node go after this. */
const patienceMs = 60_000;
const claimTimeoutMs = 60_000;

/** Clusters that are measured at the same time: most of it is waiting. */
const concurrency = 2;

const id = 'bench';

interface Scenario {
  readonly name: string;
  readonly nodes: number;
  /** Takes minutes. */
  readonly isLong: boolean;
  readonly seen: Seen;
  /** From a settled cluster on; the measurement begins where it says so. */
  readonly act: (stage: GoverseStage) => Promise<void>;
}

const scenarios: readonly Scenario[] = [
  {
    name: 'SIGTERM',
    nodes: 3,
    isLong: false,
    seen: { allOwned: 17.6, unowned: [16.6, 18.6], unroutable: [16.6, 18.6] },
    act: (stage) => stop(stage, firstOf(stage)),
  },
  {
    name: 'SIGKILL',
    nodes: 3,
    isLong: false,
    seen: { allOwned: 32.3, unowned: [31.1, 34.6], unroutable: [31.1, 34.6] },
    act: (stage) => kill(stage, firstOf(stage)),
  },
  {
    name: 'SIGTERM of the leader',
    nodes: 3,
    isLong: true,
    seen: { allOwned: 24.2, unowned: [21.4, 24.2], unroutable: [21.4, 24.2] },
    act: (stage) => stop(stage, stage.observer.leader),
  },
  {
    name: 'SIGKILL of the leader',
    nodes: 3,
    isLong: true,
    seen: { allOwned: 39.8, unowned: [38.4, 39.8], unroutable: [38.4, 39.8] },
    act: (stage) => kill(stage, stage.observer.leader),
  },
  {
    name: 'a node joins three',
    nodes: 3,
    isLong: true,
    seen: { allOwned: 166, unowned: [4.2, 14.9], unroutable: [32.1, 155] },
    act: joinOne,
  },
  {
    name: 'a node joins two',
    nodes: 2,
    isLong: true,
    seen: { allOwned: 216, unowned: [3.8, 14.9], unroutable: [55.9, 204] },
    act: joinOne,
  },
  {
    name: 'retarget without pins',
    nodes: 3,
    isLong: true,
    seen: { allOwned: 83, unowned: [34.5, 85], unroutable: [40, 88] },
    act: (stage) => retarget(stage, false),
  },
  {
    name: 'retarget, only the moved pinned',
    nodes: 3,
    isLong: true,
    seen: { allOwned: 83, unowned: [34.3, 75], unroutable: [42.3, 80] },
    act: (stage) => retarget(stage, true),
  },
  {
    name: 'given up: unpin only',
    nodes: 3,
    isLong: true,
    seen: { allOwned: 204, unowned: [2.3, 12.3], unroutable: [55.8, 203] },
    act: giveUp,
  },
  {
    name: 'holder killed, pins left for 60 s',
    nodes: 3,
    isLong: true,
    seen: { allOwned: 165, unowned: [71.6, 169], unroutable: [86.6, 173] },
    act: killHolder,
  },
];

/**
 * How long shards are without an owner when nobody but GoVerse's own rules hands them over: processes of the stand-in on
 * a real etcd, beside what a real cluster was seen to take.
 */
export const goverse: Part = {
  name: 'goverse',
  title: 'what GoVerse alone does with 8,192 shards when nodes go and come; all of it with --long',
  async measure(options) {
    await using stack = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'millrace-bench-goverse-'));
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const etcd = stack.use(await startEtcd({ dataDir: folder }));
    const chosen = scenarios.filter(({ isLong }) => options.isLong || !isLong);
    const limit = pLimit(concurrency);
    // Where one breaks the others end first: none may outlive its etcd.
    const endings = await Promise.allSettled(
      chosen.map((scenario, place) =>
        limit(() => measureScenario(scenario, etcd.endpoint, `/goverse-${place}`, options)),
      ),
    );
    const figures = endings.map((ending) => {
      if (ending.status === 'rejected') {
        throw ending.reason;
      }
      return ending.value;
    });
    return [...figures.flat(), ...(await measureKeys(etcd.endpoint, options))];
  },
};

async function measureScenario(
  { name, nodes, seen, act }: Scenario,
  endpoint: string,
  prefix: string,
  options: PartOptions,
): Promise<Figure[]> {
  const shardCount = scaled(defaultShardCount, options);
  await using stage = await openGoverseStage(endpoint, prefix, { nodes, shardCount });
  options.log(`${name}: begins`);
  stage.observer.begin();
  await act(stage);
  const observation = await stage.settled();
  options.log(`${name}: all owned after ${observation.allOwnedMs / 1000} s`);
  return outageFigures(`goverse: ${name}`, observation, seen);
}

function firstOf({ addresses }: GoverseStage): string {
  return addresses[0] ?? '';
}

async function stop(stage: GoverseStage, address: string): Promise<void> {
  await stage.node(address).stop();
}

async function kill(stage: GoverseStage, address: string): Promise<void> {
  stage.observer.killed(address);
  await stage.node(address).kill();
}

async function joinOne(stage: GoverseStage): Promise<void> {
  const { address } = await stage.start();
  await stage.observer.until(
    (seen) => (seen.loads().get(address)?.target ?? 0) > 0,
    claimTimeoutMs,
  );
}

/** Moves a node's targets and nothing else, waits for what does not come, and lets the node go. */
async function retarget(stage: GoverseStage, arePinned: boolean): Promise<void> {
  const leaving = firstOf(stage);
  await stage.apply((view) => {
    const moved = handOverOf(view, leaving).filter(({ shard, target }) =>
      view.shards.some((before) => before.shard === shard && before.target !== target),
    );
    return arePinned ? moved : moved.map((write) => ({ ...write, ...withoutPin(write, id) }));
  });
  await stage.observer.whether((seen) => !seen.loads().has(leaving), patienceMs);
  await stop(stage, leaving);
  await unpin(stage);
}

/** Hands a node's shards over under pins, and waits for the claims. @returns who holds the pins */
async function handOverAll(stage: GoverseStage, leaving: string): Promise<string> {
  const { observer, addresses } = stage;
  await stage.apply((view) => handOverOf(view, leaving));
  await observer.until(
    (seen) => !seen.loads().has(leaving) && !seen.loads().has(''),
    claimTimeoutMs,
  );
  return addresses.find((address) => address !== leaving) ?? '';
}

/** What a whole hand-over would write. */
function handOverOf(view: GoverseView, leaving: string): readonly ShardWrite[] {
  const move = handOver(view, new Set([leaving]), id);
  return move.kind === 'write' ? move.writes : [];
}

function unpin(stage: GoverseStage): Promise<number> {
  return stage.apply(({ shards }) =>
    shards.flatMap((shard) => {
      const left = withoutPin(shard, id);
      return left === shard ? [] : { ...shard, ...left };
    }),
  );
}

async function giveUp(stage: GoverseStage): Promise<void> {
  await handOverAll(stage, firstOf(stage));
  stage.observer.begin();
  await unpin(stage);
}

async function killHolder(stage: GoverseStage): Promise<void> {
  const holder = await handOverAll(stage, firstOf(stage));
  stage.observer.begin();
  await kill(stage, holder);
  await delay(patienceMs);
  await unpin(stage);
}

/** What it costs to look at all keys, and to write what a clean hand-over writes. */
async function measureKeys(endpoint: string, options: PartOptions): Promise<Figure[]> {
  const shardCount = scaled(defaultShardCount, options);
  const prefix = '/goverse-keys';
  await using stage = await openGoverseStage(endpoint, prefix, { nodes: 3, shardCount });
  const viewBegan = performance.now();
  const view = await stage.store.view();
  const viewMs = performance.now() - viewBegan;
  const shards = view.kind === 'present' ? view.value.shards : [];
  const keys = keysOf(prefix);
  const bytes = shards.reduce(
    (sum, shard) => sum + shardKey(keys, shard.shard).length + formatShard(shard).length,
    0,
  );
  const writesBegan = performance.now();
  const transactions = await stage.apply((current) => handOverOf(current, firstOf(stage)));
  const writesMs = performance.now() - writesBegan;
  return [
    figure('goverse: a view of all keys', viewMs, 'ms'),
    figure('goverse: keys and values of the shards', bytes / 1024, 'KiB'),
    figure('goverse: pins and retargets of a hand-over', transactions, 'transactions', {
      peer: 56,
    }),
    figure('goverse: writing them', writesMs / 1000, 's', { peer: 1 }),
  ];
}
