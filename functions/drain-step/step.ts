import { drainMirror, releasedClaim } from '#shared/api/annotations.ts';
import type { Step } from '#shared/kernel/step.ts';
import { decide } from './decide.ts';
import type { DrainEffect } from './moves.ts';
import { observe } from './observe.ts';
import type { DrainSnapshot } from './snapshot.ts';

/** Makes one member of a shard leave, provably. */
export const drainStep: Step<'Shard', DrainSnapshot, DrainEffect> = {
  name: 'drain-step',
  target: 'Shard',
  reads: [
    { api: 'kubernetes', kind: 'Shard', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Database', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Secret', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Pod', verbs: ['list'] },
    { api: 'kubernetes', kind: 'PersistentVolumeClaim', verbs: ['list'] },
    { api: 'kubernetes', kind: 'Node', verbs: ['get'] },
    { api: 'topology', what: 'pooler records of the shard' },
    { api: 'admin', what: 'status of the shard’s poolers' },
  ],
  writes: [
    { effect: 'advance' },
    { effect: 'applyStatus' },
    { effect: 'emitEvent' },
    { effect: 'patchObject', kind: 'Pod', annotations: [drainMirror] },
    { effect: 'patchObject', kind: 'PersistentVolumeClaim', annotations: [releasedClaim] },
    { effect: 'deleteObject', kind: 'Pod' },
    { effect: 'deleteObject', kind: 'PersistentVolumeClaim' },
    { effect: 'topologyTxn' },
    { effect: 'switchPrimary' },
  ],
  observe,
  decide,
  archived: async () => (await import('./archived.ts')).archived,
};
