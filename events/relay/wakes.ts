import type { StepName } from '#shared/api/steps.ts';
import { type Instant, parseInstant, plusSeconds } from '#shared/kernel/instant.ts';
import type { Wake } from '#shared/kernel/record.ts';

/** Whose record asks to be woken. */
export interface Sleeper {
  readonly step: StepName;
  /** The target's uid. */
  readonly uid: string;
}

export interface DueWake extends Sleeper {
  /** When it was due. */
  readonly due: Instant;
}

/**
 * An `at` that has fired and is still recorded fires again after this many seconds: the handler's clock was behind, and
 * it waits for the same instant again without writing anything. It is the sweep's interval.
 */
const overdueAgainSeconds = 300;

/** A wall clock that went back by more than this, in milliseconds, was set: `every` wakes must not wait for its return. */
const clockSetMs = 1_000;

interface Alarm extends Sleeper {
  readonly wake: Wake;
  /** Stands for the record that asks for it. */
  readonly version: string;
  readonly due: Instant;
}

/**
 * When to look again without an event, as the records say: a heap of alarms, at most one per (step, target uid).
 *
 * An `every` fires so many seconds after its record was written or it last fired, an `at` at its instant, an overdue one
 * at once.
 */
export class Wakes {
  readonly #alarms = new Map<string, Alarm>();
  /** A binary min-heap by `due`. Alarms that were replaced stay until they surface or {@link Wakes.#compact} runs. */
  #heap: Alarm[] = [];
  #lastNow = Number.NEGATIVE_INFINITY;

  /**
   * Follows what the step's record says now; `undefined` where it asks for nothing or there is no record.
   *
   * @param version changes with the record: its progress begins the time anew
   */
  set(sleeper: Sleeper, wake: Wake | undefined, now: Instant, version = ''): void {
    const key = keyOf(sleeper);
    const alarm = this.#alarms.get(key);
    if (wake === undefined) {
      this.#alarms.delete(key);
      this.#compact();
    } else if (alarm === undefined || alarm.version !== version || !isSame(alarm.wake, wake)) {
      this.#add({ step: sleeper.step, uid: sleeper.uid, wake, version, due: firstDue(wake, now) });
    }
  }

  /** When {@link Wakes.fire} has something next. */
  nextDue(): Instant | undefined {
    for (let top = this.#heap[0]; top !== undefined; top = this.#heap[0]) {
      if (this.#alarms.get(keyOf(top)) === top) {
        return top.due;
      }
      this.#pop();
    }
    return undefined;
  }

  /** Hands out what is due and sets it for its next time. However many periods were missed, each fires once. */
  fire(now: Instant): DueWake[] {
    if (now < this.#lastNow - clockSetMs) {
      this.#restart(now);
    }
    this.#lastNow = now;
    const fired: DueWake[] = [];
    for (let due = this.nextDue(); due !== undefined && due <= now; due = this.nextDue()) {
      const alarm = this.#pop();
      if (alarm === undefined) {
        break;
      }
      fired.push({ step: alarm.step, uid: alarm.uid, due: alarm.due });
      const seconds = 'every' in alarm.wake ? alarm.wake.every : overdueAgainSeconds;
      this.#add({ ...alarm, due: plusSeconds(now, seconds) });
    }
    return fired;
  }

  get size(): number {
    return this.#alarms.size;
  }

  /** Alarms kept, those that were replaced but have not surfaced included. */
  get heapSize(): number {
    return this.#heap.length;
  }

  #restart(now: Instant): void {
    const alarms = [...this.#alarms.values()];
    this.#heap = [];
    for (const alarm of alarms) {
      this.#add({ ...alarm, due: firstDue(alarm.wake, now) });
    }
  }

  #add(alarm: Alarm): void {
    this.#alarms.set(keyOf(alarm), alarm);
    this.#push(alarm);
    this.#compact();
  }

  /** Keeps the heap bounded by the number of alarms, however often they are replaced. */
  #compact(): void {
    if (this.#heap.length > 2 * this.#alarms.size + 64) {
      this.#heap = [...this.#alarms.values()].toSorted((a, b) => a.due - b.due);
    }
  }

  #push(alarm: Alarm): void {
    const heap = this.#heap;
    let place = heap.length;
    heap.push(alarm);
    while (place > 0) {
      const parentPlace = (place - 1) >> 1;
      const parent = heap[parentPlace];
      if (parent === undefined || parent.due <= alarm.due) {
        break;
      }
      heap[place] = parent;
      heap[parentPlace] = alarm;
      place = parentPlace;
    }
  }

  #pop(): Alarm | undefined {
    const heap = this.#heap;
    const top = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) {
      return top;
    }
    let place = 0;
    for (;;) {
      const leftPlace = 2 * place + 1;
      const left = heap[leftPlace];
      if (left === undefined) {
        break;
      }
      const right = heap[leftPlace + 1];
      const isRightFirst = right !== undefined && right.due < left.due;
      const child = isRightFirst ? right : left;
      if (last.due <= child.due) {
        break;
      }
      heap[place] = child;
      place = isRightFirst ? leftPlace + 1 : leftPlace;
    }
    heap[place] = last;
    return top;
  }
}

function keyOf({ step, uid }: Sleeper): string {
  return `${step}/${uid}`;
}

function isSame(a: Wake, b: Wake): boolean {
  return 'every' in a ? 'every' in b && a.every === b.every : 'at' in b && a.at === b.at;
}

function firstDue(wake: Wake, now: Instant): Instant {
  // The record's schema admits only times; were one none, looking at once is the safe reading.
  return 'every' in wake ? plusSeconds(now, wake.every) : (parseInstant(wake.at) ?? now);
}
