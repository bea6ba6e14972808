import type { Etcd3, Lease } from 'etcd3';
import { timing } from './timing.ts';

/** etcd grants no shorter leases than this, and only whole seconds. */
const leastLeaseSeconds = 2;

interface RegistrationOptions {
  readonly client: Etcd3;
  readonly key: string;
  readonly address: string;
  readonly speed: number;
  /** Told of each lease, the first one and those after a loss. */
  readonly onLease: (leaseId: string) => void;
}

/** A member's key, under a lease that is kept alive. A lease that is lost is replaced after a while. */
export class Registration {
  readonly #options: RegistrationOptions;
  #lease: Lease | undefined;
  #isEnded = false;

  constructor(options: RegistrationOptions) {
    this.#options = options;
  }

  /** Resolves when the key is there. */
  async begin(): Promise<void> {
    const { client, key, address, speed, onLease } = this.#options;
    const lease = client.lease(leaseSeconds(speed));
    this.#lease = lease;
    lease.on('lost', () => this.#beginAgain());
    await lease.put(key).value(address);
    onLease(await lease.grant());
  }

  #beginAgain(): void {
    if (!this.#isEnded) {
      setTimeout(() => {
        this.begin().catch(() => this.#beginAgain());
      }, timing.retryMs / this.#options.speed);
    }
  }

  /** Gives the lease back and takes the key away, as a member does that stops. */
  async end(): Promise<void> {
    this.#isEnded = true;
    const { client, key } = this.#options;
    await this.#lease?.revoke();
    await client.delete().key(key);
  }
}

/** The lease of a member at this speed, as near as etcd comes to it. */
export function leaseSeconds(speed: number): number {
  return Math.max(leastLeaseSeconds, Math.ceil(timing.leaseMs / speed / 1_000));
}
