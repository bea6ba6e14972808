import { expect, onTestFinished, test } from 'vitest';
import { connectGoverse } from '#shared/goverse/connect.ts';
import type { ShardWrite } from '#shared/goverse/goverse.ts';

/** A port of this machine where nothing listens. */
const nowhere = 'http://127.0.0.1:1';

function aStore(prefix = '/goverse') {
  const store = connectGoverse(
    { endpoints: [nowhere], prefix, shards: 8 },
    { namespace: 'default', transport: 'gateway' },
  );
  onTestFinished(() => store.close());
  return store;
}

function aWrite(shard: number): ShardWrite {
  return { shard, target: 'a:1', current: '', flags: [], modRevision: '1' };
}

test('an etcd out of reach makes the view unknown', async () => {
  expect(await aStore().view()).toMatchObject({
    kind: 'unknown',
    why: expect.stringContaining('the keys of GoVerse cannot be read') as string,
  });
});

test('a write that is not answered is tried again later, from a new view', async () => {
  await expect(aStore().writeShards([aWrite(0)])).rejects.toMatchObject({
    name: 'RetryableError',
    reason: 'GoverseUnreachable',
  });
});

test.each([
  ['none', []],
  ['one twice', [aWrite(1), aWrite(1)]],
  ['129', Array.from({ length: 129 }, (_, shard) => aWrite(shard))],
])('a batch of %s is refused before anything is sent', async (_, writes) => {
  await expect(aStore().writeShards(writes)).rejects.toThrow('1 to 128 different shards');
});

test('a prefix that could name another cluster’s keys is refused', () => {
  expect(() => aStore('')).toThrow('prefix');
});
