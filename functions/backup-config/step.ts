import type { Step } from '#shared/kernel/step.ts';
import { decide } from './decide.ts';
import type { BackupConfigEffect } from './moves.ts';
import { observe } from './observe.ts';
import type { BackupConfigSnapshot } from './snapshot.ts';

/** Tells the data plane where backups are kept, once that place is known to be in order and to be this Database's. */
export const backupConfig: Step<'Database', BackupConfigSnapshot, BackupConfigEffect> = {
  name: 'backup-config',
  target: 'Database',
  reads: [
    { api: 'kubernetes', kind: 'Database', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Secret', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Shard', verbs: ['list'] },
    { api: 'topology', what: 'the record of the database' },
    { api: 'repository', what: 'the owner object, versioning and encryption of the bucket' },
  ],
  writes: [
    { effect: 'advance' },
    { effect: 'applyStatus' },
    { effect: 'putRepositoryObject' },
    { effect: 'topologyTxn' },
  ],
  observe,
  decide,
  archived: async () => (await import('./archived.ts')).archived,
};
