import * as z from 'zod';
import { type MetricDeclaration, stepMetrics } from '#shared/api/metrics.ts';
import { reasons } from '#shared/api/reasons.ts';
import { stepNames, sweepName } from '#shared/api/steps.ts';

/** Levels as they are used: `error` wants a person, `warn` may, `info` is the tale, `debug` is for whoever looks closer. */
type Level = 'debug' | 'info' | 'warn' | 'error';

/** Who writes a line. Its fields come before those of the line itself. */
export type LineWriter = 'step' | 'look' | 'sweep' | 'relay' | 'worker';

/** One kind of line, named by its constant message. */
export interface LogLine {
  readonly by: readonly LineWriter[];
  readonly levels: readonly Level[];
  /** What the line has besides what its writer always says. */
  readonly fields: z.ZodRawShape;
  readonly what: string;
}

const text = z.string();
const count = z.int().min(0);
const effects = z.array(z.string()).describe('the kinds of those that were written');
const why = z.string().describe('one sentence, never a stack');
const kind = z.string();
const namespace = z.string().optional();
const result = z.looseObject({ kind: z.string() });
const step = z.enum(stepNames);
const functionName = z.enum([...stepNames, sweepName]);
const labelFields = z.record(z.string(), z.string());

/** Which release wrote the line. */
const version = text.describe('the release');
/** Where a trace is there, the span that the line belongs to; without one of its own the trace alone. */
const traceFields = {
  trace_id: text.regex(/^[0-9a-f]{32}$/).optional(),
  span_id: text.regex(/^[0-9a-f]{16}$/).optional(),
};

/** What every function says in every line. */
const invocation = {
  cluster: text.describe('the cluster id'),
  version,
  requestId: text.describe('of the invocation'),
  coldStart: z.literal(true).optional().describe('its first invocation'),
};

/** What a writer says in every line of its own. */
export const writers: { readonly [Writer in LineWriter]: z.ZodRawShape } = {
  step: { step, ...invocation },
  look: {
    step,
    ...invocation,
    target: z.string().describe('`shd/<namespace>/<name>`'),
    hint: z.string().describe('its id: `<uid>/<version or tick>/<step>`'),
    ...traceFields,
  },
  sweep: { function: z.literal(sweepName), ...invocation },
  relay: { process: z.literal('relay'), cluster: text, version },
  worker: {
    component: z.literal('worker'),
    version,
    step: step.optional(),
    function: functionName.optional(),
  },
};

/** Every line there is, by its message. */
export const logLines: Readonly<Record<string, LogLine>> = {
  decision: {
    by: ['look'],
    levels: ['info'],
    fields: {
      outcome: z.enum(['settled', 'waiting', 'acting', 'blocked']),
      reason: z.enum([...reasons, 'TargetGone']),
      message: text,
      effects,
    },
    what: 'what one look concluded, and what was done',
  },
  event: {
    by: ['look'],
    levels: ['info', 'warn', 'error'],
    fields: { reason: text, message: text },
    what: 'what the Event says that is made at the same time',
  },
  counted: {
    by: ['look'],
    levels: ['info'],
    fields: { metric: z.enum(namesOf('counter')), count, labels: labelFields },
    what: 'what was counted with the record that accounts for it; each label is a field',
  },
  measured: {
    by: ['look'],
    levels: ['debug'],
    fields: {
      metric: z.enum(namesOf('gauge', 'histogram')),
      value: z.number(),
      labels: labelFields,
    },
    what: 'what stood at this look; each label is a field',
  },
  'race lost': {
    by: ['look'],
    levels: ['info'],
    fields: { reason: z.enum(reasons), why, effects },
    what: 'a guard no longer held; the look is made anew',
  },
  'shards written': {
    by: ['look'],
    levels: ['info'],
    fields: { shards: count, written: count, moved: count },
    what: 'how much of a batch of shards was written, and how many keys had moved',
  },
  'switchover asked for': {
    by: ['look'],
    levels: ['info'],
    fields: { result },
    what: 'what the data plane answered',
  },
  'backup asked for': {
    by: ['look'],
    levels: ['info'],
    fields: { result },
    what: 'what the data plane answered',
  },
  'Job asked for': {
    by: ['look'],
    levels: ['info'],
    fields: { result },
    what: 'what the API server answered',
  },
  'answer not recorded': {
    by: ['look'],
    levels: ['warn'],
    fields: { why },
    what: 'the record had moved on; later looks find out what became of the question',
  },
  'event not emitted': {
    by: ['look'],
    levels: ['warn'],
    fields: { reason: text, why },
    what: 'the API server took no Event; the line `event` says the same',
  },
  'look to be repeated': {
    by: ['look'],
    levels: ['warn'],
    fields: { reason: text, why, afterSeconds: z.number() },
    what: 'something did not answer, or races were lost; the message comes again',
  },
  'look ended for good': {
    by: ['look'],
    levels: ['error'],
    fields: { reason: text, why },
    what: 'what was refused will be refused again; nobody tries before something changes',
  },
  'look failed': {
    by: ['look'],
    levels: ['error'],
    fields: {
      reason: z.enum(['EffectRefused', 'Unexpected']),
      err: z.looseObject({ type: text, message: text, stack: text }),
      afterSeconds: z.number(),
    },
    what: 'a defect, or something nobody foresaw; tried again until the dead-letter queue',
  },
  'hint refused': {
    by: ['step'],
    levels: ['error'],
    fields: { messageId: text, reason: z.literal('HintRefused'), why },
    what: 'no hint, or none for this function; it is kept for inspection',
  },
  'trace context ignored': {
    by: ['look', 'relay'],
    levels: ['debug'],
    fields: { kind: kind.optional(), namespace, name: text.optional(), why },
    what: 'the `traceparent` of a hint or of an annotation is none; the work goes on without',
  },
  'looks not recorded': {
    by: ['step'],
    levels: ['warn'],
    fields: { looks: count, why },
    what: 'so many looks are not in the archive; they stand all the same',
  },
  'hints not recorded': {
    by: ['relay'],
    levels: ['warn'],
    fields: { hints: count, why },
    what: 'so many hints are not in the archive; they were sent all the same',
  },
  'traces not exported': {
    by: ['step', 'relay'],
    levels: ['warn'],
    fields: { why },
    what: 'spans are lost, and nothing else; said once for each outage of the collector',
  },
  'visibility not changed': {
    by: ['step'],
    levels: ['warn'],
    fields: { messageId: text, why },
    what: 'a message could not be given back early; it comes again after the queue’s own time',
  },
  swept: {
    by: ['sweep'],
    levels: ['info'],
    fields: sweptFields(),
    what: 'one sweep in numbers',
  },
  'swept in part': {
    by: ['sweep'],
    levels: ['error'],
    fields: { ...sweptFields(), missing: z.array(text) },
    what: 'the same, and what could not be read or sent',
  },
  listed: {
    by: ['relay'],
    levels: ['info'],
    fields: { kind, namespace, how: z.enum(['stream', 'pages']), objects: count, gaps: count },
    what: 'a complete list, and how many objects only it told of',
  },
  resync: {
    by: ['relay'],
    levels: ['info'],
    fields: { hints: count },
    what: 'every target is owed a look',
  },
  'history is gone, listing anew': {
    by: ['relay'],
    levels: ['info'],
    fields: { kind, namespace, where: text },
    what: 'the API server answered 410',
  },
  'watch went silent': {
    by: ['relay'],
    levels: ['warn'],
    fields: { kind, namespace },
    what: 'nothing was heard for too long; the watch is begun anew',
  },
  'watch failed': {
    by: ['relay'],
    levels: ['warn'],
    fields: { kind, namespace, why },
    what: 'a list or a watch broke; it is tried again',
  },
  'hint sent': {
    by: ['relay'],
    levels: ['debug'],
    fields: {
      step,
      cause: text,
      kind,
      namespace,
      name: text,
      uid: text,
      token: text,
      ...traceFields,
    },
    what: 'the queue has acknowledged it',
  },
  'wake is due': {
    by: ['relay'],
    levels: ['debug'],
    fields: { step },
    what: 'a record asked for it',
  },
  'target hints too often': {
    by: ['relay'],
    levels: ['debug'],
    fields: { step, kind, namespace, name: text, uid: text },
    what: 'its hint is held back for a second',
  },
  'send failed': {
    by: ['relay'],
    levels: ['warn'],
    fields: { step, hints: count, why },
    what: 'a batch was not wholly acknowledged; what is owed is sent again',
  },
  'hint cannot be sent': {
    by: ['relay'],
    levels: ['error'],
    fields: { step, target: z.looseObject({}), cause: text, token: text, why },
    what: 'no queue could take it: a name beyond what the API admits',
  },
  leading: {
    by: ['relay'],
    levels: ['info'],
    fields: { lease: text },
    what: 'this relay sends from here on',
  },
  'standing by': {
    by: ['relay'],
    levels: ['info', 'warn'],
    fields: { lease: text, holder: text.nullable().optional(), why: text.optional() },
    what: 'another one sends; a warning where that one is of another release',
  },
  'lease cannot be had': {
    by: ['relay'],
    levels: ['warn'],
    fields: { lease: text, why },
    what: 'the Lease could not be read or written',
  },
  stopped: {
    by: ['relay'],
    levels: ['info'],
    fields: { isAllSent: z.boolean() },
    what: 'the relay ends',
  },
  'stopped at once, what was owed is not sent': {
    by: ['relay'],
    levels: ['warn'],
    fields: {},
    what: 'a second signal came',
  },
  'invocation failed': {
    by: ['worker'],
    levels: ['error'],
    fields: { requestId: text, why: text },
    what: 'a function threw, timed out or crashed; its messages come again',
  },
  'answer refused': {
    by: ['worker'],
    levels: ['error'],
    fields: { requestId: text, why },
    what: 'a function’s answer was none; its messages come again',
  },
  'batch processed': {
    by: ['worker'],
    levels: ['debug'],
    fields: { requestId: text, messages: count, failed: count },
    what: 'a batch is done',
  },
  'schedule processed': {
    by: ['worker'],
    levels: ['debug'],
    fields: { requestId: text },
    what: 'a sweep is done',
  },
  'message not deleted': {
    by: ['worker'],
    levels: ['warn'],
    fields: { requestId: text, why },
    what: 'it comes again, which is one more look',
  },
  'messages not deleted': {
    by: ['worker'],
    levels: ['warn'],
    fields: { requestId: text, why },
    what: 'they come again, which is one more look',
  },
  'queue unreachable': {
    by: ['worker'],
    levels: ['warn', 'debug'],
    fields: { why, failuresInARow: count },
    what: 'an outage is told of once, and of each try at the level debug',
  },
  'port of the metrics taken, another one is used': {
    by: ['worker'],
    levels: ['warn'],
    fields: { why },
    what: 'the line with `ready` says which',
  },
};

/** What every line begins with. */
const common = {
  at: z.iso.datetime().describe('UTC, in milliseconds'),
  level: text,
  msg: z.string().describe('a constant: what the table is sorted by'),
};

/** A line of the log as it was parsed, or the sentence what is wrong with it. */
export function problemOf(line: unknown): string | undefined {
  const known = z.looseObject({ msg: z.string() }).safeParse(line);
  if (!known.success) {
    return 'it has no message';
  }
  const { msg } = known.data;
  const declared = logLines[msg];
  if (declared === undefined) {
    return `no line is called ${msg}`;
  }
  const problems = declared.by.map((writer) => shapeOf(declared, writer, known.data));
  return problems.includes(undefined) ? undefined : `${msg}: ${problems.join('; ')}`;
}

function shapeOf(
  declared: LogLine,
  writer: LineWriter,
  line: Readonly<Record<string, unknown>>,
): string | undefined {
  const { labels, ...fields } = declared.fields;
  const own = labels === undefined ? fields : { ...fields, ...labelsOf(String(line['metric'])) };
  const parsed = z
    .strictObject({ ...common, level: z.enum(declared.levels), ...writers[writer], ...own })
    .safeParse(line);
  return parsed.success
    ? undefined
    : parsed.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`).join(', ');
}

function labelsOf(metric: string): z.ZodRawShape {
  const declared: Readonly<Record<string, MetricDeclaration>> = stepMetrics;
  return Object.fromEntries((declared[metric]?.labels ?? []).map((label) => [label, text]));
}

function namesOf(...kinds: MetricDeclaration['kind'][]): string[] {
  return Object.entries(stepMetrics).flatMap(([name, { kind: of }]) =>
    kinds.includes(of) ? [name] : [],
  );
}

function sweptFields(): z.ZodRawShape {
  return {
    targets: count,
    overdue: z.partialRecord(step, count),
    sent: count,
    failed: count,
    seconds: z.number(),
  };
}
