import { describe, expect, test } from 'vitest';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import {
  hasFailed,
  mayHaveLeavers,
  surplusWith,
  whoShouldLeave,
} from '#functions/drain-step/leaving.ts';
import type { PoolView } from '#functions/drain-step/snapshot.ts';
import { type DrainBuilder, aMember, aShardOf } from './a-drain.ts';

function leaversOf(drain: DrainBuilder, primaryPod: string | null = 'orders-0'): string[] {
  return whoShouldLeave(drain.build(), primaryPod).map(
    ({ member, cause }) => `${member.pod} ${cause}`,
  );
}

function aPool(name: string, replicasPerCell: number, cells: readonly string[] = ['zone-a']) {
  const pool: PoolView = { name, cells, replicasPerCell, isAttached: false, whenScaled: 'Retain' };
  return pool;
}

/** The leaver of a drain that is under way. */
function leaverIn(drain: DrainBuilder, pod: string, pool: string) {
  const { record } = drain.draining(pod, 'requested', 6, { pool }).build();
  if (record.kind !== 'ours' || record.record.state === 'choosing') {
    throw new Error('nobody is leaving');
  }
  return record.record.data;
}

describe('who should leave', () => {
  test('is nobody while the pods cannot be listed', () => {
    const drain = aShardOf(3)
      .wanting(1)
      .with({ members: unknown('403') });

    expect(leaversOf(drain)).toEqual([]);
    expect(mayHaveLeavers(drain.build())).toBe(false);
  });

  test('are the failed first, then the requested, then the surplus, whatever their pool', () => {
    const drain = aShardOf(4)
      .withShard({ pools: [aPool('main', 1), aPool('other', 1), aPool('third', 1)] })
      .withMember('orders-2', { pool: 'other', request: 'please' })
      .withMember('orders-3', { pool: 'third', hasEnded: true });

    expect(leaversOf(drain)).toEqual(['orders-3 failed', 'orders-2 requested', 'orders-1 surplus']);
  });

  test('are counted in each pool and cell on its own', () => {
    const drain = aShardOf(4)
      .withShard({ pools: [aPool('main', 1, ['zone-a', 'zone-b']), aPool('other', 1)] })
      .withMember('orders-1', { cell: 'zone-b' })
      .withMember('orders-2', { pool: 'other' })
      .withMember('orders-3', { pool: 'other', cell: 'zone-b' });

    expect(leaversOf(drain)).toEqual([]);
    expect(mayHaveLeavers(drain.build())).toBe(false);
  });

  test.each([
    ['pool', [aPool('main', 2), aPool('other', 1)], { pool: 'other' }],
    ['cell', [aPool('main', 1, ['zone-a', 'zone-b'])], { cell: 'zone-b' }],
  ])('is somebody where one %s of two has too many', (_what, pools, elsewhere) => {
    const drain = aShardOf(3)
      .withShard({ pools })
      .withMember('orders-1', elsewhere)
      .withMember('orders-2', elsewhere);

    expect(leaversOf(drain)).toEqual(['orders-2 surplus']);
    expect(mayHaveLeavers(drain.build())).toBe(true);
  });

  test('is one for each that is too many, and whoever was asked counts towards them', () => {
    const drain = aShardOf(5).wanting(3).requested('orders-4');

    expect(leaversOf(drain)).toEqual(['orders-4 surplus', 'orders-3 surplus']);
  });

  test('are all who were asked, as surplus only as many as are too many', () => {
    const drain = aShardOf(4).wanting(3).requested('orders-1').requested('orders-2');

    expect(leaversOf(drain)).toEqual(['orders-1 surplus', 'orders-2 requested']);
  });

  test('is the primary only where nobody else is left', () => {
    expect(leaversOf(aShardOf(3).wanting(0))).toEqual([
      'orders-2 surplus',
      'orders-1 surplus',
      'orders-0 surplus',
    ]);
    expect(leaversOf(aShardOf(3).wanting(0), 'orders-2')).toEqual([
      'orders-1 surplus',
      'orders-0 surplus',
      'orders-2 surplus',
    ]);
  });

  test('is nobody as surplus alone while the primary is not known, and may be somebody all the same', () => {
    const drain = aShardOf(3).wanting(2);

    expect(leaversOf(drain, null)).toEqual([]);
    expect(mayHaveLeavers(drain.build())).toBe(true);
  });
});

describe('the surplus with a leaver counted in', () => {
  test('is what its own pool and cell have too many', () => {
    const drain = aShardOf(4).withShard({ pools: [aPool('main', 3), aPool('other', 1)] });
    drain.withMember('orders-2', { pool: 'other' }).withMember('orders-3', { pool: 'other' });

    expect(surplusWith(drain.build(), leaverIn(drain, 'orders-3', 'other'))).toBe(1);
    expect(surplusWith(drain.build(), leaverIn(drain, 'orders-1', 'main'))).toBe(-1);
  });

  test('counts a leaver whose pod is gone, and no pod twice', () => {
    const drain = aShardOf(3).wanting(2);
    const leaver = leaverIn(drain, 'orders-2', 'main');

    expect(surplusWith(drain.build(), leaver)).toBe(1);
    expect(surplusWith(drain.withoutPod('orders-2').build(), leaver)).toBe(1);
  });

  test.each([
    ['the pods cannot be listed', (drain: DrainBuilder) => drain.with({ members: unknown('') })],
    ['its pool is no more', (drain: DrainBuilder) => drain.withShard({ pools: [] })],
    ['its pool is attached', (drain: DrainBuilder) => drain.withPool({ isAttached: true })],
  ])('is none where %s', (_what, change) => {
    const drain = aShardOf(3).wanting(1);
    const leaver = leaverIn(drain, 'orders-2', 'main');

    expect(surplusWith(change(drain).build(), leaver)).toBe(0);
  });
});

describe('a member', () => {
  const nodes = {
    gone: absent,
    hidden: unknown('403'),
    ready: present({ isReady: true }),
    '': absent,
  };

  test.each([
    ['that has ended', { hasEnded: true }, true],
    ['whose node is gone', { node: 'gone' }, true],
    ['whose node cannot be read', { node: 'hidden' }, false],
    ['whose node is there', { node: 'ready' }, false],
    ['whose node was not asked', { node: 'other' }, false],
    ['that has no node yet', { node: '', isReady: false }, false],
  ])('%s has failed: %s', (_what, change, failed) => {
    expect(hasFailed({ ...aMember('orders-0'), ...change }, nodes)).toBe(failed);
  });
});
