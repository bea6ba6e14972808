import { type GoverseWriter, type ShardWrite, maxBatch } from '#shared/goverse/goverse.ts';
import type { WriteResult } from '#shared/kube/kube.ts';
import { type Effect, maxShardWrites } from './effect.ts';
import { RefusedEffect } from './errors.ts';
import type { Logger } from './logger.ts';

/** No transaction begins with less time left than this, in milliseconds: one may take six seconds. */
const batchMs = 7_000;

/** What is done in part is gone on with by the next look, from what it reads then. */
interface Limits {
  readonly logger: Logger;
  readonly signal: AbortSignal;
  remainingMs(): number;
}

/** Every shard once, under a revision that was read, and not more than one effect may hold. */
export function refuseBrokenWrites({ writes }: Effect<'writeShards'>): void {
  const shards = new Set(writes.map(({ shard }) => shard));
  if (
    writes.length === 0 ||
    writes.length > maxShardWrites ||
    shards.size !== writes.length ||
    writes.some(({ modRevision }) => !/^[1-9]\d*$/.test(modRevision))
  ) {
    throw new RefusedEffect(
      `writeShards takes 1 to ${maxShardWrites} different shards, each under the revision that was read`,
    );
  }
}

/**
 * One transaction after the other, in order, until one meets a key that has moved: those of its keys that have not are
 * written still, and then it ends, because the order is what makes a half-written plan safe. Where most of its keys have
 * moved somebody else is at the same plan, as the look that our own record has woken: it ends there and leaves that one
 * alone. No other look follows at once; the record says when the next one comes.
 */
export async function writeShards(
  { writes }: Effect<'writeShards'>,
  goverse: GoverseWriter,
  limits: Limits,
): Promise<WriteResult> {
  let written = 0;
  let moved: readonly number[] = [];
  for (let first = 0; first < writes.length && moved.length === 0; first += maxBatch) {
    if (limits.remainingMs() < batchMs) {
      break;
    }
    const batch = writes.slice(first, first + maxBatch);
    const result = await writeBatch(batch, goverse, limits.signal);
    written += result.written;
    moved = result.moved;
  }
  limits.logger.info({ shards: writes.length, written, moved: moved.length }, 'shards written');
  return { kind: 'written', resourceVersion: '' };
}

async function writeBatch(
  batch: readonly ShardWrite[],
  goverse: GoverseWriter,
  signal: AbortSignal,
): Promise<{ readonly written: number; readonly moved: readonly number[] }> {
  const answer = await goverse.writeShards(batch, signal);
  if (answer.kind === 'written') {
    return { written: batch.length, moved: [] };
  }
  const gone = new Set(answer.moved);
  const rest = batch.filter(({ shard }) => !gone.has(shard));
  if (rest.length < gone.size || gone.size === 0) {
    return { written: 0, moved: batch.map(({ shard }) => shard) };
  }
  const second = await goverse.writeShards(rest, signal);
  return second.kind === 'written'
    ? { written: rest.length, moved: answer.moved }
    : { written: 0, moved: batch.map(({ shard }) => shard) };
}
