import { deadLetterQueueName, queueName } from '#events/hint.ts';
import { type FunctionName, type StepName, functionName, sweepName } from '#shared/api/steps.ts';
import { type Template, idPrefix, isGiven, onlyIf, stage } from './template.ts';

/** The condition under which somebody is told. Without it alarms change their state and nothing more. */
const hasTopic = 'HasAlarmTopic';

/** A metric that AWS keeps of something in the stack, and from when on a person should look. */
interface Watch {
  /** Ends the alarm's logical id. */
  readonly id: string;
  /** Ends the alarm's name. */
  readonly suffix: string;
  /** What it means, and what to do. */
  readonly description: string;
  readonly metric: { readonly namespace: 'AWS/SQS' | 'AWS/Lambda'; readonly name: string };
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

/** A message is there only after the last receive failed, so a single one is worth a look. */
const deadLetters: Watch = {
  id: 'DeadLettersAlarm',
  suffix: 'dead-letters',
  description:
    'Messages failed five times and are kept for 14 days. Read the log of the function for "hint refused" and "look failed", mend the cause, then move them back (sqs start-message-move-task).',
  metric: { namespace: 'AWS/SQS', name: 'ApproximateNumberOfMessagesVisible' },
  statistic: 'Maximum',
  isTooMuch: 'GreaterThanThreshold',
  threshold: 0,
  periodSeconds: 60,
  of: 1,
  beyond: 1,
  missing: 'notBreaching',
};

/**
 * Five receives are over after three minutes of doubled waits. What is older waits for something that does not come: a
 * permission, for which each wait is five minutes, or anybody who receives.
 */
const oldestMessage: Watch = {
  id: 'OldestMessageAlarm',
  suffix: 'oldest-message',
  description:
    'The oldest message has waited for more than 15 minutes: the step looks at nothing, or at too little. See whether the event source mapping is enabled, whether the function is throttled or fails, and why its log says "look to be repeated".',
  metric: { namespace: 'AWS/SQS', name: 'ApproximateAgeOfOldestMessage' },
  statistic: 'Maximum',
  isTooMuch: 'GreaterThanThreshold',
  threshold: 15 * 60,
  periodSeconds: 300,
  of: 1,
  beyond: 1,
  missing: 'notBreaching',
};

/** A message that fails is no error of the function; one that ends in time-out or cannot start is. One may be chance. */
const errors: Watch = {
  id: 'ErrorsAlarm',
  suffix: 'errors',
  description:
    'The function fails as a whole: it is configured wrongly, cannot read its token, or runs into its timeout. The last lines of its log say which.',
  metric: { namespace: 'AWS/Lambda', name: 'Errors' },
  statistic: 'Sum',
  isTooMuch: 'GreaterThanThreshold',
  threshold: 0,
  periodSeconds: 300,
  of: 3,
  beyond: 2,
  missing: 'notBreaching',
};

/** A throttled batch is tried again, and stays hidden for six timeouts; a quarter of an hour of it empties no queue. */
const throttles: Watch = {
  id: 'ThrottlesAlarm',
  suffix: 'throttles',
  description:
    'Lambda has refused to run the function for 15 minutes: the concurrency of the account is used up. Raise the quota, or find who uses it.',
  metric: { namespace: 'AWS/Lambda', name: 'Throttles' },
  statistic: 'Sum',
  isTooMuch: 'GreaterThanThreshold',
  threshold: 0,
  periodSeconds: 300,
  of: 3,
  beyond: 3,
  missing: 'notBreaching',
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

/** Tells of a step that does not get its work done. */
export function alarmsOf(step: StepName): Template {
  const name = functionName(stage, step);
  return {
    ...alarm(step, deadLetters, { QueueName: deadLetterQueueName(stage, step) }),
    ...alarm(step, oldestMessage, { QueueName: queueName(stage, step) }),
    ...alarm(step, errors, { FunctionName: name }),
    ...alarm(step, throttles, { FunctionName: name }),
  };
}

/** Tells of a backstop that is none. */
export function sweepAlarms(): Template {
  const dimension = { FunctionName: functionName(stage, sweepName) };
  return Object.assign(
    {},
    ...[sweepErrors, throttles, sweepMissing].map((watch) => alarm(sweepName, watch, dimension)),
  );
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

function alarm(
  of: FunctionName,
  watch: Watch,
  dimension: Readonly<Record<string, string>>,
): Template {
  const told = onlyIf(hasTopic, [{ Ref: 'AlarmTopic' }]);
  return {
    [`${idPrefix(of)}${watch.id}`]: {
      Type: 'AWS::CloudWatch::Alarm',
      Properties: {
        AlarmName: `${functionName(stage, of)}-${watch.suffix}`,
        AlarmDescription: watch.description,
        Namespace: watch.metric.namespace,
        MetricName: watch.metric.name,
        Dimensions: Object.entries(dimension).map(([Name, Value]) => ({ Name, Value })),
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
  };
}
