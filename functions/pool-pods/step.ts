import { releasedClaim } from '#shared/api/annotations.ts';
import type { Step } from '#shared/kernel/step.ts';
import { type PoolPodsEffect, decide } from './decide.ts';
import { observe } from './observe.ts';
import type { PoolPodsSnapshot } from './snapshot.ts';

/** Makes the pods of a shard, and what they need, and says in the Shard's status how it stands. */
export const poolPods: Step<'Shard', PoolPodsSnapshot, PoolPodsEffect> = {
  name: 'pool-pods',
  target: 'Shard',
  reads: [
    { api: 'kubernetes', kind: 'Shard', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Database', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Pod', verbs: ['get', 'list'] },
    { api: 'kubernetes', kind: 'PersistentVolumeClaim', verbs: ['get', 'list'] },
    { api: 'kubernetes', kind: 'Service', verbs: ['get'] },
    { api: 'kubernetes', kind: 'PodDisruptionBudget', verbs: ['get', 'list'] },
    { api: 'admin', what: 'the shard’s backups, while a member is to join others' },
  ],
  writes: [
    { effect: 'advance' },
    { effect: 'applyStatus' },
    { effect: 'createObject', kind: 'Pod' },
    { effect: 'createObject', kind: 'PersistentVolumeClaim' },
    { effect: 'createObject', kind: 'Service' },
    { effect: 'createObject', kind: 'PodDisruptionBudget' },
    { effect: 'patchObject', kind: 'Pod' },
    { effect: 'patchObject', kind: 'PersistentVolumeClaim', annotations: [releasedClaim] },
    { effect: 'patchObject', kind: 'Service' },
    { effect: 'patchObject', kind: 'PodDisruptionBudget' },
    { effect: 'emitEvent' },
  ],
  observe,
  decide,
  archived: async () => (await import('./archived.ts')).archived,
};
