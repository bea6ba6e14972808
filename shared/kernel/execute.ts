import { createHash } from 'node:crypto';
import { recordAnnotation } from '#shared/api/annotations.ts';
import type { AdminWriter, StartResult } from '#shared/admin/admin.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import type { KubeReader, KubeWriter, WriteResult } from '#shared/kube/kube.ts';
import {
  type KubeObject,
  type ObjectRef,
  type ResourceKind,
  apiVersionOf,
} from '#shared/kube/resources.ts';
import type { GoverseWriter } from '#shared/goverse/goverse.ts';
import type { RepositoryWriter } from '#shared/repository/repository.ts';
import type { TopologyWriter } from '#shared/topology/topology.ts';
import type { Count, Decision } from './decision.ts';
import {
  type DatabaseRef,
  type Effect,
  type EffectKind,
  type GoverseClusterRef,
  type WritePermission,
  answerPlace,
  isDestructive,
  maxAnswerLength,
} from './effect.ts';
import { RefusedEffect, RetryableError, TerminalError, describeError } from './errors.ts';
import { type Clock, type Instant, toText } from './instant.ts';
import type { Logger } from './logger.ts';
import { type StepRecord, maxRecordBytes, recordText, wakeOf } from './record.ts';
import type { StepDeclaration } from './step.ts';
import { type Attributes, type Tracer, silentTracer } from './trace.ts';
import { refuseBrokenWrites, writeShards } from './write-shards.ts';

/** Everything that can write. Held by the executor alone. */
export interface Writers {
  readonly kube: KubeWriter & Pick<KubeReader, 'get'>;
  topology(database: DatabaseRef, signal: AbortSignal): Promise<TopologyWriter>;
  goverse(cluster: GoverseClusterRef, signal: AbortSignal): Promise<GoverseWriter>;
  admin(database: DatabaseRef, signal: AbortSignal): Promise<AdminWriter>;
  repository(database: DatabaseRef, signal: AbortSignal): Promise<RepositoryWriter>;
}

/** The invocation an execution runs in. */
export interface Invocation {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Milliseconds until the platform ends this invocation. */
  remainingMs(): number;
  /** Told what is counted, as soon as the record that accounts for it is written. */
  readonly onCounts?: (counts: readonly Count[]) => void;
  /** Where each effect's span goes; nowhere when absent. */
  readonly tracer?: Tracer;
}

export type Execution =
  | { readonly kind: 'done'; readonly effects: readonly EffectKind[] }
  /** A guard no longer held: the view is old. Effects before it were written and are safe under the record. */
  | { readonly kind: 'lostRace'; readonly why: string; readonly effects: readonly EffectKind[] };

/** What an effect may take at most, in milliseconds: it does not start with less time left than this. */
const budgetMs: { readonly [K in EffectKind]: number } = {
  advance: 3_000,
  patchObject: 3_000,
  applyStatus: 3_000,
  createObject: 3_000,
  emitEvent: 2_000,
  deleteObject: 3_000,
  topologyTxn: 8_000,
  // Each of its transactions looks again how much time is left.
  writeShards: 8_000,
  putRepositoryObject: 8_000,
  switchPrimary: 10_000,
  // The request itself, and the record's write with its answer.
  startBackup: 12_000,
  startJob: 6_000,
};

/** What this invocation knows of the target after its own writes. */
interface TargetState {
  readonly ref: ObjectRef;
  readonly uid: string;
  readonly generation: number;
  resourceVersion: string;
  hasAnnotations: boolean;
  /** The record in force: as read, or as this invocation last wrote it. */
  record: string | null;
}

/**
 * Performs a decision's effects in order, each under its guard. The only code that writes.
 *
 * The whole decision is checked before its first write, so that a defect in a step changes nothing.
 *
 * @throws RefusedEffect for a decision that breaks a rule; TerminalError and RetryableError from the adapters
 */
export async function execute(
  step: StepDeclaration,
  target: KubeObject<ResourceKind>,
  decision: Decision,
  writers: Writers,
  invocation: Invocation,
): Promise<Execution> {
  const effects: readonly Effect[] = decision.effects;
  const state = stateOf(step, target);
  refuseBrokenDecision(step, state, decision, effects);

  const done: EffectKind[] = [];
  for (const effect of effects) {
    if (invocation.remainingMs() < budgetMs[effect.kind]) {
      throw new RetryableError('OutOfTime', `too little time is left for ${effect.kind}`, {
        afterSeconds: 1,
      });
    }
    const result = await performTraced(step, effect, state, writers, invocation);
    if (result.kind === 'lostRace') {
      return { kind: 'lostRace', why: result.why, effects: done };
    }
    if (effect.kind === 'advance' && !done.includes('advance')) {
      tellCounts(decision, invocation);
    }
    done.push(effect.kind);
  }
  return { kind: 'done', effects: done };
}

/**
 * The record that accounts for them is written: nobody will count them again, whatever becomes of the effects behind it.
 */
function tellCounts({ counts = [] }: Decision, { logger, onCounts }: Invocation): void {
  onCounts?.(counts);
  for (const { metric, labels, count } of counts) {
    logger.info({ metric, ...labels, count }, 'counted');
  }
}

/** Says on the target that a look ended for good: nobody will try again until something changes. */
export async function emitFailure(
  step: StepDeclaration,
  target: KubeObject<ResourceKind>,
  error: TerminalError,
  writers: Writers,
  invocation: Invocation,
): Promise<void> {
  const event: Effect<'emitEvent'> = {
    kind: 'emitEvent',
    type: 'Warning',
    reason: error.reason,
    message: error.message,
  };
  await emitEvent(step.name, event, stateOf(step, target), writers, invocation);
}

function stateOf(step: StepDeclaration, target: KubeObject<ResourceKind>): TargetState {
  return {
    ref: refOf(step.target, target),
    uid: target.metadata.uid,
    generation: target.metadata.generation ?? 0,
    resourceVersion: target.metadata.resourceVersion,
    hasAnnotations: Object.keys(target.metadata.annotations ?? {}).length > 0,
    record: target.metadata.annotations?.[recordAnnotation(step.name)] ?? null,
  };
}

function refuseBrokenDecision(
  step: StepDeclaration,
  state: TargetState,
  decision: Decision,
  effects: readonly Effect[],
): void {
  let record = state.record;
  effects.forEach((effect, position) => {
    const kind = 'object' in effect ? effect.object.kind : undefined;
    const declared = step.writes.filter(
      (write) => write.effect === effect.kind && (kind === undefined || write.kind === kind),
    );
    if (declared.length === 0) {
      throw new RefusedEffect(
        `${step.name} does not declare ${effect.kind}${kind === undefined ? '' : ` of ${kind}`}`,
      );
    }
    if (effect.kind === 'patchObject' && !declared.some((write) => covers(write, effect))) {
      throw new RefusedEffect(
        `${step.name} declares a patch of ${effect.object.kind} that writes less than this one`,
      );
    }
    if (isDestructive(effect)) {
      if (decision.outcome !== 'acting' || position !== effects.length - 1) {
        throw new RefusedEffect(
          `${effect.kind} must be the last effect of an acting decision, and the only one of its sort`,
        );
      }
      refuseUnauthorised(effect, record);
    }
    if (effect.kind === 'writeShards') {
      refuseBrokenWrites(effect);
    }
    if (effect.kind === 'startBackup' || effect.kind === 'startJob') {
      refuseBrokenAnswers(step, effect, state.uid);
    }
    if (effect.kind === 'advance') {
      refuseBrokenAdvance(step, effect, state.uid, record);
      record = effect.record === null ? null : recordText(effect.record);
    } else if ('guard' in effect) {
      refuseEmptyGuard(effect);
    }
  });
  refuseSleeplessWait(decision, record);
}

/** Where a declaration names annotations, a patch writes some of these and nothing else. */
function covers({ annotations }: WritePermission, { patch }: Effect<'patchObject'>): boolean {
  if (annotations === undefined) {
    return true;
  }
  const { metadata = {}, ...beside } = patch;
  const { annotations: written = {}, ...other } = metadata as JsonObject;
  return (
    Object.keys({ ...beside, ...other }).length === 0 &&
    Object.keys(written as JsonObject).every((key) => annotations.includes(key))
  );
}

function refuseBrokenAdvance(
  step: StepDeclaration,
  effect: Effect<'advance'>,
  uid: string,
  record: string | null,
): void {
  if (effect.guard.uid !== uid || effect.guard.previous !== record) {
    throw new RefusedEffect(
      'advance must be guarded by the uid and the record that this look read',
    );
  }
  if (effect.record === null) {
    return;
  }
  refuseBrokenRecord(step, effect.record, uid, 0);
}

/** @param answerLength room that an answer will take, in characters */
function refuseBrokenRecord(
  step: StepDeclaration,
  record: StepRecord,
  uid: string,
  answerLength: number,
): void {
  if (record.uid !== uid || !record.key.startsWith(`${step.name}/${uid}/`)) {
    throw new RefusedEffect(`the record's key ${record.key} does not name this step and target`);
  }
  const bytes = Buffer.byteLength(recordText(record)) + answerLength;
  const mostBytes = step.recordBytes ?? maxRecordBytes;
  if (bytes > mostBytes) {
    throw new RefusedEffect(`the record has ${bytes} bytes, ${mostBytes} are the most`);
  }
}

/** An answer goes where a record has one place for it, and into the record that authorised the question alone. */
function refuseBrokenAnswers(
  step: StepDeclaration,
  { answered, guard }: Effect<'startBackup' | 'startJob'>,
  uid: string,
): void {
  for (const record of [answered.started, answered.refused]) {
    refuseBrokenRecord(step, record, uid, maxAnswerLength);
    const places = recordText(record).split(JSON.stringify(answerPlace)).length - 1;
    if (record.key !== guard.recordKey || places !== 1) {
      throw new RefusedEffect('an answer must go into one place of the record that it authorises');
    }
  }
}

/** A destructive effect happens only under a record in force that names what it is about. */
function refuseUnauthorised(effect: Effect, record: string | null): void {
  if (!('guard' in effect) || !('recordKey' in effect.guard)) {
    throw new RefusedEffect(`${effect.kind} has no authorising record`);
  }
  const { guard } = effect;
  const named = 'uid' in guard ? guard.uid : guard.recordKey;
  if (
    record === null ||
    guard.recordKey === '' ||
    keyOf(record) !== guard.recordKey ||
    named === '' ||
    !record.includes(named)
  ) {
    throw new RefusedEffect(`the record in force does not authorise ${effect.kind}`);
  }
  if (
    effect.kind === 'topologyTxn' &&
    effect.operation.kind === 'removePooler' &&
    !guard.recordKey.endsWith(`/${effect.guard.modRevision}`)
  ) {
    throw new RefusedEffect('the record in force does not name the revision that is to be deleted');
  }
}

function refuseEmptyGuard(effect: Effect & { readonly guard: object }): void {
  const parts = Object.values(effect.guard);
  if (
    parts.length === 0 ||
    parts.some((part) => part === '' || part === undefined || part === null)
  ) {
    throw new RefusedEffect(`${effect.kind} has an empty guard`);
  }
}

/** Whoever waits must be woken: the relay reads the wake from the record. A record nobody can read is left as it is. */
function refuseSleeplessWait(decision: Decision, record: string | null): void {
  if (decision.outcome !== 'waiting' && decision.outcome !== 'blocked') {
    return;
  }
  if (decision.reason === 'RecordUnreadable') {
    return;
  }
  const wake = record === null ? undefined : wakeOf(record);
  if (JSON.stringify(wake) !== JSON.stringify(decision.wake)) {
    throw new RefusedEffect(
      `${decision.outcome} for ${decision.reason}, but no record in force carries its wake`,
    );
  }
}

function keyOf(record: string): string | undefined {
  try {
    const body: unknown = JSON.parse(record);
    return typeof body === 'object' &&
      body !== null &&
      'key' in body &&
      typeof body.key === 'string'
      ? body.key
      : undefined;
  } catch {
    return undefined;
  }
}

function performTraced(
  step: StepDeclaration,
  effect: Effect,
  state: TargetState,
  writers: Writers,
  invocation: Invocation,
): Promise<WriteResult> {
  const { tracer = silentTracer } = invocation;
  return tracer.run(effect.kind, { attributes: attributesOf(effect) }, () =>
    perform(step, effect, state, writers, invocation),
  );
}

/** What is written to, never what is written. */
function attributesOf(effect: Effect): Attributes {
  return {
    'millrace.effect': effect.kind,
    ...('object' in effect
      ? { 'millrace.object.kind': effect.object.kind, 'millrace.object.name': effect.object.name }
      : {}),
  };
}

async function perform(
  step: StepDeclaration,
  effect: Effect,
  state: TargetState,
  writers: Writers,
  invocation: Invocation,
): Promise<WriteResult> {
  const { signal } = invocation;
  const stepName = step.name;
  switch (effect.kind) {
    case 'advance': {
      const next = effect.record === null ? null : recordText(effect.record);
      return swapRecord(stepName, next, effect.guard, state, writers, signal);
    }
    case 'applyStatus': {
      const guard = { uid: state.uid, resourceVersion: state.resourceVersion };
      const result = await writers.kube.applyStatus(
        state.ref,
        effect.status,
        stepName,
        guard,
        signal,
      );
      if (result.kind === 'written') {
        state.resourceVersion = result.resourceVersion;
      }
      return result;
    }
    case 'patchObject':
      return writers.kube.mergePatch(effect.object, effect.patch, effect.guard, signal);
    case 'createObject':
      return create(effect, writers, signal);
    case 'emitEvent':
      return emitEvent(stepName, effect, state, writers, invocation);
    case 'deleteObject':
      return writers.kube.delete(effect.object, effect.guard, signal);
    case 'topologyTxn': {
      const topology = await writers.topology(effect.database, signal);
      return changeTopology(effect, topology, signal);
    }
    case 'writeShards': {
      const goverse = await writers.goverse(effect.cluster, signal);
      return writeShards(effect, goverse, invocation);
    }
    case 'putRepositoryObject': {
      const repository = await writers.repository(effect.database, signal);
      return repository.put(effect.key, effect.text, effect.guard, signal);
    }
    case 'switchPrimary':
      return switchPrimary(effect, writers, invocation);
    case 'startBackup':
      return startBackup(stepName, effect, state, writers, invocation);
    case 'startJob':
      return startJob(stepName, effect, state, writers, invocation);
  }
}

async function swapRecord(
  stepName: StepDeclaration['name'],
  next: string | null,
  guard: Effect<'advance'>['guard'],
  state: TargetState,
  writers: Writers,
  signal: AbortSignal,
): Promise<WriteResult> {
  const change = { key: recordAnnotation(stepName), next, ...guard };
  const result = await writers.kube.swapAnnotation(state.ref, change, state, signal);
  if (result.kind === 'written') {
    state.record = next;
    state.resourceVersion = result.resourceVersion;
    state.hasAnnotations = true;
  }
  return result;
}

async function create(
  effect: Pick<Effect<'createObject'>, 'object' | 'manifest'>,
  writers: Writers,
  signal: AbortSignal,
): Promise<WriteResult> {
  const result = await writers.kube.create(effect.object, effect.manifest, signal);
  if (result.kind !== 'exists') {
    return result;
  }
  if (
    result.object.kind === 'present' &&
    isSameOwner(effect.manifest, result.object.value.metadata)
  ) {
    return { kind: 'written', resourceVersion: result.object.value.metadata.resourceVersion };
  }
  return {
    kind: 'lostRace',
    why: `${effect.object.kind} ${effect.object.name} exists and is not the one to create`,
  };
}

interface Ownership {
  readonly labels?: { readonly [key: string]: string };
  readonly ownerReferences?: readonly { readonly uid: string; readonly controller?: boolean }[];
}

/** Ours: the same controller, or where there is none by design every label of the manifest. */
function isSameOwner(manifest: JsonObject, existing: object): boolean {
  const wanted = (manifest['metadata'] ?? {}) as Ownership;
  const found = existing as Ownership;
  const controller = (owned: Ownership) =>
    owned.ownerReferences?.find((owner) => owner.controller === true)?.uid;
  return (
    controller(wanted) === controller(found) &&
    Object.entries(wanted.labels ?? {}).every(([key, value]) => found.labels?.[key] === value)
  );
}

function changeTopology(
  { operation, guard }: Effect<'topologyTxn'>,
  topology: TopologyWriter,
  signal: AbortSignal,
): Promise<WriteResult> {
  switch (operation.kind) {
    case 'retirePooler':
      return topology.retire(operation, guard.modRevision, signal);
    case 'removePooler':
      return topology.remove(operation, guard.modRevision, signal);
    case 'rewriteDatabase': {
      const { name, change } = operation;
      return topology.rewriteDatabase(name, change, guard.modRevision, signal);
    }
  }
}

/** Asks once. An unknown outcome ends the invocation: the next one looks before anything else. */
async function switchPrimary(
  effect: Effect<'switchPrimary'>,
  writers: Writers,
  invocation: Invocation,
): Promise<WriteResult> {
  const admin = await writers.admin(effect.database, invocation.signal);
  refuseLateSend('the switchover', effect.guard.sendBy, invocation);
  const result = await admin.switchPrimary(effect.shard, effect.reason, invocation.signal);
  invocation.logger.info({ result }, 'switchover asked for');
  return { kind: 'written', resourceVersion: '' };
}

/**
 * Asks once, and writes the answer into the record that authorised it. Where that record has moved on, or there was no
 * answer, the record stays as it is, and the looks that follow find out what became of the question.
 */
async function startBackup(
  stepName: StepDeclaration['name'],
  effect: Effect<'startBackup'>,
  state: TargetState,
  writers: Writers,
  invocation: Invocation,
): Promise<WriteResult> {
  const { logger, signal } = invocation;
  const admin = await writers.admin(effect.database, signal);
  refuseLateSend('the backup', effect.guard.sendBy, invocation);
  const result = await admin.startBackup(effect.shard, effect.type, signal);
  logger.info({ result }, 'backup asked for');
  return recordAnswer(stepName, effect, result, state, writers, invocation);
}

/** Makes the Job once. Without an answer the looks that follow find out by its name whether it is there. */
async function startJob(
  stepName: StepDeclaration['name'],
  effect: Effect<'startJob'>,
  state: TargetState,
  writers: Writers,
  invocation: Invocation,
): Promise<WriteResult> {
  refuseLateSend('the Job', effect.guard.sendBy, invocation);
  const result = await makeJob(effect, writers, invocation.signal);
  invocation.logger.info({ result }, 'Job asked for');
  return recordAnswer(stepName, effect, result, state, writers, invocation);
}

async function makeJob(
  effect: Effect<'startJob'>,
  writers: Writers,
  signal: AbortSignal,
): Promise<StartResult> {
  try {
    const made = await create(effect, writers, signal);
    return made.kind === 'written'
      ? { kind: 'started', job: effect.object.name }
      : { kind: 'unknown', why: made.why };
  } catch (error) {
    const isRefusal =
      error instanceof TerminalError ||
      (error instanceof RetryableError && error.reason === 'WriteForbidden');
    if (!isRefusal) {
      throw error;
    }
    // An answer is short, and that it is about this Job goes without saying.
    return { kind: 'refused', why: error.message.replace(/^writing [^:]+: /, '') };
  }
}

async function recordAnswer(
  stepName: StepDeclaration['name'],
  { answered }: Effect<'startBackup' | 'startJob'>,
  result: StartResult,
  state: TargetState,
  writers: Writers,
  { logger, signal }: Invocation,
): Promise<WriteResult> {
  if (result.kind !== 'unknown') {
    const { uid, generation, record: previous } = state;
    const [record, answer] =
      result.kind === 'started' ? [answered.started, result.job] : [answered.refused, result.why];
    const written = await swapRecord(
      stepName,
      withAnswer(record, answer),
      { uid, generation, previous },
      state,
      writers,
      signal,
    );
    if (written.kind === 'lostRace') {
      logger.warn({ why: written.why }, 'answer not recorded');
    }
  }
  return { kind: 'written', resourceVersion: state.resourceVersion };
}

/** Only characters that JSON writes as they are, so that the length is known before. */
function withAnswer(record: StepRecord, answer: string): string {
  const plain = answer.replaceAll(/[^ !#-[\]-~]/g, '?').slice(0, maxAnswerLength);
  return recordText(record).replace(JSON.stringify(answerPlace), () => JSON.stringify(plain));
}

function refuseLateSend(what: string, sendBy: Instant, { clock }: Invocation): void {
  if (clock() >= sendBy) {
    throw new RetryableError(
      'SendByPassed',
      `${what} was to be asked for before ${toText(sendBy)}`,
    );
  }
}

/**
 * Best effort, after a line in the log, which outlives it. The name is made from what the Event says, so that a repeated
 * look does not say it twice.
 */
async function emitEvent(
  stepName: string,
  effect: Effect<'emitEvent'>,
  state: TargetState,
  writers: Writers,
  invocation: Invocation,
): Promise<WriteResult> {
  const { type, reason, message, level = type === 'Warning' ? 'warn' : 'info' } = effect;
  invocation.logger[level]({ reason, message }, 'event');
  const said = [
    stepName,
    state.uid,
    keyOf(state.record ?? '') ?? '',
    effect.reason,
    effect.message,
  ].join('\n');
  const name = `${state.ref.name}.${createHash('sha256').update(said).digest('hex').slice(0, 16)}`;
  const now = toText(invocation.clock());
  const ref: ObjectRef<'Event'> = {
    kind: 'Event',
    ...(state.ref.namespace === undefined ? {} : { namespace: state.ref.namespace }),
    name,
  };
  const manifest: JsonObject = {
    metadata: {
      name,
      ...(state.ref.namespace === undefined ? {} : { namespace: state.ref.namespace }),
    },
    involvedObject: {
      apiVersion: apiVersionOf(state.ref.kind),
      kind: state.ref.kind,
      name: state.ref.name,
      ...(state.ref.namespace === undefined ? {} : { namespace: state.ref.namespace }),
      uid: state.uid,
    },
    type: effect.type,
    reason: effect.reason,
    message: effect.message.slice(0, 1024),
    action: effect.reason,
    reportingComponent: 'millrace.dev',
    reportingInstance: stepName,
    source: { component: stepName },
    firstTimestamp: now,
    lastTimestamp: now,
    count: 1,
  };
  try {
    await writers.kube.create(ref, manifest, invocation.signal);
  } catch (error) {
    if (!(error instanceof TerminalError || error instanceof RetryableError)) {
      throw error;
    }
    invocation.logger.warn(
      { reason: error.reason, why: describeError(error) },
      'event not emitted',
    );
  }
  return { kind: 'written', resourceVersion: '' };
}

function refOf(kind: ResourceKind, object: KubeObject<ResourceKind>): ObjectRef {
  const { name, namespace } = object.metadata;
  return namespace === undefined ? { kind, name } : { kind, namespace, name };
}
