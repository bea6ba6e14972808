import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { DecisionLine } from '#infra/cli/dev/decision-line.ts';
import { jsonScreen, lineScreen } from '#infra/local/show/screen.ts';

const decision: DecisionLine = {
  at: '2026-01-01T10:20:30.000Z',
  step: 'drain-step',
  target: 'shd/demo/orders',
  outcome: 'settled',
  reason: 'NobodyLeaves',
  message: 'no member has to leave',
  effects: [],
};

function aStream(): { stream: NodeJS.WriteStream; lines: () => string[] } {
  const stream = new PassThrough();
  const written: string[] = [];
  stream.on('data', (chunk: Buffer) => written.push(String(chunk)));
  return {
    stream: stream as never,
    lines: () => written.join('').split('\n').slice(0, -1),
  };
}

beforeEach(() => {
  // Whoever runs the tests may have set it.
  vi.stubEnv('FORCE_COLOR', undefined);
});

afterEach(() => vi.unstubAllEnvs());

describe('the screen for a pipe', () => {
  test('is coloured only where colours are asked for', () => {
    const { stream, lines } = aStream();
    const screen = lineScreen(stream, 'shd/demo/orders');

    screen.say('plain');
    vi.stubEnv('FORCE_COLOR', '1');
    screen.say('coloured');

    expect(lines()).toEqual(['  ▸ plain', '  \u001B[35m▸\u001B[39m coloured']);
  });

  test('shows a decision again only when the step’s conclusion about that target changed', () => {
    const { stream, lines } = aStream();
    const screen = lineScreen(stream, 'shd/demo/orders');
    const other = {
      ...decision,
      target: 'shd/demo/nobody',
      reason: 'TargetGone',
      message: 'the target is gone',
    };

    [decision, other, decision, other, decision].forEach((each) => screen.decision(each));

    expect(lines()).toEqual([
      '  10:20:30 drain-step settled NobodyLeaves  no member has to leave',
      '  10:20:30 drain-step settled TargetGone  shd/demo/nobody: the target is gone',
    ]);
  });

  test('shows a table in columns that are as wide as what is in them', () => {
    const { stream, lines } = aStream();

    lineScreen(stream, 'shd/demo/orders').table([
      { slot: '10:20:30', ended: 'succeeded', started: '0.1 s late' },
      { slot: '10:20:40', ended: 'skipped (Superseded)', started: '' },
    ]);

    expect(lines()).toEqual([
      '    slot      ended                 started',
      '    10:20:30  succeeded             0.1 s late',
      '    10:20:40  skipped (Superseded)',
    ]);
  });

  test('says which scenes held in columns', () => {
    const { stream, lines } = aStream();

    lineScreen(stream, 'shd/demo/orders').summary([
      { name: 'relay-killed', ok: true, seconds: 7.4, apiWrites: 18, hints: 15 },
      { name: 'queue-down', ok: false, seconds: 12, apiWrites: 21, hints: 19, why: 'x' },
    ]);

    expect(lines()).toEqual([
      '',
      '  scene         result      seconds API writes      hints',
      '  relay-killed  held            7.4         18         15',
      '  queue-down    FAILED         12.0         21         19',
    ]);
  });
});

describe('the screen for programs', () => {
  test('gives a table as it is', () => {
    const { stream, lines } = aStream();

    jsonScreen(stream).table([{ slot: '10:20:30', ended: 'succeeded' }]);

    expect(lines()).toEqual(['{"table":[{"slot":"10:20:30","ended":"succeeded"}]}']);
  });

  test('ends with the summary, without the reasons', () => {
    const { stream, lines } = aStream();

    jsonScreen(stream).summary([
      { name: 'bad-hints', ok: false, seconds: 1, apiWrites: 2, hints: 3, why: 'x' },
    ]);

    expect(lines().map((line) => JSON.parse(line) as unknown)).toEqual([
      {
        ok: false,
        scenes: [{ name: 'bad-hints', ok: false, seconds: 1, apiWrites: 2, hints: 3 }],
      },
    ]);
  });
});
