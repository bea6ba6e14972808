import { Counter, Gauge, Registry } from 'prom-client';
import { describe, expect, test } from 'vitest';
import { parseRelayMetrics } from '#infra/local/show/relay-metrics.ts';

/** The relay's own library writes the text; the names are those of its README. */
function aRegistry() {
  const registers = [new Registry()];
  const [registry] = registers;
  const prefix = 'millrace_relay_';
  const labelNames = ['step', 'why'];
  const hints = new Counter({ name: `${prefix}hints_total`, help: 'a', labelNames, registers });
  const failures = new Counter({
    name: `${prefix}send_failures_total`,
    help: 'a',
    labelNames: ['step'],
    registers,
  });
  const dirty = new Gauge({
    name: `${prefix}dirty`,
    help: 'a',
    labelNames: ['step'],
    registers,
  });
  const oldest = new Gauge({ name: `${prefix}oldest_unsent_seconds`, help: 'a', registers });
  return { registry: registry as Registry, hints, failures, dirty, oldest };
}

describe('the relay’s metrics', () => {
  test('are summed over steps and causes', async () => {
    const { registry, hints, failures, dirty, oldest } = aRegistry();
    hints.inc({ step: 'drain-step', why: 'changed' }, 3);
    hints.inc({ step: 'pool-pods', why: 'wake' }, 4);
    failures.inc({ step: 'pool-pods' }, 2);
    dirty.set({ step: 'drain-step' }, 1);
    dirty.set({ step: 'pool-pods' }, 1);
    oldest.set(5.25);

    const reading = parseRelayMetrics(await registry.metrics());

    expect(reading).toEqual({ sent: 7, owed: 2, oldestOwedSeconds: 5.25, failedBatches: 2 });
  });

  test('that nothing was counted in yet are 0', async () => {
    const { registry } = aRegistry();

    const reading = parseRelayMetrics(await registry.metrics());

    expect(reading).toEqual({ sent: 0, owed: 0, oldestOwedSeconds: 0, failedBatches: 0 });
  });

  test('that are missing are an error, not 0', () => {
    expect(() => parseRelayMetrics('# TYPE other counter\n')).toThrow(
      'the relay reports no hints_total',
    );
  });
});
