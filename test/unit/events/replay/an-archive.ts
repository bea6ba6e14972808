import type { SegmentReader } from '#shared/archive/archive.ts';
import type { DecisionEntry, Entry } from '#shared/archive/entry.ts';
import { encodeSegment } from '#shared/archive/segment.ts';
import { cluster } from './letter-world.ts';

/** A look of pool-pods that failed. */
export function anEntry(changes: Partial<DecisionEntry> = {}): DecisionEntry {
  return {
    v: 1,
    kind: 'decision',
    at: '2026-01-01T00:00:00.000Z',
    version: '0.1.0',
    cluster,
    step: 'pool-pods',
    target: { kind: 'Shard', namespace: 'db', name: 'orders-0', uid: 'uid-a' },
    hint: {
      id: 'uid-a/7/pool-pods',
      type: 'dev.millrace.hint.changed',
      time: '2026-01-01T00:00:00Z',
    },
    result: { kind: 'failed', ending: 'returned', reason: 'TargetUnknown' },
    ...changes,
  };
}

/** Segments in memory. */
export async function anArchive(
  segments: Readonly<Record<string, readonly Entry[]>>,
): Promise<SegmentReader> {
  const encoded = new Map<string, Uint8Array>();
  for (const [key, entries] of Object.entries(segments)) {
    encoded.set(key, await encodeSegment(entries));
  }
  return {
    async *list(prefix, after = '') {
      yield* [...encoded.keys()]
        .filter((key) => key.startsWith(prefix) && key > after)
        .toSorted((a, b) => (a < b ? -1 : 1));
    },
    async *folders(prefix) {
      const names = [...encoded.keys()]
        .filter((key) => key.startsWith(prefix) && key.includes('/', prefix.length))
        .map((key) => key.slice(0, key.indexOf('/', prefix.length) + 1));
      yield* [...new Set(names)].toSorted((a, b) => (a < b ? -1 : 1));
    },
    async *get(key) {
      yield encoded.get(key) ?? new Uint8Array();
    },
    close: () => undefined,
  };
}
