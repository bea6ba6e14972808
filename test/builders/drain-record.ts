import type { Leaver, LeavingRecord } from '#shared/api/drain-record.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { nameOfPod } from './pod.ts';

/** drain-step's record about the pod at an index of a shard's pool `main` in `zone-a`. */
export function aDrainOf(
  shard: KubeObject<'Shard'>,
  index: number,
  state: LeavingRecord['state'],
  changes: Partial<Leaver> = {},
): LeavingRecord {
  const pod = nameOfPod(shard, index);
  const podUid = changes.podUid ?? `uid-of-${pod}`;
  return {
    v: 1,
    uid: shard.metadata.uid,
    key: `drain-step/${shard.metadata.uid}/${podUid}`,
    state,
    generation: shard.metadata.generation ?? 1,
    attempt: 0,
    since: '2026-01-01T00:00:00Z',
    reason: 'GatesHold',
    wake: { every: 5 },
    data: {
      pod,
      podUid,
      node: 'node-1',
      claimUid: '',
      pool: 'main',
      cell: 'zone-a',
      index,
      pooler: { cell: 'zone-a', name: pod },
      cause: 'surplus',
      startedAt: '2026-01-01T00:00:00Z',
      forced: false,
      ...changes,
    },
  };
}
