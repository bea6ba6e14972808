import { describe, expect, test } from 'vitest';
import { problemsOf } from '#infra/aws/parameters.ts';
import { optionalParameters, requiredParameters } from '#test/deploy/package-stack.ts';

/** As they are when only what is required was given: the defaults of `serverless.yml` for the rest. */
const required = {
  stage: 'prod',
  ...requiredParameters,
  namespaces: '',
  'eks-cluster': '',
  'kube-token-parameter': '',
  'log-level': 'info',
  'subnet-ids': '',
  'security-group-ids': '',
  'alarm-topic': '',
};

/** The names of the parameters that are complained about. */
function complaints(
  parameters: Readonly<Record<string, string>>,
  given: readonly string[] = [],
): readonly string[] {
  return problemsOf(parameters, given).map((problem) => problem.replace(/:.*$/s, ''));
}

test('the required parameters alone are enough', () => {
  expect(problemsOf(required, Object.keys(requiredParameters))).toEqual([]);
});

test('every parameter may be given', () => {
  const all = { ...required, ...optionalParameters };

  expect(
    problemsOf(all, [...Object.keys(requiredParameters), ...Object.keys(optionalParameters)]),
  ).toEqual([]);
});

test('without any, each that is required is named once', () => {
  const empty = Object.fromEntries(Object.keys(required).map((name) => [name, '']));
  const named = { ...empty, stage: 'prod', 'log-level': '' };

  expect(complaints(named)).toEqual(Object.keys(requiredParameters));
});

test('problems of form and problems between parameters come out together', () => {
  const wrong = { ...required, 'cluster-id': '', 'subnet-ids': 'subnet-0a0a0a0a' };

  expect(complaints(wrong, ['cluster'])).toEqual(['cluster', 'cluster-id', 'subnet-ids']);
});

test('tokens and EKS are two ways to sign in, of which one is chosen', () => {
  const both = { ...required, 'eks-cluster': 'orders', 'kube-token-parameter': '/a' };

  expect(complaints(both)).toEqual(['eks-cluster']);
});

test('a misspelt name is answered with those that there are', () => {
  expect(problemsOf(required, ['namespace'])).toEqual([
    expect.stringMatching(/^namespace: is no parameter; there are cluster-id, .*namespaces/),
  ]);
});

describe.each([
  ['stage', 'a_b', 'an underscore, which no stack may have'],
  ['stage', 'x'.repeat(41), 'too long for the longest function’s name'],
  ['cluster-id', 'x'.repeat(101), 'longer than any relay’s'],
  ['kube-server', 'http://kubernetes.example', 'the token in the clear'],
  ['kube-server', 'kubernetes.example:6443', 'no URL'],
  ['kube-ca', '-----BEGIN CERTIFICATE-----', 'PEM as it is, not base64'],
  ['kube-ca', Buffer.from('PEM').toString('base64'), 'base64 of something else'],
  ['queue-senders', '*', 'everybody'],
  ['queue-senders', 'arn:aws:iam::111122223333:root', 'a whole account'],
  ['queue-senders', 'relay', 'a name'],
  ['queue-senders', 'arn:aws:iam::111122223333:role/*', 'any role'],
  ['queue-senders', requiredParameters['queue-senders'].replace(',', ', '), 'a space in an ARN'],
  ['namespaces', 'db,Web', 'no name of a namespace'],
  ['eks-cluster', 'https://x.eks.amazonaws.com', 'an address'],
  ['kube-token-parameter', 'token', 'a name without its path, which ARNs are made of'],
  ['log-level', 'loud', 'no level'],
  ['subnet-ids', 'zone-a', 'no id of a subnet'],
  ['subnet-ids', 'subnet-0a0a0a0a,', 'a subnet without a name'],
  ['security-group-ids', 'default', 'a name'],
  ['alarm-topic', 'on-call', 'a name'],
])('%s', (name, value, what) => {
  test(`is refused as ${JSON.stringify(value).slice(0, 40)}: ${what}`, () => {
    const network = {
      'subnet-ids': 'subnet-0a0a0a0a',
      'security-group-ids': 'sg-0a0a0a0a',
    };

    const named = complaints({ ...required, ...network, [name]: value });

    expect(named).toEqual([name]);
  });

  test(`does not repeat ${JSON.stringify(value).slice(0, 20)}, which may be a secret in the wrong place`, () => {
    const said = problemsOf({ ...required, [name]: value }, []).join('\n');

    expect(said.includes(`"${value}"`)).toBe(false);
  });
});

test('subnets without security groups are half a network', () => {
  expect(problemsOf({ ...required, 'subnet-ids': 'subnet-0a0a0a0a' }, [])).toEqual([
    expect.stringContaining('security-group-ids'),
  ]);
});
