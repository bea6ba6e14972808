import * as z from 'zod';

/** Names from records are put into a path only when they look like names: no slash, no dots alone. */
export const pathSegment = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?$/;

/** gRPC's code 5 as the REST interface and as Connect write it. A 404 of somebody else has another body. */
export const notFoundSchema = z.object({ code: z.union([z.literal(5), z.literal('not_found')]) });

/**
 * Answers after which nothing was surely asked of any pooler: a redirect, a request that was refused or found no route, and
 * the service's own checks (not found, failed precondition), all of which it makes first. Any other failure may come
 * after that, a server error of the service proxy included.
 */
export const refusals: ReadonlySet<number> = new Set([
  301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 412,
]);
