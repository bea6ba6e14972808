import type { Mutant } from './mutant.ts';

const executor = 'shared/kernel/execute.ts';
const pipeline = 'shared/kernel/pipeline.ts';
const hintReader = 'shared/kernel/read-hint.ts';
const record = 'shared/kernel/record.ts';

/** The executor, the pipeline around it, and what reads a record. */
export const kernelMutants: readonly Mutant[] = [
  {
    id: 'execute-budget-ignored',
    file: executor,
    find: 'if (invocation.remainingMs() < budgetMs[effect.kind]) {',
    replace: 'if (invocation.remainingMs() < 0 * budgetMs[effect.kind]) {',
    breaks: 'An effect starts with less time left than it may take.',
    expected: ['P6'],
  },
  {
    id: 'execute-lost-advance-goes-on',
    file: executor,
    find: "if (result.kind === 'lostRace') {",
    replace: "if (result.kind === 'lostRace' && effect.kind !== 'advance') {",
    breaks: 'The effects behind a record that another handler moved are performed all the same.',
    expected: ['X9', 'X2'],
  },
  {
    id: 'execute-lost-status-goes-on',
    file: executor,
    find: "if (result.kind === 'lostRace') {",
    replace: "if (result.kind === 'lostRace' && effect.kind !== 'applyStatus') {",
    breaks: 'What is guarded by the status being written first is made although the status lost.',
    expected: ['D13', 'S5', 'S2'],
  },
  {
    id: 'execute-effects-reversed',
    file: executor,
    find: 'for (const effect of effects) {',
    replace: 'for (const effect of effects.toReversed()) {',
    breaks: 'The effect that cannot be taken back is performed before its intent is recorded.',
    expected: ['X9'],
  },
  {
    id: 'execute-send-by-ignored',
    file: executor,
    find: 'if (clock() >= sendBy) {',
    replace: 'if (clock() < 0) {',
    breaks: 'A handler that was held up asks for a switchover long after its intent has expired.',
    expected: ['X9'],
  },
  {
    id: 'execute-switch-retried',
    file: executor,
    find: 'const result = await admin.switchPrimary(effect.shard, effect.reason, invocation.signal);',
    replace: `let result = await admin.switchPrimary(effect.shard, effect.reason, invocation.signal);
  if (result.kind === 'unknown') {
    result = await admin.switchPrimary(effect.shard, effect.reason, invocation.signal);
  }`,
    breaks: 'A switchover whose answer was lost is asked for again without a look.',
    expected: ['X9'],
  },
  {
    id: 'pipeline-failures-not-returned',
    file: pipeline,
    find: 'failures.push({ itemIdentifier: message.messageId });',
    replace: "parts.logger.info({ messageId: message.messageId }, 'given back');",
    breaks: 'A look that failed acknowledges its message.',
    expected: ['P4', 'X8'],
  },
  {
    id: 'pipeline-failure-by-receipt',
    file: pipeline,
    find: 'failures.push({ itemIdentifier: message.messageId });',
    replace: 'failures.push({ itemIdentifier: message.receiptHandle });',
    breaks: 'The failed messages are named by an id the queue does not know.',
    expected: ['P4'],
  },
  {
    id: 'pipeline-first-failure-only',
    file: pipeline,
    find: 'return { batchItemFailures };',
    replace: 'return { batchItemFailures: batchItemFailures.slice(0, 1) };',
    breaks: 'Of several failed messages of a batch one comes again.',
    expected: ['P4'],
  },
  {
    id: 'pipeline-refused-hint-acknowledged',
    file: pipeline,
    find: "endings.set(message, { kind: 'returned', reason: 'HintRefused', afterSeconds: 0 });",
    replace: "endings.set(message, { kind: 'acknowledged' });",
    breaks: 'A message that is no hint is deleted, so that no dead-letter queue ever keeps it.',
    expected: ['P3', 'P4'],
  },
  {
    id: 'pipeline-given-back-for-hours',
    file: pipeline,
    find: 'ending?.afterSeconds ?? backoffBaseSeconds,',
    replace: '(ending?.afterSeconds ?? backoffBaseSeconds) * 3_600,',
    breaks: 'Seconds are taken for hours: what failed once is looked at again tomorrow.',
    expected: ['X8', 'L1'],
  },
  {
    id: 'pipeline-same-target-twice',
    file: pipeline,
    find: 'const key = `${hint.data.namespace}/${hint.data.name}`;',
    replace: 'const key = message.messageId;',
    breaks: 'Two messages of a batch about one target are looked at side by side.',
    expected: ['X4', 'P1'],
  },
  {
    id: 'pipeline-looks-on',
    file: pipeline,
    find: 'if (await lookOnce(step, { namespace, name }, invocation, parts.outside)) {',
    replace:
      'if ((await lookOnce(step, { namespace, name }, invocation, parts.outside)) && look === maxLooks) {',
    breaks: 'An invocation goes on looking after it has done what it decided.',
    expected: ['X4'],
  },
  {
    id: 'pipeline-hint-is-a-fact',
    file: pipeline,
    find: 'const { namespace, name } = hint.data;',
    replace: `const { namespace, name } = hint.data;
  if (hint.type === 'dev.millrace.hint.deleted') {
    return { kind: 'acknowledged' };
  }`,
    breaks: "The message's word is taken for it that the target is gone.",
    expected: ['X5', 'P2'],
  },
  {
    id: 'pipeline-unknown-target-is-gone',
    file: pipeline,
    find: "throw new RetryableError('TargetUnknown', read.why);",
    replace:
      "logger.info({ reason: 'TargetUnknown', why: read.why }, 'decision');\n    return true;",
    breaks: 'A target that cannot be read is not looked at again.',
    expected: ['X8', 'L1'],
  },
  {
    id: 'pipeline-cluster-unchecked',
    file: hintReader,
    find: 'if (hint.source !== config.MILLRACE_CLUSTER_ID) {',
    replace: "if (hint.source === '') {",
    breaks: 'Hints of another cluster are followed.',
    expected: ['Z1'],
  },
  {
    id: 'pipeline-namespace-unchecked',
    file: hintReader,
    find: 'config.MILLRACE_NAMESPACES.length > 0 &&',
    replace: 'config.MILLRACE_NAMESPACES.length > 1_000 &&',
    breaks: 'Targets in namespaces that were not allowed are looked at.',
    expected: ['Z1', 'Z3'],
  },
  {
    id: 'pipeline-looks-not-awaited',
    file: pipeline,
    find: 'await Promise.all(\n    [...byTarget.values()]',
    replace: 'void Promise.all(\n    [...byTarget.values()]',
    breaks: 'The handler returns while its looks go on, in the next invocation of the sandbox.',
    expected: ['P6', 'P4'],
  },
  {
    id: 'record-foreign-kept',
    file: 'shared/kernel/own-record.ts',
    find: "return record.kind === 'foreign'\n",
    replace: "return record.kind === 'foreign' && record.uid === ''\n",
    breaks: 'A record that was copied from another object is not cleared.',
    expected: ['D9', 'X8'],
  },
  {
    id: 'record-foreign-obeyed',
    file: record,
    find: 'if (owner.success && owner.data.uid !== uid) {',
    replace: "if (owner.success && uid === '') {",
    breaks: 'A record that was copied from another object is obeyed.',
    expected: ['D9', 'X8'],
  },
  {
    id: 'record-unreadable-is-none',
    file: record,
    find: "return { kind: 'unreadable', text, why: firstProblem(parsed.error) };",
    replace:
      "return firstProblem(parsed.error) === '' ? { kind: 'foreign', text, uid } : { kind: 'none', text: null };",
    breaks: 'A record that this version cannot read counts as no record.',
    expected: ['D12', 'X8'],
  },
  {
    id: 'record-malformed-time-passes',
    file: 'functions/drain-step/before-return.ts',
    find: 'return since !== undefined && secondsBetween(since, now) >= settleSeconds\n',
    replace: 'return since === undefined || secondsBetween(since, now) >= settleSeconds\n',
    breaks: 'A malformed time in a record ends a wait instead of making the record unreadable.',
    expected: ['D8', 'D12'],
    also: [
      {
        file: record,
        find: 'since: z.string().refine((text) => parseInstant(text) !== undefined),',
        replace: 'since: z.string(),',
      },
    ],
  },
];
