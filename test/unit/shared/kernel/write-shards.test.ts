import { describe, expect, test } from 'vitest';
import type { ShardWrite } from '#shared/goverse/goverse.ts';
import { acting } from '#shared/kernel/decision.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import { execute } from '#shared/kernel/execute.ts';
import { aRecord, aTarget, aWriter, anInvocation, step } from './an-execution.ts';

const { key } = aRecord();
const cluster = { namespace: 'db', name: 'world', uid: 'cluster-uid', generation: 3 };

function aWrite(shard: number, modRevision = '7'): ShardWrite {
  return { shard, target: 'a:1', current: 'b:1', flags: [], modRevision };
}

function many(count: number): ShardWrite[] {
  return Array.from({ length: count }, (_, shard) => aWrite(shard));
}

function writing(writes: readonly ShardWrite[], recordKey = key): Effect<'writeShards'> {
  return { kind: 'writeShards', cluster, writes, guard: { recordKey } };
}

function run(
  effect: Effect<'writeShards'>,
  { writers }: ReturnType<typeof aWriter>,
  remainingMs: () => number = () => 30_000,
) {
  const decision = acting('HandingOver', '', [], effect);
  return execute(step, aTarget(aRecord()), decision, writers, anInvocation({ remainingMs }));
}

function sizes(calls: readonly unknown[][]): unknown[] {
  return calls.flatMap(([name, shards]) =>
    name === 'writeShards' && Array.isArray(shards) ? [shards.length] : [],
  );
}

describe('shards are written', () => {
  test('in their order, 128 to a transaction, in the etcd of the cluster that was read', async () => {
    const writer = aWriter();

    const execution = await run(writing(many(300)), writer);

    expect(execution).toEqual({ kind: 'done', effects: ['writeShards'] });
    expect(writer.calls[0]).toEqual(['goverse', cluster]);
    expect(sizes(writer.calls)).toEqual([128, 128, 44]);
  });

  test('up to one that has moved: the rest of its transaction still, and nothing behind it', async () => {
    const writer = aWriter({ shards: [{ kind: 'lostRace', moved: [3] }] });

    const execution = await run(writing(many(300)), writer);

    expect(execution).toEqual({ kind: 'done', effects: ['writeShards'] });
    expect(sizes(writer.calls)).toEqual([128, 127]);
  });

  test('as far as the time goes', async () => {
    const writer = aWriter();
    const times = [30_000, 30_000, 30_000, 6_000];

    const execution = await run(writing(many(300)), writer, () => times.shift() ?? 0);

    expect(execution.kind).toBe('done');
    expect(sizes(writer.calls)).toEqual([128, 128]);
  });

  test('and ends where most have moved: somebody else is at the same', async () => {
    const moved = Array.from({ length: 65 }, (_, shard) => shard);
    const writer = aWriter({ shards: [{ kind: 'lostRace', moved }] });

    const execution = await run(writing(many(300)), writer);

    expect(execution).toEqual({ kind: 'done', effects: ['writeShards'] });
    expect(sizes(writer.calls)).toEqual([128]);
  });
});

describe('refused before anything is written', () => {
  test.each([
    ['no shard', []],
    ['a shard twice', [aWrite(1), aWrite(1)]],
    ['a shard whose key nobody has read', [aWrite(1, '0')]],
    ['more than 64 transactions', many(64 * 128 + 1)],
  ])('%s', async (_what, writes) => {
    const writer = aWriter();

    await expect(run(writing(writes), writer)).rejects.toThrow('writeShards takes');
    expect(writer.calls).toEqual([]);
  });

  test('a write under a record that is not in force', async () => {
    const writer = aWriter();

    await expect(run(writing(many(1), 'drain-step/shard-uid/other'), writer)).rejects.toThrow(
      'does not authorise writeShards',
    );
    expect(writer.calls).toEqual([]);
  });
});
