import { type FunctionName, functionNames, tokenParameterName } from '#shared/api/steps.ts';
import {
  type Template,
  arnOf,
  idPrefix,
  isGiven,
  onlyIf,
  ownArn,
  roleId,
  stage,
  unless,
} from './template.ts';

/** The conditions under which functions sign in to the API server as their roles, and with one token for all. */
const onEks = 'OnEks';
const sharesToken = 'SharesToken';

export const signInParameters: Template = {
  EksCluster: {
    Type: 'String',
    Description: 'The cluster of EKS that functions sign in to as their roles; empty: with tokens',
    Default: '${param:eks-cluster}',
  },
  KubeTokenParameter: {
    Type: 'String',
    Description: 'A SecureString that all functions sign in with; empty: each has its own',
    Default: '${param:kube-token-parameter}',
  },
};

export const signInConditions: Template = {
  [onEks]: isGiven('EksCluster'),
  [sharesToken]: isGiven('KubeTokenParameter'),
};

/** How a function signs in to the API server: one of the two, never both. */
export function signInVariables(name: FunctionName): Template {
  const token = eitherToken({ Ref: 'KubeTokenParameter' }, tokenParameterName(stage, name));
  return {
    MILLRACE_EKS_CLUSTER: onlyIf(onEks, { Ref: 'EksCluster' }),
    MILLRACE_KUBE_TOKEN_PARAMETER: unless(onEks, token),
  };
}

/** A function reads the parameter that it is told, and no other function's. Who signs in as its role reads none. */
export function signInStatements(name: FunctionName): readonly Template[] {
  const reading = {
    Effect: 'Allow',
    Action: 'ssm:GetParameter',
    Resource: eitherToken(
      ownArn('ssm', 'parameter${KubeTokenParameter}'),
      ownArn('ssm', `parameter${tokenParameterName(stage, name)}`),
    ),
  };
  return [unless(onEks, reading)];
}

/** Who the functions are in AWS, which is how EKS knows them. */
export const roleOutputs: Template = Object.fromEntries(
  functionNames.map((name) => [
    `${idPrefix(name)}RoleArn`,
    { Description: `The role of ${name}`, Value: arnOf(roleId(name)) },
  ]),
);

function eitherToken(shared: unknown, own: unknown): Template {
  return { 'Fn::If': [sharesToken, shared, own] };
}
