import type { Context } from 'aws-lambda';
import { afterEach, expect, test, vi } from 'vitest';
import { settled } from '#shared/kernel/decision.ts';
import { createHandler } from '#shared/kernel/pipeline.ts';
import type { Step } from '#shared/kernel/step.ts';
import { silentTracer } from '#shared/kernel/trace.ts';
import { KubeModel } from '#test/builders/kube-model.ts';

afterEach(() => {
  vi.unstubAllEnvs();
});

const step: Step<'Shard', object> = {
  name: 'drain-step',
  target: 'Shard',
  reads: [],
  writes: [],
  observe: () => Promise.resolve({}),
  decide: () => settled('NobodyLeaves', 'nothing to do'),
  archived: () => Promise.reject(new Error('nothing is archived')),
};

/** Invokes a handler with an empty batch; resolves with its answer and with the limits that a flush was given. */
async function invoke(remainingMs: number, problem?: string) {
  vi.stubEnv('MILLRACE_CLUSTER_ID', 'test');
  vi.stubEnv('MILLRACE_LOG_LEVEL', 'silent');
  const limits: number[] = [];
  const flush = (limitMs: number) => {
    limits.push(limitMs);
    return Promise.resolve(problem);
  };
  const unasked = () => {
    throw new Error('the outside was asked');
  };
  const kube = new KubeModel();
  const others = { topology: unasked, goverse: unasked, admin: unasked, repository: unasked };
  const handler = createHandler(step, () =>
    Promise.resolve({
      kube,
      ports: { ...others, clusterId: 'test', kube },
      writers: { ...others, kube },
      changeVisibility: unasked,
      tracer: { ...silentTracer, flush },
    }),
  );
  const context = { awsRequestId: 'r', getRemainingTimeInMillis: () => remainingMs };
  const answer = await handler({ Records: [] }, context as Context);
  return { answer, limits };
}

test('spans are sent at the end of an invocation, within a second', async () => {
  const { limits } = await invoke(30_000);

  expect(limits).toEqual([1_000]);
});

test('where little time is left they get what is left, and where none is they wait', async () => {
  const { limits: little } = await invoke(800);
  const { limits: none } = await invoke(200);

  expect(little).toEqual([550]);
  expect(none).toEqual([]);
});

test('spans that cannot be sent change nothing about the answer', async () => {
  const { answer } = await invoke(30_000, 'the collector cannot be reached');

  expect(answer).toEqual({ batchItemFailures: [] });
});
