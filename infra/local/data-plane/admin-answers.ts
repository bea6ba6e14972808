import { type AdminReply, type AdminRequest, type Turn, setTimer } from './state.ts';

/*
 * How multiadmin takes a question and gives an answer, whatever it is about.
 */

/** gRPC's codes, and the HTTP status they are mapped to. */
const failures = {
  invalidArgument: { code: 3, status: 400 },
  notFound: { code: 5, status: 404 },
  failedPrecondition: { code: 9, status: 400 },
  internal: { code: 13, status: 500 },
  unavailable: { code: 14, status: 503 },
  unauthenticated: { code: 16, status: 401 },
} as const;

export function failure(kind: keyof typeof failures, message: string): AdminReply {
  const { code, status } = failures[kind];
  return { status, body: { code, message, details: [] } };
}

/** The fault of a slow service delays what was true when it was asked. */
export function reply({ state, outputs }: Turn, requestId: number, reply: AdminReply): void {
  const slow = state.faults.find((fault) => fault.kind === 'adminSlow');
  if (slow === undefined) {
    outputs.push({ kind: 'adminReply', requestId, reply });
  } else {
    setTimer(state, state.nowMs + slow.delayMs, { kind: 'reply', requestId, reply });
  }
}

/** The parameter may be repeated, or hold several names with commas. */
export function askedFor({ query }: AdminRequest, name: string): readonly string[] {
  return (query[name] ?? []).flatMap((value) => value.split(',')).filter((value) => value !== '');
}

/** The body of a question; `undefined` where it is no JSON. */
export function parseJson(text: string): unknown {
  try {
    return text === '' ? {} : JSON.parse(text);
  } catch {
    return undefined;
  }
}
