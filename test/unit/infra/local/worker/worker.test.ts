import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { launch } from '#infra/local/child/launch.ts';
import { type WorkerMetrics, createWorkerMetrics } from '#infra/local/worker/metrics.ts';
import { type LocalWorker, startWorker } from '#infra/local/worker/worker.ts';
import { problemOf } from '#infra/observability/log-lines.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { LineLog } from './line-log.ts';
import { QueueUnderTest } from './queue-under-test.ts';

const cleanUp: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const undo of cleanUp.splice(0).toReversed()) {
    await undo();
  }
});

async function aQueue(visibilitySeconds: number): Promise<QueueUnderTest> {
  const queue = await QueueUnderTest.open(visibilitySeconds);
  cleanUp.push(() => queue.close());
  return queue;
}

function aWorker(
  queue: Pick<QueueUnderTest, 'url'>,
  options: {
    timeoutMs?: number;
    handler?: string;
    requestTimeoutMs?: number;
    sweepEveryMs?: number;
    metrics?: WorkerMetrics;
  } = {},
): { worker: LocalWorker; lines: LineLog; log: LineLog } {
  const lines = new LineLog();
  const log = new LineLog();
  const worker = startWorker({
    endpoint: queue.url,
    region: 'eu-west-1',
    stage: 'test',
    functions: [
      {
        step: 'drain-step',
        handler: new URL(`fixtures/${options.handler ?? 'scripted-function.ts'}`, import.meta.url),
      },
    ],
    ...(options.sweepEveryMs === undefined
      ? {}
      : {
          sweep: {
            handler: new URL('fixtures/scheduled-function.ts', import.meta.url),
            everyMs: options.sweepEveryMs,
          },
        }),
    concurrency: 1,
    timeoutMs: options.timeoutMs ?? 20_000,
    initTimeoutMs: 20_000,
    ...(options.requestTimeoutMs === undefined
      ? {}
      : { requestTimeoutMs: options.requestTimeoutMs }),
    environment: { GREETING: 'hello', MILLRACE_QUEUE_ENDPOINT: queue.url },
    log: createLogger('debug', { component: 'worker' }, { write: log.add }),
    ...(options.metrics === undefined ? {} : { metrics: options.metrics }),
    onLine: lines.add,
  });
  cleanUp.push(async () => {
    await worker.stop();
    expect(log.lines.map(problemOf).filter((problem) => problem !== undefined)).toEqual([]);
  });
  return { worker, lines, log };
}

describe('the local worker', { timeout: 60_000 }, () => {
  test('keeps the numbers that a function tells, and passes its other lines on', async () => {
    const queue = await aQueue(60);
    const metrics = createWorkerMetrics(() => 0);
    const { lines, log } = aWorker(queue, { handler: 'telling-function.ts', metrics });

    await queue.send('ok');
    await log.until({ msg: 'batch processed' });
    await lines.until({ line: 'told' });

    expect(lines.lines).toEqual([{ line: 'told' }]);
    expect((await metrics.registry.metrics()).split('\n')).toEqual(
      expect.arrayContaining([
        'millrace_hints_refused_total{step="drain-step"} 1',
        'millrace_worker_invocations_total{function="drain-step",result="returned"} 1',
      ]),
    );
  });

  test('hands a function the event and the context that Lambda would', async () => {
    const queue = await aQueue(60);
    const { lines, log } = aWorker(queue);

    const [messageId] = await queue.send('ok');
    await log.until({ msg: 'batch processed' });

    expect(lines.where({ line: 'invoked' })).toEqual([
      {
        line: 'invoked',
        invocations: 1,
        functionName: 'millrace-test-drain-step',
        arn: 'arn:aws:lambda:eu-west-1:000000000000:function:millrace-test-drain-step',
        requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
        remainingMs: expect.closeTo(20_000, -4),
        greeting: 'hello',
      },
    ]);
    expect(lines.where({ line: 'saw' })[0]?.['record']).toEqual({
      messageId,
      receiptHandle: expect.any(String),
      body: 'ok',
      attributes: {
        ApproximateReceiveCount: '1',
        SentTimestamp: expect.stringMatching(/^\d{13}$/),
        SenderId: '000000000000',
        ApproximateFirstReceiveTimestamp: expect.stringMatching(/^\d{13}$/),
      },
      messageAttributes: {
        origin: {
          dataType: 'String',
          stringValue: 'test',
          stringListValues: [],
          binaryListValues: [],
        },
      },
      md5OfBody: '444bcb3a3fcf8389296c49467f27e1d6',
      md5OfMessageAttributes: expect.any(String),
      eventSource: 'aws:sqs',
      eventSourceARN: 'arn:aws:sqs:eu-west-1:000000000000:millrace-test-drain-step',
      awsRegion: 'eu-west-1',
    });
  });

  test('P4: deletes exactly the messages that the function did not name as failed', async () => {
    const queue = await aQueue(60);
    const { log } = aWorker(queue);

    await queue.send('ok', 'fail', 'ok', 'fail', 'ok');
    await log.until({ msg: 'batch processed' });

    expect(log.where({ msg: 'batch processed' })[0]).toMatchObject({ messages: 5, failed: 2 });
    expect(await queue.counts()).toEqual({ visible: 0, hidden: 2 });
  });

  test('takes an absent answer for success', async () => {
    const queue = await aQueue(60);
    const { log } = aWorker(queue);

    await queue.send('nothing', 'ok');
    await log.until({ msg: 'batch processed' });

    expect(await queue.counts()).toEqual({ visible: 0, hidden: 0 });
  });

  test.each([
    ['names a message that is not of the batch', 'wrong-id', 'answer refused'],
    ['answers in another form', 'malformed', 'answer refused'],
    ['throws', 'throw', 'invocation failed'],
  ])('deletes nothing of a batch whose function %s', async (_, body, line) => {
    const queue = await aQueue(60);
    const { log } = aWorker(queue);

    await queue.send(body, 'ok', 'ok');
    await log.until({ msg: line });

    expect(await queue.counts()).toEqual({ visible: 0, hidden: 3 });
  });

  test('F11: kills a function that does not end, and its messages come back to a cold sandbox', async () => {
    const queue = await aQueue(2);
    const { lines, log } = aWorker(queue, { timeoutMs: 1_000 });

    await queue.send('ok');
    await log.until({ msg: 'batch processed' });
    await queue.send('hang');
    const failures = await log.until({ msg: 'invocation failed' }, 2);

    expect(failures[0]?.['why']).toBe('the invocation timed out after 1 s');
    expect(lines.where({ line: 'invoked' }).map((line) => line['invocations'])).toEqual([1, 2, 1]);
    expect(lines.where({ line: 'saw', body: 'hang' })).toMatchObject([
      { record: { attributes: { ApproximateReceiveCount: '1' } } },
      { record: { attributes: { ApproximateReceiveCount: '2' } } },
    ]);
  });

  test('F11: kills a function that keeps its thread busy, and goes on with the next batch', async () => {
    const queue = await aQueue(60);
    const { lines, log } = aWorker(queue, { timeoutMs: 500 });

    await queue.send('spin');
    await log.until({ msg: 'invocation failed' });
    await queue.send('ok');
    await log.until({ msg: 'batch processed' });

    expect(lines.where({ line: 'invoked' }).at(-1)?.['invocations']).toBe(1);
    expect(await queue.counts()).toEqual({ visible: 0, hidden: 1 });
  });

  test('a sandbox that crashes takes neither the worker nor the messages with it', async () => {
    const queue = await aQueue(60);
    const { lines, log } = aWorker(queue);

    await queue.send('crash');
    await log.until({ msg: 'invocation failed' });
    await queue.send('ok');
    await log.until({ msg: 'batch processed' });

    expect(lines.where({ line: 'invoked' }).map((line) => line['invocations'])).toEqual([1, 1]);
    expect(await queue.counts()).toEqual({ visible: 0, hidden: 1 });
  });

  test('a module that cannot be loaded fails the batch and says why', async () => {
    const queue = await aQueue(60);
    const { log } = aWorker(queue, { handler: 'no-such-module.ts' });

    await queue.send('ok');
    const [failure] = await log.until({ msg: 'invocation failed' });

    expect(failure?.['why']).toContain('no-such-module.ts');
    expect(await queue.counts()).toEqual({ visible: 0, hidden: 1 });
  });

  test('a queue that takes a request and never answers is unreachable, and holds up no stop', async () => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    cleanUp.push(async () => {
      silent.closeAllConnections();
      silent.close();
      await once(silent, 'close');
    });
    const { port } = silent.address() as AddressInfo;
    const { worker, log } = aWorker({ url: `http://127.0.0.1:${port}` }, { requestTimeoutMs: 300 });

    const [failure] = await log.until({ msg: 'queue unreachable' });
    await worker.stop();

    expect(failure?.['why']).toMatch(/timed out|timeout|300/i);
  });

  test('F30, P3: a poison message ends in the dead-letter queue after 5 receives while others flow', async () => {
    const queue = await aQueue(60);
    const { lines } = aWorker(queue);

    await queue.send('poison', 'ok', 'ok');
    await queue.send('ok', 'ok', 'ok');
    const deadLetter = await queue.deadLetter();

    expect(deadLetter).toBe('poison');
    expect(lines.where({ line: 'saw', body: 'poison' })).toHaveLength(5);
    expect(lines.where({ line: 'saw', body: 'ok' })).toHaveLength(5);
    expect(await queue.counts()).toEqual({ visible: 0, hidden: 0 });
  });

  test('F1: the messages of a worker that is killed in the middle of a batch come back', async () => {
    const queue = await aQueue(3);
    const killed = new LineLog();
    const child = await launch({
      name: 'the worker',
      entry: new URL('fixtures/worker-process.ts', import.meta.url),
      environment: { MILLRACE_QUEUE_ENDPOINT: queue.url },
      announcement: z.object({}),
      readyTimeoutMs: 20_000,
      onLine: killed.add,
    });
    cleanUp.push(() => child.stop(0));

    await queue.send('hang', 'ok');
    await killed.until({ line: 'saw' }, 2);
    child.signal('SIGKILL');
    await child.exited;
    const { lines } = aWorker(queue, { timeoutMs: 1_000 });
    const again = await lines.until({ line: 'saw' }, 2);

    expect(new Set(again.map((line) => line['body']))).toEqual(new Set(['hang', 'ok']));
  });

  test('a stop lets the running invocation end and takes nothing more', async () => {
    const queue = await aQueue(60);
    const { worker, lines, log } = aWorker(queue, { timeoutMs: 1_500 });

    await queue.send('hang');
    await lines.until({ line: 'saw' });
    await Promise.all([worker.stop(), queue.send('ok')]);

    expect(log.where({ msg: 'invocation failed' })).toHaveLength(1);
    expect(await queue.counts()).toEqual({ visible: 1, hidden: 1 });
  });

  test('a stop resolves when the messages of the last batch are deleted', async () => {
    const queue = await aQueue(60);
    const { worker, lines, log } = aWorker(queue);

    await queue.send('ok', 'ok');
    await lines.until({ line: 'saw' }, 2);
    await worker.stop();

    expect(log.where({ msg: 'batch processed' })).toMatchObject([{ messages: 2, failed: 0 }]);
    expect(await queue.counts()).toEqual({ visible: 0, hidden: 0 });
  });

  test('invokes the sweep on a timer, as a schedule would, and goes on where it failed', async () => {
    const queue = await aQueue(60);
    const { lines, log } = aWorker(queue, { sweepEveryMs: 20 });

    const ticks = await lines.until({ line: 'ticked' }, 3);
    const [failure] = await log.until({ msg: 'invocation failed' });

    expect(ticks.map(({ invocations }) => invocations)).toEqual([1, 2, 3]);
    expect(ticks[0]).toEqual({
      line: 'ticked',
      invocations: 1,
      event: {
        version: '0',
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        'detail-type': 'Scheduled Event',
        source: 'aws.events',
        account: '000000000000',
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
        region: 'eu-west-1',
        resources: ['arn:aws:events:eu-west-1:000000000000:rule/millrace-test-sweep'],
        detail: {},
      },
      functionName: 'millrace-test-sweep',
      remainingMs: expect.closeTo(20_000, -4),
      greeting: 'hello',
    });
    expect(failure).toMatchObject({ function: 'sweep', level: 'error' });
    expect(failure?.['why']).toContain('as a second one does');
  });

  test('a stop ends the sweep’s timer', async () => {
    const queue = await aQueue(60);
    const { worker, lines } = aWorker(queue, { sweepEveryMs: 3_600_000 });

    await worker.stop();

    expect(lines.lines).toEqual([]);
  });
});
