import { expect, test } from 'vitest';
import type { LetterGroup } from '#events/replay/list-letters.ts';
import { historyIn } from '#infra/cli/replay/history.ts';
import { segmentKey } from '#shared/archive/archive.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import { anArchive, anEntry } from '../../../events/replay/an-archive.ts';
import { cluster, start } from '../../../events/replay/letter-world.ts';

const group: LetterGroup = {
  step: 'pool-pods',
  target: { kind: 'Shard', namespace: 'db', name: 'orders-0' },
  letters: 1,
  newest: {
    id: 'uid-a/7/pool-pods',
    time: '2026-01-01T00:00:00Z',
    type: 'dev.millrace.hint.changed',
  },
  oldestTime: '2026-01-01T00:00:00Z',
};

const byAnother = { ...anEntry().hint, id: 'uid-a/8/pool-pods' };

function failed(seconds: number, changes: Partial<DecisionEntry> = {}): DecisionEntry {
  return anEntry({ at: `2026-01-01T00:00:0${seconds}.000Z`, ...changes });
}

function decided(seconds: number, changes: Partial<DecisionEntry> = {}): DecisionEntry {
  return failed(seconds, {
    decision: { outcome: 'waiting', reason: 'AwaitingQuorum', message: 'it waits', effects: [] },
    result: { kind: 'done', effects: [] },
    ...changes,
  });
}

async function before(...entries: readonly DecisionEntry[]) {
  const key = segmentKey({ kind: 'decision', cluster, step: 'pool-pods' }, start, 'a');
  const history = historyIn(await anArchive({ [key]: entries }), cluster);
  const look = (await history([group], new AbortController().signal))(group);
  return look && `${look.outcome} ${look.reason} ${look.at.slice(17, 19)} ${look.isOfHint}`;
}

test('what was decided about a letter is the last look that its hint led to', async () => {
  expect(await before(failed(1), failed(3), failed(2))).toBe('failed TargetUnknown 03 true');
  expect(await before(failed(1), decided(2))).toBe('waiting AwaitingQuorum 02 true');
  expect(await before(failed(1), failed(2, { hint: byAnother }))).toBe(
    'failed TargetUnknown 01 true',
  );
});

test('or the last failure of its step on its target, but no success of another hint', async () => {
  expect(await before(failed(1, { hint: byAnother }), decided(2, { hint: byAnother }))).toBe(
    'failed TargetUnknown 01 false',
  );
  expect(await before(decided(2, { hint: byAnother }))).toBeUndefined();
  expect(await before()).toBeUndefined();
});

test('another target is another matter', async () => {
  const target = { ...anEntry().target, name: 'orders-1' };

  expect(await before(failed(1, { target }))).toBeUndefined();
});
