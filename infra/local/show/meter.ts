import { setTimeout as delay } from 'node:timers/promises';
import { type AuditedRequest, readAuditLog } from '#infra/local/control-plane/audit-log.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { readRelay } from './relay-metrics.ts';

/** What Millrace has cost so far. */
export interface Reading {
  /** Writes to the API server by Millrace's user, Events among them. */
  readonly apiWrites: number;
  /** Hints that the queue has acknowledged. */
  readonly hints: number;
}

const writingVerbs: ReadonlySet<string> = new Set([
  'create',
  'update',
  'patch',
  'delete',
  'deletecollection',
]);

export function isWrite({ verb }: AuditedRequest): boolean {
  return writingVerbs.has(verb);
}

export interface MeterParts {
  /** Of anybody but Millrace. */
  readonly connection: KubeConnection;
  readonly auditLogPath: string;
  /** Who Millrace signs in as. */
  readonly user: string;
  readonly relayUrl: string;
}

/** Counts from the outside: the API server's audit log, and the relay's own metric over all its lives. */
export class Meter {
  readonly #parts: MeterParts;
  #markers = 0;
  #endedLives = 0;
  #lastSeen = 0;

  constructor(parts: MeterParts) {
    this.#parts = parts;
  }

  async read(): Promise<Reading> {
    const requests = await this.requests();
    const { sent } = await readRelay(this.#parts.relayUrl);
    if (sent < this.#lastSeen) {
      this.#endedLives += this.#lastSeen;
    }
    this.#lastSeen = sent;
    return { apiWrites: requests.filter(isWrite).length, hints: this.#endedLives + sent };
  }

  /** Every request by Millrace that the API server has answered before this call. */
  async requests(): Promise<readonly AuditedRequest[]> {
    const { connection, auditLogPath, user } = this.#parts;
    this.#markers += 1;
    // The log lags its requests: it is complete up to here once a request of our own shows in it.
    const marker = `show-${this.#markers}`;
    await connection.request({ method: 'GET', path: '/version', query: { marker } });
    for (;;) {
      const log = await readAuditLog(auditLogPath);
      if (log.some(({ path }) => path === `/version?marker=${marker}`)) {
        return log.filter((request) => request.user === user);
      }
      await delay(20);
    }
  }

  /** Takes the count of a relay that is about to be killed: it begins again at nothing. */
  async beforeKill(): Promise<void> {
    await this.read();
    this.#endedLives += this.#lastSeen;
    this.#lastSeen = 0;
  }
}
