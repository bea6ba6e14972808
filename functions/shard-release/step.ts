import { releaseMirror } from '#shared/api/annotations.ts';
import type { Step } from '#shared/kernel/step.ts';
import { decide } from './decide.ts';
import type { ReleaseEffect } from './moves.ts';
import { observe } from './observe.ts';
import { mostRecordBytes } from './record.ts';
import type { ReleaseSnapshot } from './snapshot.ts';

/** Hands the shards of a node of GoVerse to the others before the node goes. */
export const shardRelease: Step<'GoverseCluster', ReleaseSnapshot, ReleaseEffect> = {
  name: 'shard-release',
  target: 'GoverseCluster',
  reads: [
    { api: 'kubernetes', kind: 'GoverseCluster', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Secret', verbs: ['get'] },
    { api: 'kubernetes', kind: 'Pod', verbs: ['list'] },
    { api: 'goverse', what: 'all keys of the cluster, at one revision' },
  ],
  writes: [
    { effect: 'advance' },
    { effect: 'applyStatus' },
    { effect: 'emitEvent' },
    { effect: 'patchObject', kind: 'Pod', annotations: [releaseMirror] },
    { effect: 'writeShards' },
  ],
  recordBytes: mostRecordBytes,
  observe,
  decide,
  archived: async () => (await import('./archived.ts')).archived,
};
