import type { KubeObject, TargetKind } from '#shared/kube/resources.ts';

/** What every step sees of its target. */
export interface TargetView {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  readonly resourceVersion: string;
  /** By a person, in its own spec. */
  readonly isPaused: boolean;
  readonly isBeingDeleted: boolean;
}

export function targetView({ metadata, spec }: KubeObject<TargetKind>): TargetView {
  const { namespace = '', name, uid, generation = 0, resourceVersion } = metadata;
  return {
    namespace,
    name,
    uid,
    generation,
    resourceVersion,
    isPaused: spec.paused,
    isBeingDeleted: metadata.deletionTimestamp !== undefined,
  };
}
