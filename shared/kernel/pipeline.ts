import type { SQSBatchItemFailure, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import pLimit from 'p-limit';
import * as z from 'zod';
import type { Hint } from '#events/hint.ts';
import { type KubeObject, type TargetKind, shortNames } from '#shared/kube/resources.ts';
import type { KubeReader } from '#shared/kube/kube.ts';
import { commaList, logLevel, readConfig } from './config.ts';
import { RefusedEffect, RetryableError, TerminalError, describeError } from './errors.ts';
import { type Invocation, type Writers, emitFailure, execute } from './execute.ts';
import { type Clock, parseInstant, wallClock } from './instant.ts';
import { type Logger, createLogger } from './logger.ts';
import { LookMeter } from './look-meter.ts';
import { type LookStory, OpenStory, type Recorder, recordLooks } from './look-story.ts';
import type { Ports } from './ports.ts';
import { readHint } from './read-hint.ts';
import { present } from './read.ts';
import { type SandboxParts, deadlineOf, inSandbox } from './sandbox.ts';
import type { Step } from './step.ts';
import { Meter, telemetryFrom, telemetryVariables } from './telemetry.ts';
import {
  type Attributes,
  type Origin,
  type Span,
  type Tracer,
  correlationOf,
  originOf,
  parseTraceparent,
  silentTracer,
} from './trace.ts';
import type { StepName } from '#shared/api/steps.ts';

/** What a handler is told by its environment. Documented in README.md, section Configuration. */
export const handlerConfigSchema = z.object({
  MILLRACE_CLUSTER_ID: z
    .string()
    .min(1, 'is missing: the id of the cluster whose hints this function accepts'),
  MILLRACE_NAMESPACES: commaList,
  MILLRACE_QUEUE_URL: z.url().optional(),
  MILLRACE_QUEUE_ENDPOINT: z.url().optional(),
  MILLRACE_LOG_LEVEL: logLevel,
  ...telemetryVariables,
});

export type HandlerConfig = z.infer<typeof handlerConfigSchema>;

/** What a handler talks to. Made once per sandbox, on the first invocation. */
export interface Outside {
  readonly kube: KubeReader;
  readonly ports: Ports;
  readonly writers: Writers;
  /** Makes a message visible again after so many seconds (SQS ChangeMessageVisibility). */
  changeVisibility(receiptHandle: string, seconds: number): Promise<void>;
  /** Where spans go; nowhere when absent. */
  readonly tracer?: Tracer;
  /** Where looks are written down; nowhere when absent. */
  readonly recorder?: Recorder;
}

export interface PipelineParts extends SandboxParts {
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly config: Pick<HandlerConfig, 'MILLRACE_CLUSTER_ID' | 'MILLRACE_NAMESPACES'>;
  readonly outside: Outside;
}

/** Makes a sandbox's clients from its environment; the step's name is what it calls itself towards others. */
export type Connect = (environment: NodeJS.ProcessEnv, stepName: StepName) => Promise<Outside>;

/** Targets of one batch that are looked at side by side. */
const targetsAtOnce = 5;

/** Looks within one invocation before a lost race gives the message back. */
const maxLooks = 3;

/** The wait after the first failure, in seconds; doubled with each further one, jittered, never above the limit. */
const backoffBaseSeconds = 5;
const backoffLimitSeconds = 300;

/** How long spans may take to be sent at the end of an invocation, in milliseconds, and what is kept free behind it. */
const flushMs = 1_000;
const flushReserveMs = 250;

/** What one look is made with. */
interface Look<Snapshot> extends Invocation {
  readonly tracer: Tracer;
  readonly told: LookMeter;
  /** What is recorded of it; nothing when absent. */
  readonly story?: OpenStory<Snapshot>;
}

/** What the looks of one batch have in common. */
interface Batch<Snapshot> {
  readonly deadline: AbortSignal;
  readonly remainingMs: () => number;
  readonly meter: Meter;
  /** Filled as looks end. */
  readonly stories: LookStory<Snapshot>[];
}

/** The messages of a batch about one target, with the hint that each of them is. */
interface Group {
  readonly hint: Hint;
  readonly others: Hint[];
  readonly messages: SQSRecord[];
}

/** How one message ended. */
type Ending =
  | { readonly kind: 'acknowledged' }
  | { readonly kind: 'returned'; readonly reason: string; readonly afterSeconds: number };

/**
 * The Lambda handler of a step: validates each hint, looks at every target of the batch once, and returns exactly
 * the messages that must come again.
 *
 * @param connect called on the first invocation
 */
export function createHandler<T extends TargetKind, Snapshot>(
  step: Step<T, Snapshot>,
  connect: Connect,
) {
  return inSandbox<SQSEvent, SQSBatchResponse, PipelineParts>(
    () => assemble(step.name, connect),
    async (event, remainingMs, parts) => {
      try {
        return await runBatch(step, event, remainingMs, parts);
      } finally {
        await flushTraces(parts, remainingMs);
      }
    },
  );
}

async function assemble(stepName: StepName, connect: Connect): Promise<PipelineParts> {
  const config = readConfig(handlerConfigSchema);
  return {
    clock: wallClock,
    random: Math.random,
    deadlineIn: (delayMs) => AbortSignal.timeout(delayMs),
    logger: createLogger(config.MILLRACE_LOG_LEVEL, {
      step: stepName,
      cluster: config.MILLRACE_CLUSTER_ID,
    }),
    telemetry: telemetryFrom(config),
    config,
    outside: await connect(process.env, stepName),
  };
}

/** What this invocation traced is sent before its sandbox is frozen. A collector that is away costs a second at most. */
async function flushTraces(
  { outside, logger }: PipelineParts,
  remainingMs: () => number,
): Promise<void> {
  const limitMs = Math.min(flushMs, remainingMs() - flushReserveMs);
  // Without time left they wait for the next invocation: that is no fault of the collector's.
  if (outside.tracer === undefined || limitMs <= 0) {
    return;
  }
  const why = await outside.tracer.flush(limitMs);
  if (why !== undefined) {
    logger.warn({ why }, 'traces not exported');
  }
}

/** Runs one batch. Exported for the worlds in which the same code is tested without Lambda. */
export async function runBatch<T extends TargetKind, Snapshot>(
  step: Step<T, Snapshot>,
  event: SQSEvent,
  remainingMs: () => number,
  parts: PipelineParts,
): Promise<SQSBatchResponse> {
  const meter = new Meter(parts.telemetry);
  const stories: LookStory<Snapshot>[] = [];
  const batch = { deadline: deadlineOf(parts, remainingMs), remainingMs, meter, stories };
  const limit = pLimit(targetsAtOnce);
  const endings = new Map<SQSRecord, Ending>();
  const byTarget = new Map<string, Group>();

  for (const message of event.Records) {
    const hint = readHint(message.body, step.target, parts.config);
    if (typeof hint === 'string') {
      // Never processed. It comes back until its dead-letter queue keeps it for inspection.
      parts.logger.error(
        { messageId: message.messageId, reason: 'HintRefused', why: hint },
        'hint refused',
      );
      meter.count('millrace_hints_refused_total', { step: step.name });
      endings.set(message, { kind: 'returned', reason: 'HintRefused', afterSeconds: 0 });
      continue;
    }
    const key = `${hint.data.namespace}/${hint.data.name}`;
    const group = byTarget.get(key);
    if (group === undefined) {
      byTarget.set(key, { hint, others: [], messages: [message] });
    } else {
      group.others.push(hint);
      group.messages.push(message);
    }
  }

  await Promise.all(
    [...byTarget.values()].map((group) =>
      limit(async () => {
        const ending = await lookTraced(step, group, batch, parts);
        group.messages.forEach((message) => endings.set(message, ending));
      }),
    ),
  );
  meter.tell();
  const batchItemFailures = await giveBack(event.Records, endings, parts);
  const { recorder } = parts.outside;
  if (recorder !== undefined) {
    await recordLooks(step, stories, recorder, { ...parts, remainingMs });
  }
  return { batchItemFailures };
}

/** The look as a span: a child of what caused its hint; hints that only share the look are linked. */
function lookTraced<T extends TargetKind, Snapshot>(
  step: Step<T, Snapshot>,
  group: Group,
  batch: Batch<Snapshot>,
  parts: PipelineParts,
): Promise<Ending> {
  const { hint, others } = group;
  const { parent, links } = originOfHint(hint, parts);
  const origin: Origin = {
    ...(parent === undefined ? {} : { parent }),
    links: [...links, ...others.flatMap(contextsIn)],
  };
  const { tracer = silentTracer } = parts.outside;
  return tracer.run(
    `${step.name} look`,
    { kind: 'consumer', origin, attributes: attributesOf(step.name, group) },
    (span) => lookUntilSettled(step, group, { span, origin }, batch, parts),
  );
}

/** Of a hint without a context, or with one that is none, nothing is known; the clock is not asked then. */
function originOfHint(hint: Hint, { clock }: Pick<PipelineParts, 'clock'>): Origin {
  const [context] = contextsIn(hint);
  return context === undefined
    ? { links: [] }
    : originOf({ context, at: parseInstant(hint.time) }, clock());
}

function contextsIn({ data: { traceparent } }: Hint) {
  const context = traceparent === undefined ? undefined : parseTraceparent(traceparent);
  return context === undefined ? [] : [context];
}

/** By OpenTelemetry's names, and by ours where it has none. */
function attributesOf(step: StepName, { hint, messages }: Group): Attributes {
  const { kind, namespace, name } = hint.data;
  return {
    'messaging.batch.message_count': messages.length,
    'cloudevents.event_id': hint.id,
    'cloudevents.event_type': hint.type,
    'k8s.namespace.name': namespace,
    'millrace.step': step,
    'millrace.target.kind': kind,
    'millrace.target.name': name,
  };
}

async function lookUntilSettled<T extends TargetKind, Snapshot>(
  step: Step<T, Snapshot>,
  { hint, messages }: Group,
  { span, origin }: { readonly span: Span; readonly origin: Origin },
  { deadline, remainingMs, meter, stories }: Batch<Snapshot>,
  parts: PipelineParts,
): Promise<Ending> {
  const { namespace, name } = hint.data;
  const logger = parts.logger.child({
    target: `${shortNames[step.target]}/${namespace}/${name}`,
    hint: hint.id,
    ...correlationOf(span, origin),
  });
  if (hint.data.traceparent !== undefined && contextsIn(hint).length === 0) {
    logger.debug({ why: 'the hint’s traceparent is none' }, 'trace context ignored');
  }
  const told = new LookMeter(meter, step.name, hint, span);
  const { recorder } = parts.outside;
  const story =
    recorder === undefined
      ? undefined
      : new OpenStory(hint, parts.clock, recorder.recorded, stories);
  const invocation: Look<Snapshot> = {
    ...(story === undefined ? {} : { story }),
    clock: parts.clock,
    logger,
    signal: deadline,
    remainingMs,
    onCounts: (counts) => told.counted(counts),
    tracer: parts.outside.tracer ?? silentTracer,
    told,
  };
  const attempt = Math.max(
    0,
    ...messages.map((message) => Number(message.attributes.ApproximateReceiveCount) - 1),
  );
  try {
    for (let look = 1; look <= maxLooks; look += 1) {
      if (await lookOnce(step, { namespace, name }, invocation, parts.outside)) {
        return { kind: 'acknowledged' };
      }
    }
    throw new RetryableError('LostRaces', `${maxLooks} looks in a row lost their race`, {
      afterSeconds: 1,
    });
  } catch (error) {
    told.failed(error);
    story?.failed(error);
    return endingOf(error, attempt, logger, parts.random);
  }
}

/** One look: observe, decide, execute. False when a guard no longer held and the look must be made anew. */
async function lookOnce<T extends TargetKind, Snapshot>(
  step: Step<T, Snapshot>,
  target: { readonly namespace: string; readonly name: string },
  invocation: Look<Snapshot>,
  outside: Outside,
): Promise<boolean> {
  const { logger, clock, signal, tracer, told, story } = invocation;
  const read = await outside.kube.get<T>({ kind: step.target, ...target }, signal);
  if (read.kind === 'absent') {
    logger.info(
      { outcome: 'settled', reason: 'TargetGone', message: 'the target is gone', effects: [] },
      'decision',
    );
    told.gone();
    return true;
  }
  if (read.kind === 'unknown') {
    throw new RetryableError('TargetUnknown', read.why);
  }
  const object: KubeObject<T> = read.value;
  story?.read(object.metadata.uid);
  const snapshot = await tracer.run('observe', {}, () =>
    step.observe(present(object), outside.ports, signal, clock),
  );
  const now = clock();
  const decision = step.decide(snapshot, now);
  story?.decided(snapshot, now, decision);
  const execution = await execute(step, object, decision, outside.writers, invocation).catch(
    async (error: unknown) => {
      if (error instanceof TerminalError) {
        await emitFailure(step, object, error, outside.writers, invocation);
      }
      throw error;
    },
  );
  const { outcome, reason, message } = decision;
  if (execution.kind === 'lostRace') {
    logger.info({ reason, why: execution.why, effects: execution.effects }, 'race lost');
    told.lostRace();
    story?.concluded('lostRace', execution.effects);
    return false;
  }
  logger.info({ outcome, reason, message, effects: execution.effects }, 'decision');
  told.concluded(decision);
  story?.concluded('done', execution.effects);
  for (const { metric, labels, value } of decision.gauges ?? []) {
    logger.debug({ metric, ...labels, value }, 'measured');
  }
  return true;
}

function endingOf(error: unknown, attempt: number, logger: Logger, random: () => number): Ending {
  if (error instanceof TerminalError) {
    logger.error({ reason: error.reason, why: error.message }, 'look ended for good');
    return { kind: 'acknowledged' };
  }
  const backoffSeconds = Math.ceil(
    random() * Math.min(backoffLimitSeconds, backoffBaseSeconds * 2 ** attempt),
  );
  if (error instanceof RetryableError) {
    const afterSeconds = error.afterSeconds ?? backoffSeconds;
    logger.warn({ reason: error.reason, why: error.message, afterSeconds }, 'look to be repeated');
    return { kind: 'returned', reason: error.reason, afterSeconds };
  }
  const reason = error instanceof RefusedEffect ? 'EffectRefused' : 'Unexpected';
  logger.error({ reason, err: error, afterSeconds: backoffSeconds }, 'look failed');
  return { kind: 'returned', reason, afterSeconds: backoffSeconds };
}

/** Sets each returned message's own visibility; where that fails, the queue's applies. */
async function giveBack(
  records: readonly SQSRecord[],
  endings: ReadonlyMap<SQSRecord, Ending>,
  parts: PipelineParts,
): Promise<SQSBatchItemFailure[]> {
  const failures: SQSBatchItemFailure[] = [];
  for (const message of records) {
    const ending = endings.get(message);
    if (ending?.kind === 'acknowledged') {
      continue;
    }
    failures.push({ itemIdentifier: message.messageId });
    try {
      await parts.outside.changeVisibility(
        message.receiptHandle,
        ending?.afterSeconds ?? backoffBaseSeconds,
      );
    } catch (error) {
      parts.logger.warn(
        { messageId: message.messageId, why: describeError(error) },
        'visibility not changed',
      );
    }
  }
  return failures;
}
