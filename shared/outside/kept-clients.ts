import { type Clock, wallClock } from '#shared/kernel/instant.ts';

/** How long a connection that was made with a Secret's values is kept, in milliseconds. */
const credentialsKeptMs = 5 * 60_000;

/** Connections that one sandbox keeps at a time. */
const maxClients = 16;

/** Clients that are made on first use and kept, so that a sandbox connects once; those used first go first. */
export class KeptClients<Client extends { close(): Promise<void> }> {
  readonly #kept = new Map<string, { client: Promise<Client>; staleAfter: number }>();
  readonly #clock: Clock;

  constructor(clock: Clock = wallClock) {
    this.#clock = clock;
  }

  /**
   * @param key what the client follows from, for example an object's uid and generation
   * @param usesSecret it is made anew after a while, because a Secret's values change without the object
   */
  get(key: string, usesSecret: boolean, open: () => Promise<Client>): Promise<Client> {
    const kept = this.#kept.get(key);
    if (kept !== undefined && this.#clock() < kept.staleAfter) {
      return kept.client;
    }
    void this.#discard(key);
    const client = open();
    const staleAfter = usesSecret ? this.#clock() + credentialsKeptMs : Infinity;
    this.#kept.set(key, { client, staleAfter });
    client.catch(() => this.#kept.delete(key));
    const oldest = this.#kept.keys().next().value;
    if (this.#kept.size > maxClients && oldest !== undefined) {
      void this.#discard(oldest);
    }
    return client;
  }

  async #discard(key: string): Promise<void> {
    const kept = this.#kept.get(key);
    this.#kept.delete(key);
    await kept?.client.then(
      (open) => open.close(),
      () => undefined,
    );
  }
}
