import { type Clock, wallClock } from '#shared/kernel/instant.ts';

/** How long a connection that was made with a Secret's values is kept, in milliseconds. */
const credentialsKeptMs = 5 * 60_000;

/** How long a client that is no longer given out stays open, in milliseconds: longer than any invocation lasts. */
const laidAsideMs = 2 * 60_000;

/** Connections that one sandbox keeps at a time. */
const maxClients = 16;

interface Kept<Client> {
  readonly client: Promise<Client>;
  readonly usesSecret: boolean;
  readonly staleAfter: number;
}

/**
 * Clients that are made on first use and kept, so that a sandbox connects once; those used first go first.
 *
 * One that goes is closed a while later: others may be in the middle of a request with it.
 */
export class KeptClients<Client extends { close(): Promise<void> }> {
  readonly #kept = new Map<string, Kept<Client>>();
  readonly #laidAside: { readonly client: Promise<Client>; readonly closeAfter: number }[] = [];
  readonly #clock: Clock;

  constructor(clock: Clock = wallClock) {
    this.#clock = clock;
  }

  /**
   * @param key what the client follows from, for example an object's uid and generation
   * @param usesSecret it is made anew after a while, because a Secret's values change without the object
   */
  get(key: string, usesSecret: boolean, open: () => Promise<Client>): Promise<Client> {
    this.#closeOld();
    const kept = this.#kept.get(key);
    if (kept !== undefined && this.#clock() < kept.staleAfter) {
      return kept.client;
    }
    this.#layAside(key);
    const client = open();
    const staleAfter = usesSecret ? this.#clock() + credentialsKeptMs : Infinity;
    this.#kept.set(key, { client, usesSecret, staleAfter });
    client.catch(() => this.#forget(key, client));
    const oldest = this.#kept.keys().next().value;
    if (this.#kept.size > maxClients && oldest !== undefined) {
      this.#layAside(oldest);
    }
    return client;
  }

  /** This client could not do what it was asked for. Where it was made with a Secret's values, these may be others now. */
  failed(key: string, client: Promise<Client>): void {
    if (this.#kept.get(key)?.usesSecret === true) {
      this.#forget(key, client);
    }
  }

  #forget(key: string, client: Promise<Client>): void {
    if (this.#kept.get(key)?.client === client) {
      this.#layAside(key);
    }
  }

  #layAside(key: string): void {
    const kept = this.#kept.get(key);
    if (kept !== undefined) {
      this.#kept.delete(key);
      this.#laidAside.push({ client: kept.client, closeAfter: this.#clock() + laidAsideMs });
    }
  }

  #closeOld(): void {
    const now = this.#clock();
    while ((this.#laidAside[0]?.closeAfter ?? Infinity) <= now) {
      void this.#laidAside.shift()?.client.then(
        (open) => open.close(),
        () => undefined,
      );
    }
  }
}
