import { type FunctionName, tokenParameterName } from '#shared/api/steps.ts';
import { type Template, isGiven, ownArn, stage } from './template.ts';

/** The condition under which all functions sign in with one token. */
const sharesToken = 'SharesToken';

export const signInParameters: Template = {
  KubeTokenParameter: {
    Type: 'String',
    Description: 'A SecureString that all functions sign in with; empty: each has its own',
    Default: '${param:kube-token-parameter}',
  },
};

export const signInConditions: Template = { [sharesToken]: isGiven('KubeTokenParameter') };

/** Where a function finds what it signs in to the API server with. */
export function signInVariables(name: FunctionName): Template {
  return {
    MILLRACE_KUBE_TOKEN_PARAMETER: eitherToken(
      { Ref: 'KubeTokenParameter' },
      tokenParameterName(stage, name),
    ),
  };
}

/** A function reads the parameter that it is told, and no other function's. */
export function signInStatements(name: FunctionName): readonly Template[] {
  return [
    {
      Effect: 'Allow',
      Action: 'ssm:GetParameter',
      Resource: eitherToken(
        ownArn('ssm', 'parameter${KubeTokenParameter}'),
        ownArn('ssm', `parameter${tokenParameterName(stage, name)}`),
      ),
    },
  ];
}

function eitherToken(shared: unknown, own: unknown): Template {
  return { 'Fn::If': [sharesToken, shared, own] };
}
