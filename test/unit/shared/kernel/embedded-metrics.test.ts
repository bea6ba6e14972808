import { describe, expect, test } from 'vitest';
import type { Sample } from '#shared/api/metrics.ts';
import { embeddedMetrics } from '#shared/kernel/embedded-metrics.ts';
import { telemetryFrom } from '#shared/kernel/telemetry.ts';

const nowMs = Date.parse('2026-01-01T00:00:00Z');

function aLook(outcome: string, reason: string): Sample {
  const labels = { step: 'drain-step', outcome, reason };
  return { metric: 'millrace_looks_total', labels, value: 1 };
}

function aDuration(value: number): Sample {
  return { metric: 'millrace_look_seconds', labels: { step: 'drain-step' }, value };
}

function embed(...samples: Sample[]) {
  return embeddedMetrics(samples, { cluster: 'prod' }, nowMs);
}

describe('the embedded metric format', () => {
  test('has one line for an invocation whose looks ended alike', () => {
    const lines = embed(
      aLook('settled', 'NobodyLeaves'),
      aLook('settled', 'Paused'),
      aDuration(0.25),
      aDuration(0.5),
    );

    expect(lines).toEqual([
      {
        cluster: 'prod',
        step: 'drain-step',
        outcome: 'settled',
        millrace_looks_total: 2,
        millrace_look_seconds: [0.25, 0.5],
        _aws: {
          Timestamp: nowMs,
          CloudWatchMetrics: [
            {
              Namespace: 'Millrace',
              Dimensions: [['cluster', 'step', 'outcome']],
              Metrics: [{ Name: 'millrace_looks_total', Unit: 'Count' }],
            },
            {
              Namespace: 'Millrace',
              Dimensions: [['cluster', 'step']],
              Metrics: [{ Name: 'millrace_look_seconds', Unit: 'Seconds' }],
            },
          ],
        },
      },
    ]);
  });

  test('takes another line only where a dimension has a second value', () => {
    const lines = embed(
      aLook('settled', 'NobodyLeaves'),
      aLook('failed', 'Unexpected'),
      aDuration(1),
    );

    expect(lines).toMatchObject([
      { outcome: 'settled', millrace_looks_total: 1, millrace_look_seconds: 1 },
      { outcome: 'failed', millrace_looks_total: 1 },
    ]);
  });

  test('names no target, node or schedule: each combination of dimensions is paid for', () => {
    const target = { namespace: 'db', name: 'orders' };
    const [line] = embed(
      { metric: 'goverse_shards_released_total', labels: { node: 'a', ...target }, value: 3 },
      { metric: 'goverse_shards_released_total', labels: { node: 'b', ...target }, value: 4 },
    );

    expect(line).toMatchObject({
      cluster: 'prod',
      goverse_shards_released_total: 7,
      _aws: { CloudWatchMetrics: [{ Dimensions: [['cluster']] }] },
    });
    expect(line).not.toHaveProperty('node');
    expect(line).not.toHaveProperty('name');
  });

  test('has at most a hundred values in one place', () => {
    const lines = embed(...Array.from({ length: 250 }, (_, place) => aDuration(place)));

    const values = lines.map((line) => line['millrace_look_seconds']);
    expect(values.map((each) => (Array.isArray(each) ? each.length : 1))).toEqual([100, 100, 50]);
    expect(values.flat()).toEqual(Array.from({ length: 250 }, (_, place) => place));
  });
});

describe('a function tells its numbers', () => {
  const config = { MILLRACE_CLUSTER_ID: 'prod' };

  function told(given: Parameters<typeof telemetryFrom>[0]): string[] {
    const written: string[] = [];
    telemetryFrom(given, (text) => written.push(text)).tell([aDuration(1)]);
    return written;
  }

  test('on Lambda to CloudWatch, one line at a time', () => {
    const [text, ...more] = told({ ...config, AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs24.x' });

    expect(more).toEqual([]);
    expect(text).toMatch(/^[^\n]+\n$/);
    expect(JSON.parse(text ?? '')).toMatchObject({ cluster: 'prod', millrace_look_seconds: 1 });
  });

  test('to nobody elsewhere, nor where that is what it is told', () => {
    const onLambda = { ...config, AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs24.x' };

    expect(told(config)).toEqual([]);
    expect(told({ ...config, AWS_EXECUTION_ENV: 'AWS_ECS_FARGATE' })).toEqual([]);
    expect(told({ ...onLambda, MILLRACE_METRICS: 'none' })).toEqual([]);
  });

  test('to the local worker as they are', () => {
    const [text] = told({ ...config, MILLRACE_METRICS: 'lines' });

    expect(JSON.parse(text ?? '')).toEqual({ metrics: [aDuration(1)] });
  });
});
