import { describe, expect, test } from 'vitest';
import { archivedQueues } from '#events/archive/archived-queues.ts';
import { type SegmentLine, readSegment } from '#shared/archive/segment.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { QueueEntry, SendOutcome } from '#shared/queue/queue.ts';

const now = Date.parse('2026-01-01T00:00:00Z') as Instant;

function entries(count: number, first = 0): QueueEntry[] {
  return Array.from({ length: count }, (_, place) => ({
    id: String(place),
    body: JSON.stringify({ data: { name: `orders-${first + place}` } }),
    group: 'g',
  }));
}

/** Queues that take everything but what is named, over an archive that keeps what it is given. */
function setUp({
  refused = [] as string[],
  put,
}: { refused?: string[]; put?: () => Promise<void> } = {}) {
  const segments = new Map<string, Uint8Array>();
  const lost: [string, number][] = [];
  const timers: (() => void)[] = [];
  const archived = archivedQueues({
    queues: {
      send: async (_queue, sent): Promise<SendOutcome> => ({
        acknowledged: sent.map(({ id }) => id).filter((id) => !refused.includes(id)),
        failed: refused.map((id) => ({ id, why: 'refused' })),
      }),
    },
    writer: {
      async put(key, bytes) {
        await put?.();
        segments.set(key, bytes);
      },
      close: () => undefined,
    },
    clusterId: 'test',
    stage: 'prod',
    steps: ['drain-step', 'pool-pods'],
    timers: {
      now: () => now,
      after(_delayMs, run) {
        timers.push(run);
        return () => timers.splice(timers.indexOf(run), 1);
      },
    },
    onLost: (why, hints) => lost.push([why, hints]),
  });
  const linesOf = async (): Promise<SegmentLine[]> => {
    const lines = await Promise.all(
      [...segments]
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([, bytes]) =>
          Array.fromAsync(
            readSegment(
              (async function* () {
                yield bytes;
              })(),
            ),
          ),
        ),
    );
    return lines.flat();
  };
  return { archived, segments, lost, timers, linesOf };
}

describe('queues that are archived', () => {
  test('record the hints that a queue has taken, and no others, by their step', async () => {
    const { archived, segments, linesOf } = setUp({ refused: ['1'] });

    const outcome = await archived.send('millrace-prod-drain-step', entries(3));
    await archived.send('millrace-prod-pool-pods', entries(1, 7));
    await archived.flush(1_000);

    expect(outcome.acknowledged).toEqual(['0', '2']);
    expect(
      [...segments.keys()].map((key) => key.split('/').slice(0, 3).join('/')).toSorted(),
    ).toEqual(['hints/test/drain-step', 'hints/test/pool-pods']);
    expect(await linesOf()).toMatchObject(
      ['orders-0', 'orders-2', 'orders-7'].map((name) => ({
        kind: 'entry',
        entry: { kind: 'hint', at: '2026-01-01T00:00:00.000Z', hint: { data: { name } } },
      })),
    );
  });

  test('write a segment when it is full, and else when its first hint has waited', async () => {
    const { archived, segments, timers } = setUp();

    for (let sent = 0; sent < 50; sent += 1) {
      await archived.send('millrace-prod-drain-step', entries(10));
    }
    await archived.flush(1_000);
    expect([segments.size, timers.length]).toEqual([1, 0]);

    await archived.send('millrace-prod-drain-step', entries(1));
    timers[0]?.();
    await archived.flush(1_000);
    expect(segments.size).toBe(2);
  });

  test('hold up no hint where the archive hangs, keep one segment for it, and say what was lost', async () => {
    const { archived, lost } = setUp({ put: () => new Promise(() => undefined) });

    for (let sent = 0; sent < 150; sent += 1) {
      await archived.send('millrace-prod-drain-step', entries(10));
    }

    expect(lost).toEqual([
      ['the segment before is still being written', 500],
      ['the segment before is still being written', 500],
    ]);
  });

  test('say what an archive refused, and go on', async () => {
    const { archived, lost } = setUp({
      put: () => Promise.reject(new Error('there is no bucket')),
    });

    await archived.send('millrace-prod-drain-step', entries(2));
    await archived.flush(1_000);

    expect(lost).toEqual([['there is no bucket', 2]]);
  });
});
