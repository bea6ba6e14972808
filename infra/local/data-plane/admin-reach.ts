import { type PoolerId, type PoolerRecord, isSamePooler } from '#shared/topology/topology.ts';
import { poolerRecord } from './records.ts';
import {
  type DataPlaneState,
  type Member,
  type TopologyEntry,
  hasFault,
  isAlive,
  isCutOffFromEveryone,
  membersOf,
} from './state.ts';

/*
 * Whom multiadmin knows, by their records alone, and whom it reaches.
 */

export function entries(state: DataPlaneState): readonly TopologyEntry[] {
  return state.topology ?? [];
}

export function isPoolerKey({ key }: TopologyEntry): boolean {
  return /\/poolers\/multipooler-[^/]+\/Pooler$/.test(key);
}

/** What the records say. Who cannot be decoded is nobody here. */
export function poolersOnRecord(state: DataPlaneState): DecodedRecord[] {
  return entries(state)
    .filter(isPoolerKey)
    .flatMap(({ value }) => {
      const decoded = poolerRecord(value);
      return decoded.kind === 'decoded' ? [decoded.record] : [];
    });
}

type DecodedRecord = Omit<PoolerRecord, 'key' | 'storeCell' | 'modRevision'>;

export function reachedByAdmin(state: DataPlaneState, id: PoolerId): Member | undefined {
  return membersOf(state).find(
    (member) =>
      isSamePooler(member.id, id) &&
      isAlive(member) &&
      !isCutOffFromEveryone(state, member) &&
      !hasFault(state, 'poolerUnreachable', member.pod.name),
  );
}

/**
 * The pooler that a call of multiadmin gets through to. The first call after its pod was made again goes to the old
 * address and fails.
 */
export function answeringAdmin(state: DataPlaneState, id: PoolerId): Member | undefined {
  const member = reachedByAdmin(state, id);
  if (member?.isFirstAnswerLost === true) {
    member.isFirstAnswerLost = false;
    return undefined;
  }
  return member;
}
