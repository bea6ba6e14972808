import { describe, expect, test } from 'vitest';
import { DirtySet, type Mark } from '#events/relay/dirty-set.ts';
import { Sender, type SenderNews, senderLimits } from '#events/relay/sender.ts';
import type { StepName } from '#shared/api/steps.ts';
import { RecordingQueue } from './recording-queue.ts';
import { VirtualTimers } from './virtual-timers.ts';

function setUp() {
  const timers = new VirtualTimers();
  const queue = new RecordingQueue();
  const dirty = new DirtySet();
  const news: SenderNews[] = [];
  const sender = new Sender({
    queues: queue,
    dirty,
    timers,
    random: () => 1,
    clusterId: 'test',
    stage: 'test',
    steps: ['drain-step', 'pool-pods'],
    limits: senderLimits,
    report: (item) => news.push(item),
  });
  const mark = (name: string, more: Partial<Mark> = {}) => {
    const target = {
      kind: 'Shard',
      namespace: 'db',
      name,
      uid: `uid-${name}`,
      resourceVersion: '7',
    } as const;
    dirty.mark({ step: 'drain-step', cause: 'changed', token: '7', target, ...more }, timers.now());
    sender.notice();
  };
  const markMany = (count: number, step: StepName = 'drain-step') => {
    for (let index = 0; index < count; index += 1) {
      mark(`s${index}`, { step });
    }
  };
  return { timers, queue, dirty, news, sender, mark, markMany };
}

describe('sending', () => {
  test('L1: happens within a second, to the queue of the step, grouped by the target’s uid', async () => {
    const { timers, queue, mark } = setUp();
    mark('a');

    await timers.pass(1_000);

    expect(queue.taken).toHaveLength(1);
    expect(queue.taken[0]).toMatchObject({
      queue: 'millrace-test-drain-step',
      group: 'uid-a',
      hint: { id: 'uid-a/7/drain-step', source: 'test', subject: 'shards/db/a' },
    });
  });

  test('marks of one target in a short time share one hint', async () => {
    const { timers, queue, mark } = setUp();
    mark('a', { token: '1' });
    await timers.pass(20);
    mark('a', { token: '2' });

    await timers.pass(1_000);

    expect(queue.taken.map(({ hint }) => hint.id)).toEqual(['uid-a/2/drain-step']);
  });

  test('goes in batches of ten, few at a time', async () => {
    const { timers, queue, markMany } = setUp();
    queue.isHeld = true;
    markMany(45);
    await timers.pass(1_000);

    const busy = queue.busy;
    queue.release();
    await timers.pass(0);

    expect(busy).toBe(senderLimits.batchesAtOnce);
    expect(queue.batches).toEqual([10, 10, 10, 10, 5]);
    expect(queue.busiest).toBe(senderLimits.batchesAtOnce);
    expect(queue.taken).toHaveLength(45);
  });

  test('a hint that no queue could take is dropped and told of, and holds up no other', async () => {
    const { timers, queue, dirty, news, mark } = setUp();
    mark('a'.repeat(600));
    mark('b');

    await timers.pass(1_000);

    expect(queue.words).toEqual(['drain-step changed b']);
    expect(news.map(({ kind }) => kind)).toEqual(['unsendable', 'sent']);
    expect(dirty.isEmpty()).toBe(true);
  });
});

describe('a failure', () => {
  test('of part of a batch keeps exactly that part', async () => {
    const { timers, queue, dirty, mark } = setUp();
    queue.refuses = (hint) => hint.data.name === 'b';
    mark('a');
    mark('b');
    mark('c');
    await timers.pass(100);

    const owed = dirty.size('drain-step');
    queue.refuses = () => false;
    await timers.pass(1_000);

    expect(owed).toBe(1);
    expect(queue.words).toEqual([
      'drain-step changed a',
      'drain-step changed c',
      'drain-step changed b',
    ]);
    expect(dirty.isEmpty()).toBe(true);
  });

  test('that an answer does not mention counts as one', async () => {
    const { timers, queue, dirty, mark } = setUp();
    const send = queue.send.bind(queue);
    queue.send = async (...parts) => ({ ...(await send(...parts)), acknowledged: [] });
    mark('a');

    await timers.pass(100);

    expect(dirty.size('drain-step')).toBe(1);
  });

  test('is tried again after waits that grow to their limit and no further', async () => {
    const { timers, queue, mark } = setUp();
    queue.isDown = true;
    mark('a');

    await timers.pass(10_000);
    const inTenSeconds = queue.batches.length;
    await timers.pass(150_000);
    const after = queue.batches.length - inTenSeconds;

    expect(inTenSeconds).toBe(6);
    expect(after).toBe(30);
  });

  test('L7: of any length loses no target, and costs an entry per target, never per event', async () => {
    const { timers, queue, dirty, mark, markMany } = setUp();
    queue.isDown = true;
    for (let quarter = 0; quarter < 8; quarter += 1) {
      markMany(30);
      await timers.pass(900_000);
    }
    const owed = dirty.size('drain-step');

    queue.isDown = false;
    mark('last');
    await timers.pass(16_000);

    expect(owed).toBe(30);
    expect(new Set(queue.words).size).toBe(31);
    expect(queue.taken).toHaveLength(31);
    expect(dirty.isEmpty()).toBe(true);
  });

  test('of one queue does not hold up another', async () => {
    const { timers, queue, mark } = setUp();
    const send = queue.send.bind(queue);
    queue.send = (name, ...rest) =>
      name.endsWith('drain-step')
        ? Promise.reject(new Error('no such queue'))
        : send(name, ...rest);
    mark('a');
    mark('a', { step: 'pool-pods' });

    await timers.pass(1_000);

    expect(queue.words).toEqual(['pool-pods changed a']);
  });

  test('F14: of the answer alone sends the hint again', async () => {
    const { timers, queue, dirty, mark } = setUp();
    queue.losesAnswers = true;
    mark('a');
    await timers.pass(100);

    queue.losesAnswers = false;
    await timers.pass(1_000);

    expect(queue.words).toEqual(['drain-step changed a', 'drain-step changed a']);
    expect(dirty.isEmpty()).toBe(true);
  });

  test('of ten entries for ever does not keep an eleventh from being sent', async () => {
    const { timers, queue, mark, markMany } = setUp();
    queue.refuses = (hint) => hint.data.name !== 'good';
    markMany(10);
    mark('good');

    await timers.pass(5_000);

    expect(queue.words).toEqual(['drain-step changed good']);
  });
});

describe('draining', () => {
  test('sends at once what is owed, then says that all is sent', async () => {
    const { timers, queue, sender, markMany } = setUp();
    markMany(25);

    const drained = sender.drain(10_000);
    await timers.pass(0);

    expect(await drained).toBe(true);
    expect(queue.taken).toHaveLength(25);
  });

  test('gives up when its grace is over, and leaves nothing behind', async () => {
    const { timers, queue, sender, mark } = setUp();
    queue.isHeld = true;
    mark('a');

    const drained = sender.drain(10_000);
    await timers.pass(10_000);

    expect(await drained).toBe(false);
    await timers.pass(0);
    expect(queue.busy).toBe(0);
    expect(timers.pending).toBe(0);
  });

  test('goes on trying while its grace lasts', async () => {
    const { timers, queue, sender, mark } = setUp();
    queue.isDown = true;
    mark('a');
    const drained = sender.drain(10_000);
    await timers.pass(2_000);

    queue.isDown = false;
    await timers.pass(5_000);

    expect(await drained).toBe(true);
    expect(queue.taken).toHaveLength(1);
  });
});
