import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import {
  CloudFormationClient,
  DescribeStackResourcesCommand,
  DescribeStacksCommand,
} from '@aws-sdk/client-cloudformation';
import {
  CreateAccessKeyCommand,
  CreateRoleCommand,
  CreateUserCommand,
  EntityAlreadyExistsException,
  IAMClient,
  PutRolePolicyCommand,
  PutUserPolicyCommand,
} from '@aws-sdk/client-iam';
import { PutParameterCommand, SSMClient } from '@aws-sdk/client-ssm';
import aws4 from 'aws4';
import { parse, stringify } from 'yaml';
import * as z from 'zod';
import {
  type Cloud,
  cloudAccount,
  cloudAdministrator,
  cloudRegion,
} from '#infra/local/cloud/start.ts';
import { startGuarded } from '#infra/local/control-plane/guard.ts';
import { readLastLines } from '#infra/local/control-plane/log-tail.ts';
import { idPrefix, roleId } from '#infra/aws/template.ts';
import {
  type FunctionName,
  functionNames,
  stepNames,
  tokenParameterName,
} from '#shared/api/steps.ts';
import type { KubeAccess } from '#shared/kube/connection.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const osls = fileURLToPath(import.meta.resolve('osls/bin/serverless.js'));

export const stage = 'test';
export const clusterId = 'deploy-test';

export interface AccessKey {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

/** What whoever has taken a role signs with. */
export interface Session extends AccessKey {
  readonly sessionToken: string;
}

export interface Person extends AccessKey {
  readonly arn: string;
}

export interface DeploymentOptions {
  readonly cloud: Cloud;
  readonly folder: string;
  readonly namespaces: readonly string[];
  readonly kube: KubeAccess;
  /** What the functions sign in to the API server with, where it is a token. */
  readonly kubeToken?: string;
  /** Of the stack, besides those that every deployment needs. */
  readonly parameters?: Readonly<Record<string, string>>;
}

export interface Deployment {
  /** The stack's output of this name. */
  readonly queueUrlPrefix: string;
  /** Everything that was packaged: templates, state and artifacts. */
  readonly packageFolder: string;
  /** Named by the queues' policies. */
  readonly relay: Person;
  /** Allowed everything with queues by its own policy. */
  readonly stranger: Person;
  /** The name of a function's role. */
  roleOf(name: FunctionName): Promise<string>;
  /** Lets the schedule of the sweep tick every minute, the shortest there is, instead of every five. */
  hastenSweep(): Promise<void>;
}

/** In AWS the permission to send covers batches; the stand-in asks for one of the call's own name as well. */
export const batches = 'sqs:SendMessageBatch';

/** In AWS the `aws:PrincipalArn` of a function is its role; the stand-in says its session. */
const sweepSessions = `arn:aws:sts::${cloudAccount}:assumed-role/millrace-${stage}-SweepRole-*/*`;

/** What a client of the stand-in needs, whoever signs. */
export function clientOf({ endpoint }: Cloud, credentials: AccessKey = cloudAdministrator) {
  return { endpoint, region: cloudRegion, credentials };
}

/**
 * Does what a person does to deploy Millrace: puts the tokens into the account, builds the bundles, packages and deploys
 * `serverless.yml`.
 */
export async function deploy(options: DeploymentOptions): Promise<Deployment> {
  const { cloud, folder, kube, namespaces } = options;
  if (options.kubeToken !== undefined) {
    await putTokens(cloud, options.kubeToken);
  }
  const relay = await createUser(cloud, 'relay', batches);
  const stranger = await createUser(cloud, 'stranger', 'sqs:*');
  const project = await copyProject(join(folder, 'project'));
  await promisify(execFile)(process.execPath, [join(project, 'infra/build.ts')], { cwd: project });
  const packageFolder = join(folder, 'package');
  const parameters = {
    'cluster-id': clusterId,
    'kube-server': kube.server,
    'kube-ca': Buffer.from(kube.ca ?? '').toString('base64'),
    'queue-senders': [relay.arn, sweepSessions].join(','),
    namespaces: namespaces.join(','),
    ...options.parameters,
  };
  const run = { cloud, folder, project, packageFolder, parameters };
  await runOsls('package', run);
  await runOsls('deploy', run);
  await allowBatches(cloud, await physicalIdOf(cloud, 'AWS::IAM::Role', 'SweepRole'));
  return {
    queueUrlPrefix: await outputOf(cloud, 'QueueUrlPrefix'),
    packageFolder,
    relay,
    stranger,
    roleOf: (name) => physicalIdOf(cloud, 'AWS::IAM::Role', roleId(name)),
    hastenSweep: async () => hasten(cloud, await physicalIdOf(cloud, 'AWS::Events::Rule')),
  };
}

/** What is deployed is built from the sources as they are now, and no build beside this one is disturbed. */
export async function copyProject(target: string): Promise<string> {
  for (const part of ['functions', 'shared', 'events', 'infra', 'package.json', 'serverless.yml']) {
    await cp(join(root, part), join(target, part), { recursive: true });
  }
  await symlink(join(root, 'node_modules'), join(target, 'node_modules'));
  await admitWithoutTls(join(target, 'infra/aws/resources.yml'));
  return target;
}

const statement = z.looseObject({
  Condition: z.looseObject({ Bool: z.unknown() }).partial().optional(),
});
const resourcesSchema = z.looseObject({
  Resources: z.record(
    z.string(),
    z.looseObject({
      Properties: z.looseObject({
        PolicyDocument: z.looseObject({ Statement: z.array(statement) }).optional(),
      }),
    }),
  ),
});

/**
 * The stand-in is spoken to without TLS and minds it, so hints could not be sent, and looks not recorded. The dead-letter
 * queues keep the rule: on them it is seen to hold.
 */
async function admitWithoutTls(path: string): Promise<void> {
  const resources = resourcesSchema.parse(parse(await readFile(path, 'utf8')));
  for (const name of [...stepNames.map((step) => `${idPrefix(step)}Queue`), 'ArchiveBucket']) {
    const document = resources.Resources[`${name}Policy`]?.Properties.PolicyDocument;
    if (document === undefined) {
      throw new Error(`${name} has no policy`);
    }
    document.Statement = document.Statement.filter(
      ({ Condition }) => Condition?.Bool === undefined,
    );
  }
  await writeFile(path, stringify(resources, { aliasDuplicateObjects: false }));
}

/** Each function reads a parameter of its own, and its role lets it read no other. */
async function putTokens(cloud: Cloud, token: string): Promise<void> {
  const client = new SSMClient(clientOf(cloud));
  for (const name of functionNames) {
    const Name = tokenParameterName(stage, name);
    await client.send(new PutParameterCommand({ Name, Type: 'SecureString', Value: token }));
  }
  client.destroy();
}

/** Makes a role that everybody of the account may take, and takes it, as Lambda does for a function. */
export async function sessionOf(cloud: Cloud, role: string): Promise<Session> {
  const iam = new IAMClient(clientOf(cloud));
  const trust = JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Principal: { AWS: '*' }, Action: 'sts:AssumeRole' }],
  });
  await iam
    .send(new CreateRoleCommand({ RoleName: role, AssumeRolePolicyDocument: trust }))
    .catch((error: unknown) => {
      if (!(error instanceof EntityAlreadyExistsException)) {
        throw error;
      }
    });
  iam.destroy();
  const arn = `arn:aws:iam::${cloudAccount}:role/${role}`;
  const query = new URLSearchParams({
    Action: 'AssumeRole',
    Version: '2011-06-15',
    RoleArn: arn,
    RoleSessionName: 'test',
  });
  const { host } = new URL(cloud.endpoint);
  const { headers = {} } = aws4.sign(
    { host, path: `/?${query.toString()}`, service: 'sts', region: cloudRegion },
    cloudAdministrator,
  );
  const answer = await fetch(`${cloud.endpoint}/?${query.toString()}`, {
    headers: new Headers(Object.entries(headers).map(([name, value]) => [name, String(value)])),
  });
  const text = await answer.text();
  const valueOf = (name: string) => new RegExp(`<${name}>([^<]+)<`).exec(text)?.[1];
  return z
    .object({ accessKeyId: z.string(), secretAccessKey: z.string(), sessionToken: z.string() })
    .parse({
      accessKeyId: valueOf('AccessKeyId'),
      secretAccessKey: valueOf('SecretAccessKey'),
      sessionToken: valueOf('SessionToken'),
    });
}

/** @param allowed what its own policy allows, on everything */
export async function createUser(
  cloud: Cloud,
  name: string,
  allowed: string | readonly string[],
): Promise<Person> {
  const client = new IAMClient(clientOf(cloud));
  const { User: user } = await client.send(new CreateUserCommand({ UserName: name }));
  const { AccessKey: key } = await client.send(new CreateAccessKeyCommand({ UserName: name }));
  const PolicyDocument = allowing(allowed);
  await client.send(new PutUserPolicyCommand({ UserName: name, PolicyName: name, PolicyDocument }));
  client.destroy();
  return {
    arn: user?.Arn ?? '',
    accessKeyId: key?.AccessKeyId ?? '',
    secretAccessKey: key?.SecretAccessKey ?? '',
  };
}

/** Lets a role of the account send, as far as the stand-in asks more than AWS does. */
export async function allowBatches(cloud: Cloud, role: string): Promise<void> {
  const client = new IAMClient(clientOf(cloud));
  const PolicyDocument = allowing(batches);
  await client.send(
    new PutRolePolicyCommand({ RoleName: role, PolicyName: 'batches', PolicyDocument }),
  );
  client.destroy();
}

function allowing(action: string | readonly string[]): string {
  return JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Action: action, Resource: '*' }],
  });
}

/**
 * Lets a rule tick every minute, the shortest there is. The SDK has a client of its own for EventBridge, which nothing else
 * here needs.
 */
export async function hasten(cloud: Cloud, rule: string): Promise<void> {
  const { host } = new URL(cloud.endpoint);
  const body = JSON.stringify({ Name: rule, ScheduleExpression: 'rate(1 minute)' });
  const { headers = {} } = aws4.sign(
    {
      method: 'POST',
      host,
      path: '/',
      service: 'events',
      region: cloudRegion,
      headers: {
        'content-type': 'application/x-amz-json-1.1',
        'x-amz-target': 'AWSEvents.PutRule',
      },
      body,
    },
    cloudAdministrator,
  );
  const answer = await fetch(cloud.endpoint, {
    method: 'POST',
    headers: new Headers(Object.entries(headers).map(([name, value]) => [name, String(value)])),
    body,
  });
  if (!answer.ok) {
    throw new Error(`the rule was not changed: ${answer.status} ${await answer.text()}`);
  }
}

/** The name of a stack's one resource of a type, or of the one with this logical id. */
export async function physicalIdOf(
  cloud: Cloud,
  type: string,
  logicalId?: string,
  stack = `millrace-${stage}`,
): Promise<string> {
  const client = new CloudFormationClient(clientOf(cloud));
  const { StackResources: resources = [] } = await client.send(
    new DescribeStackResourcesCommand({ StackName: stack }),
  );
  client.destroy();
  const found = resources.filter(
    ({ ResourceType, LogicalResourceId: id }) =>
      ResourceType === type && (logicalId === undefined || id === logicalId),
  );
  const [resource] = found;
  if (found.length !== 1 || resource?.PhysicalResourceId === undefined) {
    throw new Error(`the stack has ${found.length} resources of type ${type}`);
  }
  return resource.PhysicalResourceId;
}

interface OslsRun {
  readonly cloud: Cloud;
  readonly folder: string;
  readonly project: string;
  readonly packageFolder: string;
  readonly parameters: Readonly<Record<string, string>>;
}

async function runOsls(command: 'package' | 'deploy', run: OslsRun): Promise<void> {
  const logPath = join(run.folder, `${command}.log`);
  const home = join(run.folder, 'home');
  await mkdir(home, { recursive: true });
  const parameters = Object.entries(run.parameters).flatMap(([name, value]) => [
    '--param',
    `${name}=${value}`,
  ]);
  const end = await startGuarded({
    command: process.execPath,
    flags: [osls, command, '--stage', stage, '--package', run.packageFolder, ...parameters],
    workingDir: run.project,
    logPath,
    environment: {
      PATH: '/usr/bin:/bin',
      // Nothing of the user's: no profile, no configuration.
      HOME: home,
      AWS_ENDPOINT_URL: run.cloud.endpoint,
      AWS_REGION: cloudRegion,
      AWS_ACCESS_KEY_ID: cloudAdministrator.accessKeyId,
      AWS_SECRET_ACCESS_KEY: cloudAdministrator.secretAccessKey,
    },
  }).exited;
  if (end !== 'code 0') {
    const lines = await readLastLines(logPath, 20);
    throw new Error(`osls ${command} ended with ${end}:\n${lines.join('\n')}`);
  }
}

async function outputOf(cloud: Cloud, name: string): Promise<string> {
  const client = new CloudFormationClient(clientOf(cloud));
  const { Stacks: stacks } = await client.send(
    new DescribeStacksCommand({ StackName: `millrace-${stage}` }),
  );
  client.destroy();
  const output = stacks?.[0]?.Outputs?.find(({ OutputKey: key }) => key === name);
  return output?.OutputValue ?? '';
}
