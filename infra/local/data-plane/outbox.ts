import { encodePooler, poolerKey, toBase64 } from './records.ts';
import {
  type DataPlaneState,
  type Member,
  type Turn,
  hasFault,
  isAlive,
  isCutOffFromEveryone,
  takeOrder,
} from './state.ts';

/**
 * Writes a pooler's record where it differs from the one this pooler wrote last.
 *
 * It never looks at what is in etcd: an overwrite from outside stays until the pooler itself changes.
 */
export function publish(turn: Turn, member: Member): void {
  const value = toBase64(encodePooler(turn.state.config, member));
  if (!isAlive(member) || value === member.published) {
    return;
  }
  member.published = value;
  enqueue(turn.state, {
    key: poolerKey(turn.state.config, member.id),
    value,
    onlyAt: null,
    podUid: member.pod.uid,
  });
}

/** Adds a write; one of the same key that nobody has seen yet is superseded. */
export function enqueue(
  state: DataPlaneState,
  write: {
    readonly key: string;
    readonly value: string | null;
    readonly onlyAt: string | null;
    readonly podUid: string | null;
  },
): void {
  state.outbox = state.outbox.filter(({ key, isSent }) => isSent || key !== write.key);
  state.outbox.push({ ...write, id: takeOrder(state), isSent: false });
}

/** Hands out what may be written now: one write of a key at a time, in order. */
export function flush({ state, outputs }: Turn): void {
  const busy = new Set<string>();
  for (const write of state.outbox) {
    const isFirst = !busy.has(write.key);
    busy.add(write.key);
    if (write.isSent || !isFirst || !mayWrite(state, write.podUid)) {
      continue;
    }
    write.isSent = true;
    const { id, key, value, onlyAt } = write;
    outputs.push({ kind: 'writeRecord', id, key, value, onlyAt });
  }
}

function mayWrite(state: DataPlaneState, podUid: string | null): boolean {
  if (hasFault(state, 'topologyPaused')) {
    return false;
  }
  const writer = podUid === null ? undefined : state.members[podUid];
  return writer === undefined || !isCutOffFromEveryone(state, writer);
}

/** A dead process writes nothing more, though what is on its way may still arrive. */
export function dropWrites(state: DataPlaneState, podUid: string): void {
  state.outbox = state.outbox.filter((write) => write.podUid !== podUid);
}

/** The write is in etcd: what is known of etcd follows. */
export function confirmWrite(state: DataPlaneState, id: number, modRevision: string): void {
  const write = state.outbox.find((candidate) => candidate.id === id);
  if (write === undefined) {
    return;
  }
  state.outbox = state.outbox.filter((candidate) => candidate !== write);
  const { key, value } = write;
  const others = (state.topology ?? []).filter((entry) => entry.key !== key);
  state.topology =
    value === null
      ? others
      : [...others, { key, value, modRevision }].toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

/** The key was not as the write demanded; whoever wanted it looks again. */
export function abandonWrite(state: DataPlaneState, id: number): void {
  state.outbox = state.outbox.filter((write) => write.id !== id);
}
