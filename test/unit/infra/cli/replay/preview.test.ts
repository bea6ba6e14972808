import { describe, expect, test } from 'vitest';
import type { LetterGroup } from '#events/replay/list-letters.ts';
import { type LookBefore, type Readers, previewAll } from '#infra/cli/replay/preview.ts';
import { type Read, absent, unknown } from '#shared/kernel/read.ts';

const group: LetterGroup = {
  step: 'pool-pods',
  target: { kind: 'Shard', namespace: 'db', name: 'orders-0' },
  letters: 3,
  newest: {
    id: 'uid/7/pool-pods',
    time: '2026-01-01T00:00:00Z',
    type: 'dev.millrace.hint.changed',
  },
  oldestTime: '2026-01-01T00:00:00Z',
};

const failure: LookBefore = {
  at: '2026-01-01T00:00:00Z',
  isOfHint: true,
  outcome: 'failed',
  reason: 'TargetUnknown',
};

function nothing(): never {
  throw new TypeError('a step that nobody foresaw');
}

/** Readers of a cluster that says the same of every object. */
function reading(answer: () => Read<never>): Readers {
  const kube = { get: async () => answer(), list: async () => answer() };
  return {
    kube,
    ports: {
      clusterId: 'c',
      kube,
      topology: nothing,
      goverse: nothing,
      admin: nothing,
      repository: nothing,
    },
  };
}

async function preview(answer: () => Read<never>, before?: LookBefore) {
  const signal = new AbortController().signal;
  const [only] = await previewAll([group], reading(answer), () => before, signal);
  return only;
}

describe('a preview', () => {
  test('of a target that is gone says so, and that it was otherwise', async () => {
    expect(await preview(() => absent, failure)).toMatchObject({
      letters: 3,
      now: { kind: 'gone' },
      before: failure,
      isDifferent: true,
    });
  });

  test('of a target that still cannot be read says why, and that this is the same', async () => {
    expect(
      await preview(() => unknown('reading Shard db/orders-0: 403 Forbidden'), failure),
    ).toMatchObject({
      now: {
        kind: 'failed',
        reason: 'TargetUnknown',
        why: 'reading Shard db/orders-0: 403 Forbidden',
      },
      isDifferent: false,
    });
  });

  test('where nobody knows what was decided compares nothing', async () => {
    const only = await preview(() => absent);

    expect(only).toEqual({ ...group, now: { kind: 'gone' } });
  });

  test('of a look that ends by something nobody foresaw is no end of the others', async () => {
    expect(await preview(nothing)).toMatchObject({
      now: { kind: 'failed', reason: 'Unexpected', why: 'a step that nobody foresaw' },
    });
  });
});
