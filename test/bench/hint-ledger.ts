import type { Arrival } from './recording-queues.ts';
import type { Change } from './relay-world.ts';

/** What a message says: the shard it is about and the newest version of an object that it was sent for. */
export interface ReadHint {
  readonly shard: string;
  readonly version: number;
}

/** Which hints came when, and which changes they are for. */
export class HintLedger {
  readonly #read: (body: string) => ReadHint;
  /** By queue and shard, in the order of their coming. */
  readonly #hints = new Map<string, { version: number; atMs: number }[]>();
  readonly #queues: readonly string[];
  /** On the clock of `performance.now`. */
  firstMs: number | undefined;
  /** When a shard was last hinted at for the first time. */
  newestMs: number | undefined;

  /** @param queues that are looked at; what comes in others is about something else */
  constructor(queues: readonly string[], read: (body: string) => ReadHint) {
    this.#queues = queues;
    this.#read = read;
  }

  add({ queue, body, atMs }: Arrival): void {
    if (!this.#queues.includes(queue)) {
      return;
    }
    const { shard, version } = this.#read(body);
    const key = `${queue} ${shard}`;
    const hints = this.#hints.get(key);
    this.firstMs ??= atMs;
    if (hints === undefined) {
      this.newestMs = atMs;
      this.#hints.set(key, [{ version, atMs }]);
    } else {
      hints.push({ version, atMs });
    }
  }

  /** Pairs of queue and shard that were hinted at. */
  get reached(): number {
    return this.#hints.size;
  }

  /** Per change and queue, milliseconds to the first hint that was sent for it or for a later one of its shard. */
  delaysMs(changes: readonly Change[]): number[] {
    return changes.flatMap((change) =>
      this.#queues.flatMap((queue) => {
        const atMs = this.#hintFor(queue, change);
        // A hint may overtake the answer to the write.
        return atMs === undefined ? [] : [Math.max(0, atMs - change.answeredMs)];
      }),
    );
  }

  /** Changes after which no hint came in some queue. */
  unheard(changes: readonly Change[]): number {
    return changes.filter((change) =>
      this.#queues.some((queue) => this.#hintFor(queue, change) === undefined),
    ).length;
  }

  /** When the hint came that was sent for this change or for a later one. */
  #hintFor(queue: string, { shard, version }: Change): number | undefined {
    return this.#hints.get(`${queue} ${shard}`)?.find((hint) => hint.version >= version)?.atMs;
  }
}
