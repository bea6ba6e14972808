import type { SendResult, StartResult } from '#shared/admin/admin.ts';
import type { Shard } from '#shared/api/shard.ts';
import type { ShardsWritten } from '#shared/goverse/goverse.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import type { Invocation, Writers } from '#shared/kernel/execute.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { type Read, absent } from '#shared/kernel/read.ts';
import { type StepRecord, recordText } from '#shared/kernel/record.ts';
import type { StepDeclaration } from '#shared/kernel/step.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import type { WriteResult } from '#shared/kube/kube.ts';
import type { KubeObject, ResourceKind } from '#shared/kube/resources.ts';

/** The instant at which everything is executed. */
export const now = Date.parse('2026-01-01T00:00:00Z') as Instant;

export const written: WriteResult = { kind: 'written', resourceVersion: '8' };

/** A step that declares an effect of every kind, each about the objects the tests use. */
export const step: StepDeclaration = {
  name: 'drain-step',
  target: 'Shard',
  reads: [],
  writes: [
    { effect: 'advance' },
    { effect: 'applyStatus' },
    { effect: 'emitEvent' },
    { effect: 'deleteObject', kind: 'Pod' },
    { effect: 'switchPrimary' },
    { effect: 'startBackup' },
    { effect: 'startJob', kind: 'Job' },
    { effect: 'patchObject', kind: 'Pod' },
    { effect: 'createObject', kind: 'Pod' },
    { effect: 'createObject', kind: 'PersistentVolumeClaim' },
    { effect: 'topologyTxn' },
    { effect: 'writeShards' },
    { effect: 'putRepositoryObject' },
  ],
};

export function aRecord(change: Partial<StepRecord> = {}): StepRecord {
  return {
    v: 1,
    uid: 'shard-uid',
    key: 'drain-step/shard-uid/pod-uid',
    state: 'finished',
    generation: 3,
    attempt: 0,
    since: '2026-01-01T00:00:00Z',
    reason: 'MemberMayGo',
    wake: { every: 5 },
    data: { podUid: 'pod-uid' },
    ...change,
  };
}

export function aTarget(record: StepRecord | null): KubeObject<'Shard'> {
  return {
    metadata: {
      name: 'orders',
      namespace: 'db',
      uid: 'shard-uid',
      resourceVersion: '7',
      generation: 3,
      annotations: record === null ? {} : { 'step.millrace.dev/drain-step': recordText(record) },
    },
  } as KubeObject<'Shard'> & Shard;
}

export function advance(next: StepRecord | null, previous: StepRecord | null): Effect<'advance'> {
  return {
    kind: 'advance',
    record: next,
    guard: {
      uid: 'shard-uid',
      generation: 3,
      previous: previous === null ? null : recordText(previous),
    },
  };
}

export const deletePod: Effect<'deleteObject'> = {
  kind: 'deleteObject',
  object: { kind: 'Pod', namespace: 'db', name: 'orders-2' },
  guard: {
    uid: 'pod-uid',
    resourceVersion: '100',
    recordKey: 'drain-step/shard-uid/pod-uid',
  },
};

export interface WriterAnswers {
  readonly swapAnnotation?: WriteResult;
  readonly applyStatus?: WriteResult;
  readonly mergePatch?: WriteResult;
  readonly delete?: WriteResult;
  readonly retire?: WriteResult;
  readonly remove?: WriteResult;
  readonly put?: WriteResult;
  /** To each batch of shards, in their order; written where there is none. */
  readonly shards?: readonly ShardsWritten[];
  readonly switchPrimary?: SendResult;
  readonly startBackup?: StartResult;
  /** What stands under the name that is to be created. */
  readonly standing?: Read<JsonObject>;
  /** Thrown by each create. */
  readonly createFails?: Error;
}

/** A port that writes nowhere and tells what it was asked, each argument as it was at that moment, the signal aside. */
export function aWriter(answers: WriterAnswers = {}) {
  const calls: unknown[][] = [];
  const left = [...(answers.shards ?? [])];
  const record =
    (name: string, answer: WriteResult = written) =>
    async (...given: unknown[]) => {
      calls.push([name, ...structuredClone(given.slice(0, -1))]);
      return answer;
    };
  const writers: Writers = {
    kube: {
      get: async () => absent,
      swapAnnotation: record('swapAnnotation', answers.swapAnnotation),
      mergePatch: record('mergePatch', answers.mergePatch),
      applyStatus: record('applyStatus', answers.applyStatus),
      create: async <K extends ResourceKind>(...given: unknown[]) => {
        await record('create')(...given);
        if (answers.createFails !== undefined) {
          throw answers.createFails;
        }
        return answers.standing === undefined
          ? written
          : { kind: 'exists', object: answers.standing as Read<KubeObject<K>> };
      },
      delete: record('delete', answers.delete),
    },
    topology: async (database) => {
      calls.push(['topology', database]);
      return {
        retire: record('retire', answers.retire),
        remove: record('remove', answers.remove),
        rewriteDatabase: record('rewriteDatabase'),
      };
    },
    goverse: async (cluster) => {
      calls.push(['goverse', cluster]);
      return {
        writeShards: async (batch) => {
          calls.push(['writeShards', batch.map(({ shard }) => shard)]);
          return left.shift() ?? { kind: 'written', modRevision: '9' };
        },
      };
    },
    repository: async (database) => {
      calls.push(['repository', database]);
      return { put: record('put', answers.put) };
    },
    admin: async (database) => {
      calls.push(['admin', database]);
      return {
        switchPrimary: async (...given) => {
          calls.push(['switchPrimary', ...given.slice(0, -1)]);
          return answers.switchPrimary ?? { kind: 'sent', detail: '' };
        },
        startBackup: async (...given) => {
          calls.push(['startBackup', ...given.slice(0, -1)]);
          return answers.startBackup ?? { kind: 'started', job: 'a-job' };
        },
      };
    },
  };
  return { calls, writers };
}

export function anInvocation(change: Partial<Invocation> = {}): Invocation {
  return {
    clock: () => now,
    logger: createLogger('silent', {}),
    signal: new AbortController().signal,
    remainingMs: () => 30_000,
    ...change,
  };
}
