import type { Read } from '#shared/kernel/read.ts';
import type { JsonObject } from './json.ts';
import type { KubeObject, ObjectRef, ResourceKind } from './resources.ts';

export interface ListOptions {
  readonly namespace?: string;
  /** Every label must have this value. */
  readonly labels?: { readonly [key: string]: string };
}

/** Consistent reads of the API server (never `resourceVersion=0`). Failures are `unknown`, not thrown. */
export interface KubeReader {
  get<K extends ResourceKind>(
    ref: ObjectRef<K>,
    signal?: AbortSignal,
  ): Promise<Read<KubeObject<K>>>;
  /** The complete list, all pages, or `unknown`; never a part. `absent` where the API does not serve the kind. */
  list<K extends ResourceKind>(
    kind: K,
    options: ListOptions,
    signal?: AbortSignal,
  ): Promise<Read<readonly KubeObject<K>[]>>;
}

/** Lists in parts, for whoever must not hold a whole one and has a use for a part. */
export interface KubePages {
  /**
   * The pages of one consistent list, in order. One that is not `present` is the last: nothing is known of what would
   * have followed.
   */
  pages<K extends ResourceKind>(
    kind: K,
    options: ListOptions,
    signal?: AbortSignal,
  ): AsyncIterable<Read<readonly KubeObject<K>[]>>;
}

/** How a guarded write ended. `lostRace`: the guard no longer held, nothing was written by this call. */
export type WriteResult =
  | { readonly kind: 'written'; readonly resourceVersion: string }
  | { readonly kind: 'lostRace'; readonly why: string };

/**
 * The guarded writes. Only the executor (and tools that a person runs) hold this.
 * A refusal or outage throws `TerminalError` or `RetryableError`; a guard that no longer holds returns `lostRace`.
 */
export interface KubeWriter {
  /** Compare-and-swap of one annotation under uid, generation and the annotation's previous value (`null` = absent). */
  swapAnnotation(
    ref: ObjectRef,
    change: {
      key: string;
      previous: string | null;
      next: string | null;
      uid: string;
      generation: number;
    },
    target: { resourceVersion: string; hasAnnotations: boolean },
    signal?: AbortSignal,
  ): Promise<WriteResult>;
  mergePatch(
    ref: ObjectRef,
    patch: JsonObject,
    guard: { uid: string; resourceVersion: string },
    signal?: AbortSignal,
  ): Promise<WriteResult>;
  applyStatus(
    ref: ObjectRef,
    status: JsonObject,
    fieldManager: string,
    guard: { uid: string; resourceVersion: string },
    signal?: AbortSignal,
  ): Promise<WriteResult>;
  /** `exists` hands back the object in the way. */
  create<K extends ResourceKind>(
    ref: ObjectRef<K>,
    manifest: JsonObject,
    signal?: AbortSignal,
  ): Promise<WriteResult | { readonly kind: 'exists'; readonly object: Read<KubeObject<K>> }>;
  /** Deletes the object only while it has this uid and version. Already gone counts as written (resourceVersion ''). */
  delete(
    ref: ObjectRef,
    guard: { uid: string; resourceVersion: string },
    signal?: AbortSignal,
  ): Promise<WriteResult>;
}
