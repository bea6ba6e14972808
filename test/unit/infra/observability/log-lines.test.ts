import { readFileSync, readdirSync } from 'node:fs';
import { afterAll, describe, expect, test } from 'vitest';
import { logLines, problemOf } from '#infra/observability/log-lines.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { Tally } from '#test/world/oracles/tally.ts';
import { hearHandlers } from '#test/world/run/handler.ts';
import { beginningOf } from '#test/world/run/plans.ts';
import { runToEnd } from '#test/world/run/run.ts';
import { workloads as configurations } from '#test/world/workloads/backup-config.ts';
import { workloads as backups } from '#test/world/workloads/backup-trigger.ts';
import { workloads as drains } from '#test/world/workloads/drain-step.ts';
import { workloads as cleanups } from '#test/world/workloads/etcd-cleanup.ts';
import { workloads as pods } from '#test/world/workloads/pool-pods.ts';
import { workloads as releases } from '#test/world/workloads/shard-release.ts';

const root = new URL('../../../../', import.meta.url);

/** Where lines of the log are written, and nothing else is logged. */
const folders = ['shared/kernel', 'functions/sweep', 'events/relay', 'infra/local/worker'] as const;

/** The messages that the source logs: constants, so that they can be found by reading it. */
function messagesIn(text: string): readonly string[] {
  const calls = text.matchAll(
    /\b(?:logger|log)(?:\.(?:trace|debug|info|warn|error|fatal)|\[level\])\(([\s\S]*?)\);\n/g,
  );
  return [...calls].map(
    ([, given = '']) => /'([^']*)',?\s*$/.exec(given)?.[1] ?? `none in ${given}`,
  );
}

test('every message of the source is declared, and none that is not there', () => {
  const messages = folders.flatMap((folder) =>
    readdirSync(new URL(folder, root))
      .filter((name) => name.endsWith('.ts'))
      .flatMap((name) => messagesIn(readFileSync(new URL(`${folder}/${name}`, root), 'utf8'))),
  );

  expect([...new Set(messages)].toSorted()).toEqual(Object.keys(logLines).toSorted());
});

describe('every line of a run has its form', () => {
  const written: Record<string, unknown>[] = [];

  hearHandlers((step) =>
    createLogger(
      'trace',
      { step, cluster: 'test', requestId: 'r' },
      { write: (text: string) => written.push(JSON.parse(text) as Record<string, unknown>) },
    ),
  );

  const workloads = [drains, pods, configurations, backups, cleanups, releases].flat();

  test.each(workloads)('$name', async (workload) => {
    const from = written.length;
    const world = await beginningOf(workload, new Tally());

    await runToEnd(world, { workload, strikes: [], isUndisturbed: true });

    const lines = written.slice(from);
    expect(lines.filter(({ msg }) => msg === 'decision').length).toBeGreaterThan(0);
    expect(lines.map(problemOf).filter((problem) => problem !== undefined)).toEqual([]);
  });

  afterAll(() => {
    const seen = new Set(written.map(({ msg }) => msg));
    expect([...seen]).toEqual(
      expect.arrayContaining(['decision', 'event', 'counted', 'measured', 'shards written']),
    );
  });
});

describe('a line is refused', () => {
  const decision = {
    level: 'info',
    at: '2026-01-01T00:00:00.000Z',
    step: 'drain-step',
    cluster: 'prod',
    requestId: 'r',
    version: '0.1.0',
    target: 'shd/db/orders',
    hint: 'uid/7/drain-step',
    outcome: 'settled',
    reason: 'NobodyLeaves',
    message: 'nobody leaves',
    effects: [],
    msg: 'decision',
  };

  test('for another level, a field that is not declared or is missing, or a message nobody knows', () => {
    const { target, ...withoutTarget } = decision;

    expect(problemOf(decision)).toBeUndefined();
    expect(problemOf({ ...decision, level: 'warn' })).toContain('level');
    expect(problemOf({ ...decision, token: 'x' })).toContain('token');
    expect(problemOf(withoutTarget)).toContain('target');
    expect(problemOf({ ...decision, msg: 'decided' })).toContain('decided');
    expect(target).toBe('shd/db/orders');
  });

  test('for a count of a metric with labels that are not its own', () => {
    const { outcome: _o, reason: _r, message: _m, effects: _e, ...bare } = decision;
    const counted = {
      ...bare,
      msg: 'counted',
      metric: 'goverse_shutdown_total',
      mode: 'clean',
      status: 'success',
      count: 1,
    };

    expect(problemOf(counted)).toBeUndefined();
    expect(problemOf({ ...counted, node: 'a' })).toContain('node');
  });
});
