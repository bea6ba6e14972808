import { describe, expect, test } from 'vitest';
import { describeDecision, describeTrouble, parseDecision } from '#infra/cli/dev/decision-line.ts';

const line = JSON.stringify({
  level: 'info',
  at: '2026-01-01T10:20:30.000Z',
  step: 'drain-step',
  cluster: 'prod-eu',
  target: 'shd/db/orders-0',
  outcome: 'acting',
  reason: 'MemberMayLeave',
  message: 'orders-0-main-a-2 can go',
  effects: ['advance'],
  msg: 'decision',
});

describe('a line of a child', () => {
  test('that tells a decision is cut down to what dev prints', () => {
    const decision = parseDecision(line);

    expect(decision).toEqual({
      at: '2026-01-01T10:20:30.000Z',
      step: 'drain-step',
      target: 'shd/db/orders-0',
      outcome: 'acting',
      reason: 'MemberMayLeave',
      message: 'orders-0-main-a-2 can go',
      effects: ['advance'],
    });
  });

  test('that tells a decision reads as one line for people', () => {
    const decision = parseDecision(line);

    expect(decision && describeDecision(decision)).toBe(
      '10:20:30 drain-step shd/db/orders-0 acting MemberMayLeave: orders-0-main-a-2 can go [advance]',
    );
  });

  test.each(['', 'no JSON', '{}', '{"msg":"decision"}', '{"msg":"race lost","level":"info"}'])(
    'that tells something else is no decision (%s)',
    (other) => {
      expect(parseDecision(other)).toBeUndefined();
    },
  );

  test('that warns, or is no log line at all, is shown; any other is not', () => {
    const warning = describeTrouble(
      'worker',
      '{"level":"error","at":"…","msg":"invocation failed","step":"drain-step","requestId":"1","why":"Error: no\\n  at x"}',
    );
    const stranger = describeTrouble('worker', 'Segmentation fault');
    const quiet = describeTrouble('relay', '{"level":"info","msg":"listed"}');

    expect(warning).toBe('worker: invocation failed step=drain-step (Error: no)');
    expect(stranger).toBe('worker: Segmentation fault');
    expect(quiet).toBeUndefined();
  });

  test('that quotes a stranger’s message cannot steer the terminal, nor fill it', () => {
    const refused = (why: string) =>
      describeTrouble('worker', JSON.stringify({ level: 'error', msg: 'hint refused', why }));

    expect(refused('unknown field "\u001B[2J\u0007x"')).toBe(
      'worker: hint refused (unknown field " [2J x")',
    );
    expect(refused('x'.repeat(100_000))).toHaveLength(501);
    expect(describeTrouble('worker', `\u001B]0;owned\u0007${'y'.repeat(100_000)}`)).toHaveLength(
      501,
    );
  });
});
