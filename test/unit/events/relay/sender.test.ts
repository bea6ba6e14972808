import { describe, expect, test } from 'vitest';
import { DirtySet, type Mark } from '#events/relay/dirty-set.ts';
import { Sender, type SenderNews, senderLimits } from '#events/relay/sender.ts';
import type { StepName } from '#shared/api/steps.ts';

import { RecordingQueue } from './recording-queue.ts';
import { seeded } from './seeded.ts';
import { VirtualTimers } from './virtual-timers.ts';

function setUp(onNews: (news: SenderNews) => void = () => {}) {
  const timers = new VirtualTimers();
  const queue = new RecordingQueue();
  const held: string[] = [];
  const dirty = new DirtySet({
    timers,
    pace: senderLimits.pace,
    onHeld: ({ mark }) => held.push(mark.target.name),
  });
  const news: SenderNews[] = [];
  const leadership = { isLeading: true };
  const sender = new Sender({
    queues: queue,
    dirty,
    timers,
    random: () => 1,
    clusterId: 'test',
    stage: 'test',
    steps: ['drain-step', 'pool-pods'],
    limits: senderLimits,
    isLeading: () => leadership.isLeading,
    report(item) {
      news.push(item);
      onNews(item);
    },
  });
  const mark = (name: string, more: Partial<Mark> = {}) => {
    const target = {
      kind: 'Shard',
      namespace: 'db',
      name,
      uid: `uid-${name}`,
      resourceVersion: '7',
    } as const;
    dirty.mark({ step: 'drain-step', cause: 'changed', token: '7', target, ...more });
    sender.notice();
  };
  const markMany = (count: number, step: StepName = 'drain-step') => {
    for (let index = 0; index < count; index += 1) {
      mark(`s${index}`, { step });
    }
  };
  return { timers, queue, dirty, held, news, leadership, sender, mark, markMany };
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
    await timers.pass(senderLimits.gatherMs - 1);
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

describe('a batch', () => {
  /**
   * Marks of 3,000 targets in turn, at random moments (Poisson) but a fixed mean rate, against a queue that answers
   * after 4 to 30 ms. Milliseconds from each mark to its acknowledgement, and requests per 10,000 marks.
   */
  async function sendAtRate(marksPerSecond: number, seed: number) {
    const marks = 3_000;
    const delaysMs: number[] = [];
    const { timers, queue, dirty, sender, mark } = setUp((news) => {
      if (news.kind === 'sent') {
        delaysMs.push(timers.monotonicMs() - news.dirty.owedSinceMs);
      }
    });
    const random = seeded(seed);
    queue.latency = () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      timers.after(4 + 26 * random() ** 3, resolve);
      return promise;
    };
    for (let count = 0; count < marks; count += 1) {
      mark(`s${count % 3_000}`);
      await timers.pass((-Math.log(1 - random()) * 1_000) / marksPerSecond);
    }
    void sender.drain(10_000);
    await timers.pass(10_000);
    expect(dirty.isEmpty()).toBe(true);
    expect(queue.taken).toHaveLength(marks);
    const sorted = delaysMs.toSorted((a, b) => a - b);
    const percentile = (share: number) => sorted[Math.floor(share * sorted.length)] ?? Number.NaN;
    return {
      p50Ms: percentile(0.5),
      p99Ms: percentile(0.99),
      requests: (queue.batches.length * 10_000) / marks,
    };
  }

  test.each([1, 2, 3])(
    'is full where 200 marks come in a second, and none waits long (seed %d)',
    async (seed) => {
      const { p50Ms, p99Ms, requests } = await sendAtRate(200, seed);

      expect(requests).toBeLessThanOrEqual(1_100);
      expect(p50Ms).toBeLessThanOrEqual(50);
      expect(p99Ms).toBeLessThanOrEqual(250);
    },
  );

  test.each([1, 2, 3])('waits hardly at all where 50 come (seed %d)', async (seed) => {
    const { p50Ms, p99Ms } = await sendAtRate(50, seed);

    expect(p50Ms).toBeLessThanOrEqual(20);
    expect(p99Ms).toBeLessThanOrEqual(120);
  });

  test.each([10, 30, 75, 100, 125, 150, 300, 1_000])(
    'keeps nobody waiting at any rate in between or beyond (%d in a second)',
    async (rate) => {
      const { p50Ms, p99Ms } = await sendAtRate(rate, rate);

      expect(p50Ms).toBeLessThanOrEqual(50);
      expect(p99Ms).toBeLessThanOrEqual(130);
    },
  );

  test('that is full leaves at once', async () => {
    const { timers, queue, markMany } = setUp();
    markMany(10);

    await timers.pass(0);

    expect(queue.batches).toEqual([10]);
  });

  test('of a single mark leaves after ten milliseconds', async () => {
    const { timers, queue, mark } = setUp();
    mark('a');
    await timers.pass(senderLimits.gatherMs - 1);
    const early = queue.taken.length;

    await timers.pass(1);

    expect([early, queue.taken.length]).toEqual([0, 1]);
  });

  test('of a few targets is not waited for, however often they come', async () => {
    const { timers, queue, mark } = setUp();
    for (let count = 0; count < 10; count += 1) {
      for (const name of ['a', 'b', 'c']) {
        mark(name, { token: String(count) });
      }
      await timers.pass(senderLimits.gatherMs);
    }

    expect(queue.taken).toHaveLength(30);
  });

  test('is not waited for because one target is marked over and over', async () => {
    const { timers, queue, mark } = setUp();
    for (let count = 0; count < 9; count += 1) {
      mark('a', { token: String(count) });
      await timers.pass(1);
    }

    await timers.pass(1);

    expect(queue.taken.map(({ hint }) => hint.id)).toEqual(['uid-a/8/drain-step']);
  });
});

describe('a target that hints too often', () => {
  test('L1: ends at one hint a second, loses no last word, and delays no other', async () => {
    const { timers, queue, dirty, held, mark } = setUp();
    for (let count = 0; count < 120 * 50; count += 1) {
      mark('hot', { token: String(count) });
      if (count % 500 === 0) {
        mark('quiet', { token: String(count) });
      }
      await timers.pass(20);
    }
    const hints = queue.words.filter((word) => word.endsWith('hot')).length;
    await timers.pass(1_000);

    const last = queue.taken.findLast(({ hint }) => hint.data.name === 'hot');
    expect(hints).toBeGreaterThan(senderLimits.pace.burst + 110);
    expect(hints).toBeLessThan(senderLimits.pace.burst + 125);
    expect(last?.hint.id).toBe('uid-hot/5999/drain-step');
    expect(queue.words.filter((word) => word.endsWith('quiet'))).toHaveLength(12);
    expect(new Set(held)).toEqual(new Set(['hot']));
    expect(dirty.isEmpty()).toBe(true);
  });

  test('gets its last hint also when it was marked last while one was on the way', async () => {
    const { timers, queue, mark } = setUp();
    for (let count = 1; count < senderLimits.pace.burst; count += 1) {
      mark('hot', { token: String(count) });
      await timers.pass(senderLimits.gatherMs);
    }
    queue.isHeld = true;
    mark('hot', { token: 'sent' });
    await timers.pass(senderLimits.gatherMs);
    mark('hot', { token: 'last' });

    queue.release();
    await timers.pass(senderLimits.pace.everyMs);

    expect(queue.taken.at(-1)?.hint.id).toBe('uid-hot/last/drain-step');
  });

  test('is neither one that drains nor one that is woken every five seconds', async () => {
    const { timers, held, mark } = setUp();
    for (let minute = 0; minute < 5; minute += 1) {
      for (let count = 0; count < 30; count += 1) {
        mark('a', { token: `drain ${count}` });
        await timers.pass(100);
      }
      for (let count = 0; count < 12; count += 1) {
        mark('a', { token: `wake ${count}` });
        await timers.pass(5_000);
      }
    }

    expect(held).toEqual([]);
  });

  test('is sent at once when the relay stops', async () => {
    const { timers, queue, sender, mark, held } = setUp();
    for (let count = 0; count <= senderLimits.pace.burst; count += 1) {
      mark('hot', { token: String(count) });
      await timers.pass(senderLimits.gatherMs);
    }
    const before = queue.taken.length;

    const drained = sender.drain(10_000);
    await timers.pass(0);

    expect([await drained, before, held]).toEqual([true, senderLimits.pace.burst, ['hot']]);
    expect(queue.taken).toHaveLength(before + 1);
    expect(timers.pending).toBe(0);
  });
});

describe('while another relay leads', () => {
  test('nothing is sent, and everything is kept', async () => {
    const { timers, queue, dirty, leadership, markMany } = setUp();
    leadership.isLeading = false;
    markMany(25);

    await timers.pass(3_600_000);

    expect(queue.batches).toEqual([]);
    expect(dirty.size('drain-step')).toBe(25);
  });

  test('what was marked is sent when this one takes over', async () => {
    const { timers, queue, leadership, sender, markMany } = setUp();
    leadership.isLeading = false;
    markMany(25);
    await timers.pass(60_000);

    leadership.isLeading = true;
    sender.notice();
    await timers.pass(100);

    expect(queue.taken).toHaveLength(25);
  });

  test('no further batch is started, although nobody has told yet that the lead was lost', async () => {
    const { timers, queue, dirty, leadership, markMany } = setUp();
    queue.isHeld = true;
    markMany(45);
    await timers.pass(0);

    leadership.isLeading = false;
    queue.release();
    await timers.pass(10_000);

    expect(queue.batches).toEqual([10, 10]);
    expect(dirty.size('drain-step')).toBe(25);
  });

  test('a stop waits for nothing, because nothing is owed', async () => {
    const { timers, queue, leadership, sender, markMany } = setUp();
    leadership.isLeading = false;
    markMany(25);

    const drained = sender.drain(10_000);
    await timers.pass(0);

    expect(await drained).toBe(true);
    expect(queue.batches).toEqual([]);
    expect(timers.pending).toBe(0);
  });

  test('a stop that had begun to send ends, and says that not all is sent', async () => {
    const { timers, queue, leadership, sender, markMany } = setUp();
    queue.isDown = true;
    markMany(25);
    const drained = sender.drain(10_000);
    await timers.pass(1_000);

    leadership.isLeading = false;
    sender.notice();

    expect(await drained).toBe(false);
    expect(timers.pending).toBe(0);
  });
});
