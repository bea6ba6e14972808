/**
 * What the server tells the page, as JSON. Both sides import these types, and nothing else of each other.
 */

/**
 * Where a target, or one step on it, stands; what a person has to see to first. `stuck`: nothing moves without a person.
 * `leaving`: it is being deleted. `paused`: a person holds it. `working`: it goes on by itself. `settled`: nothing to do.
 */
export const standings = ['stuck', 'leaving', 'paused', 'working', 'settled'] as const;
export type Standing = (typeof standings)[number];

/** A standard condition as it stands on the target. */
export interface ToldCondition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  /** When its status last changed, RFC 3339. */
  readonly since: string;
}

/** One target in the list. Its `id` is `<short kind>/<namespace>/<name>`. */
export interface TargetRow {
  readonly id: string;
  readonly standing: Standing;
  /** What goes on, in a few words. */
  readonly headline: string;
  readonly waitsFor?: string;
  /** Since when, RFC 3339. */
  readonly since?: string;
  /** When it is looked at next: RFC 3339, or how often. */
  readonly next?: string;
  readonly conditions: readonly ToldCondition[];
  /** Changes with the object: what was read of it before is old then. */
  readonly version: string;
}

/** What the page may do, and where it looks. Told once per connection. */
export interface Session {
  readonly server: string;
  readonly context: string;
  /** Empty = every namespace. */
  readonly namespaces: readonly string[];
  /** Whether dead letters may be replayed from the page. */
  readonly canWrite: boolean;
  /** Where decisions are read from; absent where no archive was named. */
  readonly archive?: string;
  /** Where the dead-letter queues are; absent where none are known. */
  readonly queues?: string;
  readonly version: string;
}

/** Whether what the page shows is what there is. */
export type Health =
  | { readonly kind: 'listing' }
  | { readonly kind: 'live' }
  /** The API server was last heard at `since`; what is shown may be old. */
  | { readonly kind: 'lost'; readonly since: string; readonly why: string };

/** What the stream of events carries, by the event's name. */
export interface FeedEvents {
  readonly session: Session;
  /** Every target there is. */
  readonly targets: readonly TargetRow[];
  readonly changes: { readonly changed: readonly TargetRow[]; readonly gone: readonly string[] };
  readonly health: Health;
}

/** One thing that a person can do, with what to type where it is typed. */
export interface Todo {
  readonly text: string;
  readonly command?: string;
}

/** One step of a target, for people. */
export interface StepStory {
  readonly step: string;
  readonly standing: Standing;
  readonly reason?: string;
  /** What goes on, in plain words. */
  readonly says: string;
  /** What the step itself wrote, where that says more. */
  readonly told?: string;
  readonly waitsFor?: string;
  readonly since?: string;
  readonly todo: readonly Todo[];
  /** What it does by itself. */
  readonly next: string;
  /** When it looks again without an event. */
  readonly look?: string;
  readonly notes: readonly string[];
}

/** Why a target is as it is. */
export interface TargetStory {
  readonly id: string;
  readonly standing: Standing;
  /** What a person should know first. */
  readonly summary: string;
  readonly notes: readonly string[];
  /** The Database of a Shard. */
  readonly database?: { readonly id: string; readonly standing: Standing; readonly brief: string };
  /** Pods that leave, or were asked to. */
  readonly members: readonly { readonly pod: string; readonly says: string }[];
  readonly steps: readonly StepStory[];
  readonly conditions: readonly ToldCondition[];
}

/** How a look ended, or what else a mark is; the most telling first. */
export const outcomes = [
  'blocked',
  'failed',
  'acting',
  'waiting',
  'settled',
  'lostRace',
  'warning',
  'event',
] as const;
export type Outcome = (typeof outcomes)[number];

export interface Lane {
  readonly id: string;
  readonly kind: 'step' | 'member' | 'backups';
}

/** One decision or Event. Times are milliseconds since the epoch. */
export interface Mark {
  readonly at: number;
  /** The place of its lane in {@link Timeline.lanes}. */
  readonly lane: number;
  /** The lane of the member it is about, where it is about one. */
  readonly member?: number;
  readonly outcome: Outcome;
  readonly reason: string;
  readonly message: string;
  /** What was written, one after another. */
  readonly effects: readonly string[];
}

/** What took time: a backup, or a state that a step's record is in. */
export interface Bar {
  readonly lane: number;
  readonly from: number;
  /** Absent while it goes on. */
  readonly to?: number;
  readonly kind: 'running' | 'succeeded' | 'failed' | 'state';
  readonly title: string;
}

/** What is due: a slot, or a step's next look. */
export interface Due {
  readonly lane: number;
  readonly at: number;
  readonly title: string;
}

/** What became of a target, for a picture. Marks are in the order of time. */
export interface Timeline {
  readonly from: number;
  readonly to: number;
  readonly lanes: readonly Lane[];
  readonly marks: readonly Mark[];
  readonly bars: readonly Bar[];
  readonly due: readonly Due[];
  /** What is not in it, and why. */
  readonly gaps: readonly string[];
}

/** The dead letters of one step about one target: one look answers all of them. */
export interface LetterGroup {
  /** `<short kind>/<namespace>/<name>` */
  readonly target: string;
  readonly letters: number;
  /** What the newest was sent for. */
  readonly cause: string;
  /** When the newest and the oldest were sent, RFC 3339. */
  readonly newest: string;
  readonly oldest: string;
  /** Why the last look failed, as the archive has it. */
  readonly failure?: string;
}

export interface DeadLetterQueue {
  readonly step: string;
  readonly groups: readonly LetterGroup[];
  /** Letters that are no hint for this step, and why: they stay. */
  readonly refused: readonly string[];
  /** How many letters were looked at, and whether there are more. */
  readonly seen: number;
  readonly isCut: boolean;
}

export type DeadLetters =
  /** No queues are known: `how` says what to give. */
  | { readonly kind: 'unconfigured'; readonly how: string }
  | { readonly kind: 'read'; readonly queues: readonly DeadLetterQueue[] };

/** What a step would decide about a target now. Nothing is written for it. */
export interface LetterPreview {
  readonly target: string;
  readonly outcome?: Outcome;
  readonly reason?: string;
  readonly message: string;
  readonly effects: readonly string[];
}

/** The letters of a step about these targets. */
export interface ReplayOrder {
  readonly step: string;
  readonly targets: readonly string[];
}

/** What became of a replay, in sentences. */
export interface ReplayOutcome {
  readonly sent: number;
  readonly says: readonly string[];
}
