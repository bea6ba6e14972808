import { describeError } from '#shared/kernel/errors.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { type LeaseStore, type StoredLease, LeaseUnavailable } from './lease-store.ts';
import { type Timers, backoffMs, pause } from './timers.ts';

/** Waits and limits of one candidate, in milliseconds; all follow from the lease's duration. */
export interface LeaseLimits {
  /** What a holder promises: unless it is renewed, the lease is free this long after others last saw it change. */
  readonly durationMs: number;
  /** A holder that did not renew for so long stops by itself, well before anybody else may begin. */
  readonly renewDeadlineMs: number;
  /** The longest time between two renewals. */
  readonly renewEveryMs: number;
  /** The longest time between two looks of a candidate that stands by: so long may a lease that was released lie idle. */
  readonly lookEveryMs: number;
  /** Of each request: one that hangs leaves a holder the time for another. */
  readonly requestTimeoutMs: number;
}

/**
 * 15 s of lease and 10 s to the deadline are what Kubernetes' own components use; the rest fits in between: a renewal
 * after 5 s that hangs for 2.5 s is followed by another one before the deadline.
 *
 * @param durationSeconds whole seconds, as a Lease has it
 */
export function leaseLimitsOf(durationSeconds: number): LeaseLimits {
  const durationMs = durationSeconds * 1000;
  return {
    durationMs,
    renewDeadlineMs: Math.floor((durationMs * 2) / 3),
    renewEveryMs: Math.floor(durationMs / 3),
    lookEveryMs: Math.floor(durationMs / 10),
    // Whole milliseconds: a request's timeout takes no others.
    requestTimeoutMs: Math.floor(durationMs / 6),
  };
}

export type LeaseNews =
  | { readonly kind: 'leading' }
  /** Another one holds the lease, or nobody known does. `hasLed` says that it is the end of our own time. */
  | { readonly kind: 'standby'; readonly holder: string | undefined; readonly hasLed: boolean }
  /** The Lease could not be read or written. Who leads goes on until its deadline, who does not lead does not begin. */
  | { readonly kind: 'failed'; readonly why: string };

export interface CandidateParts {
  readonly store: LeaseStore;
  readonly timers: Timers;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** Differs from every other candidate's, also from that of this one's predecessor. */
  readonly identity: string;
  readonly limits: LeaseLimits;
  readonly report: (news: LeaseNews) => void;
}

/**
 * Competes with others for one Lease. At most one of them leads at any moment, provided that their clocks run equally
 * fast (no two are ever compared) and that nobody deletes the Lease: then a second one may lead until the first looks.
 *
 * - Whoever holds the lease counts its time from before it asked for the last renewal that succeeded, and stops at the
 *   deadline by itself. {@link Candidate.isLeading} compares the clock each time, so a process that was stopped and goes
 *   on knows at once.
 * - Whoever does not hold it counts the other's time from when it first saw the lease as it is now, which is never
 *   before the holder asked for it, and takes it after the whole duration at the earliest.
 * - Each write names the version it replaces, so of two that take a free lease one loses, and a holder that renewed in
 *   the last moment keeps it.
 */
export class Candidate {
  readonly #parts: CandidateParts;
  /** As it was last read or written. */
  #lease: StoredLease | undefined;
  /** When the lease was first seen to say what it says now. */
  #changedMs = 0;
  /** When the last claim that succeeded was sent; absent when the lease is not ours. */
  #claimedMs: number | undefined;
  #failures = 0;
  /** What was last reported. */
  #said: { readonly kind: 'leading' | 'standby'; readonly holder: string | undefined } | undefined;
  #cancelDeadline: (() => void) | undefined;

  constructor(parts: CandidateParts) {
    this.#parts = parts;
  }

  /** Whether it may act as the leader at this very moment. */
  get isLeading(): boolean {
    const { timers, limits } = this.#parts;
    return (
      this.#claimedMs !== undefined &&
      timers.monotonicMs() - this.#claimedMs < limits.renewDeadlineMs
    );
  }

  /** Competes until the signal aborts; a request that is on its way then is waited for. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const delayMs = await this.#turn();
      await pause(this.#parts.timers, delayMs, signal);
    }
  }

  /** Gives the lease to whoever comes first. To be called when {@link Candidate.run} has ended. Never rejects. */
  async release(): Promise<void> {
    const { identity, timers } = this.#parts;
    this.#cancelDeadline?.();
    this.#claimedMs = undefined;
    try {
      for (let tries = 0; tries < 2 && this.#lease?.spec.holderIdentity === identity; tries += 1) {
        const now = microTime(timers.now());
        // As Kubernetes' own components do: nobody holds it, and it is over in the shortest time that a Lease can have.
        const given = {
          holderIdentity: '',
          leaseDurationSeconds: 1,
          acquireTime: now,
          renewTime: now,
        };
        this.#lease =
          (await this.#parts.store.update(this.#lease, given)) ?? (await this.#parts.store.read());
      }
    } catch (error) {
      this.#parts.report({ kind: 'failed', why: describeError(error) });
    }
    this.#say();
  }

  /** One look and, where it is time, one claim. Returns how long to wait until the next, in milliseconds. */
  async #turn(): Promise<number> {
    const { limits, random, report } = this.#parts;
    try {
      await this.#claimOrLook();
    } catch (error) {
      this.#failures += 1;
      report({ kind: 'failed', why: describeError(error) });
      this.#say();
      const ownMs = backoffMs(
        this.#failures,
        { baseMs: limits.lookEveryMs, limitMs: limits.renewEveryMs },
        random,
      );
      const askedMs = error instanceof LeaseUnavailable ? error.retryAfterMs : 0;
      return Math.max(ownMs, askedMs);
    }
    this.#failures = 0;
    this.#say();
    // All of it at most, so that neither a deadline nor a free lease is missed; less, so that candidates spread out.
    const share = 1 - random() / 5;
    return this.isLeading
      ? limits.renewEveryMs * share
      : Math.min(limits.lookEveryMs * share, this.#untilFreeMs() || limits.lookEveryMs);
  }

  async #claimOrLook(): Promise<void> {
    const { store, identity } = this.#parts;
    if (this.#lease?.spec.holderIdentity === identity && (await this.#claim(this.#lease))) {
      return;
    }
    const sentMs = this.#parts.timers.monotonicMs();
    const lease = await store.read();
    if (lease === undefined) {
      this.#lease = undefined;
      this.#claimedMs = undefined;
      const created = await store.create(this.#claimOf(undefined));
      if (created !== undefined) {
        this.#won(created, sentMs);
      }
      return;
    }
    this.#see(lease);
    if (this.#isFree(lease)) {
      await this.#claim(lease);
    }
  }

  /** Whether the lease is ours now. */
  async #claim(lease: StoredLease): Promise<boolean> {
    const sentMs = this.#parts.timers.monotonicMs();
    const claimed = await this.#parts.store.update(lease, this.#claimOf(lease));
    if (claimed === undefined) {
      return false;
    }
    this.#won(claimed, sentMs);
    return true;
  }

  #claimOf(lease: StoredLease | undefined) {
    const { identity, limits, timers } = this.#parts;
    const now = microTime(timers.now());
    const { holderIdentity, acquireTime, leaseTransitions } = lease?.spec ?? {};
    const isOurs = holderIdentity === identity;
    return {
      holderIdentity: identity,
      leaseDurationSeconds: Math.round(limits.durationMs / 1000),
      acquireTime: isOurs ? (acquireTime ?? now) : now,
      renewTime: now,
      leaseTransitions: (leaseTransitions ?? 0) + (isOurs || lease === undefined ? 0 : 1),
    };
  }

  /** @param sentMs when it was asked for: nobody can have counted our time from before that */
  #won(lease: StoredLease, sentMs: number): void {
    if (this.#said !== undefined) {
      // Our time may have ended since then without a word, and begins anew: both are news.
      this.#say();
    }
    this.#lease = lease;
    this.#claimedMs = sentMs;
    this.#awaitDeadline(sentMs);
    this.#say();
  }

  /** A timer may run out a moment before the clock says so. */
  #awaitDeadline(claimedMs: number): void {
    const { timers, limits } = this.#parts;
    const leftMs = claimedMs + limits.renewDeadlineMs - timers.monotonicMs();
    this.#cancelDeadline?.();
    this.#cancelDeadline = timers.after(Math.max(1, leftMs), () =>
      this.isLeading ? this.#awaitDeadline(claimedMs) : this.#say(),
    );
  }

  #see(lease: StoredLease): void {
    if (lease.spec.holderIdentity !== this.#parts.identity) {
      this.#claimedMs = undefined;
    }
    if (JSON.stringify(lease.spec) !== JSON.stringify(this.#lease?.spec)) {
      this.#changedMs = this.#parts.timers.monotonicMs();
    }
    this.#lease = lease;
  }

  #isFree({ spec }: StoredLease): boolean {
    const isHeld =
      (spec.holderIdentity ?? '') !== '' && spec.holderIdentity !== this.#parts.identity;
    return !isHeld || this.#untilFreeMs() === 0;
  }

  /** How long the holder's time still lasts as far as we can tell, in milliseconds; `undefined` without a lease. */
  #untilFreeMs(): number | undefined {
    const { timers, limits } = this.#parts;
    if (this.#lease === undefined) {
      return undefined;
    }
    // The holder's own promise counts, not ours: the two may be configured differently.
    const { leaseDurationSeconds } = this.#lease.spec;
    const durationMs =
      typeof leaseDurationSeconds === 'number' ? leaseDurationSeconds * 1000 : limits.durationMs;
    return Math.max(0, this.#changedMs + durationMs - timers.monotonicMs());
  }

  /** Tells of what has changed since the last time. */
  #say(): void {
    const kind = this.isLeading ? 'leading' : 'standby';
    const { holderIdentity } = this.#lease?.spec ?? {};
    // A lease in our own name whose time is over is held by nobody.
    const isHeld = kind === 'standby' && holderIdentity !== this.#parts.identity;
    const holder = isHeld ? holderIdentity || undefined : undefined;
    const before = this.#said;
    if (kind === before?.kind && holder === before.holder) {
      return;
    }
    this.#said = { kind, holder };
    this.#parts.report(
      kind === 'leading' ? { kind } : { kind, holder, hasLed: before?.kind === 'leading' },
    );
  }
}

/** The form of a Lease's times: RFC 3339 with six digits of fraction. */
function microTime(instant: Instant): string {
  return new Date(instant).toISOString().replace('Z', '000Z');
}
