import { fromEnv } from '@aws-sdk/credential-provider-env';
import aws4 from 'aws4';

/** The header in whose signature the cluster's name stands, so that a token for one cluster is none for another. */
const clusterHeader = 'x-k8s-aws-id';

/**
 * How long the URL says that it is good, in seconds, as `aws eks get-token` has it. EKS takes a token for 15 minutes from
 * its date whatever stands there (aws-iam-authenticator, `pkg/token/token.go`).
 */
const urlSeconds = 60;

/** The domains of AWS's services where it is not amazonaws.com, by how the regions' names begin. */
const otherDomains: readonly (readonly [string, string])[] = [
  ['cn-', 'amazonaws.com.cn'],
  ['eusc-', 'amazonaws.eu'],
];

/**
 * Makes the token by which EKS knows a role of IAM: the question to AWS's STS who the caller is, signed and not sent. The
 * cluster sends it, and learns who could sign it. Nothing is asked of AWS here.
 *
 * The credentials are those of the environment, as Lambda sets them for the function's role; rejects where there are none.
 *
 * @param cluster its name in EKS
 * @param region whose STS is to be asked
 */
export async function signEksToken(cluster: string, region: string): Promise<string> {
  const [, domain = 'amazonaws.com'] =
    otherDomains.find(([prefix]) => region.startsWith(prefix)) ?? [];
  const host = `sts.${region}.${domain}`;
  const { path = '' } = aws4.sign(
    {
      method: 'GET',
      host,
      path: `/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=${urlSeconds}`,
      service: 'sts',
      region,
      headers: { [clusterHeader]: cluster },
      signQuery: true,
    },
    await fromEnv()(),
  );
  return `k8s-aws-v1.${Buffer.from(`https://${host}${path}`).toString('base64url')}`;
}
