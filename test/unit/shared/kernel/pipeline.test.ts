import type { SQSEvent, SQSRecord } from 'aws-lambda';
import { afterEach, describe, expect, test } from 'vitest';
import { problemOf } from '#infra/observability/log-lines.ts';
import { type Decision, acting, settled } from '#shared/kernel/decision.ts';
import { RetryableError, TerminalError } from '#shared/kernel/errors.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { Sample } from '#shared/api/metrics.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import type { LookStory, Recorder } from '#shared/kernel/look-story.ts';
import { type Outside, type PipelineParts, runBatch } from '#shared/kernel/pipeline.ts';
import { type Read, absent, present, unknown } from '#shared/kernel/read.ts';
import type { Step } from '#shared/kernel/step.ts';
import type { Tracer } from '#shared/kernel/trace.ts';
import type { WriteResult } from '#shared/kube/kube.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { KubeModel } from '#test/builders/kube-model.ts';
import { RecordedTracer } from '#test/builders/recorded-tracer.ts';
import { sqsRecord } from '#test/builders/sqs-record.ts';

/** Every line that any of these tests made the pipeline write. */
const written: Record<string, unknown>[] = [];

afterEach(() => {
  expect(
    written
      .splice(0)
      .map(problemOf)
      .filter((problem) => problem !== undefined),
  ).toEqual([]);
});

const shardUid = '0f8fad5b-d9cb-469f-a165-70867728950e';

function aHint(
  change: {
    source?: string;
    namespace?: string;
    name?: string;
    kind?: string;
    traceparent?: string;
    time?: string;
  } = {},
): string {
  const { source = 'test', namespace = 'db', name = 'orders', kind = 'Shard' } = change;
  const { traceparent, time = '2026-01-01T00:00:00Z' } = change;
  return JSON.stringify({
    specversion: '1.0',
    id: `${shardUid}/4711/drain-step`,
    source,
    type: 'dev.millrace.hint.changed',
    subject: `shards/${namespace}/${name}`,
    time,
    datacontenttype: 'application/json',
    data: { kind, namespace, name, uid: shardUid, resourceVersion: '4711', traceparent },
  });
}

function anEvent(...messages: SQSRecord[]): SQSEvent {
  return { Records: messages };
}

interface Situation {
  readonly read?: (name: string) => Read<KubeObject<'Shard'>>;
  readonly look?: () => void;
  readonly write?: () => WriteResult;
  /** What every decision says is to be told as metrics. */
  readonly told?: Pick<Decision, 'counts' | 'gauges'>;
  readonly tracer?: Tracer;
  readonly recorded?: Recorder['recorded'];
  readonly record?: (signal: AbortSignal) => Promise<void>;
}

/** The pipeline with scripted ports, and what happened. */
function aPipeline(situation: Situation = {}) {
  const seen = {
    looks: [] as string[],
    visibility: [] as [string, number][],
    deadlines: [] as number[],
    stories: [] as LookStory[],
    lines: [] as Record<string, unknown>[],
    told: [] as (readonly Sample[])[],
    monotonicMs: 0,
  };
  const shard = (name: string) =>
    present({
      metadata: { name, namespace: 'db', uid: shardUid, resourceVersion: '7', generation: 1 },
    } as KubeObject<'Shard'>);
  const kube = {
    get: async ({ name }: { name: string }) => (situation.read ?? shard)(name),
    list: async () => absent,
  } as Outside['kube'];
  const step: Step<'Shard', { name: string }> = {
    name: 'drain-step',
    target: 'Shard',
    reads: [],
    writes: [{ effect: 'advance' }],
    observe: async (target) => {
      seen.looks.push(target.value.metadata.name);
      situation.look?.();
      return { name: target.value.metadata.name };
    },
    decide: () => ({
      ...(situation.write === undefined
        ? settled('NobodyLeaves', 'nothing to do')
        : acting('RecordForeign', 'cleared', [
            {
              kind: 'advance',
              record: null,
              guard: { uid: shardUid, generation: 1, previous: null },
            },
          ])),
      ...situation.told,
    }),
    archived: () => Promise.reject(new Error('nothing is archived')),
  };
  const unasked = () => {
    throw new Error('the data plane was asked');
  };
  const outside: Outside = {
    kube,
    ports: {
      clusterId: 'prod',
      kube,
      topology: unasked,
      goverse: unasked,
      admin: unasked,
      repository: unasked,
    },
    writers: {
      kube: Object.assign(new KubeModel(), {
        swapAnnotation: async () =>
          situation.write?.() ?? { kind: 'lostRace', why: 'not expected' },
      }),
      topology: unasked,
      goverse: unasked,
      admin: unasked,
      repository: unasked,
    },
    changeVisibility: async (receipt, seconds) => {
      seen.visibility.push([receipt, seconds]);
    },
    ...(situation.tracer === undefined ? {} : { tracer: situation.tracer }),
    ...(situation.recorded === undefined
      ? {}
      : {
          recorder: {
            recorded: situation.recorded,
            async record(_step, stories, signal) {
              await situation.record?.(signal);
              seen.stories.push(...stories);
            },
          },
        }),
  };
  const parts: PipelineParts = {
    telemetry: {
      monotonicMs: () => (seen.monotonicMs += 250),
      wallMs: () => Date.parse('2026-01-01T00:00:03Z'),
      tell: (samples) => seen.told.push(samples),
    },
    clock: () => Date.parse('2026-01-01T00:00:00Z') as Instant,
    random: () => 0.5,
    deadlineIn: (delayMs) => {
      seen.deadlines.push(delayMs);
      return AbortSignal.timeout(delayMs);
    },
    logger: createLogger(
      'trace',
      { step: 'drain-step', cluster: 'test', requestId: 'r' },
      {
        write(text: string) {
          const line = JSON.parse(text) as Record<string, unknown>;
          seen.lines.push(line);
          written.push(line);
        },
      },
    ),
    config: { MILLRACE_CLUSTER_ID: 'test', MILLRACE_NAMESPACES: ['db'] },
    outside,
  };
  return { seen, run: (event: SQSEvent) => runBatch(step, event, () => 30_000, parts) };
}

describe('the pipeline', () => {
  test('acknowledges a look that settled and logs its decision', async () => {
    const { seen, run } = aPipeline();

    const response = await run(anEvent(sqsRecord('a', aHint())));

    expect(response).toEqual({ batchItemFailures: [] });
    expect(seen.lines).toContainEqual(
      expect.objectContaining({
        msg: 'decision',
        target: 'shd/db/orders',
        outcome: 'settled',
        reason: 'NobodyLeaves',
        effects: [],
      }),
    );
  });

  test('gives up what hangs a second before its own time is up (P6)', async () => {
    const { seen, run } = aPipeline();

    await run(anEvent(sqsRecord('a', aHint())));

    expect(seen.deadlines).toEqual([29_000]);
  });

  test('looks once at a target that several messages name', async () => {
    const { seen, run } = aPipeline();

    await run(
      anEvent(
        sqsRecord('a', aHint()),
        sqsRecord('b', aHint()),
        sqsRecord('c', aHint({ name: 'other' })),
      ),
    );

    expect(seen.looks.toSorted()).toEqual(['orders', 'other']);
  });

  test.each([
    ['is not JSON', 'garbage'],
    ['is no hint', '{"a":1}'],
    ['is longer than a hint can be', `{"a":"${'x'.repeat(100_000)}"}`],
    ['is of another cluster', aHint({ source: 'elsewhere' })],
    ['names a namespace that is not allowed', aHint({ namespace: 'kube-system' })],
    ['is about another kind', aHint({ kind: 'Database' })],
    ['tries to reach another path', aHint({ name: '../../secrets' })],
  ])(
    'returns a message that %s without reading anything, while the others go on (Z1, P4)',
    async (_what, body) => {
      const { seen, run } = aPipeline();

      const response = await run(anEvent(sqsRecord('bad', body), sqsRecord('good', aHint())));

      expect(response).toEqual({ batchItemFailures: [{ itemIdentifier: 'bad' }] });
      expect(seen.visibility).toEqual([['receipt-bad', 0]]);
      expect(seen.looks).toEqual(['orders']);
    },
  );

  test('acknowledges a target that is gone', async () => {
    const { seen, run } = aPipeline({ read: () => absent });

    const response = await run(anEvent(sqsRecord('a', aHint())));

    expect(response.batchItemFailures).toEqual([]);
    expect(seen.looks).toEqual([]);
  });

  test('gives back exactly the messages whose target could not be read', async () => {
    const { run } = aPipeline({
      read: (name) =>
        name === 'orders'
          ? unknown('503')
          : present({
              metadata: { name, uid: shardUid, resourceVersion: '1' },
            } as KubeObject<'Shard'>),
    });

    const response = await run(
      anEvent(sqsRecord('a', aHint()), sqsRecord('b', aHint({ name: 'other' }))),
    );

    expect(response.batchItemFailures).toEqual([{ itemIdentifier: 'a' }]);
  });

  test('backs off exponentially, jittered, with each receive of a message', async () => {
    const failing = { read: () => unknown('down') };
    const first = aPipeline(failing);
    const fourth = aPipeline(failing);
    const hundredth = aPipeline(failing);

    await first.run(anEvent(sqsRecord('a', aHint(), 1)));
    await fourth.run(anEvent(sqsRecord('a', aHint(), 4)));
    await hundredth.run(anEvent(sqsRecord('a', aHint(), 100)));

    const seconds = [first, fourth, hundredth].map(({ seen }) => seen.visibility[0]?.[1]);
    expect(seconds).toEqual([3, 20, 150]);
  });

  test('looks again after a lost race, and gives the message back after the third in a row', async () => {
    let races = 0;
    const once = aPipeline({
      write: () =>
        races++ === 0
          ? { kind: 'lostRace', why: 'moved' }
          : { kind: 'written', resourceVersion: '8' },
    });
    const always = aPipeline({ write: () => ({ kind: 'lostRace', why: 'moved' }) });

    const recovered = await once.run(anEvent(sqsRecord('a', aHint())));
    const lost = await always.run(anEvent(sqsRecord('a', aHint())));

    expect([recovered.batchItemFailures.length, once.seen.looks.length]).toEqual([0, 2]);
    expect([lost.batchItemFailures.length, always.seen.looks.length]).toEqual([1, 3]);
    expect(always.seen.visibility).toEqual([['receipt-a', 1]]);
  });

  test('tells what is counted once the record is written, and what is measured once all is; a lost race nothing', async () => {
    const told: Situation['told'] = {
      counts: [{ metric: 'pooler_records_cleaned_total', labels: { move: 'marked' }, count: 2 }],
      gauges: [{ metric: 'backup_last_success_age_seconds', labels: { backup: 'any' }, value: 7 }],
    };
    const written = aPipeline({ told, write: () => ({ kind: 'written', resourceVersion: '8' }) });
    const lost = aPipeline({ told, write: () => ({ kind: 'lostRace', why: 'moved' }) });

    await written.run(anEvent(sqsRecord('a', aHint())));
    await lost.run(anEvent(sqsRecord('a', aHint())));

    const lines = ({ seen }: typeof written) => seen.lines.filter((line) => 'metric' in line);
    expect(lines(written)).toMatchObject([
      { msg: 'counted', metric: 'pooler_records_cleaned_total', move: 'marked', count: 2 },
      { msg: 'measured', metric: 'backup_last_success_age_seconds', backup: 'any', value: 7 },
    ]);
    expect(lines(lost)).toEqual([]);
  });

  test('tells the numbers of an invocation once, at its end', async () => {
    const told: Situation['told'] = {
      counts: [{ metric: 'pooler_records_cleaned_total', labels: { move: 'marked' }, count: 2 }],
      gauges: [{ metric: 'backup_last_success_age_seconds', labels: { backup: 'any' }, value: 7 }],
    };
    let races = 0;
    const { seen, run } = aPipeline({
      told,
      write: () =>
        races++ === 0
          ? { kind: 'lostRace', why: 'moved' }
          : { kind: 'written', resourceVersion: '8' },
    });

    await run(anEvent(sqsRecord('bad', 'garbage'), sqsRecord('a', aHint())));

    const step = { step: 'drain-step' };
    const target = { namespace: 'db', name: 'orders' };
    expect(seen.told).toHaveLength(1);
    expect(seen.told[0]).toEqual(
      expect.arrayContaining([
        { metric: 'millrace_hints_refused_total', labels: step, value: 1 },
        { metric: 'millrace_hint_age_seconds', labels: step, value: 3 },
        { metric: 'millrace_lost_races_total', labels: step, value: 1 },
        {
          metric: 'millrace_looks_total',
          labels: { ...step, outcome: 'acting', reason: 'RecordForeign' },
          value: 1,
        },
        { metric: 'millrace_look_seconds', labels: step, value: 0.25 },
        { metric: 'millrace_target_blocked', labels: { ...step, ...target }, value: 0 },
        {
          metric: 'pooler_records_cleaned_total',
          labels: { move: 'marked', ...target },
          value: 2,
        },
        {
          metric: 'backup_last_success_age_seconds',
          labels: { backup: 'any', ...target },
          value: 7,
        },
      ]),
    );
    expect(seen.told[0]).toHaveLength(8);
  });

  test.each([
    ['ended', 'WriteInvalid', new TerminalError('WriteInvalid', 'no')],
    ['repeated', 'Busy', new RetryableError('Busy', 'later')],
    ['failed', 'Unexpected', new Error('a defect')],
  ])('tells a look that did not conclude as %s', async (outcome, reason, error) => {
    const { seen, run } = aPipeline({
      look: () => {
        throw error;
      },
    });

    await run(anEvent(sqsRecord('a', aHint())));

    expect(seen.told.flat()).toContainEqual({
      metric: 'millrace_looks_total',
      labels: { step: 'drain-step', outcome, reason },
      value: 1,
    });
    expect(seen.told.flat().map(({ metric }) => metric)).not.toContain('millrace_target_blocked');
  });

  test('tells of a target that is gone that nothing blocks it', async () => {
    const { seen, run } = aPipeline({ read: () => absent });

    await run(anEvent(sqsRecord('a', aHint())));

    expect(seen.told.flat()).toContainEqual({
      metric: 'millrace_target_blocked',
      labels: { step: 'drain-step', namespace: 'db', name: 'orders' },
      value: 0,
    });
  });

  test('ends a terminal error by acknowledging, a retryable one at its own time, any other in the backoff', async () => {
    const ending = async (error: Error) => {
      const pipeline = aPipeline({
        look: () => {
          throw error;
        },
      });
      const { batchItemFailures } = await pipeline.run(anEvent(sqsRecord('a', aHint())));
      return [batchItemFailures.length, pipeline.seen.visibility[0]?.[1]];
    };

    expect(await ending(new TerminalError('WriteInvalid', 'no'))).toEqual([0, undefined]);
    expect(await ending(new RetryableError('Busy', 'later', { afterSeconds: 42 }))).toEqual([
      1, 42,
    ]);
    expect(await ending(new Error('a defect'))).toEqual([1, 3]);
  });
});

describe('a look whose hint belongs to a trace', () => {
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const spanId = 'b7ad6b7169203331';
  const traceparent = `00-${traceId}-${spanId}-01`;

  test('is a span below that of the hint, with what was decided and done, and its lines name it', async () => {
    const tracer = new RecordedTracer();
    const { seen, run } = aPipeline({
      tracer,
      write: () => ({ kind: 'written', resourceVersion: '8' }),
    });

    await run(anEvent(sqsRecord('a', aHint({ traceparent }))));

    const [look] = tracer.named('drain-step look');
    expect(tracer.spans.map(({ name }) => name)).toEqual(['drain-step look', 'observe', 'advance']);
    expect(look).toMatchObject({ traceId, parentSpanId: spanId, links: [], hasEnded: true });
    expect(look?.attributes).toMatchObject({
      'millrace.step': 'drain-step',
      'millrace.target.name': 'orders',
      'millrace.outcome': 'acting',
      'millrace.reason': 'RecordForeign',
    });
    expect(seen.lines.map(({ trace_id, span_id }) => [trace_id, span_id])).toEqual([
      [traceId, look?.spanId],
    ]);
  });

  test('begins a trace of its own, with a link, where the hint is ten minutes old', async () => {
    const tracer = new RecordedTracer();
    const { run } = aPipeline({ tracer });

    await run(anEvent(sqsRecord('a', aHint({ traceparent, time: '2025-12-31T23:50:00Z' }))));

    const [look] = tracer.named('drain-step look');
    expect(look?.parentSpanId).toBeUndefined();
    expect(look?.links).toEqual([{ traceId, spanId, isSampled: true }]);
  });

  test('is linked to the other hints that share it', async () => {
    const tracer = new RecordedTracer();
    const { run } = aPipeline({ tracer });
    const other = traceparent.replace(spanId, 'aaaaaaaaaaaaaaaa');

    await run(
      anEvent(
        sqsRecord('a', aHint({ traceparent })),
        sqsRecord('b', aHint({ traceparent: other })),
        sqsRecord('c', aHint()),
      ),
    );

    const [look] = tracer.named('drain-step look');
    expect(look?.parentSpanId).toBe(spanId);
    expect(look?.links.map((link) => link.spanId)).toEqual(['aaaaaaaaaaaaaaaa']);
    expect(look?.attributes['messaging.batch.message_count']).toBe(3);
  });

  test('fails with its reason when it is to be repeated, and says nothing of the message', async () => {
    const tracer = new RecordedTracer();
    const { run } = aPipeline({
      tracer,
      look: () => {
        throw new RetryableError('Unreachable', 'what the server said');
      },
    });

    await run(anEvent(sqsRecord('a', aHint({ traceparent }))));

    expect(tracer.named('drain-step look')[0]?.failure).toBe('Unreachable');
    expect(JSON.stringify(tracer.spans)).not.toContain('what the server said');
  });

  test('says which trace it belongs to where nobody traces, and nothing where that is history', async () => {
    const { seen, run } = aPipeline();

    await run(
      anEvent(
        sqsRecord('a', aHint({ traceparent })),
        sqsRecord('b', aHint({ name: 'old', traceparent, time: '2025-12-31T23:50:00Z' })),
      ),
    );

    expect(seen.lines.map(({ trace_id, span_id }) => [trace_id, span_id])).toEqual([
      [traceId, undefined],
      [undefined, undefined],
    ]);
  });

  test('ignores a trace context that is none, and says so at the level debug', async () => {
    const { seen, run } = aPipeline();

    const answer = await run(anEvent(sqsRecord('a', aHint({ traceparent: 'garbage' }))));

    expect(answer.batchItemFailures).toEqual([]);
    expect(seen.lines.map(({ level, msg }) => [level, msg])).toEqual([
      ['debug', 'trace context ignored'],
      ['info', 'decision'],
    ]);
  });
});

describe('the pipeline with a recorder', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  const failing: Situation = {
    look() {
      throw new RetryableError('TopologyDown', 'etcd does not answer');
    },
  };

  test('of failures tells of a look that failed as far as it came, and of no other', async () => {
    const { seen, run } = aPipeline({
      recorded: 'failures',
      read: (name) =>
        name === 'gone'
          ? absent
          : name === 'unread'
            ? unknown('503')
            : present({
                metadata: { name, uid: shardUid, resourceVersion: '1' },
              } as KubeObject<'Shard'>),
      write: () => {
        throw new TerminalError('Refused', 'no');
      },
    });

    await run(
      anEvent(
        sqsRecord('a', aHint()),
        sqsRecord('b', aHint({ name: 'unread' })),
        sqsRecord('c', aHint({ name: 'gone' })),
      ),
    );

    expect(seen.stories).toMatchObject([
      {
        hint: { data: { name: 'unread' } },
        at: now,
        result: { kind: 'failed', ending: 'returned', reason: 'TargetUnknown' },
      },
      {
        hint: { data: { name: 'orders' } },
        uid: shardUid,
        at: now,
        snapshot: { name: 'orders' },
        decision: { outcome: 'acting', reason: 'RecordForeign' },
        result: { kind: 'failed', ending: 'ended', reason: 'Refused' },
      },
    ]);
    expect(seen.stories[0]).not.toHaveProperty('snapshot');
  });

  test('of an unexpected error tells its class alone', async () => {
    const { seen, run } = aPipeline({
      recorded: 'failures',
      look() {
        throw new TypeError('a secret in a message');
      },
    });

    await run(anEvent(sqsRecord('a', aHint())));

    expect(seen.stories).toMatchObject([
      { result: { kind: 'failed', ending: 'unexpected', reason: 'TypeError' } },
    ]);
    expect(JSON.stringify(seen.stories)).not.toContain('secret');
  });

  test('of all tells every look, also those that lost their race', async () => {
    let races = 0;
    const { seen, run } = aPipeline({
      recorded: 'all',
      write: () =>
        races++ === 0
          ? { kind: 'lostRace', why: 'moved' }
          : { kind: 'written', resourceVersion: '8' },
    });

    await run(anEvent(sqsRecord('a', aHint())));

    expect(seen.stories.map(({ result }) => result)).toEqual([
      { kind: 'lostRace', effects: [] },
      { kind: 'done', effects: ['advance'] },
    ]);
  });

  test('of failures tells of races that were lost to the end, with what was seen last', async () => {
    const { seen, run } = aPipeline({
      recorded: 'failures',
      write: () => ({ kind: 'lostRace', why: 'moved' }),
    });

    await run(anEvent(sqsRecord('a', aHint())));

    expect(seen.stories).toMatchObject([
      { snapshot: { name: 'orders' }, result: { kind: 'failed', reason: 'LostRaces' } },
    ]);
  });

  test('does not ask it where there is nothing to tell', async () => {
    const { seen, run } = aPipeline({
      recorded: 'failures',
      record: () => Promise.reject(new Error('asked')),
    });

    await run(anEvent(sqsRecord('a', aHint())));

    expect(seen.lines.map(({ msg }) => msg)).toEqual(['decision']);
  });

  test.each<[string, Situation['record']]>([
    ['fails', () => Promise.reject(new Error('there is no bucket'))],
    [
      'hangs',
      (signal) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject(new Error('there is no bucket')));
        }),
    ],
  ])('that %s answers as it would without, and warns', async (_what, record) => {
    const { seen, run } = aPipeline({
      ...failing,
      recorded: 'failures',
      ...(record === undefined ? {} : { record }),
    });

    const answer = await run(anEvent(sqsRecord('a', aHint())));

    expect(answer.batchItemFailures).toEqual([{ itemIdentifier: 'a' }]);
    expect(seen.visibility).toEqual([['receipt-a', 3]]);
    expect(seen.lines.at(-1)).toMatchObject({
      level: 'warn',
      msg: 'looks not recorded',
      looks: 1,
      why: 'there is no bucket',
    });
    expect(seen.deadlines).toEqual([29_000, 3_000]);
  });
});
