import { describe, expect, test } from 'vitest';
import { type HintCause, makeHint } from '#events/hint.ts';
import type { StepName } from '#shared/api/steps.ts';
import { twoSteps } from '#test/builders/two-steps.ts';
import { parseInstant } from '#shared/kernel/instant.ts';
import { HintLedger } from '#test/cluster/hint-ledger.ts';

const at = parseInstant('2026-01-01T00:00:00Z') ?? (0 as never);

function aHint(
  step: StepName,
  uid: string,
  facts: { cause?: HintCause; token?: string; resourceVersion?: string } = {},
): string {
  const { cause = 'changed', token = '1', resourceVersion = '1' } = facts;
  const target = { kind: 'Shard', plural: 'shards', namespace: 'db', name: 'orders', uid };
  const about = { ...target, resourceVersion } as const;
  return JSON.stringify(makeHint({ step, cause, source: 'test', target: about, token, at }));
}

function receiveForAll(
  ledger: HintLedger,
  ...rest: Parameters<typeof aHint> extends [StepName, ...infer R] ? R : never
) {
  twoSteps.forEach((step) => ledger.received(step, aHint(step, ...rest)));
}

const everyStep = twoSteps.map((step) => `${step} a`);

describe('final states without a hint', () => {
  test('are counted for each step that was not told', () => {
    const ledger = new HintLedger('test', twoSteps);

    ledger.written('a', '10');
    ledger.received('drain-step', aHint('drain-step', 'a'));

    expect(ledger.withoutHint()).toEqual(everyStep.filter((told) => told !== 'drain-step a'));
  });

  test('are covered by a hint that came after the last write, whatever it says', () => {
    const ledger = new HintLedger('test', twoSteps);

    ledger.written('a', '10');
    ledger.written('a');
    receiveForAll(ledger, 'a');

    expect(ledger.withoutHint()).toEqual([]);
  });

  test('are not covered by a hint that came before the last write', () => {
    const ledger = new HintLedger('test', twoSteps);

    ledger.written('a', '10');
    receiveForAll(ledger, 'a', { token: '10', resourceVersion: '10' });
    ledger.written('a', '11');

    expect(ledger.withoutHint()).toEqual(everyStep);
  });

  test.each([
    ['the target’s own version', { token: '3', resourceVersion: '11' }],
    ['the version of what moved', { token: '12', resourceVersion: '3' }],
  ])('are covered by an earlier hint where %s proves that the write was before it', (_, facts) => {
    const ledger = new HintLedger('test', twoSteps);

    receiveForAll(ledger, 'a', facts);
    ledger.written('a', '11');

    expect(ledger.withoutHint()).toEqual([]);
  });

  test('are not covered by a timer’s tick that looks like a high version', () => {
    const ledger = new HintLedger('test', twoSteps);

    receiveForAll(ledger, 'a', { cause: 'wake', token: String(at) });
    ledger.written('a', '11');

    expect(ledger.withoutHint()).toEqual(everyStep);
  });

  test('are not covered by a hint about another target', () => {
    const ledger = new HintLedger('test', twoSteps);

    ledger.written('a', '10');
    receiveForAll(ledger, 'b', { token: '99' });

    expect(ledger.withoutHint()).toEqual(everyStep);
  });

  test('L3: the end of a target is covered by a deletion with its uid alone', () => {
    const ledger = new HintLedger('test', twoSteps);
    ledger.written('a', '10');
    ledger.removed('a');

    receiveForAll(ledger, 'a', { token: '99' });
    receiveForAll(ledger, 'b', { cause: 'deleted' });
    const before = ledger.withoutHint();
    receiveForAll(ledger, 'a', { cause: 'deleted' });

    expect(before).toEqual(everyStep);
    expect(ledger.withoutHint()).toEqual([]);
    expect(ledger.falselyDeleted()).toEqual(twoSteps.map((step) => `${step} orders b`));
    expect(ledger.removals()).toEqual(
      new Set(twoSteps.flatMap((step) => [`${step} a`, `${step} b`])),
    );
  });
});

describe('what a queue answers', () => {
  function exchange(acknowledged: readonly string[], action = 'SendMessageBatch') {
    const body = JSON.stringify({
      QueueUrl: 'http://127.0.0.1/000000000000/millrace-test-pool-pods',
      Entries: ['0', '1'].map((Id) => ({ Id, MessageBody: aHint('pool-pods', `uid-${Id}`) })),
    });
    const headers = { 'x-amz-target': `AmazonSQS.${action}` };
    const request = { method: 'POST', path: '/', query: new URLSearchParams(), atMs: 0 };
    const answer = { Successful: acknowledged.map((Id) => ({ Id, MessageId: Id })) };
    return [
      { ...request, headers, body },
      { status: 200, body: JSON.stringify(answer) },
    ] as const;
  }

  test('counts the acknowledged entries of a batch, under the step of the queue', () => {
    const ledger = new HintLedger('test', twoSteps);

    ledger.observe(...exchange(['1']));

    expect(ledger.hints.map(({ step, hint }) => [step, hint.data.uid])).toEqual([
      ['pool-pods', 'uid-1'],
    ]);
    expect(ledger.duplicates).toBe(0);
  });

  test('counts what comes twice twice, and says so', () => {
    const ledger = new HintLedger('test', twoSteps);

    ledger.observe(...exchange(['0', '1']));
    ledger.observe(...exchange(['0']));

    expect(ledger.hints).toHaveLength(3);
    expect(ledger.duplicates).toBe(1);
  });

  test('counts nothing of a refused batch, and nothing of another call', () => {
    const ledger = new HintLedger('test', twoSteps);
    const [request] = exchange(['0', '1']);

    ledger.observe(request, { status: 400, body: '{"__type":"x"}' });
    ledger.observe(...exchange(['0'], 'DeleteMessageBatch'));

    expect(ledger.hints).toEqual([]);
  });
});
