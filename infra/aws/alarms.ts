import { deadLetterQueueName, queueName } from '#events/hint.ts';
import { functionMetrics, stepMetrics } from '#shared/api/metrics.ts';
import { type StepName, functionName, sweepName } from '#shared/api/steps.ts';
import { cloudWatchNamespace } from '#shared/kernel/embedded-metrics.ts';
import {
  type Template,
  clusterId,
  daySeconds,
  idPrefix,
  isGiven,
  onlyIf,
  stage,
} from './template.ts';

/** The condition under which somebody is told. Without it alarms change their state and nothing more. */
const hasTopic = 'HasAlarmTopic';

/** A metric that AWS keeps of something in the stack, or that a function tells, and from when on a person should look. */
interface Watch {
  /** Ends the alarm's logical id. */
  readonly id: string;
  /** Ends the alarm's name. */
  readonly suffix: string;
  /** What it means, and what to do. */
  readonly description: string;
  readonly metric:
    | { readonly namespace: 'AWS/SQS' | 'AWS/Lambda'; readonly name: string }
    | {
        readonly namespace: typeof cloudWatchNamespace;
        readonly name: keyof typeof functionMetrics | keyof typeof stepMetrics;
      };
  readonly statistic: 'Maximum' | 'Sum';
  readonly isTooMuch: 'GreaterThanThreshold' | 'LessThanThreshold';
  readonly threshold: number;
  readonly periodSeconds: number;
  /** Periods that are looked at, and how many of them must be beyond the threshold. */
  readonly of: number;
  readonly beyond: number;
  /** Whether no data point means that something is wrong. */
  readonly missing: 'breaching' | 'notBreaching';
}

/** Rings at once when there is anything, and is quiet where nothing is told. */
const anything = {
  isTooMuch: 'GreaterThanThreshold',
  threshold: 0,
  periodSeconds: 300,
  of: 1,
  beyond: 1,
  missing: 'notBreaching',
} as const;

/** A message is there only after the last receive failed, so a single one is worth a look. */
const deadLetters: Watch = {
  ...anything,
  id: 'DeadLettersAlarm',
  suffix: 'dead-letters',
  description:
    'Messages failed five times and are kept for 14 days. Read the log of the function for "hint refused" and "look failed", mend the cause, then send them again (millrace replay --dlq).',
  metric: { namespace: 'AWS/SQS', name: 'ApproximateNumberOfMessagesVisible' },
  statistic: 'Maximum',
  periodSeconds: 60,
};

/**
 * Five receives are over after three minutes of doubled waits. What is older waits for something that does not come: a
 * permission, for which each wait is five minutes, or anybody who receives.
 */
const oldestMessage: Watch = {
  ...anything,
  id: 'OldestMessageAlarm',
  suffix: 'oldest-message',
  description:
    'The oldest message has waited for more than 15 minutes: the step looks at nothing, or at too little. See whether the event source mapping is enabled, whether the function is throttled or fails, and why its log says "look to be repeated".',
  metric: { namespace: 'AWS/SQS', name: 'ApproximateAgeOfOldestMessage' },
  statistic: 'Maximum',
  threshold: 15 * 60,
};

/** A message that fails is no error of the function; one that ends in time-out or cannot start is. One may be chance. */
const errors: Watch = {
  ...anything,
  id: 'ErrorsAlarm',
  suffix: 'errors',
  description:
    'The function fails as a whole: it is configured wrongly, cannot read its token, or runs into its timeout. The last lines of its log say which.',
  metric: { namespace: 'AWS/Lambda', name: 'Errors' },
  statistic: 'Sum',
  of: 3,
  beyond: 2,
};

/** A throttled batch is tried again, and stays hidden for six timeouts; a quarter of an hour of it empties no queue. */
const throttles: Watch = {
  ...anything,
  id: 'ThrottlesAlarm',
  suffix: 'throttles',
  description:
    'Lambda has refused to run the function for 15 minutes: the concurrency of the account is used up. Raise the quota, or find who uses it.',
  metric: { namespace: 'AWS/Lambda', name: 'Throttles' },
  statistic: 'Sum',
  of: 3,
  beyond: 3,
};

/** Nobody stands behind the sweep, so each failure is told. */
const sweepErrors: Watch = {
  ...errors,
  description:
    'A sweep was not whole: its log line "swept in part" names what was not read or not sent. While the relay is alive nothing is lost.',
  of: 1,
  beyond: 1,
};

/** Three ticks: a schedule that was switched off, and a function that nobody may invoke, have no errors. */
const sweepMissing: Watch = {
  id: 'InvocationsAlarm',
  suffix: 'invocations',
  description:
    'No sweep has begun for 15 minutes: nobody notices a dead relay. See whether the rule of its schedule is enabled.',
  metric: { namespace: 'AWS/Lambda', name: 'Invocations' },
  statistic: 'Sum',
  isTooMuch: 'LessThanThreshold',
  threshold: 1,
  periodSeconds: 900,
  of: 1,
  beyond: 1,
  missing: 'breaching',
};

/** A blocked target is looked at every minute, so a quarter of an hour of it is no chance. */
const blocked: Watch = {
  ...anything,
  id: 'BlockedAlarm',
  suffix: 'blocked',
  description:
    'A target has needed a person for 15 minutes. The log lines "decision" with the outcome "blocked" name it, and its condition says what is needed.',
  metric: { namespace: cloudWatchNamespace, name: 'millrace_target_blocked' },
  statistic: 'Maximum',
  of: 3,
  beyond: 3,
};

/** What is wrong with the databases themselves, whoever noticed it: each with the values of its metric's dimensions. */
const outcomes: readonly (readonly [Watch, Readonly<Record<string, string>>])[] = [
  ...(['failed', 'unknown'] as const).map((result): [Watch, Readonly<Record<string, string>>] => [
    rare(
      result === 'failed' ? 'BackupsFailedAlarm' : 'BackupsUnknownAlarm',
      `backups-${result}`,
      'backup_runs_total',
      `A backup ended as "${result}". The condition BackupsOnSchedule of the Shard names the schedule; the next slot tries again by itself.`,
    ),
    { result },
  ]),
  [
    {
      ...rare(
        'BackupsOldAlarm',
        'backups-old',
        'backup_last_success_age_seconds',
        'A Shard with backups has no good one of the last two days. Its condition BackupsOnSchedule says since when and why.',
      ),
      statistic: 'Maximum',
      // Two days fit a daily schedule; the condition knows each schedule and is exact.
      threshold: 2 * daySeconds,
      // Each target is looked at within half an hour.
      periodSeconds: 3600,
    },
    { backup: 'any' },
  ],
  [
    rare(
      'HandoversTimedOutAlarm',
      'handovers-timed-out',
      'goverse_clean_shutdown_timeouts_total',
      'A node of GoVerse left before all of its shards were claimed by others. The Events of its pod say how many were left.',
    ),
    {},
  ],
];

/** What should never happen, so that each time is told. */
function rare(
  id: string,
  suffix: string,
  name: keyof typeof stepMetrics,
  description: string,
): Watch {
  return {
    ...anything,
    id,
    suffix,
    description,
    metric: { namespace: cloudWatchNamespace, name },
    statistic: 'Sum',
  };
}

/** Tells of a step that does not get its work done. */
export function alarmsOf(step: StepName): Template {
  const name = functionName(stage, step);
  const ofStep = alarmFor(idPrefix(step), name);
  return {
    ...ofStep(deadLetters, { QueueName: deadLetterQueueName(stage, step) }),
    ...ofStep(oldestMessage, { QueueName: queueName(stage, step) }),
    ...ofStep(errors, { FunctionName: name }),
    ...ofStep(throttles, { FunctionName: name }),
    ...ofStep(blocked, { cluster: clusterId, step }),
  };
}

/** Tells of a backstop that is none. */
export function sweepAlarms(): Template {
  const name = functionName(stage, sweepName);
  const ofSweep = alarmFor(idPrefix(sweepName), name);
  const all = [sweepErrors, throttles, sweepMissing];
  return Object.assign({}, ...all.map((watch) => ofSweep(watch, { FunctionName: name })));
}

/** Tells of the databases, whichever step noticed it. */
export function outcomeAlarms(): Template {
  const ofStage = alarmFor('', `millrace-${stage}`);
  const all = outcomes.map(([watch, values]) => ofStage(watch, { cluster: clusterId, ...values }));
  return Object.assign({}, ...all);
}

/** Whom alarms tell, if anybody. */
export const alarmParameters: Template = {
  AlarmTopic: {
    Type: 'String',
    Description: 'ARN of the SNS topic that alarms tell; empty: none',
    Default: '${param:alarm-topic}',
  },
};

export const alarmConditions: Template = {
  [hasTopic]: isGiven('AlarmTopic'),
};

function alarmFor(prefix: string, name: string) {
  const told = onlyIf(hasTopic, [{ Ref: 'AlarmTopic' }]);
  return (watch: Watch, dimensions: Readonly<Record<string, string>>): Template => ({
    [`${prefix}${watch.id}`]: {
      Type: 'AWS::CloudWatch::Alarm',
      Properties: {
        AlarmName: `${name}-${watch.suffix}`,
        AlarmDescription: watch.description,
        Namespace: watch.metric.namespace,
        MetricName: watch.metric.name,
        Dimensions: Object.entries(dimensions).map(([Name, Value]) => ({ Name, Value })),
        Statistic: watch.statistic,
        ComparisonOperator: watch.isTooMuch,
        Threshold: watch.threshold,
        Period: watch.periodSeconds,
        EvaluationPeriods: watch.of,
        DatapointsToAlarm: watch.beyond,
        TreatMissingData: watch.missing,
        AlarmActions: told,
        OKActions: told,
      },
    },
  });
}
