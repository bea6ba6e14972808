import { X509Certificate } from 'node:crypto';
import * as z from 'zod';
import { recordedChoices } from '#shared/archive/config.ts';
import {
  ConfigurationError,
  always,
  commaList,
  logLevel,
  readConfig,
} from '#shared/kernel/config.ts';

/** What a role or user is called who signs in as itself, and one who has taken a role. */
const principal =
  /^arn:aws[a-z-]*:(iam::\d{12}:(role|user)\/[\w+=,.@/-]+|sts::\d{12}:assumed-role\/\S+)$/;

/** The template splits it at its commas and nowhere else, so a space would become part of what stands behind it. */
const exactList = z
  .string()
  .default('')
  .transform((text) => (text === '' ? [] : text.split(',')));

/** What a deployment is told, by the names of the parameters. What each is for: README.md, "Deploy it to AWS". */
const parametersSchema = z
  .object({
    stage: z
      .string()
      .regex(
        /^[A-Za-z][A-Za-z0-9-]{0,39}$/,
        'must be at most 40 letters, digits and hyphens, a letter first: functions and queues are named by it',
      ),
    'cluster-id': z
      .string('is missing: the relay’s MILLRACE_CLUSTER_ID; hints of any other cluster are refused')
      .max(100, 'has more than 100 characters'),
    'kube-server': z.url({
      protocol: /^https$/,
      error: 'is missing or no https:// address: the API server’s, as a kubeconfig’s server',
    }),
    'kube-ca': z
      .string('is missing: the cluster’s certificate-authority-data, as a kubeconfig has it')
      .refine(
        isCertificate,
        'is no certificate: give the cluster’s certificate-authority-data as it stands in a kubeconfig, base64 of PEM',
      ),
    'queue-senders': exactList.refine(
      (arns) => arns.length > 0 && arns.every((arn) => principal.test(arn)),
      'is missing or no list of ARNs: the roles or users, with commas and no spaces between them, of the relay and of whoever moves dead letters back; neither * nor a whole account',
    ),
    namespaces: commaList.refine(
      (names) => names.every((name) => /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(name)),
      'must be names of namespaces, with commas between them; leave it out for all',
    ),
    'eks-cluster': z
      .string()
      .regex(
        /^[a-zA-Z0-9][a-zA-Z0-9_-]{0,99}$/,
        'must be the name of a cluster in EKS; leave it out and functions sign in with tokens',
      )
      .optional(),
    'kube-token-parameter': z
      .string()
      .regex(
        /^\/[\w.-]+(\/[\w.-]+)*$/,
        'must be the full name of a parameter of Parameter Store, such as /millrace/prod/kube-token; leave it out and each function reads one of its own',
      )
      .optional(),
    'log-level': logLevel,
    archive: z
      .enum(recordedChoices, `must be one of ${recordedChoices.join(', ')}`)
      .default('failures'),
    'otel-endpoint': z
      .url({
        protocol: /^https?$/,
        error:
          'must be the http(s):// address of a collector that takes OTLP over HTTP, without /v1/traces; leave it out to trace nothing',
      })
      .optional(),
    'subnet-ids': exactList
      .refine(
        (ids) => ids.every((id) => /^subnet-([0-9a-f]{8}|[0-9a-f]{17})$/.test(id)),
        'must be ids of subnets, with commas and no spaces between them; leave it out for no VPC',
      )
      .refine((ids) => ids.length <= 16, 'has more than the 16 subnets that Lambda takes'),
    'security-group-ids': exactList
      .refine(
        (ids) => ids.every((id) => /^sg-([0-9a-f]{8}|[0-9a-f]{17})$/.test(id)),
        'must be ids of security groups, with commas and no spaces between them',
      )
      .refine((ids) => ids.length <= 5, 'has more than the 5 security groups that Lambda takes'),
    'alarm-topic': z
      .string()
      .regex(
        /^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[\w-]+$/,
        'must be the ARN of an SNS topic; leave it out to be told nothing',
      )
      .optional(),
  })
  .refine(
    ({ 'eks-cluster': cluster, 'kube-token-parameter': token }) =>
      cluster === undefined || token === undefined,
    {
      path: ['eks-cluster'],
      when: always,
      error:
        'and kube-token-parameter exclude each other: functions sign in as their roles, or with a token',
    },
  )
  .refine(
    ({ 'subnet-ids': subnets, 'security-group-ids': groups }) =>
      (subnets.length === 0) === (groups.length === 0),
    {
      path: ['subnet-ids'],
      when: always,
      error: 'and security-group-ids belong together: give both, or neither for no VPC',
    },
  );

const parameterNames: readonly string[] = Object.keys(parametersSchema.shape).filter(
  (name) => name !== 'stage',
);

/**
 * What is missing or wrong, and what to give instead: one sentence for each.
 *
 * @param parameters as they are in force; an empty one counts as absent
 * @param given the names on the command line, none of which may be misspelt
 */
export function problemsOf(
  parameters: Readonly<Record<string, string | undefined>>,
  given: readonly string[],
): readonly string[] {
  const misspelt = given
    .filter((name) => !parameterNames.includes(name))
    .map((name) => `${name}: is no parameter; there are ${parameterNames.join(', ')}`);
  try {
    readConfig(parametersSchema, parameters);
    return misspelt;
  } catch (error) {
    if (error instanceof ConfigurationError) {
      return [...misspelt, ...error.problems];
    }
    throw error;
  }
}

function isCertificate(base64: string): boolean {
  try {
    void new X509Certificate(Buffer.from(base64, 'base64').toString('utf8'));
    return true;
  } catch {
    return false;
  }
}
