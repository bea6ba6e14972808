import type { BackupType, StoredBackup } from './state.ts';

/*
 * The list of backups that all poolers of a shard share, as pgBackRest keeps it: what a backup is called, what it
 * continues, and which ones go when another is added.
 */

const typeNames = { full: 'full', differential: 'diff', incremental: 'incr' } as const;
const suffixes = { full: 'F', diff: 'D', incr: 'I' } as const;

/** How many are kept, by count. */
const keptFull = 7;
const keptDifferential = 1;

export function isBackupType(type: string): type is BackupType {
  return type in typeNames;
}

/** `20260101-000000` for that instant. */
export function stampOf(atMs: number): string {
  const [date = '', time = ''] = new Date(atMs).toISOString().split('T');
  return `${date.replaceAll('-', '')}-${time.slice(0, 8).replaceAll(':', '')}`;
}

/**
 * The list with another backup, and without those that expire with it; the backup is its last.
 *
 * A differential one continues the last full one, an incremental one whatever was last. Without any to continue, both are
 * full.
 */
export function withBackup(
  stored: readonly StoredBackup[],
  backup: Omit<StoredBackup, 'id' | 'type' | 'parent'>,
  asked: BackupType,
): readonly StoredBackup[] {
  const full = stored.findLast(({ type }) => type === 'full');
  const type = full === undefined ? 'full' : typeNames[asked];
  const own = `${ownStamp(stored, backup.startedAtMs)}${suffixes[type]}`;
  const parent = type === 'diff' ? full : stored.at(-1);
  return withoutExpired([
    ...stored,
    type === 'full'
      ? { ...backup, type, id: own, parent: null }
      : { ...backup, type, id: `${full?.id}_${own}`, parent: parent?.id ?? null },
  ]);
}

/** Labels are by the second: who finds one taken waits for the next. */
function ownStamp(stored: readonly StoredBackup[], startedAtMs: number): string {
  for (let atMs = startedAtMs; ; atMs += 1_000) {
    const stamp = stampOf(atMs);
    if (!stored.some(({ id }) => id.includes(stamp))) {
      return stamp;
    }
  }
}

/** A full backup counts as a differential one as well, when those are counted (pgBackRest, `repo-retention-diff`). */
function withoutExpired(stored: readonly StoredBackup[]): readonly StoredBackup[] {
  const full = stored.filter(({ type }) => type === 'full');
  const differential = stored.filter(({ type }) => type !== 'incr');
  const expired = [
    ...full.slice(0, -keptFull),
    ...differential.slice(0, -keptDifferential).filter(({ type }) => type === 'diff'),
  ];
  const kept: StoredBackup[] = [];
  // A parent is always before what continues it.
  for (const backup of stored) {
    const isRestorable = backup.parent === null || kept.some(({ id }) => id === backup.parent);
    if (isRestorable && !expired.includes(backup)) {
      kept.push(backup);
    }
  }
  return kept;
}
