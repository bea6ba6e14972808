import { type FunctionName, functionName } from '#shared/api/steps.ts';
import { type Template, functionId, isGiven, onlyIf, ownArn, stage } from './template.ts';

/** The condition under which functions run in a network of the user's. */
const inVpc = 'InVpc';

/** What Lambda does with a network interface for a function (AWS Lambda Developer Guide, "Required IAM permissions"). */
const interfaceWork = [
  'ec2:CreateNetworkInterface',
  'ec2:DescribeNetworkInterfaces',
  'ec2:DescribeSubnets',
  'ec2:DeleteNetworkInterface',
  'ec2:AssignPrivateIpAddresses',
  'ec2:UnassignPrivateIpAddresses',
];

export const networkParameters: Template = {
  SubnetIds: {
    Type: 'String',
    Description: 'Subnets that the functions run in, with commas; empty: no VPC',
    Default: '${param:subnet-ids}',
  },
  SecurityGroupIds: {
    Type: 'String',
    Description: 'Their security groups, with commas',
    Default: '${param:security-group-ids}',
  },
};

export const networkConditions: Template = {
  [inVpc]: {
    'Fn::And': ['SubnetIds', 'SecurityGroupIds'].map(isGiven),
  },
};

/** Puts a function that Serverless makes into the network. */
export function joinNetwork(name: FunctionName): Template {
  const list = (parameter: string) => ({ 'Fn::Split': [',', { Ref: parameter }] });
  return {
    [functionId(name)]: {
      Properties: {
        VpcConfig: onlyIf(inVpc, {
          SubnetIds: list('SubnetIds'),
          SecurityGroupIds: list('SecurityGroupIds'),
        }),
      },
    },
  };
}

/** Lambda acts with the function's role; the code that runs under the same role shall not. */
export function networkStatements(name: FunctionName): readonly Template[] {
  const work = { Action: interfaceWork, Resource: '*' };
  return [
    onlyIf(inVpc, { Effect: 'Allow', ...work }),
    onlyIf(inVpc, {
      Effect: 'Deny',
      ...work,
      Condition: {
        ArnEquals: {
          'lambda:SourceFunctionArn': ownArn('lambda', `function:${functionName(stage, name)}`),
        },
      },
    }),
  ];
}
