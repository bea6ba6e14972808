/** A moment at which a relay and the world outside it meet. Plans name them by their number in the run. */
export type PointKind =
  /** The first page of a list, or a further one, is asked for. */
  | 'page'
  | 'next page'
  /** A watch that begins with a list, or goes on from a version, is asked for. */
  | 'list'
  | 'watch'
  /** The Lease is read or written. */
  | 'lease'
  /** An event is about to be told: of an object, the mark that ends a list, any other bookmark. */
  | 'line'
  | 'mark'
  | 'bookmark'
  /** A batch of hints leaves for a queue. */
  | 'send';

/** What can go wrong at a point. */
export interface RelayFault {
  /** Says what happens. */
  readonly name: RelayFaultName;
  /** Of the list of faults in the project's invariants. */
  readonly id: string;
  readonly at: readonly PointKind[];
  /** For how long it lasts, in milliseconds. */
  readonly lastsMs: number;
  /** So long after its end at most a relay needs until it keeps all its promises again, in milliseconds. */
  readonly recoveryMs: number;
  /** Only in plans of one fault: a shorter one of the same kind stands for it in plans of two. */
  readonly isAlone?: true;
}

/** After one failure a relay tries again within 0.2 s, and a complete list follows. */
const onceMs = 500;
/** After many it waits 5 s at most. */
export const triesMs = 6_000;
/** A watch that says nothing is given up after 70 s, and so is a list inside a watch that nobody ends; a page sooner. */
const silenceMs = 70_000 + triesMs;
/** Given up by the sender. */
export const sendTimeoutMs = 10_000;
/** What an overloaded server asks for, in seconds. */
export const retryAfterSeconds = 5;
/** How much longer what is on its way can take. */
export const delayMs = 2_000;

/** For how long a killed relay is gone before another process takes its place. */
const absenceMs = 3_000;
const longAbsenceMs = 10 * 60_000;

const requests = ['page', 'next page', 'list', 'watch', 'lease'] as const;
const events = ['line', 'mark', 'bookmark'] as const;

const catalogue = [
  // What a watch can go through.
  { name: 'line lost', id: 'F13', at: ['line', 'mark'], lastsMs: 0, recoveryMs: silenceMs },
  { name: 'watch delayed', id: 'F12', at: ['line', 'mark'], lastsMs: delayMs, recoveryMs: 1_000 },
  { name: 'watch silent', id: 'F16', at: events, lastsMs: 0, recoveryMs: silenceMs },
  { name: 'line cut', id: 'F16', at: events, lastsMs: 0, recoveryMs: onceMs },
  { name: 'watch broken', id: 'F16', at: events, lastsMs: 0, recoveryMs: onceMs },
  { name: 'watch and history lost', id: 'F16', at: ['line'], lastsMs: 0, recoveryMs: onceMs },
  { name: 'watch ended', id: 'F16', at: events, lastsMs: 0, recoveryMs: onceMs },
  { name: 'gone in stream', id: 'F16', at: events, lastsMs: 0, recoveryMs: onceMs },
  {
    name: 'error in stream',
    id: 'F22',
    at: events,
    lastsMs: retryAfterSeconds * 1_000,
    recoveryMs: onceMs,
  },
  // What a request to the API server can go through.
  { name: 'refused', id: 'F16', at: requests, lastsMs: 0, recoveryMs: onceMs },
  { name: 'hung', id: 'F16', at: requests, lastsMs: 0, recoveryMs: silenceMs },
  { name: 'answer lost', id: 'F3', at: ['lease'], lastsMs: 0, recoveryMs: onceMs },
  { name: 'gone', id: 'F16', at: ['next page', 'watch'], lastsMs: 0, recoveryMs: onceMs },
  {
    name: 'throttled',
    id: 'F22',
    at: requests,
    lastsMs: retryAfterSeconds * 1_000,
    recoveryMs: onceMs,
  },
  { name: 'server error', id: 'F8', at: requests, lastsMs: 0, recoveryMs: onceMs },
  { name: 'malformed', id: 'F8', at: ['page', 'next page'], lastsMs: 0, recoveryMs: onceMs },
  { name: 'not streamed', id: 'F16', at: ['list'], lastsMs: 0, recoveryMs: onceMs },
  { name: 'stream unknown', id: 'F16', at: ['list'], lastsMs: 0, recoveryMs: silenceMs },
  { name: 'ended at once', id: 'F16', at: ['list', 'watch'], lastsMs: 0, recoveryMs: onceMs },
  // What a batch can go through.
  { name: 'send refused', id: 'F23', at: ['send'], lastsMs: 0, recoveryMs: onceMs },
  { name: 'send throttled', id: 'F22', at: ['send'], lastsMs: 0, recoveryMs: onceMs },
  { name: 'send hung', id: 'F23', at: ['send'], lastsMs: sendTimeoutMs, recoveryMs: onceMs },
  { name: 'send answer lost', id: 'F23', at: ['send'], lastsMs: 0, recoveryMs: onceMs },
  {
    name: 'send answer late',
    id: 'F23',
    at: ['send'],
    lastsMs: sendTimeoutMs,
    recoveryMs: onceMs,
  },
  { name: 'half taken', id: 'F28', at: ['send'], lastsMs: 0, recoveryMs: onceMs },
  { name: 'none mentioned', id: 'F28', at: ['send'], lastsMs: 0, recoveryMs: onceMs },
  { name: 'batch overtaken', id: 'F12', at: ['send'], lastsMs: delayMs, recoveryMs: 1_000 },
  // What a relay can go through.
  {
    name: 'crash before',
    id: 'F14',
    at: [...requests, ...events, 'send'],
    lastsMs: absenceMs,
    recoveryMs: onceMs,
  },
  {
    name: 'crash after',
    id: 'F14',
    at: [...requests, 'send'],
    lastsMs: absenceMs,
    recoveryMs: onceMs,
  },
  {
    name: 'crash for minutes',
    id: 'F14',
    at: ['line', 'send'],
    lastsMs: longAbsenceMs,
    recoveryMs: onceMs,
    isAlone: true,
  },
  // What lasts.
  {
    name: 'API server down',
    id: 'F23',
    at: ['list', 'watch', 'line'],
    lastsMs: 40_000,
    recoveryMs: triesMs,
  },
  {
    name: 'API server hangs',
    id: 'F23',
    at: ['list', 'watch', 'line'],
    lastsMs: 180_000,
    recoveryMs: silenceMs,
    isAlone: true,
  },
  {
    name: 'API server throttles',
    id: 'F22',
    at: ['list', 'watch', 'line'],
    lastsMs: 20_000,
    recoveryMs: retryAfterSeconds * 1_000 + triesMs,
    isAlone: true,
  },
  { name: 'queues down', id: 'F23', at: ['send'], lastsMs: 40_000, recoveryMs: triesMs },
  {
    name: 'queues down for long',
    id: 'F23',
    at: ['send'],
    lastsMs: 32 * 60_000,
    recoveryMs: triesMs,
    isAlone: true,
  },
  {
    name: 'queues hang',
    id: 'F23',
    at: ['send'],
    lastsMs: 180_000,
    recoveryMs: sendTimeoutMs + triesMs,
    isAlone: true,
  },
] as const;

export type RelayFaultName = (typeof catalogue)[number]['name'];

export const relayFaults: readonly RelayFault[] = catalogue;

const byName = new Map<RelayFaultName, RelayFault>(relayFaults.map((fault) => [fault.name, fault]));

export function faultNamed(name: RelayFaultName): RelayFault {
  const fault = byName.get(name);
  if (fault === undefined) {
    throw new Error(`there is no fault ${name}`);
  }
  return fault;
}

/** Faults that a point can meet. */
export function faultsAt(kind: PointKind): readonly RelayFault[] {
  return relayFaults.filter(({ at }) => at.includes(kind));
}
