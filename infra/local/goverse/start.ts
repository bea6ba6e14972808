import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import { type Child, launch } from '#infra/local/child/launch.ts';
import {
  type Said,
  type Settings,
  type SettingsInput,
  saidSchema,
  settingsSchema,
} from './settings.ts';
import { timing } from './timing.ts';

const readyTimeoutMs = 60_000;
const stopGraceMs = 5_000;

const announcement = z.object({ ready: z.literal(true) });

/** What a tick of a node did, as it said itself. */
export interface TickTold {
  readonly address: string;
  readonly work: readonly { readonly work: string; readonly count: number }[];
  /** etcd's revision of each write. */
  readonly revisions: readonly number[];
  readonly tookMs: number;
}

export type GoverseNodeOptions = SettingsInput & {
  /** Every tick that wrote something, once it is over. */
  readonly onTick?: (told: TickTold) => void;
};

/** One process of a GoVerse cluster: a node, or a gate. */
export interface GoverseMemberProcess extends AsyncDisposable {
  readonly address: string;
  readonly pid: number;
  /** SIGTERM, GoVerse's quick shutdown: its key is gone when this resolves, and its shards are as they were. */
  stop(): Promise<void>;
  /** SIGKILL; resolves when the process is gone. Its key goes when its lease ends. */
  kill(): Promise<void>;
}

/** Starts a member as a process of its own, which dies with this one, and resolves when it is registered. */
export async function startGoverseNode(options: GoverseNodeOptions): Promise<GoverseMemberProcess> {
  const { onTick, ...input } = options;
  const settings = settingsSchema.parse(input);
  const lease = new LeaseEnd(settings);
  const child = await launch({
    name: `the GoVerse ${settings.role} ${settings.address}`,
    entry: new URL('main.ts', import.meta.url),
    environment: { MILLRACE_GOVERSE_SETTINGS: JSON.stringify(settings) },
    announcement,
    readyTimeoutMs,
    onLine(line) {
      const said = parse(line);
      if (said === undefined) {
        return;
      }
      if ('lease' in said) {
        lease.granted(said.lease, said.atMs);
      } else if (said.tick.length > 0) {
        const { tick: work, revisions, tookMs } = said;
        onTick?.({ address: settings.address, work, revisions, tookMs });
      }
    },
  });
  return handleOf(settings.address, child, lease);
}

function handleOf(address: string, child: Child<unknown>, lease: LeaseEnd): GoverseMemberProcess {
  const stop = () => child.stop(stopGraceMs);
  void child.exited.then(() => lease.ends());
  return {
    address,
    pid: child.pid,
    stop,
    async kill() {
      child.signal('SIGKILL');
      await child.exited;
    },
    [Symbol.asyncDispose]: stop,
  };
}

/** etcd looks for leases that are over this often. */
const expiryLookMs = 500;

/**
 * The end of a dead member's lease at another speed than 1. etcd has leases of whole seconds, two at least: too coarse
 * for a fast cluster. So the lease of a dead one is revoked when it would have ended: its length after the last of the
 * signs of life that it gave every third of that. At speed 1, or where etcd wants certificates or users, etcd alone ends it.
 */
class LeaseEnd {
  readonly #settings: Settings;
  #granted: { readonly id: string; readonly atMs: number } | undefined;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  granted(id: string, atMs: number): void {
    this.#granted = { id, atMs };
  }

  /** To be called when the process is gone, for whatever reason. */
  ends(): void {
    const { speed, endpoint } = this.#settings;
    const granted = this.#granted;
    if (speed === 1 || granted === undefined) {
      return;
    }
    const waitMs = remainingLeaseMs(granted.atMs, Date.now(), speed);
    void delay(waitMs, undefined, { ref: false })
      .then(() => revoke(endpoint, granted.id))
      // Who stopped in order has revoked it, and an etcd that is gone has no leases.
      .catch(() => undefined);
  }
}

/** How long a lease outlives its holder who dies now. */
export function remainingLeaseMs(grantedAtMs: number, nowMs: number, speed: number): number {
  const leaseMs = timing.leaseMs / speed;
  const signMs = leaseMs / 3;
  const sinceSignMs = Math.max(0, nowMs - grantedAtMs) % signMs;
  return leaseMs - sinceSignMs + expiryLookMs / speed;
}

async function revoke(endpoint: string, id: string): Promise<void> {
  const response = await fetch(new URL('/v3/lease/revoke', endpoint), {
    method: 'POST',
    body: JSON.stringify({ ID: id }),
  });
  await response.arrayBuffer();
}

function parse(line: string): Said | undefined {
  try {
    return saidSchema.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}
