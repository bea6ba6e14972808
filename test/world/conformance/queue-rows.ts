import type { QueueDepth, Received } from '#test/world/model/queue.ts';

/** One queue with its dead-letter queue, whoever keeps them, empty at first. */
export interface QueueUnderTest {
  /** @returns the message's id */
  send(body: string, delaySeconds?: number): Promise<string>;
  /** What is visible now; several calls may be needed to get all of it. */
  receive(max?: number): Promise<readonly Received[]>;
  /** Waits until something is visible and receives all of it. */
  receiveNext(): Promise<readonly Received[]>;
  delete(receiptHandle: string): Promise<void>;
  changeVisibility(receiptHandle: string, seconds: number): Promise<'changed' | 'stale'>;
  /** Messages in the dead-letter queue. */
  deadLetters(): Promise<readonly Pick<Received, 'messageId' | 'body' | 'sentAt'>[]>;
  depth(): Promise<QueueDepth>;
  /** Milliseconds since the Unix epoch, by the queue's clock. */
  nowMs(): number;
}

export interface QueueRow {
  /** A fact about SQS standard queues. */
  readonly name: string;
  /** How long a received message stays hidden; 30 where the row ends a visibility timeout by itself. */
  readonly visibilitySeconds?: number;
  /** Tells what it saw, in a form that is the same whoever keeps the queue. */
  readonly act: (queue: QueueUnderTest) => Promise<unknown>;
  readonly sees: unknown;
}

/** How often both queues hand a message out before it goes to the dead-letter queue. */
export const maxReceiveCount = 5;

/** A timer may fire this much before its time. */
const earlyMs = 50;

async function receiveOne(queue: QueueUnderTest): Promise<Received> {
  const [message] = await queue.receive(1);
  if (message === undefined) {
    throw new Error('nothing is visible');
  }
  return message;
}

function bodies(messages: readonly { readonly body: string }[]): string[] {
  return messages.map(({ body }) => body);
}

/** Receives a message so often that the next receive moves it. */
async function wearOut(queue: QueueUnderTest): Promise<void> {
  for (let count = 1; count <= maxReceiveCount; count += 1) {
    const { receiptHandle } = await receiveOne(queue);
    await queue.changeVisibility(receiptHandle, 0);
  }
}

const receiving: readonly QueueRow[] = [
  {
    name: 'an empty queue hands out nothing',
    act: async (queue) => queue.receive(10),
    sees: [],
  },
  {
    name: 'a message comes with its id, its body, its times and that it is received once',
    async act(queue) {
      const id = await queue.send('a');
      const { messageId, body, receiveCount, sentAt, firstReceivedAt } = await receiveOne(queue);
      return { isSent: messageId === id, body, receiveCount, isInOrder: sentAt <= firstReceivedAt };
    },
    sees: { isSent: true, body: 'a', receiveCount: 1, isInOrder: true },
  },
  {
    name: 'a receive hands out as many messages as it asks for, the first sent first where nobody reorders',
    async act(queue) {
      for (const body of ['a', 'b', 'c']) {
        await queue.send(body);
      }
      return [bodies(await queue.receive(2)), bodies(await queue.receive(10))];
    },
    sees: [['a', 'b'], ['c']],
  },
  {
    name: 'two messages with one body are two messages',
    async act(queue) {
      const ids = [await queue.send('same'), await queue.send('same')];
      const received = await queue.receive(10);
      return { ids: new Set(ids).size, bodies: bodies(received) };
    },
    sees: { ids: 2, bodies: ['same', 'same'] },
  },
  {
    name: 'a received message is hidden from the next receive, and is not gone',
    async act(queue) {
      await queue.send('a');
      await queue.receive(1);
      return { again: await queue.receive(10), depth: await queue.depth() };
    },
    sees: { again: [], depth: { visible: 0, inFlight: 1, delayed: 0 } },
  },
  {
    name: 'a delayed message is handed out when its time has come, and not before',
    async act(queue) {
      await queue.send('later', 900);
      await queue.send('soon', 1);
      const received = await queue.receiveNext();
      const waitedMs = queue.nowMs() - (received[0]?.sentAt ?? 0);
      return {
        received: bodies(received),
        wasHidden: waitedMs >= 1_000 - earlyMs,
        depth: await queue.depth(),
      };
    },
    sees: {
      received: ['soon'],
      wasHidden: true,
      depth: { visible: 0, inFlight: 1, delayed: 1 },
    },
  },
];

const visibility: readonly QueueRow[] = [
  {
    name: 'a message that nobody deletes comes again when its visibility timeout is over',
    visibilitySeconds: 1,
    async act(queue) {
      const sentId = await queue.send('a');
      const first = await receiveOne(queue);
      const [second] = await queue.receiveNext();
      return {
        isSame: second?.messageId === sentId,
        hasNewReceipt: second?.receiptHandle !== first.receiptHandle,
        receiveCounts: [first.receiveCount, second?.receiveCount],
        keepsTimes:
          second?.sentAt === first.sentAt && second?.firstReceivedAt === first.firstReceivedAt,
        wasHidden: queue.nowMs() - first.firstReceivedAt >= 1_000 - earlyMs,
      };
    },
    sees: {
      isSame: true,
      hasNewReceipt: true,
      receiveCounts: [1, 2],
      keepsTimes: true,
      wasHidden: true,
    },
  },
  {
    name: 'a message whose visibility is set to zero is visible at once',
    async act(queue) {
      await queue.send('a');
      const { receiptHandle } = await receiveOne(queue);
      await queue.changeVisibility(receiptHandle, 0);
      const depth = await queue.depth();
      return { depth, again: (await receiveOne(queue)).receiveCount };
    },
    sees: { depth: { visible: 1, inFlight: 0, delayed: 0 }, again: 2 },
  },
  {
    name: 'a shortened visibility timeout counts from when it is set',
    async act(queue) {
      await queue.send('a');
      const { receiptHandle } = await receiveOne(queue);
      const setAt = queue.nowMs();
      await queue.changeVisibility(receiptHandle, 1);
      const received = bodies(await queue.receiveNext());
      const hiddenMs = queue.nowMs() - setAt;
      return { received, wasHidden: hiddenMs >= 1_000 - earlyMs, isSooner: hiddenMs < 20_000 };
    },
    sees: { received: ['a'], wasHidden: true, isSooner: true },
  },
  {
    name: 'a changed visibility timeout is that of its message alone',
    async act(queue) {
      await queue.send('a');
      await queue.send('b');
      const [, second] = await queue.receive(2);
      await queue.changeVisibility(second?.receiptHandle ?? '', 1);
      return bodies(await queue.receiveNext());
    },
    sees: ['b'],
  },
  {
    name: 'a changed visibility timeout is forgotten at the next receive',
    visibilitySeconds: 1,
    async act(queue) {
      await queue.send('a');
      const { receiptHandle } = await receiveOne(queue);
      await queue.changeVisibility(receiptHandle, 0);
      const before = queue.nowMs();
      await receiveOne(queue);
      await queue.receiveNext();
      return { wasHidden: queue.nowMs() - before >= 1_000 - earlyMs };
    },
    sees: { wasHidden: true },
  },
  {
    name: 'a message that is given back stands behind those that waited',
    async act(queue) {
      await queue.send('a');
      await queue.send('b');
      const { receiptHandle } = await receiveOne(queue);
      await queue.changeVisibility(receiptHandle, 0);
      return bodies(await queue.receive(10));
    },
    sees: ['b', 'a'],
  },
  {
    name: 'the visibility is changed by the newest receipt alone',
    async act(queue) {
      await queue.send('a');
      const old = await receiveOne(queue);
      await queue.changeVisibility(old.receiptHandle, 0);
      const newer = await receiveOne(queue);
      const byOld = await queue.changeVisibility(old.receiptHandle, 0);
      const received = await queue.receive(10);
      return { byOld, received, byNewer: await queue.changeVisibility(newer.receiptHandle, 0) };
    },
    sees: { byOld: 'stale', received: [], byNewer: 'changed' },
  },
  {
    name: 'the visibility of a message that is visible, or deleted, is not changed',
    async act(queue) {
      await queue.send('a');
      const { receiptHandle } = await receiveOne(queue);
      await queue.changeVisibility(receiptHandle, 0);
      const whenVisible = await queue.changeVisibility(receiptHandle, 20);
      const newer = await receiveOne(queue);
      await queue.delete(newer.receiptHandle);
      const whenDeleted = await queue.changeVisibility(newer.receiptHandle, 20);
      return { whenVisible, whenDeleted };
    },
    sees: { whenVisible: 'stale', whenDeleted: 'stale' },
  },
];

const deleting: readonly QueueRow[] = [
  {
    name: 'a deleted message is gone, and the others are not',
    async act(queue) {
      await queue.send('a');
      await queue.send('b');
      const { receiptHandle } = await receiveOne(queue);
      await queue.delete(receiptHandle);
      return { depth: await queue.depth(), rest: bodies(await queue.receive(10)) };
    },
    sees: { depth: { visible: 1, inFlight: 0, delayed: 0 }, rest: ['b'] },
  },
  {
    name: 'deleting twice does no harm',
    async act(queue) {
      await queue.send('a');
      await queue.send('b');
      const { receiptHandle } = await receiveOne(queue);
      await queue.delete(receiptHandle);
      await queue.delete(receiptHandle);
      return bodies(await queue.receive(10));
    },
    sees: ['b'],
  },
  {
    name: 'an old receipt deletes nothing once the message was received again',
    async act(queue) {
      await queue.send('a');
      const old = await receiveOne(queue);
      await queue.changeVisibility(old.receiptHandle, 0);
      const newer = await receiveOne(queue);
      await queue.delete(old.receiptHandle);
      const held = await queue.depth();
      await queue.delete(newer.receiptHandle);
      return [held, await queue.depth()];
    },
    sees: [
      { visible: 0, inFlight: 1, delayed: 0 },
      { visible: 0, inFlight: 0, delayed: 0 },
    ],
  },
];

const dying: readonly QueueRow[] = [
  {
    name: 'every receive counts, those that are given back as well',
    async act(queue) {
      await queue.send('a');
      const counts: number[] = [];
      for (let count = 1; count <= maxReceiveCount; count += 1) {
        const { receiptHandle, receiveCount } = await receiveOne(queue);
        counts.push(receiveCount);
        await queue.changeVisibility(receiptHandle, 0);
      }
      return counts;
    },
    sees: [1, 2, 3, 4, 5],
  },
  {
    name: 'a message that was received too often stays until somebody would receive it again',
    async act(queue) {
      await queue.send('a');
      await wearOut(queue);
      return { depth: await queue.depth(), deadLetters: await queue.deadLetters() };
    },
    sees: { depth: { visible: 1, inFlight: 0, delayed: 0 }, deadLetters: [] },
  },
  {
    name: 'a message moves to the dead-letter queue with its id, its body and when it was sent',
    async act(queue) {
      const id = await queue.send('a');
      const before = queue.nowMs();
      await wearOut(queue);
      const received = await queue.receive(10);
      const [letter, ...others] = await queue.deadLetters();
      return {
        received,
        others,
        isSame: letter?.messageId === id,
        body: letter?.body,
        keepsTime: (letter?.sentAt ?? Infinity) <= before,
        depth: await queue.depth(),
      };
    },
    sees: {
      received: [],
      others: [],
      isSame: true,
      body: 'a',
      keepsTime: true,
      depth: { visible: 0, inFlight: 0, delayed: 0 },
    },
  },
  {
    name: 'a poison message delays nobody behind it when it moves',
    async act(queue) {
      await queue.send('poison');
      await wearOut(queue);
      await queue.send('healthy');
      const received = bodies(await queue.receive(10));
      return { received, deadLetters: bodies(await queue.deadLetters()) };
    },
    sees: { received: ['healthy'], deadLetters: ['poison'] },
  },
  {
    name: 'a message is not moved while its last receive works on it, nor when that deletes it',
    async act(queue) {
      await queue.send('a');
      for (let count = 1; count < maxReceiveCount; count += 1) {
        const { receiptHandle } = await receiveOne(queue);
        await queue.changeVisibility(receiptHandle, 0);
      }
      const last = await receiveOne(queue);
      const meanwhile = await queue.receive(10);
      const held = await queue.depth();
      await queue.delete(last.receiptHandle);
      const after = await queue.receive(10);
      return { meanwhile, held, after, deadLetters: await queue.deadLetters() };
    },
    sees: {
      meanwhile: [],
      held: { visible: 0, inFlight: 1, delayed: 0 },
      after: [],
      deadLetters: [],
    },
  },
];

/**
 * What the model and the embedded queue have in common with SQS. They differ where the embedded one differs from SQS: it
 * keeps messages for ever, counts the move to the dead-letter queue as a receive, and forgets a receipt with its
 * visibility timeout, while SQS deletes by it until the message is received again.
 */
export const queueRows: readonly QueueRow[] = [...receiving, ...visibility, ...deleting, ...dying];
