import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Context, SQSEvent, SQSRecord } from 'aws-lambda';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import * as z from 'zod';
import { deadLetterQueueName, queueName } from '#events/hint.ts';
import { sweepConfigSchema } from '#functions/sweep/config.ts';
import { generateStack } from '#infra/aws/stack.ts';
import { type FunctionName, type StepName, stepNames, sweepName } from '#shared/api/steps.ts';
import { readConfig } from '#shared/kernel/config.ts';
import { connectOutside } from '#shared/outside/connect.ts';

const root = fileURLToPath(new URL('../../../../', import.meta.url));
const osls = fileURLToPath(import.meta.resolve('osls/bin/serverless.js'));

const functionNames: readonly FunctionName[] = [...stepNames, sweepName];

const stage = 'test';
const senders = 'arn:aws:iam::111122223333:role/relay,arn:aws:iam::111122223333:role/replayer';
const parameters = {
  'cluster-id': 'one',
  'kube-server': 'https://kubernetes.example',
  'kube-ca': Buffer.from('PEM').toString('base64'),
  'queue-senders': senders,
};

/** What is read of the template; values that are functions of CloudFormation stay as they are. */
const templateSchema = z.object({
  Resources: z.record(
    z.string(),
    z.object({ Type: z.string(), Properties: z.record(z.string(), z.unknown()) }),
  ),
  Outputs: z.record(z.string(), z.object({ Value: z.unknown() })),
});

type Properties = Readonly<Record<string, unknown>>;

let folder: string;
let template: z.infer<typeof templateSchema>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-stack-'));
  await runPackage(parameters);
  const text = readFileSync(join(folder, 'package/cloudformation-template-update-stack.json'));
  template = templateSchema.parse(JSON.parse(text.toString()));
}, 60_000);

afterAll(() => rmSync(folder, { recursive: true }));

/** Packages `serverless.yml` in a folder of its own, with files in the bundles' place. */
async function runPackage(given: Readonly<Record<string, string>>): Promise<void> {
  cpSync(join(root, 'serverless.yml'), join(folder, 'serverless.yml'));
  cpSync(join(root, 'infra/aws'), join(folder, 'infra/aws'), { recursive: true });
  for (const name of functionNames) {
    const bundle = join(folder, 'dist', name, 'index.mjs');
    mkdirSync(dirname(bundle), { recursive: true });
    writeFileSync(bundle, `export const name = '${name}';\n`);
  }
  const flags = Object.entries(given).flatMap(([name, value]) => ['--param', `${name}=${value}`]);
  const command = [osls, 'package', '--stage', stage, '--package', join(folder, 'package')];
  await promisify(execFile)(process.execPath, [...command, ...flags], {
    cwd: folder,
    env: { PATH: process.env['PATH'], HOME: folder },
  });
}

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

/** What the function's role allows; nobody else's is. */
function permissionsOf(name: FunctionName): unknown {
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
  return Policies;
}

/** The policy of a function that does this with queues, writes its own log and reads one parameter. */
function policyWith(name: FunctionName, queueWork: Properties): unknown {
  const own = (service: string, resource: string) => ({
    'Fn::Sub': `arn:\${AWS::Partition}:${service}:\${AWS::Region}:\${AWS::AccountId}:${resource}`,
  });
  return [
    {
      PolicyName: name,
      PolicyDocument: {
        Version: '2012-10-17',
        Statement: [
          queueWork,
          {
            Effect: 'Allow',
            Action: ['logs:CreateLogStream', 'logs:PutLogEvents'],
            Resource: own('logs', `log-group:/aws/lambda/millrace-${stage}-${name}:*`),
          },
          {
            Effect: 'Allow',
            Action: 'ssm:GetParameter',
            Resource: own('ssm', `parameter/millrace/${stage}/kube-token`),
          },
        ],
      },
    },
  ];
}

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

test('a deployment that does not say who is served is refused, with everything that is missing', async () => {
  const packaging = runPackage({}).catch(({ stdout, stderr }) => `${stdout}${stderr}`);

  const output = await packaging;

  expect(output).toMatch(/MILLRACE_CLUSTER_ID/);
  expect(output).toMatch(/MILLRACE_KUBE_SERVER/);
  expect(output).toMatch(/MILLRACE_KUBE_CA_DATA/);
  expect(output).toMatch(/QueuePolicy.*Principal/);
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

    const answer = await handler({ Records: [aRecord('first'), aRecord('second')] }, aContext());

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
    expect(environment['MILLRACE_KUBE_TOKEN_PARAMETER']).toBe(`/millrace/${stage}/kube-token`);
    expect(functionOf(step).properties['Environment']).toMatchObject({
      Variables: { MILLRACE_QUEUE_URL: { Ref: queueOf(step).id } },
    });
    expect(Object.keys(environment).filter((name) => /TOKEN$|SECRET|PASSWORD/.test(name))).toEqual(
      [],
    );
  });

  test('may work on its own queue, write its own log and read one parameter, and nothing else', () => {
    expect(permissionsOf(step)).toEqual(
      policyWith(step, {
        Effect: 'Allow',
        Action: [
          'sqs:ReceiveMessage',
          'sqs:DeleteMessage',
          'sqs:ChangeMessageVisibility',
          'sqs:GetQueueAttributes',
        ],
        Resource: arnOf(queueOf(step).id),
      }),
    );
  });

  test('takes hints from those named and from the sweep, and refuses everybody else', () => {
    const { id } = queueOf(step);
    const { properties } = only(
      'AWS::SQS::QueuePolicy',
      ({ Queues }) => JSON.stringify(Queues) === JSON.stringify([{ Ref: id }]),
    );
    const sweep = functionOf(sweepName).properties['Role'];
    const named = { 'Fn::Split': [',', { 'Fn::Join': [',', [senders, sweep]] }] };

    expect(properties['PolicyDocument']).toEqual({
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
      ],
    });
  });
});

describe.each(functionNames)('%s', (name) => {
  test('runs its own bundle, and nothing else is packed', () => {
    const { properties } = functionOf(name);

    const packed = entriesOf(readFileSync(join(folder, 'package', `${name}.zip`)));

    expect(properties['Runtime']).toBe('nodejs24.x');
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
      MILLRACE_KUBE_TOKEN_PARAMETER: `/millrace/${stage}/kube-token`,
    });
    expect(
      Object.keys(environmentOf(sweepName)).filter((name) => /TOKEN$|SECRET|PASSWORD/.test(name)),
    ).toEqual([]);
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

/** A function's variables; references to other resources are left out, as they have values only once deployed. */
function environmentOf(name: FunctionName): Record<string, string> {
  return Object.fromEntries(
    Object.entries(variablesOf(name)).flatMap(([name, value]) =>
      typeof value === 'string' ? [[name, value]] : [],
    ),
  );
}

/** A message that is no hint. */
function aRecord(messageId: string): SQSRecord {
  return {
    messageId,
    receiptHandle: messageId,
    body: 'not a hint',
    attributes: {
      ApproximateReceiveCount: '1',
      SentTimestamp: '0',
      SenderId: '',
      ApproximateFirstReceiveTimestamp: '0',
    },
    messageAttributes: {},
    md5OfBody: '',
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:us-east-1:111122223333:queue',
    awsRegion: 'us-east-1',
  };
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
