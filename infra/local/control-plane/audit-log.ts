import { readFile } from 'node:fs/promises';
import * as z from 'zod';

/** One request the API server saw, without its body. */
export interface AuditedRequest {
  readonly user: string;
  /** Without what stands in brackets behind it: `millrace/drain-step`. */
  readonly userAgent: string;
  /** What stands there: the version. Empty where there is none. */
  readonly agentVersion: string;
  /** `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; HTTP's verb for a plain path. */
  readonly verb: string;
  readonly path: string;
  /** `pods`, `pods/eviction`; absent for a plain path such as `/readyz`. */
  readonly resource?: string;
  readonly namespace?: string;
  readonly name?: string;
  /** HTTP status; absent while it is not answered. */
  readonly status?: number;
  /** RFC 3339 with microseconds. */
  readonly receivedAt: string;
}

/**
 * What is written for every request: who asked for what and how it ended, never a body. A watch is written when it
 * opens and again when it closes, anything else at its end.
 */
export const auditPolicy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  omitManagedFields: true,
  rules: [{ level: 'Metadata' }],
};

const auditEvent = z.object({
  auditID: z.string(),
  verb: z.string(),
  requestURI: z.string(),
  user: z.object({ username: z.string() }),
  userAgent: z.string().default(''),
  objectRef: z
    .object({
      resource: z.string().optional(),
      subresource: z.string().optional(),
      namespace: z.string().optional(),
      name: z.string().optional(),
    })
    .default({}),
  responseStatus: z.object({ code: z.number().optional() }).default({}),
  requestReceivedTimestamp: z.string(),
});

const agentPattern = /^(.*?)(?: \(([^()]*)\))?$/;

/**
 * Every request the API server has logged so far, in the order they were first written, each once.
 *
 * The line of a request may come an instant after its answer: who counts waits until the count stands.
 */
export async function readAuditLog(path: string): Promise<readonly AuditedRequest[]> {
  const text = await readFile(path, 'utf8');
  const requests = new Map<string, AuditedRequest>();
  // The last piece is empty, or a line that is just being written.
  for (const line of text.split('\n').slice(0, -1)) {
    const event = auditEvent.parse(JSON.parse(line));
    requests.set(event.auditID, requestOf(event));
  }
  return [...requests.values()];
}

function requestOf(event: z.infer<typeof auditEvent>): AuditedRequest {
  const { resource, subresource, namespace, name } = event.objectRef;
  const { code } = event.responseStatus;
  const [, userAgent = '', agentVersion = ''] = agentPattern.exec(event.userAgent) ?? [];
  return {
    user: event.user.username,
    userAgent,
    agentVersion,
    verb: event.verb,
    path: event.requestURI,
    ...(resource === undefined
      ? {}
      : { resource: subresource === undefined ? resource : `${resource}/${subresource}` }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
    ...(code === undefined ? {} : { status: code }),
    receivedAt: event.requestReceivedTimestamp,
  };
}
