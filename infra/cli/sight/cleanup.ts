import { readCleanupRecord } from '#functions/etcd-cleanup/record.ts';
import type { StaleCause } from '#shared/api/cleanup.ts';
import type { Finding, Scene } from './scene.ts';
import { conditionOf } from './seen.ts';

const causes: { readonly [C in StaleCause]: string } = {
  NoPod: 'no pod is it',
  Stopped: 'has stopped',
  Answers: 'has no pod, and its pooler answers',
  Leads: 'leads, and nobody else does',
  SetAside: 'was set aside by the data plane',
  Undecodable: 'cannot be decoded',
};

/** What is told and stays: for people, or because the spec says so. */
const left: ReadonlySet<string> = new Set(['RecordsLeft', 'CleanupOff']);

/** What etcd-cleanup is at: its condition, and while one record is being changed, that. */
export function cleanupFinding({ target }: Scene): Finding {
  const clean = conditionOf(target, 'TopologyClean');
  const read = readCleanupRecord(target);
  const record = read.kind === 'ours' ? read.record : undefined;
  const notes = (target.status.cleanup?.candidates ?? []).map(
    ({ pooler, why, since }) =>
      `Record ${pooler}: ${causes[why]}${since === undefined ? '' : `, since ${since}`}.`,
  );
  if (record?.data.act !== undefined) {
    const { reason, since, data } = record;
    return {
      reason,
      message: `the record of ${data.act?.pooler ?? ''}`,
      since,
      isSettled: false,
      notes,
    };
  }
  // A look that is held up by something it meets only then says so in its record alone.
  const isHeld = record !== undefined && 'every' in (record.wake ?? {});
  const reason = isHeld ? record.reason : (clean?.reason ?? record?.reason ?? '');
  return {
    reason,
    message: reason === clean?.reason ? clean.message : undefined,
    since: record?.since ?? clean?.lastTransitionTime,
    isSettled: !isHeld && clean !== undefined && (clean.status === 'True' || left.has(reason)),
    lookedAt: clean?.observedGeneration,
    notes,
  };
}
