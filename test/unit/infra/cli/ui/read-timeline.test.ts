import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { KeptEntries, type PastPorts, readTimeline } from '#infra/cli/ui/read-timeline.ts';
import { type SegmentReader, segmentKey } from '#shared/archive/archive.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import { folderSegments } from '#shared/archive/folder-segments.ts';
import { encodeSegment } from '#shared/archive/segment.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import { aShard } from '#test/builders/shard.ts';

const now = Date.parse('2026-01-10T12:30:00Z') as Instant;
const hour = 3_600_000;
const orders = { kind: 'Shard', namespace: 'db', name: 'orders' } as const;

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-past-'));
});

afterEach(() => rm(folder, { recursive: true }));

/** One decision, in a segment of its own. */
async function archived(hoursAgo: number, name = 'orders', step: StepName = 'drain-step') {
  const at = (now - hoursAgo * hour) as Instant;
  const entry: DecisionEntry = {
    v: 1,
    kind: 'decision',
    at: new Date(at).toISOString(),
    version: '0.1.0',
    cluster: 'c',
    step,
    target: { kind: 'Shard', namespace: 'db', name, uid: 'u' },
    hint: { id: 'h', type: 't', time: '2026-01-01T00:00:00Z' },
    snapshot: { of: 'orders' },
    decision: { outcome: 'settled', reason: `Ago${hoursAgo}`, message: '', effects: [] },
    result: { kind: 'done', effects: [] },
  };
  const key = segmentKey({ kind: 'decision', cluster: 'c', step }, at, `w-${name}`);
  await folderSegments(folder).put(key, await encodeSegment([entry]), new AbortController().signal);
}

const kube: KubeReader = {
  get: async () => ({ kind: 'absent' }),
  list: async () => ({ kind: 'present', value: [] }),
};

function portsOf(change: Partial<PastPorts> = {}): PastPorts {
  const shard = aShard().build();
  const get = async () => ({ kind: 'present', value: shard }) as never;
  const connection: Pick<KubeConnection, 'request'> = {
    request: async () => ({ status: 200, body: { items: [] } }),
  };
  return { cluster: { kube: { ...kube, get }, connection }, now: () => now, ...change };
}

function archiveOf(reader: SegmentReader = folderSegments(folder)) {
  return { archive: { reader, clusterId: 'c', kept: new KeptEntries() } };
}

function read(hoursBack: number, ports: PastPorts) {
  return readTimeline(orders, now - hoursBack * hour, ports, new AbortController().signal);
}

describe('what became of a target is read', () => {
  test('from its own decisions of every step and hour, and of the days before', async () => {
    await archived(0.1);
    await archived(0.2, 'carts');
    await archived(3, 'orders', 'pool-pods');
    await archived(30);
    await archived(100);
    await archived(200);

    const timeline = await read(120, portsOf(archiveOf()));

    expect(timeline?.marks.map(({ reason }) => reason)).toEqual([
      'Ago100',
      'Ago30',
      'Ago3',
      'Ago0.1',
    ]);
    expect(timeline?.gaps).toEqual([]);
  });

  test.each([1, 7, 13, 23, 24, 25, 36, 47, 48, 72])(
    'also where its newest is %i hours old',
    async (hoursAgo) => {
      await archived(hoursAgo);

      const timeline = await read(96, portsOf(archiveOf()));

      expect(timeline?.marks).toHaveLength(1);
    },
  );

  test('each segment once, however often it is asked for', async () => {
    await archived(1);
    const reader = folderSegments(folder);
    let reads = 0;
    const counting: SegmentReader = {
      ...reader,
      get(key) {
        reads += 1;
        return reader.get(key);
      },
    };
    const ports = portsOf(archiveOf(counting));

    await read(6, ports);
    const again = await read(6, ports);

    expect(reads).toBe(1);
    expect(again?.marks).toHaveLength(1);
  });

  test('what cannot be read is said, and the rest is there all the same', async () => {
    const broken: SegmentReader = {
      ...folderSegments(folder),
      // oxlint-disable-next-line require-yield -- it fails before there is anything
      async *list() {
        throw new Error('the bucket refuses');
      },
    };
    const refusing: Pick<KubeConnection, 'request'> = {
      request: async () => ({ status: 403, body: {}, problem: 'events are forbidden' }),
    };
    const { cluster } = portsOf();

    const timeline = await read(
      6,
      portsOf({ ...archiveOf(broken), cluster: { ...cluster, connection: refusing } }),
    );

    expect(timeline?.gaps.toSorted()).toEqual([
      'Events could not be read: events are forbidden',
      'the archive of backup-trigger could not be read: the bucket refuses',
      'the archive of drain-step could not be read: the bucket refuses',
      'the archive of etcd-cleanup could not be read: the bucket refuses',
      'the archive of pool-pods could not be read: the bucket refuses',
    ]);
    expect(timeline?.lanes).toHaveLength(4);
  });

  test('without an archive that is said', async () => {
    const timeline = await read(6, portsOf());

    expect(timeline?.gaps).toEqual([expect.stringContaining('no archive was named')]);
  });

  test('of a target that does not exist there is nothing, and of one that nobody can read an error', async () => {
    const { cluster } = portsOf();
    const unknown = {
      ...kube,
      get: async () => ({ kind: 'unknown', why: 'it timed out' }) as never,
    };

    expect(await read(6, portsOf({ cluster: { ...cluster, kube } }))).toBeUndefined();
    await expect(read(6, portsOf({ cluster: { ...cluster, kube: unknown } }))).rejects.toThrow(
      'it timed out',
    );
  });
});
