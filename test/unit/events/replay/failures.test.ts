import { describe, expect, test } from 'vitest';
import { failuresIn } from '#events/replay/failures.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import { anArchive, anEntry } from './an-archive.ts';
import { aHint, cluster } from './letter-world.ts';

const signal = AbortSignal.timeout(10_000);

function failed(name: string, reason: string, id = aHint('pool-pods', name).id): DecisionEntry {
  return anEntry({
    target: { kind: 'Shard', namespace: 'db', name, uid: 'u' },
    hint: { id, type: 'dev.millrace.hint.changed', time: '2026-01-01T00:00:00Z' },
    result: { kind: 'failed', ending: 'returned', reason },
  });
}

async function reasonsIn(...entries: readonly DecisionEntry[]) {
  const key = `decisions/${cluster}/pool-pods/2026/01/01/00/a.jsonl.gz`;
  return failuresIn(await anArchive({ [key]: entries }), cluster, ['pool-pods'], {}, signal);
}

describe('why a letter is dead', () => {
  test('is what the last look at its hint failed for', async () => {
    const reasonOf = await reasonsIn(
      failed('a', 'TargetUnknown'),
      failed('a', 'WriteForbidden'),
      failed('a', 'TopologyDown', 'of another hint'),
    );

    expect(reasonOf('pool-pods', aHint('pool-pods', 'a'))).toBe('WriteForbidden');
  });

  test('is of a hint that shared its look what that failed for, by its target', async () => {
    const reasonOf = await reasonsIn(failed('a', 'TopologyDown', 'of another hint'));

    expect(reasonOf('pool-pods', aHint('pool-pods', 'a'))).toBe('TopologyDown');
    expect(reasonOf('pool-pods', aHint('pool-pods', 'b'))).toBeUndefined();
    expect(reasonOf('drain-step', aHint('drain-step', 'a'))).toBeUndefined();
  });

  test('is not what a look decided that did not fail', async () => {
    const reasonOf = await reasonsIn(
      anEntry({
        target: { kind: 'Shard', namespace: 'db', name: 'a', uid: 'u' },
        result: { kind: 'done', effects: [] },
      }),
    );

    expect(reasonOf('pool-pods', aHint('pool-pods', 'a'))).toBeUndefined();
  });
});
