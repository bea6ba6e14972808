/**
 * How long things take, in milliseconds at speed 1. The totals, from what a person does to what shows, are those measured
 * on a real three-cell Multigres with PostgreSQL 17, or timers of its source; README.md beside this file lists them by
 * behaviour. The parts between two measured instants are chosen so that the totals come out.
 *
 * A pair is a range that a seeded draw picks from: what was measured varied, and no step may count on one value.
 */
export const timing = {
  /** multiorch looks at the shard this often (its source). */
  cycleMs: 1_000,

  /** From a pod that may start to a pooler that registers itself. */
  containerStartMs: [1_000, 2_000],

  /** No further pooler may have registered for this long before a fresh shard is claimed. */
  bootstrapSettleMs: 2_000,
  /** From the claim of a fresh shard to its first rule: three fresh members have a primary 32 s after their pods. */
  firstRuleMs: [26_500, 27_500],
  /** From the first rule to an active leader and to active replicas: all are ready 37 s after their pods. */
  firstLeaderActiveMs: 3_400,
  firstReplicaActiveMs: [4_300, 4_600],

  /** A member that comes back on its data is in the cohort 17 to 38 s after its pod was created. */
  returnMs: [16_000, 34_500],
  /** A member without data beside others that have some is in the cohort 15 s after its pod was created. */
  restoreMs: [13_000, 13_500],
  /** A restore that finds no leader to stream from tries again. */
  restoreRetryMs: 1_000,
  /** From streaming to ACTIVE: measured 6 s and 11.5 s after the start of the process. */
  streamingToActiveMs: 5_500,

  /** SIGTERM to STOPPING and DISABLED. */
  stopAnnouncedMs: 50,
  /** SIGTERM to SHUTDOWN, of a replica and of a primary. */
  replicaShutdownMs: 400,
  primaryShutdownMs: 2_300,
  /** From SHUTDOWN to no process. */
  processEndMs: 1_600,
  /** How long a pooler that cannot write its last record waits before it ends all the same (its `--onterm-timeout`). */
  lastWriteMs: 20_000,
  lastWriteRetryMs: 100,

  /** A leader that does not answer: 30 s of multiorch's threshold and the time-out of the request that finds out. */
  silentLeaderMs: 31_500,
  /** multiorch's grace of 4 s with its jitter, from the loss it noticed to the new rule. */
  appointmentMs: [4_700, 7_700],
  /** An election just now makes the next switchover wait. */
  electionBackoffMs: 4_000,

  /** The resignation of a leader, from the request: DRAINING, DISABLED, standby, answer. */
  resignDrainMs: 100,
  resignStopMs: 900,
  resignStandbyMs: 1_750,
  resignAnswerMs: 1_890,

  /** How long backups run. A real one of an empty database took 2 s; longer, so that there is something to see. */
  backupMs: { full: 6_000, differential: 3_000, incremental: 3_000 },
  /** From the job to its pooler: one whose pooler is dead fails within 5 ms. */
  callPoolerMs: [1, 5],
  /** The backup that a fresh shard begins with: how long before the first rule it began, and how long it took. */
  firstBackupAgoMs: 13_700,
  firstBackupMs: 2_000,
  /** From the loss of its lease to the end of a backup. */
  robbedBackupMs: [9_500, 10_500],
  /** From the death of multiadmin to the end of the backup that it asked for. */
  abortedBackupMs: 200,
  /** What a killed backup leaves behind keeps the lock of the repository this long. */
  orphanMs: [62_000, 64_000],
  /** What is left of the lease's 30 s when nobody keeps it alive any more. */
  leaseExpiryMs: [20_000, 30_000],
  /** multiadmin forgets a job this long after its end. */
  jobKeptMs: 86_400_000,
} as const;

export type Range = readonly [number, number];
