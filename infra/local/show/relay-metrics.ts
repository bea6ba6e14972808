/** What the relay says of its own sending. */
export interface RelayReading {
  /** Hints that the queue has acknowledged, since this relay started. */
  readonly sent: number;
  /** Hints owed now. */
  readonly owed: number;
  /** Age of the one owed longest, in seconds; 0 when none is owed. */
  readonly oldestOwedSeconds: number;
  /** Batches that were not wholly acknowledged, since this relay started. */
  readonly failedBatches: number;
}

/** Asks the relay for its metrics. */
export async function readRelay(relayUrl: string): Promise<RelayReading> {
  const answer = await fetch(new URL('/metrics', relayUrl));
  return parseRelayMetrics(await answer.text());
}

/**
 * Reads Prometheus' text format.
 *
 * @throws Error when a metric is missing: a number nobody reports must not be taken for 0
 */
export function parseRelayMetrics(text: string): RelayReading {
  const sum = (name: string): number => {
    if (!text.includes(`# TYPE millrace_relay_${name} `)) {
      throw new Error(`the relay reports no ${name}`);
    }
    // A series has no line before its first count.
    const lines = text.matchAll(new RegExp(`^millrace_relay_${name}(?:{[^}]*})? (\\S+)$`, 'gm'));
    return [...lines].reduce((total, [, value]) => total + Number(value), 0);
  };
  return {
    sent: sum('hints_total'),
    owed: sum('dirty'),
    oldestOwedSeconds: sum('oldest_unsent_seconds'),
    failedBatches: sum('send_failures_total'),
  };
}
