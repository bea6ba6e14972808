import { type Relay, relayLimits } from '#events/relay/relay.ts';
import type { StepName } from '#shared/api/steps.ts';
import { describeError } from '#shared/kernel/errors.ts';
import type { QueueEntry } from '#shared/queue/queue.ts';
import type { Commit } from '#test/world/model/api-server.ts';
import { checkHint } from './hint-form.ts';
import { triesMs } from './relay-faults.ts';
import type { Listening } from './outside-api.ts';
import {
  type Key,
  type ToldKind,
  type ToldObject,
  ToldWorld,
  isToldKind,
  keyOf,
  stepOf,
  toldKinds,
  uidOf,
} from './told-world.ts';
import { type RecordedWake, recordedWake } from './recorded-wake.ts';
import type { Caller, ToldEvent } from './witness.ts';
import { twoSteps } from '#test/builders/two-steps.ts';

/** The invariants of the relay, by their ids. */
export const relayLaws = ['L1', 'L2', 'L3', 'L4', 'L5', 'L6', 'L7', 'L8', 'L9'] as const;
export type RelayLaw = (typeof relayLaws)[number];

export interface RelayViolation {
  readonly law: RelayLaw;
  /** Since the relays started. */
  readonly atMs: number;
  readonly message: string;
}

/** A hint in a queue. */
export interface Delivery {
  readonly atMs: number;
  readonly step: StepName;
  /** Its place, and how many there had been at that place: `db/a#2`. */
  readonly target: string;
  /** The process that sent it. */
  readonly by: string;
  readonly body: string;
}

/** A hint that has to leave. */
interface Owed {
  readonly sinceMs: number;
  readonly laws: Set<RelayLaw>;
}

/** A target is looked at from time to time although nothing changes. */
interface Window {
  readonly law: RelayLaw;
  /** The record that asks for it: the time begins anew with another one. */
  readonly record: string;
  readonly wake: RecordedWake;
  dueMs: number;
}

/** What one process has been told, and what it has to do about it. */
interface View {
  readonly world: ToldWorld;
  /** Targets that it was ever told of as being there. */
  readonly uids: Set<string>;
  /** Whom it was told about and has no acknowledgement for that was asked for later: when it was told. */
  readonly owing: Map<Key, number>;
  isTouched: boolean;
}

/** What can be seen of one process from outside. */
export interface ObservedRelay extends Caller {
  readonly name: string;
  readonly isLeading: boolean;
  /** Timers that it has set. */
  readonly pendingTimers: number;
  state(): Pick<ReturnType<Relay['state']>, 'dirty' | 'wakes' | 'objects'>;
}

export interface RelayOraclesParts {
  nowMs(): number;
  /** How much later than usual hints may be: where targets change so often that they are slowed. */
  readonly slackMs: number;
  /** Whether relays agree on one that sends. */
  readonly isLeased: boolean;
}

/** How late a hint may be when nothing fails. */
const promptMs = 1_000;
const silenceMs = 70_000;
/** Timers that a relay has set at a time: they must not grow with events. */
const maxTimers = 40;

/**
 * Looks at everything that relays do, at each event, and says which invariant was broken. It knows what they are for, not
 * how they work: whom a write concerns is its own understanding, see `told-world.ts`.
 *
 * A fault loosens the promise of promptness until its end and the time to recover from it are over, and no longer.
 */
export class RelayOracles {
  readonly violations: RelayViolation[] = [];
  readonly deliveries: Delivery[] = [];
  /** How often each was looked at where it mattered. */
  readonly evaluated = new Map<RelayLaw, number>(relayLaws.map((law) => [law, 0]));
  readonly #parts: RelayOraclesParts;
  readonly #truth = new ToldWorld();
  /** Every Shard that was ever there: its uid, and where it was the how manieth. */
  readonly #targets = new Map<string, string>();
  readonly #incarnations = new Map<string, number>();
  readonly #owed = new Map<Key, Owed>();
  readonly #windows = new Map<Key, Map<string, Window>>();
  readonly #views = new Map<ObservedRelay, View>();
  readonly #asked = new WeakMap<readonly QueueEntry[], number>();
  /** Counts what is told and asked. */
  #order = 0;
  #calmMs = 0;
  /** Counts what made hints late. */
  #troubles = 0;
  /** That number once the stop of a relay is asked for while nothing else makes hints late. */
  #troublesAtStop: number | undefined;
  #queueOutageEndMs = 0;
  /** Of targets about which something was lost: until when the next complete look at everything is due. */
  readonly #lateUntilMs = new Map<string, number>();

  constructor(parts: RelayOraclesParts) {
    this.#parts = parts;
  }

  /** When every promise holds again as far as is known now. */
  get calmMs(): number {
    return Math.max(this.#calmMs, ...this.#lateUntilMs.values());
  }

  /** Whether a process knows all that is true. */
  isCurrent(process: ObservedRelay): boolean {
    return this.#viewOf(process).world.shape === this.#truth.shape;
  }

  /**
   * Something lasts, and is recovered from after it: until then hints may be late. While an earlier one is recovered from
   * the relay may have failed often, so that it waits for as long as it ever does.
   */
  loosen(lastsMs: number, recoveryMs: number): void {
    const nowMs = this.#parts.nowMs();
    const isCalm = nowMs >= this.#calmMs;
    this.#troubles += 1;
    this.#calmMs =
      Math.max(this.#calmMs, nowMs + lastsMs) +
      (isCalm ? recoveryMs : Math.max(recoveryMs, triesMs));
  }

  /** The queues take nothing until then: what becomes owed meanwhile is not lost. */
  loseQueues(lastsMs: number): void {
    this.#queueOutageEndMs = this.#parts.nowMs() + lastsMs;
  }

  started(process: ObservedRelay): void {
    this.#views.set(process, {
      world: new ToldWorld(),
      uids: new Set(),
      owing: new Map(),
      isTouched: false,
    });
  }

  /** What it alone knew of targets that are gone nobody can know any more. */
  ended(process: ObservedRelay): void {
    this.#views.delete(process);
    const others = [...this.#views.values()];
    for (const key of this.#owed.keys()) {
      const uid = uidOf(key);
      if (!this.#truth.has(uid) && !others.some(({ uids }) => uids.has(uid))) {
        this.#owed.delete(key);
      }
    }
  }

  /** A relay is about to be asked to stop, which is a trouble of its own. */
  stopping(): void {
    this.#troublesAtStop = this.#parts.nowMs() >= this.#calmMs ? this.#troubles + 1 : undefined;
  }

  /** It has, and has sent what it owed, unless something was wrong. */
  stopped(process: ObservedRelay): void {
    const owed = [...this.#viewOf(process).owing.keys()];
    if (this.#troubles === this.#troublesAtStop) {
      this.#count('L2');
      if (owed.length > 0) {
        this.#break('L2', `${process.name} stopped and owed ${owed.join(', ')}`);
      }
    }
  }

  broke(process: ObservedRelay, error: unknown): void {
    this.#break('L1', `${process.name} broke: ${describeError(error)}`);
  }

  committed({ kind, before, after }: Commit): void {
    if (!isToldKind(kind)) {
      return;
    }
    const object = (after ?? before) as ToldObject;
    if (kind === 'Pod' && before !== null) {
      this.#excuseUnseenOwners(before);
    }
    const concerned =
      after === null ? this.#truth.lose(kind, object) : this.#truth.see(kind, object);
    for (const key of concerned) {
      this.#owe(key);
    }
    if (kind === 'Shard') {
      this.#nameTarget(object);
      this.#followRecords(object, after === null);
    }
  }

  listBegan(process: ObservedRelay, kind: ToldKind): void {
    this.#viewOf(process).world.begin(kind);
  }

  told(process: ObservedRelay, kind: ToldKind, { type, object }: ToldEvent): void {
    const view = this.#viewOf(process);
    if (kind === 'Shard' && type !== 'DELETED') {
      view.uids.add(object.metadata.uid);
    }
    this.#makeOwing(
      view,
      type === 'DELETED' ? view.world.lose(kind, object) : view.world.see(kind, object),
    );
  }

  listEnded(process: ObservedRelay, kind: ToldKind): void {
    const view = this.#viewOf(process);
    const concerned = view.world.complete(kind);
    this.#makeOwing(view, concerned);
    for (const key of kind === 'Shard' ? concerned : []) {
      this.#owed.get(key)?.laws.add('L3');
      if (this.#truth.has(uidOf(key))) {
        // It is in the list, but the process was not told.
        view.uids.delete(uidOf(key));
      }
    }
  }

  /** Nobody can know of it before everything is looked at again: neither the target it was about, nor the one it is. */
  lost(process: ObservedRelay, kind: ToldKind, object: ToldObject): void {
    const untilMs = this.#parts.nowMs() + relayLimits.resyncMs;
    const { world } = this.#viewOf(process);
    for (const known of [object, world.sameName(kind, object) ?? object]) {
      for (const uid of this.#truth.targetsOf(kind, known)) {
        this.#lateUntilMs.set(uid, untilMs);
      }
    }
  }

  /** A watch counts as stalled only when it is. */
  gaveUp(process: ObservedRelay, kind: ToldKind): void {
    this.#count('L4');
    if (this.#parts.nowMs() >= this.#calmMs) {
      this.#break('L4', `${process.name} gives up a watch of ${kind} that works`);
    }
  }

  asked(entries: readonly QueueEntry[]): void {
    this.#order += 1;
    this.#asked.set(entries, this.#order);
  }

  /** @param by the process that sent it, which may have ended since */
  taken(by: string, step: StepName, { body, group }: QueueEntry): void {
    this.#count('L6');
    const problem = checkHint(body, step, group);
    if (problem !== undefined) {
      this.#break('L6', problem);
    }
    const key = keyOf(step, group);
    this.#count('L5');
    const target = this.#targets.get(group);
    if (target === undefined) {
      this.#break('L5', `a hint names a target that never was: ${key}`);
      return;
    }
    const atMs = this.#parts.nowMs();
    this.deliveries.push({ atMs, step, target, by, body });
    for (const law of this.#owed.get(key)?.laws ?? []) {
      this.#count(law);
    }
    this.#owed.delete(key);
    for (const window of this.#windows.get(key)?.values() ?? []) {
      if (atMs >= window.dueMs - promptMs) {
        this.#count(window.law);
      }
      window.dueMs = nextDueMs(window, atMs);
    }
  }

  answered(
    process: ObservedRelay,
    step: StepName,
    entries: readonly QueueEntry[],
    ids: readonly string[],
  ): void {
    const view = this.#viewOf(process);
    const askedAt = this.#asked.get(entries) ?? 0;
    view.isTouched = true;
    for (const { id, group } of entries) {
      const key = keyOf(step, group);
      if (ids.includes(id) && (view.owing.get(key) ?? 0) < askedAt) {
        view.owing.delete(key);
      }
    }
  }

  /** To be called whenever everything that could go on has gone on. */
  check(listening: Iterable<Listening<ObservedRelay>>): void {
    const nowMs = this.#parts.nowMs();
    this.#checkOwed(nowMs);
    this.#checkWindows(nowMs);
    for (const { process, kind, heardMs } of listening) {
      const silentMs = nowMs - heardMs;
      if (silentMs >= silenceMs - promptMs) {
        this.#count('L4');
      }
      if (silentMs > silenceMs + 1) {
        this.#break('L4', `${process.name} waits for ${kind} since ${silentMs / 1000} s`);
      }
    }
    if (this.#parts.isLeased) {
      this.#checkLead();
    }
    for (const [process, view] of this.#views) {
      if (view.isTouched) {
        view.isTouched = false;
        this.#checkProcess(process, view);
      }
    }
  }

  /** What is still owed when the world has been calm for longer than anything may take. */
  checkEnd(): void {
    for (const [key, owed] of this.#owed) {
      if (this.#isKnown(uidOf(key))) {
        this.#breakOwed(key, owed);
      }
    }
  }

  #checkOwed(nowMs: number): void {
    for (const [key, owed] of this.#owed) {
      const fromMs = Math.max(owed.sinceMs, this.#calmMs, this.#lateMs(key));
      if (nowMs > fromMs + promptMs + this.#parts.slackMs) {
        if (this.#isKnown(uidOf(key))) {
          this.#breakOwed(key, owed);
        }
        this.#owed.delete(key);
      }
    }
  }

  #breakOwed(key: Key, { laws, sinceMs }: Owed): void {
    const [law = 'L1'] = [...laws].toReversed();
    this.#break(law, `no hint for ${key} although it is owed since ${sinceMs / 1000} s`);
  }

  #checkWindows(nowMs: number): void {
    for (const [key, windows] of this.#windows) {
      for (const window of windows.values()) {
        const fromMs = Math.max(window.dueMs, this.#calmMs, this.#lateMs(key));
        if (nowMs > fromMs + promptMs + this.#parts.slackMs) {
          this.#break(
            window.law,
            `no hint for ${key} although one was due at ${window.dueMs / 1000} s`,
          );
          window.dueMs = nextDueMs(window, nowMs);
        }
      }
    }
  }

  /** Two that lead are harmless, but then the Lease is good for nothing. */
  #checkLead(): void {
    const leading = [...this.#views.keys()].filter(({ isLeading }) => isLeading);
    this.#count('L5');
    if (leading.length > 1) {
      this.#break('L5', `${leading.map(({ name }) => name).join(' and ')} lead`);
    }
  }

  #checkProcess(process: ObservedRelay, { owing, world }: View): void {
    const { dirty, wakes, objects } = process.state();
    const shards = world.count('Shard');
    const living = new Set([...world.all('Shard')].map(({ metadata }) => metadata.uid));
    for (const step of twoSteps) {
      const owed = [...owing.keys()].filter((key) => stepOf(key) === step);
      const gone = owed.filter((key) => !living.has(uidOf(key))).length;
      // Whoever stands by forgets those that are gone after a time: the one that leads tells of them.
      const least = process.isLeading ? owed.length : owed.length - gone;
      const size = dirty.get(step) ?? 0;
      this.#count('L2');
      if (size < least) {
        this.#break('L2', `${process.name} keeps ${size} for ${step} and owes ${owed.join(', ')}`);
      }
      this.#count('L8');
      if (size > shards + gone) {
        this.#break('L8', `${process.name} keeps ${size} for ${step} with ${shards} targets`);
      }
    }
    for (const kind of toldKinds) {
      if (objects.get(kind) !== world.count(kind)) {
        this.#break(
          'L8',
          `${process.name} knows ${objects.get(kind)} of ${kind} and was told of ${world.count(kind)}`,
        );
      }
    }
    if (wakes > shards * twoSteps.length || process.pendingTimers > maxTimers) {
      this.#break('L8', `${process.name} has ${wakes} wakes and ${process.pendingTimers} timers`);
    }
  }

  /**
   * A pod that a target had while nobody saw it leaves the target as it was known. Only a look at everything can show
   * what happened in between.
   */
  #excuseUnseenOwners(pod: ToldObject): void {
    const [uid] = this.#truth.targetsOf('Pod', pod);
    const isSeen = ({ world }: View): boolean => {
      const known = world.sameName('Pod', pod);
      return known !== undefined && this.#truth.targetsOf('Pod', known)[0] === uid;
    };
    if (uid !== undefined && ![...this.#views.values()].every(isSeen)) {
      this.#lateUntilMs.set(uid, this.#parts.nowMs() + relayLimits.resyncMs);
    }
  }

  #nameTarget({ metadata: { namespace, name, uid } }: ToldObject): void {
    if (!this.#targets.has(uid)) {
      const place = `${namespace}/${name}`;
      const incarnation = (this.#incarnations.get(place) ?? 0) + 1;
      this.#incarnations.set(place, incarnation);
      this.#targets.set(uid, `${place}#${incarnation}`);
    }
  }

  #owe(key: Key): void {
    const nowMs = this.#parts.nowMs();
    const laws = this.#owed.get(key)?.laws ?? new Set<RelayLaw>(['L1']);
    if (nowMs < this.#queueOutageEndMs) {
      laws.add('L7');
    }
    this.#owed.set(key, { sinceMs: nowMs, laws });
  }

  #followRecords(shard: ToldObject, isGone: boolean): void {
    const { uid, annotations = {} } = shard.metadata;
    for (const step of twoSteps) {
      const key = keyOf(step, uid);
      if (isGone) {
        this.#windows.delete(key);
        continue;
      }
      const windows = this.#windows.get(key) ?? new Map<string, Window>();
      this.#windows.set(key, windows);
      const nowMs = this.#parts.nowMs();
      const record = annotations[`step.millrace.dev/${step}`] ?? '';
      if (!windows.has('resync')) {
        windows.set('resync', resyncWindow(nowMs));
      }
      if (windows.get('wake')?.record !== record) {
        windows.delete('wake');
        const wake = recordedWake(record, nowMs);
        if (wake !== undefined) {
          windows.set('wake', { law: 'L9', record, wake, dueMs: wake.dueMs });
        }
      }
    }
  }

  #makeOwing(view: View, concerned: Iterable<Key>): void {
    this.#order += 1;
    view.isTouched = true;
    for (const key of concerned) {
      view.owing.set(key, this.#order);
    }
  }

  /**
   * Whether somebody can know of a target: it is there, or one that leads has been told of it. What came and went while
   * nobody who sends looked is nobody's any more; what stands by leaves it to the one that leads.
   */
  #isKnown(uid: string): boolean {
    if (this.#truth.has(uid)) {
      return true;
    }
    return [...this.#views].some(([{ isLeading }, { uids }]) => isLeading && uids.has(uid));
  }

  #lateMs(key: Key): number {
    return this.#lateUntilMs.get(uidOf(key)) ?? 0;
  }

  #viewOf(process: ObservedRelay): View {
    const view = this.#views.get(process);
    if (view === undefined) {
      throw new Error(`${process.name} does not run`);
    }
    return view;
  }

  #count(law: RelayLaw): void {
    this.evaluated.set(law, (this.evaluated.get(law) ?? 0) + 1);
  }

  #break(law: RelayLaw, message: string): void {
    this.violations.push({ law, atMs: this.#parts.nowMs(), message });
  }
}

/** Some changes, such as those of permissions, tell nobody: everything is looked at within this time. */
function resyncWindow(nowMs: number): Window {
  const everyMs = relayLimits.resyncMs;
  const wake = { everyMs, dueMs: nowMs + everyMs, isInstant: false };
  return { law: 'L1', record: '', wake, dueMs: wake.dueMs };
}

/** A look before the instant that a record asks for is none at that instant. */
function nextDueMs({ wake }: Window, atMs: number): number {
  return wake.isInstant && atMs < wake.dueMs ? wake.dueMs : atMs + wake.everyMs;
}
