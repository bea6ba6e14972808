import { type DecisionEntry, decisionEntrySchema } from '#shared/archive/entry.ts';
import { encodeSegment, readSegment } from '#shared/archive/segment.ts';
import { writeStories } from '#shared/archive/write-stories.ts';
import { makeHint } from '#events/hint.ts';
import { poolPods } from '#functions/pool-pods/step.ts';
import type { Recorded } from '#shared/archive/read-archive.ts';
import {
  type SnapshotBuilder,
  aSnapshotOf,
  now,
} from '#test/unit/functions/pool-pods/a-snapshot.ts';

const signal = new AbortController().signal;

/** A look of pool-pods at a Shard, as what records it has written it. */
export async function anEntry(
  looked: SnapshotBuilder = aSnapshotOf(3),
  changes: Partial<DecisionEntry> = {},
): Promise<DecisionEntry> {
  const { snapshot } = looked;
  const { namespace, name, uid } = snapshot.shard;
  const hint = makeHint({
    step: 'pool-pods',
    cause: 'changed',
    source: 'a-cluster',
    target: { kind: 'Shard', plural: 'shards', namespace, name, uid },
    token: '1',
    at: now,
  });
  const decision = poolPods.decide(snapshot, now);
  const segments: Uint8Array[] = [];
  const writer = {
    put: async (_key: string, bytes: Uint8Array) => {
      segments.push(bytes);
    },
    close: () => undefined,
  };
  await writeStories(
    { writer, cluster: 'a-cluster' },
    poolPods,
    [{ hint, uid, at: now, snapshot, decision, result: { kind: 'done', effects: [] } }],
    signal,
  );
  for await (const line of readSegment(partsOf(...segments))) {
    if (line.kind === 'entry') {
      return decisionEntrySchema.parse({ ...line.entry, ...changes });
    }
  }
  throw new Error('nothing was recorded');
}

export async function* recorded(...entries: readonly DecisionEntry[]): AsyncGenerator<Recorded> {
  for (const [place, entry] of entries.entries()) {
    yield { kind: 'entry', where: `entry ${place + 1}`, entry };
  }
}

/** JSON lines, as they are kept where people read them. */
export function linesOf(...entries: readonly DecisionEntry[]): string {
  return entries.map((entry) => `${JSON.stringify(entry)}\n`).join('');
}

export function segmentOf(...entries: readonly DecisionEntry[]): Promise<Uint8Array> {
  return encodeSegment(entries);
}

async function* partsOf(...parts: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* parts;
}
