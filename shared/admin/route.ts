import { readText } from '#shared/http/connection.ts';
import { describeError } from '#shared/kernel/errors.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { checkedService, serviceProxyPath } from '#shared/topology/address.ts';
import type { ServiceAddress } from '#shared/topology/access.ts';

interface AdminRequest extends Limits {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: unknown;
}

/** How long an answer may take, and who may end the request sooner. */
export interface Limits {
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

export interface AdminAnswer {
  readonly status: number;
  /** Parsed JSON; a string where it is none. */
  readonly body: unknown;
  /** For messages: who answered. */
  readonly from: string;
}

/** Sends one request, once. Rejects where no answer came. Redirects are answers: they are never followed. */
export type AdminRoute = (request: AdminRequest) => Promise<AdminAnswer>;

/** The longest answer that is read, in bytes: a pooler's status has 4 KiB. */
const maxBodyBytes = 1024 * 1024;

/** The way to the admin service: by its URL, or by the API server's service proxy. Wrong addresses reject at use. */
export function routeTo(
  spec: { readonly url?: string | undefined; readonly service?: ServiceAddress | undefined },
  access: { readonly namespace: string; readonly kube?: KubeConnection | undefined },
): AdminRoute {
  const { url, service } = spec;
  return async (request) =>
    service === undefined
      ? askDirectly(adminUrl(url ?? ''), request)
      : askThroughProxy(service, access, request);
}

function adminUrl(text: string): URL {
  const url = URL.parse(text);
  if (
    url === null ||
    (url.protocol !== 'http:' && url.protocol !== 'https:') ||
    url.username !== '' ||
    url.password !== '' ||
    url.search !== '' ||
    url.hash !== ''
  ) {
    throw new Error('the address of the admin service is not http(s)://host:port');
  }
  return url;
}

async function askDirectly(base: URL, request: AdminRequest): Promise<AdminAnswer> {
  const timeout = AbortSignal.timeout(request.timeoutMs);
  try {
    const response = await fetch(
      new URL(`${base.pathname.replace(/\/+$/, '')}${request.path}`, base.origin),
      {
        method: request.method,
        redirect: 'manual',
        headers: {
          accept: 'application/json',
          ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
        signal: request.signal === undefined ? timeout : AbortSignal.any([timeout, request.signal]),
      },
    );
    return {
      status: response.status,
      body: parseBody(await readText(response.body ?? [], maxBodyBytes)),
      from: `the admin service at ${base.host}`,
    };
  } catch (error) {
    throw new Error(
      timeout.aborted
        ? `no answer from ${base.host} within ${request.timeoutMs / 1000} s`
        : `${base.host}: ${reasonOf(error)}`,
      { cause: error },
    );
  }
}

async function askThroughProxy(
  service: ServiceAddress,
  access: { readonly namespace: string; readonly kube?: KubeConnection | undefined },
  { method, path, body, timeoutMs, signal }: AdminRequest,
): Promise<AdminAnswer> {
  if (access.kube === undefined) {
    throw new Error('there is no API server whose service proxy could be used');
  }
  const { name, namespace, port } = checkedService({
    name: service.name,
    namespace: service.namespace ?? access.namespace,
    port: service.port,
  });
  const response = await access.kube.request({
    method,
    path: `${serviceProxyPath({ name, namespace, port }, 'http')}${path}`,
    ...(body === undefined ? {} : { body }),
    timeoutMs,
    ...(signal === undefined ? {} : { signal }),
  });
  return {
    status: response.status,
    body: response.body,
    from: `the admin Service ${namespace}/${name}:${port}`,
  };
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The HTTP client wraps what went wrong; a refused connection to a name with two addresses has only a code. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  const message = describeError(cause);
  return message === '' && cause instanceof Error && 'code' in cause ? String(cause.code) : message;
}
