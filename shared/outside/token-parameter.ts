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
  return keepRead(
    async () => readToken(await (connecting ??= openClient(region)), name, region),
    keptMs,
  );
}

async function readToken(client: SSMClient, name: string, region: string): Promise<string> {
  const { GetParameterCommand } = await import('@aws-sdk/client-ssm');
  const answer = await client
    .send(new GetParameterCommand({ Name: name, WithDecryption: true }))
    .catch((error: unknown) => {
      throw explained(error, name, region);
    });
  const token = answer.Parameter?.Value?.trim() ?? '';
  if (token === '') {
    throw new Error(`the parameter ${name} is empty`);
  }
  return token;
}

/** What is wrong and what to do, where that is known; what AWS says stands behind. */
function explained(error: unknown, name: string, region: string): unknown {
  if (!(error instanceof Error)) {
    return error;
  }
  const said = error.message === '' ? error.name : error.message;
  const code = 'code' in error ? String(error.code) : '';
  const isUnreached = /^(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|EHOSTUNREACH|ETIMEDOUT)$/.test(code);
  const what = problemOf(isUnreached ? 'TimeoutError' : error.name, name, region);
  return new Error(what === undefined ? `the parameter ${name}: ${said}` : `${what} (${said})`, {
    cause: error,
  });
}

function problemOf(kind: string, name: string, region: string): string | undefined {
  switch (kind) {
    case 'ParameterNotFound':
      return `there is no parameter ${name} in ${region}: put the token there, as a SecureString`;
    case 'AccessDeniedException':
      return `this function’s role may not read the parameter ${name}: it may read the one that was deployed for it, with the key aws/ssm`;
    case 'TimeoutError':
      return `Parameter Store in ${region} cannot be reached: from a VPC it takes a NAT gateway or an endpoint for ssm`;
    default:
      return undefined;
  }
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
