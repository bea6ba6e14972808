import { describe, expect, test } from 'vitest';
import { type LetterList } from '#events/replay/list-letters.ts';
import { noCounts } from '#events/replay/replay-letters.ts';
import type { LetterDesk } from '#infra/cli/ui/letters.ts';
import { letterPorts } from '#infra/cli/ui/letters.ts';
import type { ReplayOptions } from '#infra/cli/replay/dead-letters.ts';
import type { StepName } from '#shared/api/steps.ts';

const target = { kind: 'Shard', namespace: 'db', name: 'orders' };

function group(step: StepName) {
  return {
    step,
    target,
    letters: 2,
    newest: { id: 'h', time: '2026-01-01T00:00:05Z', type: 'dev.millrace.hint.wake' },
    oldestTime: '2026-01-01T00:00:00Z',
  };
}

/** A desk on which drain-step has two letters about one target. */
function aDesk() {
  const lists: StepName[][] = [];
  const replays: ReplayOptions[] = [];
  const previews: number[] = [];
  const desk: LetterDesk['desk'] = {
    async list({ steps }): Promise<LetterList> {
      lists.push([...steps]);
      const groups = steps.flatMap((step) => (step === 'drain-step' ? [group(step)] : []));
      const seen = groups.length * 2;
      return { groups, counts: { ...noCounts(), seen, sent: seen }, refused: [], cut: [] };
    },
    async preview(groups) {
      previews.push(groups.length);
      return groups.map((each) => ({ ...each, now: { kind: 'gone' } }));
    },
    async replay(options) {
      replays.push(options);
      return { counts: { ...noCounts(), seen: 3, sent: 2, left: 1 }, cut: [], journal: '/j' };
    },
  };
  return { desk, lists, replays, previews };
}

const signal = new AbortController().signal;

describe('the dead letters of the page', () => {
  test('are those of every step, by their targets', async () => {
    const { desk } = aDesk();

    const told = await letterPorts({ desk, canWrite: false }).list();

    const queues = told.kind === 'read' ? told.queues : [];
    expect(queues).toHaveLength(6);
    expect(queues[0]).toEqual({
      step: 'drain-step',
      groups: [
        {
          target: 'shd/db/orders',
          letters: 2,
          cause: 'wake',
          newest: '2026-01-01T00:00:05Z',
          oldest: '2026-01-01T00:00:00Z',
        },
      ],
      refused: [],
      seen: 2,
      isCut: false,
    });
  });

  test('say why they are there, where the archive does', async () => {
    const { desk } = aDesk();
    const history = async () => () => ({
      at: '2026-01-01T00:00:06Z',
      isOfHint: true,
      outcome: 'failed' as const,
      reason: 'Forbidden',
    });

    const told = await letterPorts({ desk, history, canWrite: false }).list();

    const [queue] = told.kind === 'read' ? told.queues : [];
    expect(queue?.groups[0]?.failure).toBe('failed Forbidden at 2026-01-01T00:00:06Z');
  });

  test('are read once for two who ask at the same time: each pass has the letters in hand', async () => {
    const { desk, lists } = aDesk();
    const ports = letterPorts({ desk, canWrite: false });

    await Promise.all([ports.list(), ports.list()]);

    expect(lists).toHaveLength(6);
  });

  test('a preview looks at what was listed and asked for, and at nothing else', async () => {
    const { desk, previews } = aDesk();
    const ports = letterPorts({ desk, canWrite: false });
    await ports.list();

    const told = await ports.preview(
      { step: 'drain-step', targets: ['shd/db/orders', 'shd/db/no'] },
      signal,
    );

    expect(previews).toEqual([1]);
    expect(told).toEqual([
      { target: 'shd/db/orders', message: expect.stringContaining('gone'), effects: [] },
    ]);
  });

  test('a replay is of the step and the targets that were named, and tells what became of them', async () => {
    const { desk, replays } = aDesk();

    const outcome = await letterPorts({ desk, canWrite: true }).replay?.(
      { step: 'drain-step', targets: ['shd/db/orders'] },
      signal,
    );

    expect(replays[0]).toMatchObject({ steps: ['drain-step'], selection: { targets: [target] } });
    expect(outcome).toEqual({ sent: 2, says: ['2 hints sent again, and their letters deleted'] });
  });

  test('a page that may only look holds nothing that replays', () => {
    expect(letterPorts({ desk: aDesk().desk, canWrite: false }).replay).toBeUndefined();
  });

  test('what is no target is refused before anything is sent', async () => {
    const { desk, replays } = aDesk();
    const { replay } = letterPorts({ desk, canWrite: true });

    await expect(replay?.({ step: 'drain-step', targets: ['everything'] }, signal)).rejects.toThrow(
      'is no target',
    );
    expect(replays).toEqual([]);
  });
});
