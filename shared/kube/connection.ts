import type { Instant } from '#shared/kernel/instant.ts';

/** Who the API server is and how to sign in to it. Made from a kubeconfig by tools, from configuration by handlers. */
export interface KubeAccess {
  /** `https://host:port`, no path. */
  readonly server: string;
  /** PEM of the certificate authority the server is checked against; the system's own when absent. */
  readonly ca?: string;
  /** Who asks, for the API server's audit log: `millrace/drain-step`. `millrace` when absent. */
  readonly userAgent?: string;
  /** Asked before each connection or request, so that short-lived tokens stay fresh. */
  credentials(): Promise<KubeCredentials>;
  /** Told when the API server knew nobody by them (401): what was kept of them is to be read again. */
  onRefused?(): void;
  /** What a person does where it does not work, for messages; absent where it is no API server that is connected to. */
  readonly advice?: KubeAdvice;
}

/** An imperative each, with the name of the setting: `check MILLRACE_KUBE_SERVER`. */
export interface KubeAdvice {
  /** Where there is no API server at the address. */
  readonly server: string;
  /** Where the server's certificate is another authority's. */
  readonly authority: string;
  /** Where the API server knows nobody by the credentials. */
  readonly credentials: string;
}

export interface KubeCredentials {
  readonly token?: string;
  /** PEM of a client certificate and its key. */
  readonly certificate?: string;
  readonly key?: string;
}

export interface KubeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Absolute path, already escaped; see {@link KubeRequest.query} for parameters. */
  readonly path: string;
  readonly query?: { readonly [name: string]: string };
  readonly contentType?: string;
  readonly accept?: string;
  /** Further headers, by lower-case name. For what is behind the service proxy; they never replace the ones set here. */
  readonly headers?: { readonly [name: string]: string };
  /** Serialised as JSON. */
  readonly body?: unknown;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface KubeResponse {
  readonly status: number;
  /** Seconds, from the Retry-After header of a 429 or 503. */
  readonly retryAfterSeconds?: number;
  /** When it was given by the clock of who gave it, in whole seconds, from the Date header. */
  readonly toldAt?: Instant;
  /** Parsed JSON; a string where the body is none. */
  readonly body: unknown;
  /** Why it says nothing about what was asked, and what to do about that; see `problemIn`. */
  readonly problem?: string;
}

/** Whether the API server answers a request itself, and not something behind its service proxy. */
export function isAnsweredByItself({ path }: Pick<KubeRequest, 'path'>): boolean {
  return !path.includes('/proxy');
}

/** One API server over HTTP/1.1 with kept connections. Redirects are not followed. */
export interface KubeConnection {
  /** Resolves for any status; rejects only where no response came (refused, reset, timeout, aborted). */
  request(request: KubeRequest): Promise<KubeResponse>;
  /**
   * Opens a watch. `lines` yields the body line by line and ends with the response; it throws when the connection
   * breaks. For a status other than 200, and for what is no JSON, `lines` is empty and `body` holds the answer. Abort with
   * `signal`.
   */
  stream(request: KubeRequest): Promise<KubeResponse & { readonly lines: AsyncIterable<string> }>;
  /** Closes idle and open connections. */
  close(): void;
}
