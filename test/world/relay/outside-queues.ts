import type { QueueEntry, QueueSender, SendOutcome } from '#shared/queue/queue.ts';
import type { Queue } from '#test/world/model/queue.ts';
import { rejectOnAbort } from './reject-on-abort.ts';
import { type RelayFaultName, delayMs, sendTimeoutMs } from './relay-faults.ts';
import type { VirtualClock } from './virtual-clock.ts';
import type { Caller, Witness } from './witness.ts';

export interface OutsideQueuesParts<Process extends Caller> {
  readonly clock: VirtualClock;
  /** By name. */
  readonly queues: ReadonlyMap<string, Queue>;
  readonly witness: Witness<Process>;
}

/** How long a batch takes to the queue, and its answer back, in milliseconds. */
const wayMs = 4;

const outages: { readonly [Name in RelayFaultName]?: RelayFaultName } = {
  'queues down': 'send refused',
  'queues down for long': 'send refused',
  'queues hang': 'send hung',
};

/** What becomes of a batch. */
interface Course {
  readonly arrivesMs: number;
  /** How much of it the queue takes: all, half or nothing. */
  readonly share: 1 | 0.5 | 0;
  readonly answersMs: number;
  /** The answer does not come, for this reason. */
  readonly fails?: string;
  /** The answer says which entries were taken and which were not. */
  readonly isMentioned: boolean;
}

const calm: Course = { arrivesMs: wayMs, share: 1, answersMs: 2 * wayMs, isMentioned: true };

const courses: { readonly [Name in RelayFaultName | 'calm']?: Course } = {
  'send refused': { ...calm, share: 0, fails: 'connection refused' },
  'send throttled': { ...calm, share: 0, fails: 'the queue answered 400: ThrottlingException' },
  'send hung': { ...calm, share: 0, answersMs: sendTimeoutMs, fails: 'no answer in time' },
  'send answer lost': { ...calm, fails: 'socket hang up' },
  'send answer late': { ...calm, answersMs: sendTimeoutMs, fails: 'no answer in time' },
  'half taken': { ...calm, share: 0.5 },
  'none mentioned': { ...calm, share: 0, isMentioned: false },
  'batch overtaken': { ...calm, arrivesMs: delayMs, answersMs: delayMs + wayMs },
};

const noOutcome: SendOutcome = { acknowledged: [], failed: [] };

/** The queues as relays reach them, over connections on which things go wrong. */
export class OutsideQueues<Process extends Caller> {
  readonly #parts: OutsideQueuesParts<Process>;
  #outage: { readonly meets: RelayFaultName; readonly untilMs: number } | undefined;

  constructor(parts: OutsideQueuesParts<Process>) {
    this.#parts = parts;
  }

  connect(process: Process): QueueSender {
    return { send: (queue, entries, signal) => this.#send(process, queue, entries, signal) };
  }

  #send(
    process: Process,
    queue: string,
    entries: readonly QueueEntry[],
    signal: AbortSignal | undefined,
  ): Promise<SendOutcome> {
    const { promise, resolve, reject } = Promise.withResolvers<SendOutcome>();
    if (!process.isAlive) {
      return promise;
    }
    const { clock, witness } = this.#parts;
    rejectOnAbort(signal, promise, reject);
    witness.asked(process, queue, entries);
    const wrong = this.#reach(process, `${queue} ${entries.length}`);
    if (!process.isAlive) {
      return promise;
    }
    const { arrivesMs, share, answersMs, fails, isMentioned } = courses[wrong ?? 'calm'] ?? calm;
    const taken = entries.slice(0, Math.floor(entries.length * share));
    clock.after(arrivesMs, () => {
      this.#take(process, queue, taken);
      if (wrong === 'crash after') {
        witness.crashed(process, wrong);
      }
    });
    clock.after(answersMs, () => {
      if (fails !== undefined) {
        reject(new Error(fails));
        return;
      }
      const outcome = isMentioned ? outcomeOf(entries, taken.length) : noOutcome;
      witness.answered(process, queue, entries, outcome.acknowledged);
      resolve(outcome);
    });
    return promise;
  }

  #reach(process: Process, about: string): RelayFaultName | undefined {
    const { clock, witness } = this.#parts;
    const fault = witness.reached(process, 'send', about);
    const meets = fault === undefined ? undefined : outages[fault.name];
    if (fault !== undefined && meets !== undefined) {
      this.#outage = { meets, untilMs: clock.monotonicMs() + fault.lastsMs };
    }
    const lasts = this.#outage !== undefined && clock.monotonicMs() < this.#outage.untilMs;
    return lasts ? this.#outage?.meets : fault?.name;
  }

  #take(process: Process, queue: string, entries: readonly QueueEntry[]): void {
    const { clock, queues, witness } = this.#parts;
    for (const entry of entries) {
      const found = queues.get(queue);
      if (found === undefined) {
        throw new Error(`a relay sends to ${queue}`);
      }
      found.send(entry.body, clock.now());
      witness.taken(process, queue, entry);
    }
  }
}

/** So many of the entries were taken, the rest was not. */
function outcomeOf(entries: readonly QueueEntry[], taken: number): SendOutcome {
  return {
    acknowledged: entries.slice(0, taken).map(({ id }) => id),
    failed: entries.slice(taken).map(({ id }) => ({ id, why: 'InternalError' })),
  };
}
