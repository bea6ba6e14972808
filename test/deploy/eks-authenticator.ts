import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import {
  type IncomingMessage,
  type ServerResponse,
  createServer,
  request as sendRequest,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { stringify } from 'yaml';
import * as z from 'zod';

/** The rules of aws-iam-authenticator's verifier (`pkg/token/token.go`), by which EKS goes. */
const prefix = 'k8s-aws-v1.';
const maxTokenLength = 4096;
const maxAgeMs = 15 * 60_000;
const maxExpiresSeconds = 900;
const allowedParameters = [
  'action',
  'version',
  'x-amz-algorithm',
  'x-amz-credential',
  'x-amz-date',
  'x-amz-expires',
  'x-amz-security-token',
  'x-amz-signature',
  'x-amz-signedheaders',
];

const reviewSchema = z.object({ spec: z.object({ token: z.string() }) });

export interface AuthenticatorOptions {
  /** The one cluster that tokens may be for. */
  readonly cluster: string;
  /** Where STS answers. A token names AWS's own host, as which it is asked. */
  readonly stsEndpoint: () => string;
  /** Access entries: by a role's name in AWS, the user it is in the cluster. */
  readonly entries: ReadonlyMap<string, string>;
}

export interface Authenticator {
  /** Makes the API server ask this authenticator about tokens that it does not know. */
  readonly apiServerFlags: readonly string[];
  /** Why each token that was not taken was not. */
  readonly refusals: readonly string[];
  stop(): void;
}

/**
 * Stands in for what EKS has beside its API server: takes a token when it is a request to STS that was signed for this
 * cluster not long ago, asks STS with it, and looks the role in the answer up among the access entries.
 */
export async function startAuthenticator(
  folder: string,
  options: AuthenticatorOptions,
): Promise<Authenticator> {
  const refusals: string[] = [];
  const review = async (request: IncomingMessage): Promise<object> => {
    const { token } = reviewSchema.parse(JSON.parse(await text(request))).spec;
    try {
      return { authenticated: true, user: { username: await userOf(token, options) } };
    } catch (error) {
      refusals.push(String(error));
      return { authenticated: false };
    }
  };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const status = await review(request);
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', status }),
    );
  };
  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const path = join(folder, 'authenticator.kubeconfig');
  const { port } = server.address() as AddressInfo;
  await writeFile(path, stringify(webhookConfig(`http://127.0.0.1:${port}`)));
  return {
    apiServerFlags: [
      `--authentication-token-webhook-config-file=${path}`,
      '--authentication-token-webhook-version=v1',
    ],
    refusals,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

function webhookConfig(server: string): object {
  const name = 'authenticator';
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server } }],
    users: [{ name, user: {} }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  };
}

async function userOf(token: string, options: AuthenticatorOptions): Promise<string> {
  const url = checkedUrl(token);
  const arn = await callerOf(url, options);
  const role = /^arn:aws:sts::\d{12}:assumed-role\/([^/]+)\//.exec(arn)?.[1] ?? '';
  const user = options.entries.get(role);
  if (user === undefined) {
    throw new Error(`there is no access entry for ${arn}`);
  }
  return user;
}

/** @throws Error where it is nothing that may be sent to STS */
function checkedUrl(token: string): URL {
  if (!token.startsWith(prefix) || token.length > maxTokenLength) {
    throw new Error('no token of EKS');
  }
  const encoded = token.slice(prefix.length);
  const url = new URL(Buffer.from(encoded, 'base64url').toString());
  const query = new Map([...url.searchParams].map(([name, value]) => [name.toLowerCase(), value]));
  const [, year, month, day, hour, minute, second] =
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(query.get('x-amz-date') ?? '') ?? [];
  const ageMs = Date.now() - Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  const broken = Object.entries({
    padding: encoded.includes('='),
    host: !/^sts\.[a-z0-9-]+\.amazonaws\.com$/.test(url.host) || url.protocol !== 'https:',
    path: url.pathname !== '/',
    parameters: ![...query.keys()].every((name) => allowedParameters.includes(name)),
    action: query.get('action') !== 'GetCallerIdentity',
    expiry: !(Number(query.get('x-amz-expires')) <= maxExpiresSeconds),
    cluster: !query.get('x-amz-signedheaders')?.split(';').includes('x-k8s-aws-id'),
    age: !(ageMs < maxAgeMs),
  }).flatMap(([rule, isBroken]) => (isBroken ? [rule] : []));
  if (broken.length > 0) {
    throw new Error(`the token breaks the rules about ${broken.join(', ')}`);
  }
  return url;
}

/** Sends what was signed, with the cluster's name in the header that is signed. */
async function callerOf(url: URL, { cluster, stsEndpoint }: AuthenticatorOptions): Promise<string> {
  const request = sendRequest(new URL(url.pathname + url.search, stsEndpoint()), {
    headers: { host: url.host, 'x-k8s-aws-id': cluster },
  });
  request.end();
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const body = await text(response);
  const arn = /<Arn>([^<]+)<\/Arn>/.exec(body)?.[1];
  if (response.statusCode !== 200 || arn === undefined) {
    throw new Error(`STS answered ${response.statusCode}: ${body}`);
  }
  return arn;
}
