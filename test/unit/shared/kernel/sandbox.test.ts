import type { Context } from 'aws-lambda';
import { expect, test } from 'vitest';
import { createLogger } from '#shared/kernel/logger.ts';
import { deadlineOf, inSandbox } from '#shared/kernel/sandbox.ts';
import { LineLog } from '#test/unit/infra/local/worker/line-log.ts';

function aContext(awsRequestId: string): Context {
  return { awsRequestId, getRemainingTimeInMillis: () => 10_000 } as Context;
}

/** A function that logs what it is given, or throws it; its first clients may fail to be made. */
function aFunction(problems: string[] = []) {
  const log = new LineLog();
  let made = 0;
  const handler = inSandbox(
    async () => {
      const problem = problems.shift();
      if (problem !== undefined) {
        throw new Error(problem);
      }
      made += 1;
      return {
        logger: createLogger('info', {}, { write: log.add }),
        deadlineIn: (delayMs: number) => AbortSignal.timeout(delayMs),
        client: made,
      };
    },
    async (event: { fails?: boolean }, remainingMs, { logger, client }) => {
      if (event.fails === true) {
        throw new Error('as asked');
      }
      logger.info({ client, remainingMs: remainingMs() }, 'ran');
      return client;
    },
  );
  return { handler, log };
}

test('clients are made once, and each line says whose invocation it belongs to', async () => {
  const { handler, log } = aFunction();

  const answers = [await handler({}, aContext('a')), await handler({}, aContext('b'))];

  expect(answers).toEqual([1, 1]);
  expect(log.lines).toMatchObject([
    { requestId: 'a', coldStart: true, client: 1, remainingMs: 10_000 },
    { requestId: 'b', client: 1 },
  ]);
  expect(log.lines[1]).not.toHaveProperty('coldStart');
});

test('clients that could not be made are made by the next invocation', async () => {
  const { handler } = aFunction(['no configuration']);

  await expect(handler({}, aContext('a'))).rejects.toThrow('no configuration');
  expect(await handler({}, aContext('b'))).toBe(1);
});

test('an invocation that fails leaves its clients to the next', async () => {
  const { handler } = aFunction();

  await expect(handler({ fails: true }, aContext('a'))).rejects.toThrow('as asked');
  expect(await handler({}, aContext('b'))).toBe(1);
});

test.each([
  [30_000, 29_000],
  [1_500, 500],
  [200, 0],
])('P6: of %i ms a second is kept to answer', (remainingMs, expectedMs) => {
  const asked: number[] = [];
  const deadlineIn = (delayMs: number) => {
    asked.push(delayMs);
    return new AbortController().signal;
  };

  deadlineOf({ deadlineIn }, () => remainingMs);

  expect(asked).toEqual([expectedMs]);
});
