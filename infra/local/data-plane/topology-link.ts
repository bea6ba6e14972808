import { setTimeout as delay } from 'node:timers/promises';
import pLimit from 'p-limit';
import type { Logger } from '#shared/kernel/logger.ts';
import { describeError } from '#shared/kernel/errors.ts';
import {
  type EtcdStore,
  type RequestLimits,
  readKey,
  readPrefix,
  within,
} from '#shared/topology/etcd-store.ts';
import type { Engine } from './engine.ts';
import { fromBase64, toBase64 } from './records.ts';
import type { DataPlaneOutput, TopologyEntry } from './state.ts';

/** How long one request to etcd may take. */
const requestTimeoutMs = 2_000;

const retryMs = 250;

type Read = Extract<DataPlaneOutput, { kind: 'readTopology' }>;
type Write = Extract<DataPlaneOutput, { kind: 'writeRecord' }>;

/** The etcd of the topology: what Millrace itself does with one, and what only a data plane does. */
export interface TopologyEtcd {
  readonly store: EtcdStore;
  /** A key that is not there is no failure. */
  remove(key: string, limits: RequestLimits): Promise<void>;
}

/** Carries the core's reads and writes to etcd, one at a time, so that no read is older than a write before it. */
export class TopologyLink {
  readonly #etcd: TopologyEtcd;
  readonly #engine: Engine;
  readonly #log: Logger;
  readonly #oneAtATime = pLimit(1);
  readonly #closing = new AbortController();
  #waiting: Read | undefined;

  /** @param etcd may be shared, and stays open */
  constructor(etcd: TopologyEtcd, engine: Engine, log: Logger) {
    this.#etcd = etcd;
    this.#engine = engine;
    this.#log = log;
  }

  /** One that is asked for while another waits to begin takes its place. */
  async read(read: Read): Promise<void> {
    const isFirst = this.#waiting === undefined;
    this.#waiting = read;
    if (isFirst) {
      await this.#oneAtATime(() => this.#readNow());
    }
  }

  async #readNow(): Promise<void> {
    const { prefixes, id } = this.#waiting ?? { prefixes: [], id: 0 };
    this.#waiting = undefined;
    try {
      const entries = await this.#readAll(prefixes);
      this.#engine.take({ kind: 'topologyRead', id, entries });
    } catch (error) {
      this.#log.warn({ error: describeError(error) }, 'the topology cannot be read');
      this.#engine.take({ kind: 'topologyUnreachable', id });
    }
  }

  async #readAll(prefixes: readonly string[]): Promise<TopologyEntry[]> {
    const limits = within(requestTimeoutMs, this.#closing.signal);
    const entries: TopologyEntry[] = [];
    for (const prefix of prefixes) {
      for (const { key, value, modRevision } of await readPrefix(
        this.#etcd.store,
        prefix,
        limits,
      )) {
        entries.push({ key, value: toBase64(value), modRevision });
      }
    }
    return entries;
  }

  /** Tries until it is written, refused, or no longer wanted: the pooler that wanted it may be dead. */
  async write(write: Write): Promise<void> {
    while (!this.#closing.signal.aborted && this.#isWanted(write)) {
      try {
        await this.#oneAtATime(() => this.#tryWrite(write));
        return;
      } catch (error) {
        this.#log.warn({ error: describeError(error), key: write.key }, 'a record is not written');
        await delay(retryMs, undefined, { signal: this.#closing.signal }).catch(() => undefined);
      }
    }
  }

  #isWanted({ id }: Write): boolean {
    return this.#engine.state.outbox.some((pending) => pending.id === id);
  }

  async #tryWrite({ id, key, value, onlyAt }: Write): Promise<void> {
    const limits = within(requestTimeoutMs, this.#closing.signal);
    if (value === null) {
      await this.#etcd.remove(key, limits);
      this.#engine.take({ kind: 'recordWritten', id, modRevision: '0' });
      return;
    }
    for (;;) {
      const found = onlyAt === null ? await readKey(this.#etcd.store, key, limits) : undefined;
      // Mod revision 0 is that of a key that is not there.
      const modRevision = onlyAt ?? found?.modRevision ?? '0';
      const answer = await this.#etcd.store.swap(
        { key, value: fromBase64(value), modRevision },
        limits,
      );
      if (answer.kind === 'swapped') {
        this.#engine.take({ kind: 'recordWritten', id, modRevision: answer.modRevision });
        return;
      }
      if (onlyAt !== null) {
        this.#engine.take({ kind: 'recordRefused', id });
        return;
      }
    }
  }

  close(): void {
    this.#closing.abort();
  }
}
