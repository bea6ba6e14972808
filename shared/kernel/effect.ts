import type { BackupType } from '#shared/api/backup.ts';
import { type ShardWrite, maxBatch } from '#shared/goverse/goverse.ts';
import type { ObjectRef, ResourceKind } from '#shared/kube/resources.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import type { DatabaseChange } from '#shared/topology/topology.ts';
import type { StepRecord } from './record.ts';
import type { Instant } from './instant.ts';

/** The record's compare-and-swap: the API server re-checks all three inside its own retry. */
export interface AdvanceGuard {
  readonly uid: string;
  readonly generation: number;
  /** The annotation's value as read; `null` where there was none. */
  readonly previous: string | null;
}

/**
 * The target's version this status was computed from. Where the same decision first advances the record, the executor
 * continues from the version that write returned.
 */
export interface VersionGuard {
  readonly uid: string;
  readonly resourceVersion: string;
}

/** Deletion is authorised only by a record in force that names the victim. */
export interface DeleteGuard {
  readonly uid: string;
  /** The version that was read: of two handlers with the same view one deletes, the other looks again. */
  readonly resourceVersion: string;
  /** The key of the record that authorises it; the record's text must also hold the uid. */
  readonly recordKey: string;
}

/** The other side takes no precondition, so the intent is recorded first and the send expires. */
export interface IntentGuard {
  readonly recordKey: string;
  /** The executor refuses to send at or after this instant. */
  readonly sendBy: Instant;
}

/** What must be true of an object in a bucket: that there is none, or that it is the version that was read. */
export type ObjectGuard = { readonly ifNoneMatch: '*' } | { readonly ifMatch: string };

interface EffectByKind {
  /** Writes this step's record (`null` clears it). */
  advance: { readonly record: StepRecord | null; readonly guard: AdvanceGuard };
  /** Merge patch of labels, annotations or other mutable fields. */
  patchObject: {
    readonly object: ObjectRef;
    readonly patch: JsonObject;
    readonly guard: VersionGuard;
  };
  /** Server-side apply of this step's own status fields on the target; the step's name is the field manager. */
  applyStatus: { readonly status: JsonObject; readonly guard: VersionGuard };
  /**
   * Creates an object under a deterministic name. AlreadyExists is read and compared: it is ours when its controller,
   * or where it has none by design its labels, are those of the manifest; anything else is refused.
   */
  createObject: {
    readonly object: ObjectRef;
    readonly manifest: JsonObject;
    readonly guard: { readonly absent: true };
  };
  /** A Kubernetes Event about the target. Best effort; never counts as progress. */
  emitEvent: {
    readonly type: 'Normal' | 'Warning';
    readonly reason: string;
    readonly message: string;
    /** How loud the log says it, where a Warning is more than that. */
    readonly level?: 'error';
  };
  deleteObject: { readonly object: ObjectRef; readonly guard: DeleteGuard };
  /** A compare-and-swap in the topology store. */
  topologyTxn: {
    readonly database: DatabaseRef;
    readonly operation:
      /** Write into a pooler's record what its own graceful stop would have written. */
      | { readonly kind: 'retirePooler'; readonly cell: string; readonly key: string }
      /** Delete a pooler's record that says that its pooler has stopped. The record's key must end with the revision. */
      | { readonly kind: 'removePooler'; readonly cell: string; readonly key: string }
      /**
       * Write where backups are kept into the record of the database of this name. Where nothing of it changes its
       * revision moves all the same, which ends every write that compares an earlier one.
       */
      | {
          readonly kind: 'rewriteDatabase';
          readonly name: string;
          readonly change: DatabaseChange;
        };
    readonly guard: { readonly modRevision: string; readonly recordKey: string };
  };
  /** Writes one object below the prefix of a database's repository, as a whole. */
  putRepositoryObject: {
    readonly database: DatabaseRef;
    /** Its name below the prefix. */
    readonly key: string;
    readonly text: string;
    readonly guard: ObjectGuard;
  };
  /**
   * Writes shards of a GoVerse cluster, in their order, many to a transaction: each only while its key has the mod revision
   * that was read. It ends where a key has moved: what comes after builds on what comes before.
   */
  writeShards: {
    readonly cluster: GoverseClusterRef;
    readonly writes: readonly ShardWrite[];
    readonly guard: { readonly recordKey: string };
  };
  switchPrimary: {
    readonly database: DatabaseRef;
    readonly shard: {
      readonly database: string;
      readonly tableGroup: string;
      readonly shard: string;
    };
    readonly reason: string;
    readonly guard: IntentGuard;
  };
  /** Asks the data plane for a backup of a shard, and writes down the answer. */
  startBackup: {
    readonly database: DatabaseRef;
    readonly shard: {
      readonly database: string;
      readonly tableGroup: string;
      readonly shard: string;
    };
    readonly type: BackupType;
    /**
     * What the record becomes once the answer is there, with {@link answerPlace} where the job's id or the refusal goes:
     * nobody else can say later which job this was. Without an answer the record stays as it is.
     */
    readonly answered: { readonly started: StepRecord; readonly refused: StepRecord };
    readonly guard: IntentGuard;
  };
  /**
   * Makes a Job, once, and writes down whether it was made: `started` with its name, `refused` with what the API server
   * has against it. AlreadyExists is read and compared, as with `createObject`.
   */
  startJob: {
    readonly object: ObjectRef<'Job'>;
    readonly manifest: JsonObject;
    readonly answered: { readonly started: StepRecord; readonly refused: StepRecord };
    readonly guard: IntentGuard;
  };
}

/** Stands in a record for what an answer will say. */
export const answerPlace = '{answer}';

/** The longest answer that is put into a record, in characters. */
export const maxAnswerLength = 128;

/** The most shards that one effect writes: 64 transactions full. */
export const maxShardWrites = 64 * maxBatch;

/** The GoverseCluster whose shards an effect writes, in the generation of the spec that the decision was made for. */
export interface GoverseClusterRef {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
}

/** The Database object whose data plane an effect goes to. */
export interface DatabaseRef {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Where the decision follows from the Database's own spec: the `metadata.generation` that it was made for. */
  readonly generation?: number;
}

export type EffectKind = keyof EffectByKind;

/** A write described as data, always with its guard. */
export type Effect<K extends EffectKind = EffectKind> = {
  [P in K]: { readonly kind: P } & EffectByKind[P];
}[K];

/** The kinds that cannot be taken back. At most one per invocation, and always the last. */
export type DestructiveKind =
  | 'deleteObject'
  | 'topologyTxn'
  | 'writeShards'
  | 'switchPrimary'
  | 'startBackup'
  | 'startJob';

/** The kinds that another look can always put right. */
export type SafeKind = Exclude<EffectKind, DestructiveKind>;

/** What one invocation may do, in order. The type admits one destructive effect at most, in the last place. */
export type Effects<K extends EffectKind = EffectKind> =
  | readonly Effect<Exclude<K, DestructiveKind>>[]
  | readonly [...Effect<Exclude<K, DestructiveKind>>[], Effect<Extract<K, DestructiveKind>>];

const destructiveKinds: ReadonlySet<EffectKind> = new Set<DestructiveKind>([
  'deleteObject',
  'topologyTxn',
  'writeShards',
  'switchPrimary',
  'startBackup',
  'startJob',
]);

export function isDestructive(effect: Effect): effect is Effect<DestructiveKind> {
  return destructiveKinds.has(effect.kind);
}

/** A write a step may make, or a read it needs: the one source of its RBAC and of its README's table. */
export type Permission =
  | {
      readonly api: 'kubernetes';
      readonly kind: ResourceKind;
      readonly verbs: readonly KubernetesVerb[];
    }
  | { readonly api: 'topology' | 'goverse' | 'admin' | 'repository'; readonly what: string };

export type KubernetesVerb = 'get' | 'list' | 'watch' | 'create' | 'patch' | 'delete';

/** A write a step declares: the effect, and the kind of object it touches where it touches one. */
export interface WritePermission<K extends EffectKind = EffectKind> {
  readonly effect: K;
  readonly kind?: ResourceKind;
  /** Of a patch that writes annotations and nothing else: which. */
  readonly annotations?: readonly string[];
}
