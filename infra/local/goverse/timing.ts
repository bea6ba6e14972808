/** How long things take at speed 1, in milliseconds: GoVerse's own defaults. */
export const timing = {
  /** Every node looks at the keys this often. */
  tickMs: 5_000,
  /** No node, gate or leader may have changed for this long before anything is handed over. */
  stableMs: 10_000,
  /** A member that stops keeping its lease alive is gone after this. */
  leaseMs: 15_000,
  /** The leader looks for shards that their targets do not claim this often, and waits this long for them. */
  unclaimedMs: 60_000,
  /** Before a member that lost its lease or its watch begins anew. */
  retryMs: 1_000,
} as const;
