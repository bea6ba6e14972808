import type { FunctionName, StepName } from '#shared/api/steps.ts';

/** A part of a CloudFormation template, as Serverless reads it. */
export type Template = { readonly [key: string]: unknown };

/** What Serverless puts in when it packages. */
export const stage = '${sls:stage}';
export const clusterId = '${param:cluster-id}';

export const daySeconds = 24 * 60 * 60;

export function policy(statements: readonly Template[]): Template {
  return { Version: '2012-10-17', Statement: statements };
}

/** Whoever does not use TLS is refused, whatever else allows it. */
export function refuseWithoutTls(action: string, resource: unknown): Template {
  return {
    Effect: 'Deny',
    Principal: '*',
    Action: action,
    Resource: resource,
    Condition: { Bool: { 'aws:SecureTransport': 'false' } },
  };
}

/** The name of something of this account in this region. */
export function ownArn(service: string, resource: string): Template {
  return {
    'Fn::Sub': `arn:\${AWS::Partition}:${service}:\${AWS::Region}:\${AWS::AccountId}:${resource}`,
  };
}

export function arnOf(logicalId: string): Template {
  return { 'Fn::GetAtt': [logicalId, 'Arn'] };
}

/** Whether a parameter of the stack was given, as a condition. */
export function isGiven(parameter: string): Template {
  return { 'Fn::Not': [{ 'Fn::Equals': [{ Ref: parameter }, ''] }] };
}

/** What is there under a condition of the stack, and is as if it had not been written otherwise. */
export function onlyIf(condition: string, value: unknown): Template {
  return { 'Fn::If': [condition, value, { Ref: 'AWS::NoValue' }] };
}

/** Its opposite: what is there only where the condition does not hold. */
export function unless(condition: string, value: unknown): Template {
  return { 'Fn::If': [condition, { Ref: 'AWS::NoValue' }, value] };
}

export function queueId(step: StepName): string {
  return `${idPrefix(step)}Queue`;
}

export function deadLetterQueueId(step: StepName): string {
  return `${idPrefix(step)}DeadLetterQueue`;
}

export function roleId(name: FunctionName): string {
  return `${idPrefix(name)}Role`;
}

/** The id that Serverless gives to a function of this name (osls 4, `lib/plugins/aws/lib/naming.js`). */
export function functionId(name: FunctionName): string {
  const [first = '', ...rest] = name.replaceAll('-', 'Dash');
  return `${first.toUpperCase()}${rest.join('')}LambdaFunction`;
}

/** `drain-step` → `DrainStep`: logical ids are letters and digits. */
export function idPrefix(name: FunctionName): string {
  return name.replaceAll(/(?:^|-)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
