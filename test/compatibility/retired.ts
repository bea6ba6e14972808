/**
 * What this release still reads and no longer writes, as the comparison names it (`record of drain-step.data.node`,
 * `reasons: DrainCancelled`). Taken into the release's snapshot, so that the release after it may drop it: nobody can meet
 * it any more by then who skips no release.
 */
export const retired: readonly string[] = [];
