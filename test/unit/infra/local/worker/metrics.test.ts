import { expect, onTestFinished, test } from 'vitest';
import { createWorkerMetrics } from '#infra/local/worker/metrics.ts';
import { serveMetrics } from '#infra/local/worker/server.ts';
import { Meter, telemetryFrom } from '#shared/kernel/telemetry.ts';

const target = { namespace: 'db', name: 'orders' };

/** The worker's metrics, and an invocation that tells them something. */
function aWorker() {
  let nowMs = 0;
  const metrics = createWorkerMetrics(() => nowMs);
  const config = { MILLRACE_CLUSTER_ID: 'test', MILLRACE_METRICS: 'lines' } as const;
  const telemetry = telemetryFrom(config, (text) => metrics.take(text.trimEnd()));
  return {
    metrics,
    pass: (ms: number) => (nowMs += ms),
    meter: new Meter(telemetry),
    text: () => metrics.registry.metrics(),
  };
}

test('what functions tell is served for Prometheus, with its target', async () => {
  const { metrics, meter, text } = aWorker();
  const server = await serveMetrics(metrics.registry, 0);
  onTestFinished(() => server.close());
  metrics.invoked('drain-step', 'returned');
  meter.count('millrace_hints_refused_total', { step: 'drain-step' }, 2);
  meter.measure('millrace_look_seconds', { step: 'drain-step' }, 0.3);
  meter.addGauges(
    [{ metric: 'backup_last_success_age_seconds', labels: { backup: 'any' }, value: 7 }],
    target,
  );
  meter.tell();

  const answer = await fetch(`${server.url}/metrics`);
  const lines = (await answer.text()).split('\n');

  expect(answer.status).toBe(200);
  expect(lines).toEqual(
    expect.arrayContaining([
      'millrace_worker_invocations_total{function="drain-step",result="returned"} 1',
      'millrace_hints_refused_total{step="drain-step"} 2',
      'millrace_look_seconds_bucket{le="0.5",step="drain-step"} 1',
      'backup_last_success_age_seconds{backup="any",namespace="db",name="orders"} 7',
    ]),
  );
  expect((await fetch(`${server.url}/else`)).status).toBe(404);
  expect(await text()).toContain('process_resident_memory_bytes');
});

test('counts go on over invocations, gauges say the last', async () => {
  const { meter, text } = aWorker();
  for (const isBlocked of [1, 0]) {
    meter.count('millrace_lost_races_total', { step: 'pool-pods' });
    meter.measure('millrace_target_blocked', { step: 'pool-pods' }, isBlocked, target);
    meter.tell();
  }

  const lines = (await text()).split('\n');

  expect(lines).toContain('millrace_lost_races_total{step="pool-pods"} 2');
  expect(lines).toContain(
    'millrace_target_blocked{step="pool-pods",namespace="db",name="orders"} 0',
  );
});

test('a target that nobody tells of any more is forgotten', async () => {
  const { meter, pass, text } = aWorker();
  meter.measure('millrace_target_blocked', { step: 'pool-pods' }, 1, target);
  meter.tell();

  pass(60 * 60 * 1000);
  const within = await text();
  pass(10 * 60 * 1000);

  expect(within).toContain('name="orders"');
  expect(await text()).not.toContain('name="orders"');
});

test('a line of the log is none of numbers, nor is one in another form', () => {
  const { metrics } = aWorker();

  expect(
    [
      '{"level":"info","msg":"decision"}',
      '{"metrics":[{"metric":1}]}',
      '{"metrics":',
      'something else',
    ].map((line) => metrics.take(line)),
  ).toEqual([false, false, false, false]);
});

test('numbers of another version of a function change nothing that is known', async () => {
  const { metrics, text } = aWorker();
  const before = await text();

  const isTaken = metrics.take('{"metrics":[{"metric":"of_tomorrow","labels":{},"value":1}]}');

  expect(isTaken).toBe(true);
  expect((await text()).replaceAll(/^process.*$/gm, '')).toBe(
    before.replaceAll(/^process.*$/gm, ''),
  );
});
