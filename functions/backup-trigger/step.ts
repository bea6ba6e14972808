import type { Step } from '#shared/kernel/step.ts';
import { decide } from './decide.ts';
import type { BackupEffect } from './moves.ts';
import { observe } from './observe.ts';
import { backupRecordBytes } from './record.ts';
import type { BackupSnapshot } from './snapshot.ts';

/** Says when a shard's backups are made, and what became of each. */
export const backupTrigger: Step<'Shard', BackupSnapshot, BackupEffect> = {
  name: 'backup-trigger',
  target: 'Shard',
  recordBytes: backupRecordBytes,
  reads: [
    { api: 'kubernetes', kind: 'Shard', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Database', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Secret', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Job', verbs: ['get'] },
    { api: 'topology', what: 'lease of the shard’s backups' },
    { api: 'admin', what: 'the shard’s backups, and the job of the one that runs' },
  ],
  writes: [
    { effect: 'advance' },
    { effect: 'applyStatus' },
    { effect: 'emitEvent' },
    { effect: 'patchObject', kind: 'Job' },
    { effect: 'startBackup' },
    { effect: 'startJob', kind: 'Job' },
  ],
  observe,
  decide,
  archived: async () => (await import('./archived.ts')).archived,
};
