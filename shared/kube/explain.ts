import type { KubeAccess, KubeAdvice, KubeRequest, KubeResponse } from './connection.ts';
import { isAnsweredByItself } from './connection.ts';

type Explained = Pick<KubeAccess, 'server' | 'advice'>;

/** Codes of Node and OpenSSL for a certificate that another authority has signed, or none. */
const foreignAuthority = [
  'CERT_SIGNATURE_FAILURE',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
];

/**
 * Says why no answer came as whoever has to mend it needs it: what is wrong, at which address, which setting to look at. What
 * Node says stands behind, since that is what people search for. Without advice there is nothing to say.
 */
export function explainFailure(error: unknown, { server, advice }: Explained): unknown {
  if (advice === undefined || !(error instanceof Error)) {
    return error;
  }
  const code = codeOf(error);
  const explained = explanationOf(code, server, advice);
  return explained === undefined
    ? error
    : new Error(`${explained} (${error.message === '' ? code : error.message})`, { cause: error });
}

function explanationOf(code: string, server: string, advice: KubeAdvice): string | undefined {
  const { host, hostname } = new URL(server);
  if (foreignAuthority.includes(code)) {
    return `the certificate of ${host} is not signed by the authority that was given: ${advice.authority}`;
  }
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return `the certificate of ${host} has expired: have the cluster renew it`;
    case 'CERT_NOT_YET_VALID':
      return `the certificate of ${host} is not valid yet: let a time service set this clock`;
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `the certificate of ${host} is for other names: ${advice.server}, it must use one of them`;
    case 'ECONNREFUSED':
      return `nobody listens at ${host}: ${advice.server}`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the name ${hostname} does not resolve: ${advice.server}, and the name server here`;
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'ETIMEDOUT':
      return `${host} cannot be reached from here: ${advice.server}, and the network on the way to it`;
    case noAnswer:
      return `${host} does not answer: ${advice.server}, and the network on the way to it`;
    default:
      // No TLS where some is expected, or no HTTP: each has many codes.
      return /^(EPROTO|ERR_SSL_|HPE_)/.test(code)
        ? `what listens at ${host} does not speak HTTPS: ${advice.server}`
        : undefined;
  }
}

/** What an error of ours says that ends a request which was not answered in time. */
const noAnswer = 'MILLRACE_NO_ANSWER';

/** Nothing came within the time of one request. */
export class NoAnswer extends Error {
  readonly code = noAnswer;

  constructor(seconds: number, cause: unknown) {
    super(`no answer within ${seconds} s`, { cause });
    this.name = 'NoAnswer';
  }
}

/**
 * Why an answer says nothing about what was asked, in the same way: the API server does not know who asks, or it was no API
 * server that answered. What is behind its service proxy may answer as it likes.
 */
export function problemIn(
  request: Pick<KubeRequest, 'path'>,
  { status, body }: Pick<KubeResponse, 'status' | 'body'>,
  { server, advice }: Explained,
): string | undefined {
  if (advice === undefined || !isAnsweredByItself(request)) {
    return undefined;
  }
  if (status === 401) {
    return `the API server knows nobody by these credentials: ${advice.credentials}`;
  }
  return isOfKubernetes(body) || isNoSuchPath({ status, body })
    ? undefined
    : `what answers at ${new URL(server).host} is no API server: ${advice.server}`;
}

/** Whether a body has the form that all objects, lists and statuses of Kubernetes have. */
export function isOfKubernetes(body: unknown): boolean {
  return (
    typeof body === 'object' &&
    body !== null &&
    (('kind' in body && typeof body.kind === 'string') ||
      ('metadata' in body && typeof body.metadata === 'object'))
  );
}

/** An API server says this of a path that it does not serve, such as that of a kind without a definition. */
export function isNoSuchPath({ status, body }: Pick<KubeResponse, 'status' | 'body'>): boolean {
  return status === 404 && body === '404 page not found\n';
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
