import { followObjects } from '#infra/local/data-plane/follow-objects.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import type { KubeObject } from '#shared/kube/resources.ts';

type Shard = KubeObject<'Shard'>;

/** Every Shard as a watch of this process has it, by name. */
export class ShardBoard {
  readonly #shards = new Map<string, Shard>();
  readonly #listeners = new Map<string, Set<(shard: Shard) => void>>();
  readonly #closing = new AbortController();
  readonly #following: Promise<void>;

  constructor(connection: KubeConnection) {
    this.#following = followObjects(
      connection,
      'Shard',
      undefined,
      {
        onList: (shards) => shards.forEach((shard) => this.#see(shard)),
        onChange: (shard) => this.#see(shard),
        onGone: ({ metadata }) => this.#shards.delete(metadata.name),
      },
      { signal: this.#closing.signal, log: createLogger('error', { component: 'bench' }) },
    );
  }

  get(name: string): Shard {
    const shard = this.#shards.get(name);
    if (shard === undefined) {
      throw new Error(`the Shard ${name} is not there`);
    }
    return shard;
  }

  /** Calls with every version of the Shard that comes; the answer takes the listener away again. */
  onChange(name: string, listener: (shard: Shard) => void): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /**
   * Resolves as soon as the condition holds of the Shard as it is seen, with `performance.now()` of that moment.
   *
   * @throws Error naming the Shard and `what` when it does not within the time
   */
  until(
    name: string,
    what: string,
    seconds: number,
    holds: (shard: Shard) => boolean,
  ): Promise<number> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        stop();
        const { annotations, generation } = this.#shards.get(name)?.metadata ?? {};
        const found = JSON.stringify({
          generation,
          annotations,
          status: this.#shards.get(name)?.status,
        });
        reject(new Error(`${name}: after ${seconds} s still not so: ${what}; it is ${found}`));
      }, seconds * 1000);
      const check = (shard: Shard): void => {
        if (holds(shard)) {
          clearTimeout(timer);
          stop();
          resolve(performance.now());
        }
      };
      const stop = this.onChange(name, check);
      const known = this.#shards.get(name);
      if (known !== undefined) {
        check(known);
      }
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#following;
  }

  #see(shard: Shard): void {
    const { name } = shard.metadata;
    this.#shards.set(name, shard);
    for (const listener of this.#listeners.get(name) ?? []) {
      listener(shard);
    }
  }
}
