import type { QueueEntry } from '#shared/queue/queue.ts';
import type { Commit } from '#test/world/model/api-server.ts';
import type { PointKind, RelayFault, RelayFaultName } from './relay-faults.ts';
import type { ToldKind, ToldObject } from './told-world.ts';

/** A process that may be killed. */
export interface Caller {
  readonly isAlive: boolean;
}

export interface ToldEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: ToldObject;
}

/** Who hears of all that happens between relays and the world outside them, at the instant at which it does. */
export interface Witness<Process extends Caller> {
  /** A process is at a point. Returns what goes wrong there; where that is its own end, it has ended by then. */
  reached(process: Process, kind: PointKind, about: string): RelayFault | undefined;
  /** A process ends after what it asked for at a point was done. */
  crashed(process: Process, fault: RelayFaultName): void;
  committed(commit: Commit): void;
  listBegan(process: Process, kind: ToldKind): void;
  told(process: Process, kind: ToldKind, event: ToldEvent): void;
  listEnded(process: Process, kind: ToldKind): void;
  /** An event that the process will never be told of. */
  lost(process: Process, kind: ToldKind, object: ToldObject): void;
  /** The process ended a watch that works. */
  gaveUp(process: Process, kind: ToldKind): void;
  /** A batch left for a queue. */
  asked(process: Process, queue: string, entries: readonly QueueEntry[]): void;
  /** A queue has a message. */
  taken(process: Process, queue: string, entry: QueueEntry): void;
  /** The answer to a batch came: these of its entries were acknowledged. */
  answered(
    process: Process,
    queue: string,
    entries: readonly QueueEntry[],
    ids: readonly string[],
  ): void;
}
