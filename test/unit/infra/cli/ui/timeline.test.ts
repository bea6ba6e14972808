import { describe, expect, test } from 'vitest';
import { type Past, maxMarks, timelineOf } from '#infra/cli/ui/timeline.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import { aShard } from '#test/builders/shard.ts';

const now = Date.parse('2026-01-01T12:00:00Z');
const minute = 60_000;
const pod = 'orders-main-zone-a-5f3a91c2-0';

function shard(change: object = {}): Past['target'] {
  const { metadata, ...rest } = aShard().build();
  return {
    ...rest,
    ...change,
    metadata: { ...metadata, ...('metadata' in change ? (change.metadata as object) : {}) },
  };
}

function past(change: Partial<Past> = {}): Past {
  return {
    target: shard(),
    kind: 'Shard',
    entries: [],
    events: [],
    members: [],
    from: now - 60 * minute,
    now,
    gaps: [],
    ...change,
  };
}

function entry(minutesAgo: number, change: Partial<DecisionEntry> = {}): DecisionEntry {
  return {
    v: 1,
    kind: 'decision',
    at: new Date(now - minutesAgo * minute).toISOString(),
    version: '0.1.0',
    cluster: 'c',
    step: 'drain-step',
    target: { kind: 'Shard', namespace: 'db', name: 'orders', uid: 'u' },
    hint: { id: 'h', type: 't', time: '2026-01-01T00:00:00Z' },
    decision: { outcome: 'waiting', reason: 'Settling', message: 'it settles', effects: [] },
    result: { kind: 'done', effects: [] },
    ...change,
  };
}

function told(step: StepName, reason: string, minutesAgo: number): DecisionEntry {
  const decision = { outcome: 'acting' as const, reason, message: `${reason} said`, effects: [] };
  return entry(minutesAgo, { step, decision });
}

describe('what became of a target', () => {
  test('each step has a lane, also one that never looked', () => {
    const { lanes, marks } = timelineOf(past());

    expect(lanes.map(({ id }) => id)).toEqual([
      'drain-step',
      'pool-pods',
      'backup-trigger',
      'etcd-cleanup',
    ]);
    expect(marks).toEqual([]);
  });

  test('marks are in the order of time, whatever order they were read in', () => {
    const { marks } = timelineOf(
      past({ entries: [entry(1), entry(5), entry(3, { step: 'pool-pods' })] }),
    );

    expect(marks.map(({ at, lane }) => [(now - at) / minute, lane])).toEqual([
      [5, 0],
      [3, 1],
      [1, 0],
    ]);
  });

  test('a decision about a member is in its lane as well, and says what was written', () => {
    const decision = {
      outcome: 'acting' as const,
      reason: 'MemberMayGo',
      message: `${pod} can go`,
      effects: [
        { kind: 'advance', record: { state: 'finished' } },
        { kind: 'deleteObject', object: { kind: 'Pod', namespace: 'db', name: pod } },
      ],
    };

    const whole = entry(1, {
      decision,
      result: { kind: 'done', effects: ['advance', 'deleteObject'] },
    });
    const overtaken = entry(2, { decision, result: { kind: 'lostRace', effects: ['advance'] } });

    const { marks, lanes } = timelineOf(past({ entries: [whole, overtaken] }));

    expect(lanes[marks[0]?.member ?? 0]).toEqual({ id: pod, kind: 'member' });
    expect(marks.map(({ effects }) => effects)).toEqual([
      ['advance to finished'],
      ['advance to finished', `deleteObject Pod ${pod}`],
    ]);
  });

  test('a member whose name is the beginning of another is not taken for it', () => {
    const decision = {
      outcome: 'waiting' as const,
      reason: 'R',
      message: `${pod}1 starts`,
      effects: [],
    };

    const { marks, lanes } = timelineOf(
      past({ members: [pod, `${pod}1`], entries: [entry(1, { decision })] }),
    );

    expect(lanes[marks[0]?.member ?? 0]?.id).toBe(`${pod}1`);
  });

  test('a look that failed is no decision, and has written nothing', () => {
    const failed = entry(1, {
      result: { kind: 'failed', ending: 'returned', reason: 'Forbidden' },
    });

    const { marks } = timelineOf(past({ entries: [failed] }));

    expect(marks[0]).toMatchObject({ outcome: 'failed', reason: 'Forbidden', effects: [] });
  });

  test('an Event that a decision told already is left out, another is not', () => {
    const event = { by: 'drain-step', isWarning: true, message: 'm', at: now - minute + 500 };
    const events = [
      { ...event, reason: 'Settling' },
      { ...event, reason: 'DrainStuck' },
    ];

    const { marks } = timelineOf(past({ entries: [entry(1)], events }));

    expect(marks.map(({ reason, outcome }) => [reason, outcome])).toEqual([
      ['Settling', 'waiting'],
      ['DrainStuck', 'warning'],
    ]);
  });

  test('what others tell of it has a lane of theirs', () => {
    const events = [
      { by: 'kubelet', isWarning: false, reason: 'Pulled', message: 'm', at: now - minute },
    ];

    const { marks, lanes } = timelineOf(past({ events }));

    expect(lanes[marks[0]?.lane ?? 0]?.id).toBe('others');
  });

  test('a backup is a bar from its start to its end, good or bad', () => {
    const entries = [
      told('backup-trigger', 'BackupAsked', 50),
      told('backup-trigger', 'BackupSucceeded', 40),
      told('backup-trigger', 'BackupAsked', 30),
      told('backup-trigger', 'BackupFailed', 29),
    ];

    const { bars, lanes } = timelineOf(past({ entries }));

    expect(
      bars.map(({ kind, from, to = now, lane }) => [
        kind,
        (now - from) / minute,
        (now - to) / minute,
        lanes[lane]?.id,
      ]),
    ).toEqual([
      ['succeeded', 50, 40, 'backups'],
      ['failed', 30, 29, 'backups'],
    ]);
  });

  test('without an archive the status still knows the last good backup and the one that runs', () => {
    const status = {
      backups: [
        {
          schedule: 'nightly',
          lastSuccess: '2026-01-01T11:30:00Z',
          lastDurationSeconds: 600,
          next: ['2026-01-02T02:00:00Z'],
        },
      ],
      backupRun: {
        schedule: 'hourly',
        slot: 's',
        type: 'full',
        attempt: 0,
        since: '2026-01-01T11:55:00Z',
      },
    };

    const { bars, due, lanes } = timelineOf(past({ target: shard({ status }) }));

    expect(
      bars.map(({ kind, from, to }) => [kind, (now - from) / minute, to === undefined]),
    ).toEqual([
      ['succeeded', 40, false],
      ['running', 5, true],
    ]);
    expect(due.map(({ at, lane, title }) => [at, lanes[lane]?.id, title])).toEqual([
      [Date.parse('2026-01-02T02:00:00Z'), 'backups', 'nightly'],
    ]);
  });

  test('a record shows since when its step is in its state, unless it is of another object', () => {
    const record = (uid: string) =>
      JSON.stringify({
        v: 1,
        uid,
        state: 'draining',
        since: '2026-01-01T11:50:00Z',
        wake: { at: '2026-01-01T12:05:00Z' },
      });
    const { uid } = shard().metadata;
    const withRecord = (of: string) =>
      timelineOf(
        past({
          target: shard({
            metadata: { annotations: { [recordAnnotation('drain-step')]: record(of) } },
          }),
        }),
      );

    expect(withRecord(uid).bars).toMatchObject([{ kind: 'state', title: 'draining', lane: 0 }]);
    expect(withRecord(uid).due).toMatchObject([
      { lane: 0, at: Date.parse('2026-01-01T12:05:00Z') },
    ]);
    expect(withRecord('another').bars).toEqual([]);
  });

  test('of more than can be shown the newest are, and that is said', () => {
    const entries = Array.from({ length: maxMarks + 5 }, (_, place) => entry(50 - place / 1_000));

    const { marks, gaps } = timelineOf(past({ entries }));

    expect(marks).toHaveLength(maxMarks);
    expect(marks.at(-1)?.at).toBe(Date.parse(entries.at(-1)?.at ?? ''));
    expect(gaps).toEqual(['only the newest 10,000 of 10,005 are shown']);
  });
});
