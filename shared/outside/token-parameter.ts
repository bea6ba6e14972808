import type { SSMClient } from '@aws-sdk/client-ssm';
import { type KeptRead, keepRead } from '#shared/kernel/kept-read.ts';

/** How long a token is used before it is read again, in milliseconds: a rotated one is in use after at most so long. */
const keptMs = 5 * 60_000;

/** How long connecting and one call may take, in milliseconds. A look that waits longer is better made anew. */
const connectionTimeoutMs = 3_000;
const requestTimeoutMs = 5_000;

/**
 * Reads a bearer token from a SecureString of AWS Systems Manager Parameter Store: it stands neither in a template nor in
 * a function's environment, and who may read it is said by IAM. The SDK is loaded at the first call.
 *
 * The answer's function rejects where the parameter cannot be read or is empty; a failure is not kept.
 *
 * @param name the parameter's name, `/millrace/prod/kube-token`
 */
export function tokenFromParameter(name: string, region: string): KeptRead<string> {
  let connecting: Promise<SSMClient> | undefined;
  return keepRead(async () => readToken(await (connecting ??= openClient(region)), name), keptMs);
}

async function readToken(client: SSMClient, name: string): Promise<string> {
  const { GetParameterCommand } = await import('@aws-sdk/client-ssm');
  const answer = await client.send(new GetParameterCommand({ Name: name, WithDecryption: true }));
  const token = answer.Parameter?.Value?.trim() ?? '';
  if (token === '') {
    throw new Error(`the parameter ${name} is empty`);
  }
  return token;
}

async function openClient(region: string): Promise<SSMClient> {
  const { SSMClient } = await import('@aws-sdk/client-ssm');
  return new SSMClient({
    region,
    maxAttempts: 2,
    requestHandler: {
      connectionTimeout: connectionTimeoutMs,
      requestTimeout: requestTimeoutMs,
      // Without it a call that takes longer is only warned of, and one that hangs, hangs for ever.
      throwOnRequestTimeout: true,
    },
  });
}
