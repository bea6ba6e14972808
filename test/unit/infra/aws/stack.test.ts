import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Context, SQSEvent } from 'aws-lambda';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import * as z from 'zod';
import { deadLetterQueueName, queueName } from '#events/hint.ts';
import { sweepConfigSchema } from '#functions/sweep/config.ts';
import { generateStack } from '#infra/aws/stack.ts';
import { cloudWatchDashboard } from '#infra/observability/dashboards.ts';
import { toldMetrics } from '#shared/api/metrics.ts';
import { idPrefix } from '#infra/aws/template.ts';
import {
  type FunctionName,
  type StepName,
  functionName,
  functionNames,
  stepNames,
  sweepName,
} from '#shared/api/steps.ts';
import { readConfig } from '#shared/kernel/config.ts';
import { connectOutside } from '#shared/outside/connect.ts';
import { evaluate } from '#test/deploy/evaluate-template.ts';
import {
  packageStack,
  packagedStage as stage,
  requiredParameters,
} from '#test/deploy/package-stack.ts';
import { sqsRecord } from '#test/builders/sqs-record.ts';

const root = fileURLToPath(new URL('../../../../', import.meta.url));

const senders = requiredParameters['queue-senders'];

/** What is read of the template; values that are functions of CloudFormation stay as they are. */
const templateSchema = z.object({
  Resources: z.record(
    z.string(),
    z.object({
      Type: z.string(),
      Properties: z.record(z.string(), z.unknown()),
      DeletionPolicy: z.string().optional(),
      UpdateReplacePolicy: z.string().optional(),
    }),
  ),
  Parameters: z.record(z.string(), z.object({ Default: z.string() })),
  Conditions: z.record(z.string(), z.unknown()),
  Outputs: z.record(z.string(), z.object({ Value: z.unknown() })),
});

type Properties = Readonly<Record<string, unknown>>;

const alarmSchema = z.object({
  AlarmName: z.string(),
  AlarmDescription: z.string(),
  Namespace: z.enum(['AWS/SQS', 'AWS/Lambda', 'Millrace']),
  MetricName: z.string(),
  Dimensions: z.array(z.object({ Name: z.string(), Value: z.string() })),
  ComparisonOperator: z.string(),
  Threshold: z.number(),
  Period: z.number(),
  TreatMissingData: z.string(),
  AlarmActions: z.unknown(),
  OKActions: z.unknown(),
});

const awsDimensions = z.tuple([
  z.object({ Name: z.enum(['QueueName', 'FunctionName']), Value: z.string() }),
]);

/**
 * Metrics by the dimension they are kept for (SQS Developer Guide, "Available CloudWatch metrics for Amazon SQS"; AWS Lambda
 * Developer Guide, "Types of metrics for Lambda functions").
 */
const kept = {
  'AWS/SQS': {
    QueueName: ['ApproximateAgeOfOldestMessage', 'ApproximateNumberOfMessagesVisible'],
    FunctionName: [],
  },
  'AWS/Lambda': { FunctionName: ['Errors', 'Invocations', 'Throttles'], QueueName: [] },
} as const;

let folder: string;
let template: z.infer<typeof templateSchema>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-stack-'));
  const path = await packageStack(folder, requiredParameters);
  template = templateSchema.parse(JSON.parse(readFileSync(path).toString()));
}, 60_000);

afterAll(() => rmSync(folder, { recursive: true }));

/** The properties of the one resource of this type that the predicate picks. */
function only(
  type: string,
  matches: (properties: Properties) => boolean,
): { readonly id: string; readonly properties: Properties } {
  const found = Object.entries(template.Resources).filter(
    ([, { Type, Properties }]) => Type === type && matches(Properties),
  );
  expect(found, type).toHaveLength(1);
  const [id = '', resource] = found[0] ?? [];
  return { id, properties: resource?.Properties ?? {} };
}

const queueOf = (step: StepName) =>
  only('AWS::SQS::Queue', ({ QueueName }) => QueueName === queueName(stage, step));

const deadLetterQueueOf = (step: StepName) =>
  only('AWS::SQS::Queue', ({ QueueName }) => QueueName === deadLetterQueueName(stage, step));

const functionOf = (name: FunctionName) =>
  only('AWS::Lambda::Function', ({ FunctionName }) => FunctionName === `millrace-${stage}-${name}`);

/**
 * What the function's role allows; nobody else's is.
 *
 * @param given parameters of the stack, instead of their defaults
 */
function permissionsOf(name: FunctionName, given: Readonly<Record<string, string>> = {}): unknown {
  const { Role } = functionOf(name).properties;
  const [roleId = ''] = z.object({ 'Fn::GetAtt': z.array(z.string()) }).parse(Role)['Fn::GetAtt'];
  const { Policies, ManagedPolicyArns } = template.Resources[roleId]?.Properties ?? {};
  const users = Object.values(template.Resources).filter(
    ({ Type, Properties }) =>
      Type === 'AWS::Lambda::Function' &&
      JSON.stringify(Properties['Role']) === JSON.stringify(Role),
  );
  expect(users).toHaveLength(1);
  expect(ManagedPolicyArns).toBeUndefined();
  return evaluate(Policies, template, given);
}

/** The policy of a function that does this with queues, writes its own log and reads one parameter. */
function policyWith(name: FunctionName, ...work: Properties[]): unknown {
  return [
    {
      PolicyName: name,
      PolicyDocument: {
        Version: '2012-10-17',
        Statement: [
          ...work,
          {
            Effect: 'Allow',
            Action: ['logs:CreateLogStream', 'logs:PutLogEvents'],
            Resource: own('logs', `log-group:/aws/lambda/millrace-${stage}-${name}:*`),
          },
          mayRead(`/millrace/${stage}/${name}/kube-token`),
        ],
      },
    },
  ];
}

function mayRead(parameter: string) {
  return {
    Effect: 'Allow',
    Action: 'ssm:GetParameter',
    Resource: own('ssm', `parameter${parameter}`),
  };
}

/** The ARN of something in the account and region of the stack. */
function own(service: string, resource: string) {
  return {
    'Fn::Sub': `arn:\${AWS::Partition}:${service}:\${AWS::Region}:\${AWS::AccountId}:${resource}`,
  };
}

const onlyIf = (condition: string, value: unknown) => ({
  'Fn::If': [condition, value, { Ref: 'AWS::NoValue' }],
});

const withoutTls = (action: string, resource: unknown) => ({
  Effect: 'Deny',
  Principal: '*',
  Action: action,
  Resource: resource,
  Condition: { Bool: { 'aws:SecureTransport': 'false' } },
});

/** The policy of this queue; one queue has one policy. */
const queuePolicyOf = (id: string) =>
  only(
    'AWS::SQS::QueuePolicy',
    ({ Queues }) => JSON.stringify(Queues) === JSON.stringify([{ Ref: id }]),
  ).properties['PolicyDocument'];

const arnOf = (id: string) => ({ 'Fn::GetAtt': [id, 'Arn'] });

const mappingOf = (step: StepName) => {
  const source = JSON.stringify(arnOf(queueOf(step).id));
  return only(
    'AWS::Lambda::EventSourceMapping',
    ({ EventSourceArn }) => JSON.stringify(EventSourceArn) === source,
  );
};

test.each(generateStack())('$path is what its source says', ({ path, content }) => {
  expect(readFileSync(join(root, path), 'utf8')).toBe(content);
});

test('a deployment that misspells all it says is refused, with everything that is missing and no stack trace', async () => {
  const elsewhere = mkdtempSync(join(tmpdir(), 'millrace-stack-'));
  onTestFinished(() => rmSync(elsewhere, { recursive: true }));
  const packaging = packageStack(elsewhere, { cluster: 'one=1' }).catch(
    ({ stdout, stderr }) => `${stdout}${stderr}`,
  );

  const output = await packaging;

  for (const name of Object.keys(requiredParameters)) {
    expect(output).toContain(`  - ${name}: is missing`);
  }
  expect(output).toContain('  - cluster: is no parameter');
  expect(output).toContain('--param');
  expect(output).not.toMatch(/^\s+at /m);
});

test('there is nothing for a function that does not exist', () => {
  const count = (type: string) =>
    Object.values(template.Resources).filter(({ Type }) => Type === type).length;

  expect(count('AWS::Lambda::Function')).toBe(functionNames.length);
  expect(count('AWS::Lambda::EventSourceMapping')).toBe(stepNames.length);
  expect(count('AWS::SQS::Queue')).toBe(2 * stepNames.length);
  expect(count('AWS::IAM::Role')).toBe(functionNames.length);
  expect(count('AWS::Events::Rule')).toBe(1);
});

test('the queues’ URL prefix is an output, for the relay', () => {
  expect(template.Outputs['QueueUrlPrefix']?.Value).toEqual({
    'Fn::Select': [0, { 'Fn::Split': ['millrace-test-drain-step', { Ref: 'DrainStepQueue' }] }],
  });
});

describe.each(stepNames)('%s', (step) => {
  test('hides a batch for six times as long as its function may take', () => {
    const { properties: queue } = queueOf(step);
    const { properties: lambda } = functionOf(step);

    expect(Number(lambda['Timeout'])).toBeGreaterThan(0);
    expect(Number(queue['VisibilityTimeout'])).toBeGreaterThanOrEqual(
      6 * Number(lambda['Timeout']),
    );
  });

  test('keeps what it could not process for longer than its queue keeps messages', () => {
    const { properties: queue } = queueOf(step);
    const { id, properties: deadLetters } = deadLetterQueueOf(step);

    expect(queue['RedrivePolicy']).toEqual({ deadLetterTargetArn: arnOf(id), maxReceiveCount: 5 });
    expect(deadLetters['MessageRetentionPeriod']).toBe(14 * 24 * 60 * 60);
    expect(queue['MessageRetentionPeriod']).toBe(4 * 24 * 60 * 60);
    expect(deadLetters['RedrivePolicy']).toBeUndefined();
  });

  test('lets only its own queue leave messages in its dead-letter queue', () => {
    expect(deadLetterQueueOf(step).properties['RedriveAllowPolicy']).toEqual({
      redrivePermission: 'byQueue',
      sourceQueueArns: [own('sqs', queueName(stage, step))],
    });
  });

  test('refuses whoever speaks to its dead-letter queue without TLS', () => {
    const { id } = deadLetterQueueOf(step);

    expect(queuePolicyOf(id)).toEqual({
      Version: '2012-10-17',
      Statement: [withoutTls('sqs:*', arnOf(id))],
    });
  });

  test('encrypts both queues, and both are standard queues', () => {
    for (const { properties } of [queueOf(step), deadLetterQueueOf(step)]) {
      expect(properties['SqsManagedSseEnabled']).toBe(true);
      expect(properties['FifoQueue']).toBeUndefined();
    }
  });

  test('limits its queue’s concurrency at the mapping, never below it at the function', () => {
    const { properties: mapping } = mappingOf(step);
    const { properties: lambda } = functionOf(step);

    const { MaximumConcurrency: most } = z
      .object({ MaximumConcurrency: z.int().min(2) })
      .parse(mapping['ScalingConfig']);
    expect(mapping['Enabled']).toBe(true);
    expect(mapping['FunctionName']).toEqual(arnOf(functionOf(step).id));
    expect(Number(lambda['ReservedConcurrentExecutions'] ?? Infinity)).toBeGreaterThanOrEqual(most);
  });

  test('says which messages failed, and the mapping listens', async () => {
    const given = { MILLRACE_LOG_LEVEL: 'silent', MILLRACE_QUEUE_URL: '' };
    for (const [name, value] of Object.entries({ ...environmentOf(step), ...given })) {
      vi.stubEnv(name, value);
    }
    onTestFinished(() => void vi.unstubAllEnvs());
    const { handler } = (await import(`../../../../functions/${step}/handler.ts`)) as Handler;

    const answer = await handler(
      { Records: [sqsRecord('first', 'not a hint'), sqsRecord('second', 'not a hint')] },
      aContext(),
    );

    expect(mappingOf(step).properties['FunctionResponseTypes']).toEqual([
      'ReportBatchItemFailures',
    ]);
    expect(answer).toEqual({
      batchItemFailures: [{ itemIdentifier: 'first' }, { itemIdentifier: 'second' }],
    });
  });

  test('finds in its environment all it needs to connect, and no secret', async () => {
    const environment = environmentOf(step);

    const outside = await connectOutside(environment, step);

    expect(outside.kube).toBeDefined();
    expect(environment['MILLRACE_KUBE_TOKEN_PARAMETER']).toBe(
      `/millrace/${stage}/${step}/kube-token`,
    );
    expect(functionOf(step).properties['Environment']).toMatchObject({
      Variables: { MILLRACE_QUEUE_URL: { Ref: queueOf(step).id } },
    });
    expect(Object.keys(environment).filter((name) => /TOKEN$|SECRET|PASSWORD/.test(name))).toEqual(
      [],
    );
  });

  test('may work on its own queue, add to its own decisions, write its own log and read one parameter, and nothing else', () => {
    expect(permissionsOf(step)).toEqual(
      policyWith(
        step,
        {
          Effect: 'Allow',
          Action: [
            'sqs:ReceiveMessage',
            'sqs:DeleteMessage',
            'sqs:ChangeMessageVisibility',
            'sqs:GetQueueAttributes',
          ],
          Resource: arnOf(queueOf(step).id),
        },
        {
          Effect: 'Allow',
          Action: 's3:PutObject',
          Resource: { 'Fn::Sub': `\${ArchiveBucket.Arn}/decisions/*/${step}/*` },
        },
      ),
    );
  });

  test('records in the bucket of the stack what the deployment asks for', () => {
    expect(functionOf(step).properties['Environment']).toMatchObject({
      Variables: {
        MILLRACE_ARCHIVE: { 'Fn::Sub': 's3://${ArchiveBucket}' },
        MILLRACE_ARCHIVE_DECISIONS: 'failures',
      },
    });
  });

  test('takes hints over TLS from those named and from the sweep, and refuses everybody else', () => {
    const { id } = queueOf(step);
    const sweep = functionOf(sweepName).properties['Role'];
    const named = { 'Fn::Split': [',', { 'Fn::Join': [',', [senders, sweep]] }] };

    expect(queuePolicyOf(id)).toEqual({
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { AWS: named },
          Action: 'sqs:SendMessage',
          Resource: arnOf(id),
        },
        {
          Effect: 'Deny',
          Principal: '*',
          Action: 'sqs:SendMessage',
          Resource: arnOf(id),
          Condition: { ArnNotEquals: { 'aws:PrincipalArn': named } },
        },
        withoutTls('sqs:*', arnOf(id)),
      ],
    });
  });
});

describe.each(functionNames)('%s', (name) => {
  test('runs its own bundle, and nothing else is packed', () => {
    const { properties } = functionOf(name);

    const packed = entriesOf(readFileSync(join(folder, 'package', `${name}.zip`)));

    expect(properties['Runtime']).toBe('nodejs24.x');
    expect(properties['Architectures']).toEqual(['arm64']);
    expect(properties['Handler']).toBe(`dist/${name}/index.handler`);
    expect(packed).toEqual([`dist/${name}/index.mjs`]);
  });

  test('keeps its log for a month', () => {
    const { properties } = only(
      'AWS::Logs::LogGroup',
      ({ LogGroupName }) => LogGroupName === `/aws/lambda/millrace-${stage}-${name}`,
    );

    expect(properties['RetentionInDays']).toBe(30);
  });

  test('runs in a network only when it is told subnets and security groups', () => {
    const split = (parameter: string) => ({ 'Fn::Split': [',', { Ref: parameter }] });
    const isGiven = (parameter: string) => ({
      'Fn::Not': [{ 'Fn::Equals': [{ Ref: parameter }, ''] }],
    });

    expect(functionOf(name).properties['VpcConfig']).toEqual(
      onlyIf('InVpc', {
        SubnetIds: split('SubnetIds'),
        SecurityGroupIds: split('SecurityGroupIds'),
      }),
    );
    expect(template.Conditions['InVpc']).toEqual({
      'Fn::And': [isGiven('SubnetIds'), isGiven('SecurityGroupIds')],
    });
    expect(template.Parameters['SubnetIds']?.Default).toBe('');
  });
});

describe.each(functionNames)('%s in a network', (name) => {
  test('may have Lambda work on its interfaces, and not do so itself', () => {
    const interfaces = expect.arrayContaining(['ec2:CreateNetworkInterface']);

    const policies = permissionsOf(name, { SubnetIds: 'subnet-a', SecurityGroupIds: 'sg-a' });

    const sourceArn = own('lambda', `function:millrace-${stage}-${name}`);
    expect(policies).toMatchObject([
      {
        PolicyDocument: {
          Statement: expect.arrayContaining([
            { Effect: 'Allow', Action: interfaces, Resource: '*' },
            {
              Effect: 'Deny',
              Action: interfaces,
              Resource: '*',
              Condition: { ArnEquals: { 'lambda:SourceFunctionArn': sourceArn } },
            },
          ]),
        },
      },
    ]);
  });
});

describe('an alarm', () => {
  const alarms = () =>
    Object.values(template.Resources)
      .filter(({ Type }) => Type === 'AWS::CloudWatch::Alarm')
      .map(({ Properties }) => alarmSchema.parse(Properties));
  /** The metrics of this queue, function or step that have one. */
  const watched = (name: 'QueueName' | 'FunctionName' | 'step', value: string) =>
    alarms()
      .filter(({ Dimensions }) =>
        Dimensions.some(({ Name, Value }) => Name === name && Value === value),
      )
      .map(({ MetricName }) => MetricName)
      .toSorted();

  test.each(stepNames)('watches the queues and the function of %s', (step) => {
    expect(watched('QueueName', queueName(stage, step))).toEqual(['ApproximateAgeOfOldestMessage']);
    expect(watched('QueueName', deadLetterQueueName(stage, step))).toEqual([
      'ApproximateNumberOfMessagesVisible',
    ]);
    expect(watched('FunctionName', functionName(stage, step))).toEqual(['Errors', 'Throttles']);
    expect(watched('step', step)).toEqual(['millrace_target_blocked']);
  });

  test('watches that the sweep runs, besides', () => {
    expect(watched('FunctionName', functionName(stage, sweepName))).toEqual([
      'Errors',
      'Invocations',
      'Throttles',
    ]);
  });

  test('is about a metric that AWS keeps, of something in the stack', () => {
    const named = (type: string, property: string) =>
      Object.values(template.Resources)
        .filter(({ Type }) => Type === type)
        .map(({ Properties }) => Properties[property]);
    const subjects = {
      QueueName: named('AWS::SQS::Queue', 'QueueName'),
      FunctionName: named('AWS::Lambda::Function', 'FunctionName'),
    };

    const ofAws = alarms().flatMap(({ Namespace, ...alarm }) =>
      Namespace === 'Millrace' ? [] : [{ ...alarm, keptOf: kept[Namespace] }],
    );

    expect(ofAws).toHaveLength(4 * stepNames.length + 3);
    for (const { keptOf, MetricName, Dimensions } of ofAws) {
      const [{ Name, Value }] = awsDimensions.parse(Dimensions);
      expect(keptOf[Name]).toContain(MetricName);
      expect(subjects[Name]).toContain(Value);
    }
  });

  test('is about a metric that functions tell, by the very dimensions that it is told with', () => {
    const ofFunctions = alarms().filter(({ Namespace }) => Namespace === 'Millrace');

    expect(ofFunctions).toHaveLength(stepNames.length + 4);
    for (const { MetricName, Dimensions } of ofFunctions) {
      const { labels, dimensions } = toldMetrics[MetricName] ?? { labels: ['?'] };
      const values = Object.fromEntries(Dimensions.map(({ Name, Value }) => [Name, Value]));
      expect(Object.keys(values)).toEqual(['cluster', ...(dimensions ?? labels)]);
      expect(values).toMatchObject({ cluster: requiredParameters['cluster-id'] });
    }
  });

  test('has a dashboard beside it, whose region is the stack’s', () => {
    const dashboard = only('AWS::CloudWatch::Dashboard', () => true);

    const body = z.object({ 'Fn::Sub': z.string() }).parse(dashboard.properties['DashboardBody']);

    expect(dashboard.properties['DashboardName']).toBe(`millrace-${stage}`);
    expect(JSON.parse(body['Fn::Sub'])).toEqual(cloudWatchDashboard());
    expect(body['Fn::Sub'].match(/\$\{[^}]*\}/g)?.every((put) => put === '${AWS::Region}')).toBe(
      true,
    );
  });

  test('has a name of its own and says what to do', () => {
    const names = alarms().map(({ AlarmName }) => AlarmName);

    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => !name.startsWith(`millrace-${stage}-`))).toEqual([]);
    expect(alarms().filter(({ AlarmDescription }) => AlarmDescription.length < 80)).toEqual([]);
  });

  test('takes silence for trouble only of the sweep, after three ticks', () => {
    const silent = alarms().filter(({ TreatMissingData }) => TreatMissingData === 'breaching');

    expect(silent).toMatchObject([
      {
        MetricName: 'Invocations',
        Period: 15 * 60,
        Threshold: 1,
        ComparisonOperator: 'LessThanThreshold',
      },
    ]);
  });

  test('tells the topic that is given, when it rings and when it ends', () => {
    const told = onlyIf('HasAlarmTopic', [{ Ref: 'AlarmTopic' }]);

    expect(template.Conditions['HasAlarmTopic']).toEqual({
      'Fn::Not': [{ 'Fn::Equals': [{ Ref: 'AlarmTopic' }, ''] }],
    });
    for (const { AlarmActions, OKActions } of alarms()) {
      expect([AlarmActions, OKActions]).toEqual([told, told]);
    }
  });
});

describe('the bucket for decisions', () => {
  const bucket = () => only('AWS::S3::Bucket', ({ LifecycleConfiguration: rules }) => !!rules);

  test('keeps versions, encrypts, and is closed to the public', () => {
    const { properties } = bucket();

    expect(properties['VersioningConfiguration']).toEqual({ Status: 'Enabled' });
    expect(JSON.stringify(properties['BucketEncryption'])).toContain('"SSEAlgorithm":"AES256"');
    expect(properties['PublicAccessBlockConfiguration']).toEqual({
      BlockPublicAcls: true,
      BlockPublicPolicy: true,
      IgnorePublicAcls: true,
      RestrictPublicBuckets: true,
    });
    expect(properties['OwnershipControls']).toEqual({
      Rules: [{ ObjectOwnership: 'BucketOwnerEnforced' }],
    });
  });

  test('forgets, also old versions and what was never finished', () => {
    expect(bucket().properties['LifecycleConfiguration']).toEqual({
      Rules: [
        {
          Id: 'forget',
          Status: 'Enabled',
          ExpirationInDays: 90,
          NoncurrentVersionExpiration: { NoncurrentDays: 30 },
          AbortIncompleteMultipartUpload: { DaysAfterInitiation: 1 },
        },
      ],
    });
  });

  test('refuses whoever does not use TLS', () => {
    const { id } = bucket();

    const { properties } = only(
      'AWS::S3::BucketPolicy',
      ({ Bucket }) => JSON.stringify(Bucket) === JSON.stringify({ Ref: id }),
    );

    expect(properties['PolicyDocument']).toEqual({
      Version: '2012-10-17',
      Statement: [withoutTls('s3:*', [arnOf(id), { 'Fn::Sub': `\${${id}.Arn}/*` }])],
    });
  });

  test('outlives the stack, and is an output', () => {
    const { id } = bucket();

    expect(template.Resources[id]).toMatchObject({
      DeletionPolicy: 'RetainExceptOnCreate',
      UpdateReplacePolicy: 'Retain',
    });
    expect(template.Outputs['ArchiveBucket']?.Value).toEqual({ Ref: id });
  });
});

describe(sweepName, () => {
  test('is invoked by a rule every five minutes, which alone may invoke it', () => {
    const { id, properties: rule } = only('AWS::Events::Rule', () => true);
    const lambda = arnOf(functionOf(sweepName).id);

    const { properties: permission } = only('AWS::Lambda::Permission', () => true);

    expect(rule).toMatchObject({
      ScheduleExpression: 'rate(5 minutes)',
      State: 'ENABLED',
      Targets: [{ Arn: lambda }],
    });
    expect(permission).toMatchObject({
      FunctionName: lambda,
      Action: 'lambda:InvokeFunction',
      Principal: 'events.amazonaws.com',
      SourceArn: arnOf(id),
    });
  });

  test('is tried once a tick', () => {
    const { properties } = only('AWS::Lambda::EventInvokeConfig', () => true);

    expect(properties).toMatchObject({ MaximumRetryAttempts: 0, MaximumEventAgeInSeconds: 300 });
    expect(JSON.stringify(properties['FunctionName'])).toContain(functionOf(sweepName).id);
  });

  test('may send to the queues of the steps, write its own log and read one parameter, and nothing else', () => {
    expect(permissionsOf(sweepName)).toEqual(
      policyWith(sweepName, {
        Effect: 'Allow',
        Action: 'sqs:SendMessage',
        Resource: stepNames.map((step) => arnOf(queueOf(step).id)),
      }),
    );
  });

  test('finds in its environment all it needs, and no secret', () => {
    const prefix = template.Outputs['QueueUrlPrefix']?.Value;
    const { MILLRACE_QUEUE_URL_PREFIX: given } = variablesOf(sweepName);
    // Lambda sets the region, and CloudFormation makes the prefix of a queue's URL.
    const made = { AWS_REGION: 'eu-west-1', MILLRACE_QUEUE_URL_PREFIX: 'https://queues.example/' };

    const config = readConfig(sweepConfigSchema, { ...environmentOf(sweepName), ...made });

    expect(given).toEqual(prefix);
    expect(config).toMatchObject({
      MILLRACE_CLUSTER_ID: 'one',
      MILLRACE_STAGE: stage,
      MILLRACE_KUBE_TOKEN_PARAMETER: `/millrace/${stage}/sweep/kube-token`,
    });
    expect(
      Object.keys(environmentOf(sweepName)).filter((name) => /TOKEN$|SECRET|PASSWORD/.test(name)),
    ).toEqual([]);
  });
});

describe.each(functionNames)('%s', (name) => {
  test('reads the one token that all functions share, where they are told to, and not its own', () => {
    const given = { KubeTokenParameter: '/elsewhere/token' };

    const { MILLRACE_KUBE_TOKEN_PARAMETER } = environmentOf(name, given);
    const permissions = JSON.stringify(permissionsOf(name, given));

    expect(MILLRACE_KUBE_TOKEN_PARAMETER).toBe('/elsewhere/token');
    expect(permissions).toContain(JSON.stringify(mayRead('/elsewhere/token')));
    expect(permissions).not.toContain('kube-token');
  });

  test('signs in to EKS as its role, whose ARN is told, and may read no parameter', () => {
    const given = { EksCluster: 'orders' };

    const environment = environmentOf(name, given);
    const permissions = JSON.stringify(permissionsOf(name, given));

    expect(environment).toMatchObject({ MILLRACE_EKS_CLUSTER: 'orders' });
    expect(environment).not.toHaveProperty('MILLRACE_KUBE_TOKEN_PARAMETER');
    expect(permissions).not.toContain('ssm:');
    expect(template.Outputs).toMatchObject({
      [`${idPrefix(name)}RoleArn`]: { Value: functionOf(name).properties['Role'] },
    });
  });
});

interface Handler {
  readonly handler: (event: SQSEvent, context: Context) => Promise<unknown>;
}

/** The names of the files in a zip archive, from its central directory (PKWARE APPNOTE 6.3.10, section 4.3.12). */
function entriesOf(archive: Buffer): readonly string[] {
  const names: string[] = [];
  const signature = Buffer.from('PK\u0001\u0002');
  for (let at = archive.indexOf(signature); at >= 0; at = archive.indexOf(signature, at + 46)) {
    names.push(archive.toString('utf8', at + 46, at + 46 + archive.readUInt16LE(at + 28)));
  }
  return names;
}

function variablesOf(name: FunctionName): Record<string, unknown> {
  return z
    .object({ Variables: z.record(z.string(), z.unknown()) })
    .parse(functionOf(name).properties['Environment']).Variables;
}

/**
 * A function's variables; references to other resources are left out, as they have values only once deployed.
 *
 * @param given parameters of the stack, instead of their defaults
 */
function environmentOf(
  name: FunctionName,
  given: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(
      z.record(z.string(), z.unknown()).parse(evaluate(variablesOf(name), template, given)),
    ).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
  );
}

function aContext(): Context {
  return {
    callbackWaitsForEmptyEventLoop: false,
    functionName: 'test',
    functionVersion: '$LATEST',
    invokedFunctionArn: 'arn:aws:lambda:us-east-1:111122223333:function:test',
    memoryLimitInMB: '512',
    awsRequestId: 'request',
    logGroupName: 'test',
    logStreamName: 'test',
    getRemainingTimeInMillis: () => 10_000,
    done: () => undefined,
    fail: () => undefined,
    succeed: () => undefined,
  };
}
