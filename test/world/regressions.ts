import type { PlanName } from './run/plans.ts';

/** A run that once found a defect, and what was wrong. Kept for good, though questions may have moved since. */
export interface Regression {
  readonly found: string;
  readonly plan: PlanName;
  /** The mutant that puts the defect back, and lets this run fail; none where only words were wrong. */
  readonly without?: string;
}

export const regressions: readonly Regression[] = [
  {
    found: 'a primary that was killed kept its claim for ever, and was never replaced',
    plan: { workload: '3 to 2 to 3', strikes: [{ at: 21, fault: 'F32 leader dies' }] },
    without: 'drain-dead-rival-counts',
  },
  {
    found: 'a leaver that waited for the quorum kept a failed member from being replaced',
    plan: {
      workload: 'the leaver dies without a word',
      strikes: [{ at: 36, fault: 'F32 replica dies' }],
    },
    without: 'drain-failed-member-waits',
  },
  {
    found: 'a drain past its deadline did not say how to go on',
    plan: {
      workload: 'the leader is asked to leave',
      strikes: [{ at: 115, fault: 'F32 replica dies' }],
    },
  },
  {
    found: 'a surplus claim stayed when its pod was deleted from outside while it drained',
    plan: {
      workload: 'the leaver dies without a word',
      strikes: [{ at: 35, fault: 'F17 pod deleted' }],
    },
    without: 'drain-left-claims-ignored',
  },
  {
    found: 'a surplus claim stayed when its drain gave way to a failed member',
    plan: {
      workload: 'the leaver dies without a word',
      strikes: [{ at: 53, fault: 'F32 replica dies' }],
    },
    without: 'drain-left-claims-ignored',
  },
  {
    found: 'a surplus claim stayed when the record was reset after its pod was gone',
    plan: {
      workload: '3 to 2, claims deleted',
      strikes: [{ at: 60, fault: 'F19 record of the future' }],
    },
    without: 'drain-left-claims-ignored',
  },
  {
    found: 'a settle time that a clock an hour ahead began held the drain up for an hour',
    plan: {
      workload: 'a surplus member goes unseen',
      strikes: [
        { at: 0, fault: 'F26 every clock ahead' },
        { at: 20, fault: 'F26 every clock behind' },
      ],
    },
    without: 'drain-settle-in-the-future-awaited',
  },
  {
    found: 'two clocks that disagreed shortened a settle time to nothing',
    plan: {
      workload: 'the leaver dies without a word',
      strikes: [{ at: 12, fault: 'F26 one clock ahead' }],
    },
    without: 'kube-wrong-clock-reads',
  },
  {
    found: 'a member that somebody else owned counted among those that stay',
    plan: {
      workload: 'a pod of ours is adopted',
      strikes: [{ at: 9, fault: 'F32 replica dies' }],
    },
    without: 'drain-member-of-others-counts',
  },
  {
    found: 'a pod was made on a claim that was going, and waited for it for ever',
    plan: {
      workload: 'a claim goes with its pod',
      strikes: [{ at: 13, fault: 'F6 stale read, 2 writes' }],
    },
    without: 'pods-lost-claim-left',
  },
  {
    found: 'a handler that was late marked a claim as kept on which a pod lived again',
    plan: {
      workload: '3 to 2 to 3',
      strikes: [
        { at: 93, fault: 'F11 hangs 12 s' },
        { at: 95, fault: 'F11 hangs 12 s' },
      ],
    },
    without: 'drain-released-under-old-view',
  },
  {
    found: 'a drain that a leader without a vote held up did not say so',
    plan: {
      workload: '3 to 2 to 3',
      strikes: [
        { at: 90, fault: 'F33 two primaries, records late' },
        { at: 124, fault: 'F18 scaled to 2' },
      ],
    },
    without: 'drain-voteless-leader-unsaid',
  },
  {
    found:
      'members waited for half an hour when claims could not be read while something else was updated',
    plan: { workload: '1 to 3', strikes: [{ at: 6, fault: 'F8 read fails' }] },
    without: 'pods-sleeps-over-unknown-claims',
  },
  {
    found:
      'a drain was written about while its database was paused, since its pods could not be listed',
    plan: {
      workload: '3 to 2',
      strikes: [
        { at: 76, fault: 'F18 database paused for 20 s' },
        { at: 92, fault: 'F8 second page gone' },
      ],
    },
    without: 'drain-pause-of-database-late',
  },
  {
    found: 'a leaver that came to lead was marked while it was in the hands of others',
    plan: {
      workload: 'the leaver comes to lead past the point of no return',
      strikes: [
        { at: 68, fault: 'F19 leaver taken over' },
        { at: 72, fault: 'F2 crash after' },
      ],
    },
    without: 'drain-others-kept-off-late',
  },
  {
    found: 'a shard was told to be stalled for half an hour after its backups went on',
    plan: {
      workload: 'a drain that does not end',
      strikes: [{ at: 885, fault: 'F19 record malformed' }],
    },
    without: 'backup-condition-unheard',
  },
  {
    found:
      'a backup that nobody knew was waited for until the time of a clock that had been an hour ahead',
    plan: {
      workload: 'once more where nobody knows',
      strikes: [{ at: 0, fault: 'F26 every clock ahead' }],
    },
    without: 'backup-intent-in-the-future-awaited',
  },
  {
    found: 'a quiet time of GoVerse that a clock an hour ahead began held every hand-over up',
    plan: {
      workload: 'a node of three goes cleanly',
      strikes: [{ at: 25, fault: 'F26 every clock ahead' }],
    },
    without: 'goverse-time-to-come-awaited',
  },
  {
    found:
      'a hand-over went on after a pause that had come before its first write, and a node had died',
    plan: {
      workload: 'nobody leads when a node is to go',
      strikes: [{ at: 6, fault: 'F18 cluster paused for 20 s' }],
    },
    without: 'goverse-unwritten-goes-on',
  },
  {
    found: 'a node that was emptied had shards again after another had died, and went with them',
    plan: { workload: 'a node that was emptied goes after the holder has died', strikes: [] },
    without: 'goverse-released-for-good',
  },
  {
    found: 'a record was deleted that people meanwhile wanted to be kept for longer',
    plan: {
      workload: 'a killed replica leaves its record',
      strikes: [
        { at: 67, fault: 'F1 crash before' },
        { at: 68, fault: 'F18 quietFor and deleteAfter longer' },
      ],
    },
    without: 'cleanup-longer-wait-ignored',
  },
  {
    found:
      'a record was marked by what had been read at its first sight, when a look took as long as its wait',
    plan: {
      workload: 'a killed replica leaves its record',
      strikes: [
        { at: 15, fault: 'F11 hangs 12 s' },
        { at: 24, fault: 'F1 crash before' },
      ],
    },
    without: 'cleanup-waits-while-it-reads',
  },
];
