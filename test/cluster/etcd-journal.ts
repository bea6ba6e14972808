import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import { Changes } from '#infra/local/show/changes.ts';

/** A key as it was before a write. */
export interface Before {
  readonly value: Buffer;
  readonly modRevision: number;
}

/** One write of one key. */
export interface JournalEntry {
  readonly revision: number;
  readonly key: string;
  /** `null`: the key was deleted. */
  readonly value: Buffer | null;
  /** `undefined`: there was no such key. */
  readonly before: Before | undefined;
  /** When this process heard of it. */
  readonly atMs: number;
}

const int64 = z.coerce.number().int();
const bytes = z
  .base64()
  .default('')
  .transform((text) => Buffer.from(text, 'base64'));
const pair = z.object({ key: bytes, value: bytes, mod_revision: int64.default(0) });
const rangeSchema = z.object({
  header: z.object({ revision: int64 }),
  kvs: z.array(pair).default([]),
});
const watchSchema = z.object({
  result: z.object({
    header: z.object({ revision: int64 }).optional(),
    canceled: z.boolean().default(false),
    cancel_reason: z.string().default(''),
    compact_revision: int64.default(0),
    events: z
      .array(
        z.object({
          type: z.enum(['PUT', 'DELETE']).default('PUT'),
          kv: pair,
          prev_kv: pair.optional(),
        }),
      )
      .default([]),
  }),
});

/** One zero byte: as the first key and as the end of a range it means all keys there are. */
const everything = { key: 'AA==', range_end: 'AA==' };
const retryMs = 100;

/**
 * Every write that an etcd has seen since it was opened, key by key, with what stood there before.
 *
 * A connection that breaks is followed by one that begins behind the last revision that was heard. That nothing is missing is
 * checked, not believed: each revision follows the one before, and what a write found is what the last one left.
 */
export class EtcdJournal implements AsyncDisposable {
  readonly entries: JournalEntry[] = [];
  /** Why the journal is not whole. */
  readonly gaps: string[] = [];
  /** How often the connection was made. */
  connections = 0;
  readonly #endpoint: string;
  readonly #now = new Map<string, Before>();
  readonly #changes = new Changes();
  readonly #closing = new AbortController();
  #revision = 0;
  #following: Promise<void> = Promise.resolve();

  private constructor(endpoint: string) {
    this.#endpoint = endpoint;
  }

  /** @param endpoint `http://host:port`; a broken connection is made again at the same address */
  static async open(endpoint: string): Promise<EtcdJournal> {
    const journal = new EtcdJournal(endpoint);
    const all = rangeSchema.parse(await journal.#post('/v3/kv/range', everything));
    journal.#revision = all.header.revision;
    for (const { key, value, mod_revision: modRevision } of all.kvs) {
      journal.#now.set(key.toString('utf8'), { value, modRevision });
    }
    journal.#following = journal.#follow();
    return journal;
  }

  /** The last revision that was heard of. */
  get revision(): number {
    return this.#revision;
  }

  get(key: string): Before | undefined {
    return this.#now.get(key);
  }

  keys(prefix: string): string[] {
    return [...this.#now.keys()].filter((key) => key.startsWith(prefix));
  }

  /** As {@link Changes.until}. */
  until(what: string, seconds: number, holds: () => boolean): Promise<void> {
    return this.#changes.until(what, seconds, holds);
  }

  /** Resolves when all that was written before the call is in the journal. */
  async caughtUp(): Promise<void> {
    const { header } = rangeSchema.parse(await this.#post('/v3/kv/range', { key: 'AA==' }));
    await this.until(`revision ${header.revision}`, 60, () => this.#revision >= header.revision);
  }

  /** Writes a key without any condition, as somebody who owns it, until etcd has taken it. */
  async put(key: string, value: Buffer): Promise<{ readonly askedAtMs: number }> {
    for (;;) {
      const askedAtMs = Date.now();
      const body = { key: Buffer.from(key).toString('base64'), value: value.toString('base64') };
      try {
        await this.#post('/v3/kv/put', body);
        return { askedAtMs };
      } catch (error) {
        this.#closing.signal.throwIfAborted();
        await delay(retryMs, error);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await this.#following;
  }

  async #post(path: string, body: object): Promise<unknown> {
    const response = await fetch(`${this.#endpoint}${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      signal: AbortSignal.any([this.#closing.signal, AbortSignal.timeout(5_000)]),
    });
    const answer: unknown = await response.json();
    if (!response.ok) {
      throw new Error(`etcd answers ${response.status}: ${JSON.stringify(answer)}`);
    }
    return answer;
  }

  async #follow(): Promise<void> {
    while (!this.#closing.signal.aborted && this.gaps.length === 0) {
      try {
        await this.#watch();
      } catch {
        // The member behind the address was killed; the next connection goes on where this one was.
      }
      await delay(retryMs);
    }
  }

  async #watch(): Promise<void> {
    const response = await fetch(`${this.#endpoint}/v3/watch`, {
      method: 'POST',
      body: JSON.stringify({
        create_request: { ...everything, start_revision: this.#revision + 1, prev_kv: true },
      }),
      signal: this.#closing.signal,
    });
    if (response.body === null) {
      return;
    }
    this.connections += 1;
    for await (const line of linesOf(response.body)) {
      const { result } = watchSchema.parse(JSON.parse(line));
      if (result.canceled) {
        this.gaps.push(
          `the watch was cancelled at ${this.#revision} (compacted to ${result.compact_revision}): ${result.cancel_reason}`,
        );
        return;
      }
      this.#take(result.events);
    }
  }

  #take(events: z.infer<typeof watchSchema>['result']['events']): void {
    const atMs = Date.now();
    for (const { type, kv, prev_kv: previous } of events) {
      const key = kv.key.toString('utf8');
      const revision = kv.mod_revision;
      const before =
        previous === undefined
          ? undefined
          : { value: previous.value, modRevision: previous.mod_revision };
      if (revision !== this.#revision && revision !== this.#revision + 1) {
        this.gaps.push(`revision ${revision} follows ${this.#revision}`);
      }
      const known = this.#now.get(key)?.modRevision;
      if (before?.modRevision !== known) {
        this.gaps.push(`${key}: ${before?.modRevision} stood before ${revision}, not ${known}`);
      }
      const value = type === 'DELETE' ? null : kv.value;
      this.entries.push({ revision, key, value, before, atMs });
      this.#revision = revision;
      if (value === null) {
        this.#now.delete(key);
      } else {
        this.#now.set(key, { value, modRevision: revision });
      }
    }
    this.#changes.touch();
  }
}

async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const part of body) {
    const lines = `${rest}${decoder.decode(part, { stream: true })}`.split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
