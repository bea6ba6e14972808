import { type Leaver, readReleaseRecord } from '#functions/shard-release/record.ts';
import { type Instant, parseInstant, plusSeconds, toText } from '#shared/kernel/instant.ts';
import type { Finding, Scene } from './scene.ts';
import { conditionOf, secondsOf } from './seen.ts';
import { distanceText, spanText } from './words.ts';

const defaultTimeoutSeconds = 30;

/** What shard-release is at: its condition, and who is on the way out. */
export function releaseFinding(scene: Scene): Finding {
  const { target } = scene;
  const released = conditionOf(target, 'Released');
  const read = readReleaseRecord(target);
  const record = read.kind === 'ours' ? read.record : undefined;
  const open = (record?.data.leavers ?? []).filter(({ end }) => end === undefined);
  const isNewer = record !== undefined && record.state !== 'resting';
  const ready = conditionOf(target, 'Ready');
  // Nobody is handed over, and GoVerse itself moves shards.
  const isMoving = !isNewer && released?.status === 'True' && ready?.status === 'False';
  const shown = isMoving ? ready : released;
  const reason = isNewer ? record.reason : (shown?.reason ?? record?.reason ?? '');
  return {
    reason,
    message: reason === shown?.reason ? shown.message : undefined,
    since: isNewer ? record.since : shown?.lastTransitionTime,
    isSettled: !isNewer && !isMoving && released?.status === 'True',
    lookedAt: released?.observedGeneration,
    notes: [
      ...open.map((leaver) => leaverNote(scene, leaver)),
      ...(record?.data.leavers ?? [])
        .filter(({ end }) => end === 'timeout')
        .map(({ pod }) => `${pod} was let go when its time was over, with shards it still had.`),
    ],
  };
}

function leaverNote({ target, now }: Scene, { pod, why, since, had }: Leaver): string {
  const begun = (since * 1000) as Instant;
  const seconds = secondsOf(target.spec.shutdown?.timeout, defaultTimeoutSeconds);
  const by = plusSeconds(begun, seconds);
  const { draining } = target.status;
  const left = draining?.pod === pod ? `${draining.left} of its ${had} shards are left; ` : '';
  const what = why === 'deleted' ? 'is deleted' : 'is asked to leave';
  return `${pod} ${what}: ${left}it has ${spanText(seconds)} from ${timeText(begun)} on, until ${timeText(by)} (${distanceText(by, now)}).`;
}

function timeText(instant: Instant): string {
  return parseInstant(safeText(instant)) === undefined ? 'an unknown time' : toText(instant);
}

/** A record may hold any number of seconds; not each is a time. */
function safeText(instant: Instant): string {
  return Number.isFinite(instant) && Math.abs(instant) <= 8.64e15 ? toText(instant) : '';
}
