import type { Step } from '#shared/kernel/step.ts';
import { decide } from './decide.ts';
import type { CleanupEffect } from './moves.ts';
import { observe } from './observe.ts';
import type { CleanupSnapshot } from './snapshot.ts';

/** Takes the pooler records of members that are gone out of the topology. */
export const etcdCleanup: Step<'Shard', CleanupSnapshot, CleanupEffect> = {
  name: 'etcd-cleanup',
  target: 'Shard',
  reads: [
    { api: 'kubernetes', kind: 'Shard', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Database', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Secret', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Pod', verbs: ['list'] },
    { api: 'topology', what: 'pooler records of the shard’s cells' },
    { api: 'admin', what: 'status of the primary, and of poolers that no pod is' },
  ],
  writes: [
    { effect: 'advance' },
    { effect: 'applyStatus' },
    { effect: 'emitEvent' },
    { effect: 'topologyTxn' },
  ],
  observe,
  decide,
  archived: async () => (await import('./archived.ts')).archived,
};
