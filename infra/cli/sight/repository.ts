import { settledRepository } from './catalogue/repository.ts';
import { ownRecord } from './records.ts';
import type { Finding, Scene } from './scene.ts';
import { conditionOf } from './seen.ts';

/** What backup-config is at. All that it finds stands in its condition; the record only carries the wake. */
export function repositoryFinding({ target }: Scene): Finding {
  const configured = conditionOf(target, 'BackupConfigured');
  const record = ownRecord('backup-config', target);
  const isNewer = record.kind === 'ours' && record.record.reason !== configured?.reason;
  const reason = isNewer ? record.record.reason : (configured?.reason ?? '');
  const { repository } = target.status;
  const isSettled = settledRepository.has(reason);
  return {
    reason,
    message: isNewer ? undefined : configured?.message,
    since: record.kind === 'ours' ? record.record.since : configured?.lastTransitionTime,
    isSettled,
    lookedAt: configured?.observedGeneration,
    notes:
      isSettled || repository === undefined
        ? []
        : [`Backups still go to the last repository that was in order (${repository.hash}).`],
  };
}
