import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Instant, parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import { Queue, type Received } from '#test/world/model/queue.ts';

const now = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();
const hour = 3_600;

function at(seconds: number): Instant {
  return plusSeconds(now, seconds);
}

function bodies(messages: readonly { readonly body: string }[]): string[] {
  return messages.map(({ body }) => body);
}

function aQueue(...contents: string[]): Queue {
  const queue = new Queue({ visibilitySeconds: 30 });
  for (const body of contents) {
    queue.send(body, now);
  }
  return queue;
}

function receiveOne(queue: Queue, when: Instant): Received {
  const [message] = queue.receive(when, 1);
  return message ?? expect.unreachable('nothing is visible');
}

/** Receives everything every half minute until the message has died. */
function wearOut(queue: Queue, from = 0): Instant {
  for (let receive = 0; receive <= 5; receive += 1) {
    queue.receive(at(from + 30 * receive), 10);
  }
  return at(from + 150);
}

test('a fork of a queue sees nothing of what its origin does', () => {
  const origin = aQueue('a', 'b');
  const received = receiveOne(origin, now);

  const fork = origin.fork();
  origin.send('c', now);
  origin.delete(received.receiptHandle);

  expect(bodies(origin.receive(at(30), 10))).toEqual(['b', 'c']);
  expect(bodies(fork.receive(at(30), 10))).toEqual(['b', 'a']);
});

test('a queue sees nothing of what its fork does', () => {
  const origin = aQueue('a', 'b');
  const received = receiveOne(origin, now);

  const fork = origin.fork();
  fork.send('c', now);
  fork.delete(received.receiptHandle);

  expect(bodies(fork.receive(at(30), 10))).toEqual(['b', 'c']);
  expect(bodies(origin.receive(at(30), 10))).toEqual(['b', 'a']);
});

test('a fork keeps the dead letters, and its redrive is its own', () => {
  const origin = aQueue('a');
  const died = wearOut(origin);

  const fork = origin.fork();
  fork.redrive(died);

  expect(bodies(origin.deadLetters(died))).toEqual(['a']);
  expect(fork.deadLetters(died)).toEqual([]);
});

test('every order of a receive has a number, and 0 is that of sending', () => {
  const orders = Array.from({ length: 24 }, (_, order) =>
    bodies(aQueue('a', 'b', 'c', 'd').receive(now, 10, order)),
  );

  expect(orders[0]).toEqual(['a', 'b', 'c', 'd']);
  expect(new Set(orders.map((order) => order.join(''))).size).toBe(24);
  expect(new Set(orders.map((order) => order.toSorted().join('')))).toEqual(new Set(['abcd']));
});

test('whatever the order, every message is handed out exactly once before its time is over', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 12 }), fc.nat(), fc.integer({ min: 1, max: 10 }), run),
  );

  function run(length: number, order: number, max: number): void {
    const sent = Array.from({ length }, (_, index) => `message ${index}`);
    const queue = aQueue(...sent);
    const received: string[] = [];
    for (let receive = 0; receive < length; receive += 1) {
      received.push(...bodies(queue.receive(now, max, order)));
    }
    expect(received.toSorted()).toEqual(sent.toSorted());
  }
});

describe('a receipt', () => {
  test('deletes its message also when the visibility timeout is over', () => {
    const queue = aQueue('a');
    const { receiptHandle } = receiveOne(queue, now);

    const isDeleted = queue.delete(receiptHandle);

    expect(isDeleted).toBe(true);
    expect(queue.receive(at(60), 10)).toEqual([]);
  });

  test.each([
    ['ignored', false, 1],
    ['deletes', true, 0],
  ] as const)('that is not the newest is %s where the queue says so', (staleDelete, is, left) => {
    const queue = new Queue({ visibilitySeconds: 30, staleDelete });
    queue.send('a', now);
    const old = receiveOne(queue, now);
    receiveOne(queue, at(30));

    const isDeleted = queue.delete(old.receiptHandle);

    expect(isDeleted).toBe(is);
    expect(queue.depth(at(31)).inFlight).toBe(left);
  });

  test('whose timeout is over changes no visibility', () => {
    const queue = aQueue('a');
    const { receiptHandle } = receiveOne(queue, now);

    const outcome = queue.changeVisibility(receiptHandle, 600, at(30));

    expect(outcome).toBe('stale');
    expect(queue.depth(at(30)).visible).toBe(1);
  });

  test('can hide its message for longer', () => {
    const queue = aQueue('a');
    const { receiptHandle } = receiveOne(queue, now);

    const outcome = queue.changeVisibility(receiptHandle, 600, at(29));

    expect(outcome).toBe('changed');
    expect(queue.receive(at(628), 1)).toEqual([]);
    expect(bodies(queue.receive(at(629), 1))).toEqual(['a']);
  });
});

describe('a copy of a message', () => {
  test('comes though the first is in flight, with the same id and another receipt', () => {
    const queue = aQueue('a');
    const first = receiveOne(queue, now);

    queue.duplicate(first.messageId, at(1));
    const early = queue.receive(now, 10);
    const copy = receiveOne(queue, at(1));

    expect(early).toEqual([]);
    expect(copy).toMatchObject({ messageId: first.messageId, body: 'a', sentAt: now });
    expect(copy.receiptHandle).not.toBe(first.receiptHandle);
  });

  test('comes though the first was deleted', () => {
    const queue = aQueue('a');
    const first = receiveOne(queue, now);

    queue.duplicate(first.messageId, at(5));
    queue.delete(first.receiptHandle);

    expect(bodies(queue.receive(at(5), 10))).toEqual(['a']);
  });

  test('of nothing is an error', () => {
    expect(() => aQueue().duplicate('message-1', now)).toThrow('no message message-1');
  });
});

describe('a dead letter', () => {
  test('keeps id, body, count and when it was sent', () => {
    const queue = aQueue();
    const messageId = queue.send('a', now);

    const died = wearOut(queue);

    expect(queue.deadLetters(died)).toEqual([
      { messageId, body: 'a', receiveCount: 5, sentAt: now, movedAt: died },
    ]);
    expect(queue.nextVisibleAt()).toBeUndefined();
  });

  test('is kept as long as its own queue says, counted from when it was sent', () => {
    const queue = aQueue('a');
    wearOut(queue);
    const days = 24 * hour;

    expect(queue.deadLetters(at(14 * days - 1))).toHaveLength(1);
    expect(queue.deadLetters(at(14 * days))).toEqual([]);
  });

  test('comes back by a redrive as a new message, days later', () => {
    const queue = aQueue();
    const oldId = queue.send('a', now);
    wearOut(queue);
    const later = at(6 * 24 * hour);

    const moved = queue.redrive(later);

    const message = receiveOne(queue, later);
    expect(moved).toBe(1);
    expect(queue.deadLetters(later)).toEqual([]);
    expect(message).toMatchObject({
      body: 'a',
      receiveCount: 1,
      sentAt: later,
      firstReceivedAt: later,
    });
    expect(message.messageId).not.toBe(oldId);
  });
});

test('a message is kept for the retention period and no longer, in flight or not', () => {
  const queue = aQueue('hidden', 'visible');
  const days = 24 * hour;
  const justBefore = at(4 * days - 1);
  const { receiptHandle } = receiveOne(queue, justBefore);

  const before = queue.depth(justBefore);
  const after = queue.depth(at(4 * days));

  expect(before).toEqual({ visible: 1, inFlight: 1, delayed: 0 });
  expect(after).toEqual({ visible: 0, inFlight: 0, delayed: 0 });
  expect(queue.changeVisibility(receiptHandle, 0, at(4 * days))).toBe('stale');
});

test('the next message shows when the first of all hidden ones does', () => {
  const queue = aQueue();
  queue.send('late', now, { delaySeconds: 90 });
  queue.send('first', now);

  const visible = queue.nextVisibleAt();
  queue.receive(now, 1);
  const hidden = queue.nextVisibleAt();

  expect([visible, hidden]).toEqual([now, at(30)]);
});

test.each([
  ['max', (queue: Queue) => queue.receive(now, 11)],
  ['max', (queue: Queue) => queue.receive(now, 0)],
  ['delaySeconds', (queue: Queue) => queue.send('a', now, { delaySeconds: 901 })],
  ['seconds', (queue: Queue) => queue.changeVisibility('1-1', 43_201, now)],
])('a number that SQS would refuse is an error: %s', (name, act) => {
  expect(() => act(aQueue('a'))).toThrow(RangeError);
  expect(() => act(aQueue('a'))).toThrow(name);
});
