import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type Etcd, startEtcd } from '#infra/local/control-plane/etcd.ts';
import { GoverseObserver } from '#infra/local/goverse/observer.ts';
import { type GoverseMemberProcess, startGoverseNode } from '#infra/local/goverse/start.ts';
import { connectGoverse } from '#shared/goverse/connect.ts';
import { type GoverseShard, type GoverseStore, maxBatch } from '#shared/goverse/goverse.ts';
import { missingControlPlane } from './local-control-plane.ts';

const speed = 10;
const shardCount = 512;
/** Three ticks: a leader that had anything left to do would have done it. */
const quietMs = 15_000 / speed;
const timeoutMs = 100_000;

describe.skipIf(missingControlPlane !== undefined)('GoVerse on a real etcd', () => {
  let folder: string;
  let etcd: Etcd;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-goverse-'));
    etcd = await startEtcd({ dataDir: folder });
  });

  afterAll(async () => {
    await etcd?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  describe('the stand-in: several processes that follow its rules', () => {
    test('shards of a node that stops are owned again a window and two ticks later', async () => {
      const { observer, nodes } = await aCluster('/stops', 3);
      const [leaving] = followers(observer, nodes);

      observer.begin();
      await leaving?.stop();
      const { unowned } = await observer.settled(quietMs, timeoutMs);

      expect(unowned.meanMs).toBeGreaterThanOrEqual(10_000 / speed);
      expect(observer.nodes).toHaveLength(2);
      expect(observer.loads().get(leaving?.address ?? '')).toBeUndefined();
    });

    test('shards of the leader that is killed are owned again after lease, election and window', async () => {
      const { observer, nodes } = await aCluster('/killed', 3);
      const leader = nodes.find(({ address }) => address === observer.leader);

      observer.begin();
      observer.killed(observer.leader);
      await leader?.kill();
      const { unowned } = await observer.settled(quietMs, timeoutMs);

      expect(unowned.meanMs).toBeGreaterThanOrEqual((10_000 + 15_000) / speed);
      expect(observer.nodes).toContain(observer.leader);
    });

    test('a node that joins gets its share, and only the leader chooses targets', async () => {
      const { observer, start } = await aCluster('/joins', 3);
      observer.begin();

      const joined = await start(4);
      await observer.until(
        (seen) => (seen.loads().get(joined.address)?.current ?? 0) > 0,
        timeoutMs,
      );
      await observer.settled(quietMs, timeoutMs);
      // What a node wrote it tells at the end of its tick.
      await expect.poll(() => unexplained(observer), { timeout: timeoutMs }).toEqual([]);

      const retargets = observer.history().filter(({ before, after }) => {
        return before.target !== after.target;
      });
      expect(observer.loads().get(joined.address)?.current).toBeGreaterThanOrEqual(108);
      expect(retargets.length).toBeGreaterThanOrEqual(108);
      expect(new Set(retargets.map(({ revision }) => observer.writerOf(revision)))).toEqual(
        new Set([observer.leader]),
      );
    });
  });

  async function aCluster(prefix: string, count: number) {
    const observer = await GoverseObserver.open({ endpoint: etcd.endpoint, prefix, shardCount });
    onTestFinished(() => observer[Symbol.asyncDispose]());
    const start = async (number: number): Promise<GoverseMemberProcess> => {
      const node = await startGoverseNode({
        endpoint: etcd.endpoint,
        prefix,
        address: `10.0.0.${number}:48000`,
        shardCount,
        speed,
        onTick: observer.told,
      });
      onTestFinished(() => node.stop());
      return node;
    };
    const nodes = await Promise.all(Array.from({ length: count }, (_, place) => start(place + 1)));
    await observer.settled(quietMs, timeoutMs);
    return { observer, nodes, start };
  }

  describe.each(['grpc', 'gateway'] as const)('the keys over %s', (transport) => {
    const shards = 8_192;

    async function aFullStore(prefix: string): Promise<GoverseStore> {
      const store = connectGoverse(
        { endpoints: [etcd.endpoint], prefix, shards },
        { namespace: 'default', transport },
      );
      onTestFinished(() => store.close());
      const made = Array.from({ length: shards }, (_, shard) => ({
        shard,
        target: `10.0.0.${shard % 3}:48000`,
        current: `10.0.0.${shard % 3}:48000`,
        flags: ['pinned'],
        modRevision: '0',
      }));
      for (let first = 0; first < shards; first += maxBatch) {
        const answer = await store.writeShards(made.slice(first, first + maxBatch));
        expect(answer.kind).toBe('written');
      }
      return store;
    }

    async function shardsOf(store: GoverseStore): Promise<readonly GoverseShard[]> {
      const view = await store.view();
      return view.kind === 'present' ? view.value.shards : expect.unreachable(view.kind);
    }

    test('8,192 shards are read whole, at one revision', async () => {
      const store = await aFullStore(`/full-${transport}`);

      const view = await store.view();

      const found = view.kind === 'present' ? view.value : expect.unreachable();
      expect(found.shards).toHaveLength(shards);
      expect(found.shards[4_711]).toMatchObject({ shard: 4_711, flags: ['pinned'] });
      expect(found.unreadable).toEqual([]);
      expect(Number(found.revision)).toBeGreaterThanOrEqual(
        Math.max(...found.shards.map(({ modRevision }) => Number(modRevision))),
      );
    });

    test('a batch that meets a write of others writes nothing, and says whose keys moved', async () => {
      const store = await aFullStore(`/batch-${transport}`);
      const before = await shardsOf(store);
      const batch = before.slice(0, maxBatch).map((shard) => ({ ...shard, target: 'b:1' }));
      await store.writeShards(batch.slice(7, 8));

      const answer = await store.writeShards(batch);
      const after = await shardsOf(store);

      expect(answer).toEqual({ kind: 'lostRace', moved: [7] });
      expect(after.filter(({ target }) => target === 'b:1').map(({ shard }) => shard)).toEqual([7]);
    });

    test('a shard that is not there counts as moved', async () => {
      const store = await aFullStore(`/gone-${transport}`);
      const other = connectGoverse(
        { endpoints: [etcd.endpoint], prefix: `/empty-${transport}`, shards },
        { namespace: 'default', transport },
      );
      onTestFinished(() => other.close());

      const answer = await other.writeShards((await shardsOf(store)).slice(3, 5));

      expect(answer).toEqual({ kind: 'lostRace', moved: [3, 4] });
    });
  });
});

function followers(
  observer: GoverseObserver,
  nodes: readonly GoverseMemberProcess[],
): readonly GoverseMemberProcess[] {
  return nodes.filter(({ address }) => address !== observer.leader);
}

function unexplained(observer: GoverseObserver): readonly number[] {
  return observer
    .history()
    .map(({ revision }) => revision)
    .filter((revision) => observer.writerOf(revision) === undefined);
}
