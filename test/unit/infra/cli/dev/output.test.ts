import { describe, expect, test } from 'vitest';
import { createOutput } from '#infra/cli/dev/output.ts';

const decision = {
  at: '2026-01-01T00:00:00.000Z',
  step: 'pool-pods',
  target: 'shd/db/orders-0',
  outcome: 'settled',
  reason: 'Paused',
  message: 'the shard is paused',
  effects: [],
};
const logLine = JSON.stringify({ ...decision, level: 'info', msg: 'decision', cluster: 'prod-eu' });

describe('the lines of dev', () => {
  test('begin with where everything runs, also when something was decided before', () => {
    const lines: string[] = [];
    const output = createOutput(true, (line) => lines.push(line));

    output.listeners.onLine('worker', logLine);
    output.listeners.onRestart('queue', 42);
    const before = [...lines];
    output.begin(['{"ready":true}']);
    output.listeners.onLine('worker', logLine);

    expect(before).toEqual([]);
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      { ready: true },
      decision,
      { restarted: 'queue', pid: 42 },
      decision,
    ]);
  });

  test('are sentences where no JSON is asked for', () => {
    const lines: string[] = [];
    const output = createOutput(false, (line) => lines.push(line));

    output.begin(['millrace watches every namespace']);
    output.listeners.onLine('worker', logLine);
    output.listeners.onRestart('relay', 42);

    expect(lines).toEqual([
      'millrace watches every namespace',
      '00:00:00 pool-pods  shd/db/orders-0 settled Paused: the shard is paused',
      'the relay runs again as process 42',
    ]);
  });
});
