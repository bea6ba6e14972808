import { type Instant, plusSeconds } from '#shared/kernel/instant.ts';

/** What one queue and its dead-letter queue are set to, as infra/aws/resources.yml sets them. */
export interface QueueOptions {
  /** How long a received message stays hidden. */
  readonly visibilitySeconds: number;
  /** How often a message is received before it goes to the dead-letter queue. */
  readonly maxReceiveCount: number;
  readonly retentionSeconds: number;
  /** Counted from the first send as well, so it must be longer than the queue's own. */
  readonly deadLetterRetentionSeconds: number;
  /** What a delete with a receipt that is not the newest does: SQS promises neither. */
  readonly staleDelete: 'ignored' | 'deletes';
}

/** One message as a receive hands it out. */
export interface Received {
  readonly messageId: string;
  /** Of this one receive: the next gives another. */
  readonly receiptHandle: string;
  readonly body: string;
  /** This receive included. */
  readonly receiveCount: number;
  readonly sentAt: Instant;
  readonly firstReceivedAt: Instant;
}

/** A message in the dead-letter queue. */
export interface DeadLetter {
  readonly messageId: string;
  readonly body: string;
  readonly receiveCount: number;
  /** When it was sent to the queue it comes from: moving does not change that. */
  readonly sentAt: Instant;
  readonly movedAt: Instant;
}

export interface QueueDepth {
  readonly visible: number;
  /** Received and neither deleted nor visible again. */
  readonly inFlight: number;
  /** Sent with a delay that is not over. */
  readonly delayed: number;
}

interface Message {
  readonly messageId: string;
  readonly body: string;
  readonly sentAt: Instant;
  readonly visibleAt: Instant;
  readonly receiveCount: number;
  readonly firstReceivedAt: Instant | undefined;
}

/** Most messages of one receive, the longest delay and the longest visibility timeout (SQS API reference). */
const maxMessages = 10;
const maxDelaySeconds = 900;
const maxVisibilitySeconds = 43_200;

const daySeconds = 86_400;

const defaults: QueueOptions = {
  visibilitySeconds: 180,
  maxReceiveCount: 5,
  retentionSeconds: 4 * daySeconds,
  deadLetterRetentionSeconds: 14 * daySeconds,
  staleDelete: 'ignored',
};

/**
 * One SQS standard queue and its dead-letter queue. test/world/conformance/queue-rows.ts compares it with the embedded
 * queue; where that one and SQS differ, this is SQS as its developer guide and API reference have it.
 *
 * A message is delivered at least once, in any order, and stays until it is deleted or too old. Whoever runs the queue
 * chooses what SQS leaves open: the order of a receive, copies that come again, and what a stale receipt deletes.
 *
 * Simpler than SQS: every receive finds every visible message, at most 120,000 messages in flight are not counted, and
 * a visibility timeout may be prolonged for ever.
 */
export class Queue {
  readonly #options: QueueOptions;
  #sent = 0;
  #copies = 0;
  /** Each copy of a message by its number, in the order they came. */
  #messages = new Map<number, Message>();
  #deadLetters: readonly DeadLetter[] = [];
  /** Whether a fork uses the same map. */
  #isShared = false;

  constructor(options: Partial<QueueOptions> = {}) {
    this.#options = { ...defaults, ...options };
  }

  /** A queue that goes its own way from here on. */
  fork(): Queue {
    const fork = new Queue(this.#options);
    fork.#sent = this.#sent;
    fork.#copies = this.#copies;
    fork.#messages = this.#messages;
    fork.#deadLetters = this.#deadLetters;
    fork.#isShared = true;
    this.#isShared = true;
    return fork;
  }

  /** @returns the message's id */
  send(body: string, now: Instant, options: { readonly delaySeconds?: number } = {}): string {
    const { delaySeconds = 0 } = options;
    checkRange('delaySeconds', delaySeconds, 0, maxDelaySeconds);
    this.#sent += 1;
    const messageId = `message-${this.#sent}`;
    this.#add({
      messageId,
      body,
      sentAt: now,
      visibleAt: plusSeconds(now, delaySeconds),
      receiveCount: 0,
      firstReceivedAt: undefined,
    });
    return messageId;
  }

  /**
   * Hands out visible messages and hides them. Those that were received too often go to the dead-letter queue first.
   *
   * @param max 1 to 10
   * @param order which of the possible orders: 0 is the message first that has been visible for longest; the numbers
   *   up to n! reach every order of n messages
   */
  receive(now: Instant, max: number, order = 0): readonly Received[] {
    checkRange('max', max, 1, maxMessages);
    this.#expire(now);
    this.#bury(now);
    const visible = [...this.#messages]
      .filter(([, { visibleAt }]) => visibleAt <= now)
      .toSorted(([, a], [, b]) => a.visibleAt - b.visibleAt);
    const chosen: Received[] = [];
    let rest = order;
    while (chosen.length < max && visible.length > 0) {
      const [next] = visible.splice(rest % visible.length, 1);
      rest = Math.floor(rest / (visible.length + 1));
      if (next !== undefined) {
        chosen.push(this.#handOut(...next, now));
      }
    }
    return chosen;
  }

  /**
   * Deletes the message of a receipt, also when its visibility timeout is over, or was set to zero.
   *
   * @returns whether it is gone by this; SQS answers the same either way
   */
  delete(receiptHandle: string): boolean {
    const copy = copyOf(receiptHandle);
    const message = this.#messages.get(copy);
    if (message === undefined) {
      return false;
    }
    const isNewest = receiptHandle === receiptOf(copy, message);
    if (!isNewest && this.#options.staleDelete === 'ignored') {
      return false;
    }
    this.#ownMap();
    this.#messages.delete(copy);
    return true;
  }

  /**
   * Makes a received message visible again after so many seconds from now (0 to 43,200).
   *
   * @returns `stale` where the receipt is not the newest or the message is not in flight: SQS refuses such a call
   */
  changeVisibility(receiptHandle: string, seconds: number, now: Instant): 'changed' | 'stale' {
    checkRange('seconds', seconds, 0, maxVisibilitySeconds);
    this.#expire(now);
    const copy = copyOf(receiptHandle);
    const message = this.#messages.get(copy);
    if (
      message === undefined ||
      message.visibleAt <= now ||
      receiptHandle !== receiptOf(copy, message)
    ) {
      return 'stale';
    }
    this.#ownMap();
    this.#messages.set(copy, { ...message, visibleAt: plusSeconds(now, seconds) });
    return 'changed';
  }

  /**
   * Adds a copy of a message, as a second server of SQS may hold one. It is received and deleted on its own, so it
   * comes though the first is in flight, or is deleted later.
   *
   * @param visibleAt when the copy shows
   * @throws Error where the queue holds no such message
   */
  duplicate(messageId: string, visibleAt: Instant): void {
    const original = [...this.#messages.values()].find((kept) => kept.messageId === messageId);
    if (original === undefined) {
      throw new Error(`the queue holds no message ${messageId}`);
    }
    this.#add({ ...original, visibleAt });
  }

  /** Moves every dead letter back as a new message: new id, sent now, never received. Says how many. */
  redrive(now: Instant): number {
    this.#expire(now);
    const letters = this.#deadLetters;
    this.#deadLetters = [];
    for (const { body } of letters) {
      this.send(body, now);
    }
    return letters.length;
  }

  /** When a message will become visible next, or since when one is; `undefined` where the queue is empty. */
  nextVisibleAt(): Instant | undefined {
    let next: Instant | undefined;
    for (const { visibleAt } of this.#messages.values()) {
      next = next === undefined || visibleAt < next ? visibleAt : next;
    }
    return next;
  }

  depth(now: Instant): QueueDepth {
    this.#expire(now);
    const messages = [...this.#messages.values()];
    const hidden = messages.filter(({ visibleAt }) => visibleAt > now);
    const inFlight = hidden.filter(({ receiveCount }) => receiveCount > 0).length;
    return {
      visible: messages.length - hidden.length,
      inFlight,
      delayed: hidden.length - inFlight,
    };
  }

  /** What there is by receipt, for telling states apart. */
  messages(): readonly {
    readonly receiptHandle: string;
    readonly visibleAt: Instant;
    readonly receiveCount: number;
  }[] {
    return [...this.#messages].map(([copy, message]) => ({
      receiptHandle: receiptOf(copy, message),
      visibleAt: message.visibleAt,
      receiveCount: message.receiveCount,
    }));
  }

  /** In the order they were moved. */
  deadLetters(now: Instant): readonly DeadLetter[] {
    this.#expire(now);
    return this.#deadLetters;
  }

  #handOut(copy: number, message: Message, now: Instant): Received {
    const firstReceivedAt = message.firstReceivedAt ?? now;
    const received: Message = {
      ...message,
      receiveCount: message.receiveCount + 1,
      firstReceivedAt,
      visibleAt: plusSeconds(now, this.#options.visibilitySeconds),
    };
    this.#ownMap();
    this.#messages.set(copy, received);
    const { messageId, body, receiveCount, sentAt } = received;
    const receiptHandle = receiptOf(copy, received);
    return { messageId, receiptHandle, body, receiveCount, sentAt, firstReceivedAt };
  }

  #add(message: Message): void {
    this.#ownMap();
    this.#copies += 1;
    this.#messages.set(this.#copies, message);
  }

  /** Moves what has had its receives and would be received again. */
  #bury(now: Instant): void {
    for (const [copy, message] of this.#messages) {
      const { messageId, body, receiveCount, sentAt, visibleAt } = message;
      if (visibleAt <= now && receiveCount >= this.#options.maxReceiveCount) {
        this.#ownMap();
        this.#messages.delete(copy);
        this.#deadLetters = [
          ...this.#deadLetters,
          { messageId, body, receiveCount, sentAt, movedAt: now },
        ];
      }
    }
  }

  /** Drops what is too old, in flight or not. */
  #expire(now: Instant): void {
    const { retentionSeconds, deadLetterRetentionSeconds } = this.#options;
    for (const [copy, { sentAt }] of this.#messages) {
      if (plusSeconds(sentAt, retentionSeconds) <= now) {
        this.#ownMap();
        this.#messages.delete(copy);
      }
    }
    const isKept = ({ sentAt }: DeadLetter) =>
      plusSeconds(sentAt, deadLetterRetentionSeconds) > now;
    if (!this.#deadLetters.every(isKept)) {
      this.#deadLetters = this.#deadLetters.filter(isKept);
    }
  }

  #ownMap(): void {
    if (this.#isShared) {
      this.#messages = new Map(this.#messages);
      this.#isShared = false;
    }
  }
}

/** The number of the copy, and the receive it stands for. */
function receiptOf(copy: number, { receiveCount }: Message): string {
  return `${copy}-${receiveCount}`;
}

function copyOf(receiptHandle: string): number {
  return Number(receiptHandle.split('-')[0]);
}

function checkRange(name: string, value: number, least: number, most: number): void {
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`${name} is ${value} and must be a whole number from ${least} to ${most}`);
  }
}
