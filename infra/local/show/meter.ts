import { readAuditLog } from '#infra/local/control-plane/audit-log.ts';

/** What Millrace has cost so far. */
export interface Reading {
  /** Writes to the API server by Millrace's user, Events among them. */
  readonly apiWrites: number;
  /** Hints that the queue has acknowledged. */
  readonly hints: number;
}

const writingVerbs: ReadonlySet<string> = new Set(['create', 'update', 'patch', 'delete']);

/** Counts from the outside: the API server's audit log, and the relay's own metric over all its lives. */
export class Meter {
  readonly #auditLogPath: string;
  readonly #user: string;
  readonly #relayUrl: string;
  #endedLives = 0;
  #lastSeen = 0;

  constructor(auditLogPath: string, user: string, relayUrl: string) {
    this.#auditLogPath = auditLogPath;
    this.#user = user;
    this.#relayUrl = relayUrl;
  }

  async read(): Promise<Reading> {
    const requests = await readAuditLog(this.#auditLogPath);
    const apiWrites = requests.filter(
      ({ user, verb }) => user === this.#user && writingVerbs.has(verb),
    ).length;
    const now = await this.#hintsOfThisLife();
    if (now < this.#lastSeen) {
      this.#endedLives += this.#lastSeen;
    }
    this.#lastSeen = now;
    return { apiWrites, hints: this.#endedLives + now };
  }

  /** Takes the count of a relay that is about to be killed: it begins again at nothing. */
  async beforeKill(): Promise<void> {
    await this.read();
    this.#endedLives += this.#lastSeen;
    this.#lastSeen = 0;
  }

  async #hintsOfThisLife(): Promise<number> {
    const answer = await fetch(new URL('/metrics', this.#relayUrl));
    const text = await answer.text();
    return [...text.matchAll(/^millrace_relay_hints_total\{[^}]*\} (\d+)/gm)].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    );
  }
}
