import { backupNow } from '#shared/api/annotations.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import type { PoolPodsSnapshot } from './snapshot.ts';
import type { Standing } from './status.ts';

/**
 * The warning that a new member has nothing to restore from. It holds nothing up: a backup may be on its way, and a member
 * that comes back on its own claim needs none. A list that cannot be read says nothing.
 */
function lacksBackup({ backups }: PoolPodsSnapshot): boolean {
  return backups.kind === 'present' && !backups.value.isOneComplete;
}

/** What to say while members are made or start: what it was, and the warning where there is one. */
export function withWarning(snapshot: PoolPodsSnapshot, standing: Standing): Standing {
  return standing.kind === 'moving' && lacksBackup(snapshot)
    ? {
        kind: 'moving',
        reason: 'NoCompleteBackup',
        message: `${standing.message}; ${warningText(snapshot)}`,
      }
    : standing;
}

/** Told once in the look that makes the pods. */
export function warningEvent(
  snapshot: PoolPodsSnapshot,
  pods: readonly string[],
): Effect<'emitEvent'>[] {
  return pods.length > 0 && lacksBackup(snapshot)
    ? [
        {
          kind: 'emitEvent',
          type: 'Warning',
          reason: 'NoCompleteBackup',
          message: `made ${pods.join(', ')}: ${warningText(snapshot)}`,
        },
      ]
    : [];
}

function warningText({ shard }: PoolPodsSnapshot): string {
  return `the shard has no complete backup, and a new member restores from one: annotate shd/${shard.name} with ${backupNow}=full/<token>`;
}
