/**
 * Every metric there is, declared once: whoever counts is typed by it, and alerts, dashboards and the reference page are
 * made from it. The names are public.
 */
export interface MetricDeclaration {
  /** `counter`: so many more. `gauge`: what stands now. `histogram`: how long or how old each one was. */
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly unit: 'count' | 'seconds' | 'bytes';
  readonly labels: readonly string[];
  readonly help: string;
  /** What it is about is a target: Prometheus gets the labels `namespace` and `name` besides. */
  readonly isOfTarget?: true;
  /**
   * The labels that CloudWatch gets, where every combination of values is paid for by the month; all when absent. A label
   * with a value for each target, node or schedule is never among them.
   */
  readonly dimensions?: readonly string[];
  /** Upper bounds of a histogram's buckets. */
  readonly buckets?: readonly number[];
}

type Declarations = Readonly<Record<string, MetricDeclaration>>;

/** What decisions tell. The names of `goverse_` are those of GoVerse's own design of its shutdown. */
export const stepMetrics = {
  backup_runs_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['schedule', 'type', 'result'],
    isOfTarget: true,
    dimensions: ['result'],
    help: 'Backups that ended, by how',
  },
  backup_skipped_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['schedule', 'reason'],
    isOfTarget: true,
    dimensions: ['reason'],
    help: 'Slots that passed without a backup',
  },
  backup_last_success_age_seconds: {
    kind: 'gauge',
    unit: 'seconds',
    labels: ['backup'],
    isOfTarget: true,
    help: 'Age of the newest good backup, `any` or `full`',
  },
  pooler_records_cleaned_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['move'],
    isOfTarget: true,
    help: 'Records of dead poolers that were `marked` or `deleted`',
  },
  goverse_shutdown_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['mode', 'status'],
    isOfTarget: true,
    help: 'Nodes that left, `clean` or `quick`, with `success`, after a `timeout` or in `error`',
  },
  goverse_shutdown_duration_seconds: {
    kind: 'histogram',
    unit: 'seconds',
    labels: ['mode'],
    isOfTarget: true,
    help: 'How long a hand-over of shards took',
    buckets: [1, 2.5, 5, 10, 20, 30, 60, 120, 300],
  },
  goverse_shards_released_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['node'],
    isOfTarget: true,
    dimensions: [],
    help: 'Shards that were handed over before their node left',
  },
  goverse_clean_shutdown_timeouts_total: {
    kind: 'counter',
    unit: 'count',
    labels: [],
    isOfTarget: true,
    help: 'Hand-overs whose time was up before all shards were claimed',
  },
  millrace_pool_members_wanted: {
    kind: 'gauge',
    unit: 'count',
    labels: ['pool', 'cell'],
    isOfTarget: true,
    dimensions: [],
    help: 'Members that a pool shall have in a cell',
  },
  millrace_pool_members_missing: {
    kind: 'gauge',
    unit: 'count',
    labels: ['pool', 'cell'],
    isOfTarget: true,
    dimensions: [],
    help: 'Of those, the ones that are not there or not ready',
  },
} as const satisfies Declarations;

/** What the pipeline and the sweep tell of themselves. */
export const functionMetrics = {
  millrace_looks_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['step', 'outcome', 'reason'],
    dimensions: ['step', 'outcome'],
    help: 'Looks at targets by how they ended: the outcome of a decision, or `repeated`, `ended` (for good) or `failed`',
  },
  millrace_look_seconds: {
    kind: 'histogram',
    unit: 'seconds',
    labels: ['step'],
    help: 'How long a look took, with those that lost their race',
    buckets: [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30],
  },
  millrace_hint_age_seconds: {
    kind: 'histogram',
    unit: 'seconds',
    labels: ['step'],
    help: 'From what the sender saw to the begin of the look, the clocks of both taken as one',
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 900, 3600],
  },
  millrace_lost_races_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['step'],
    help: 'Guards that no longer held, so that a look was made anew',
  },
  millrace_hints_refused_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['step'],
    help: 'Messages that are no hint for this function',
  },
  millrace_target_blocked: {
    kind: 'gauge',
    unit: 'count',
    labels: ['step'],
    isOfTarget: true,
    help: '1 where the last look found that a person or a repair is needed, else 0',
  },
  millrace_sweeps_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['result'],
    help: 'Sweeps, `whole` or in `part`',
  },
  millrace_sweep_hints_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['result'],
    help: 'Hints of the sweep that were `sent`, or `failed`',
  },
  millrace_sweep_targets: {
    kind: 'gauge',
    unit: 'count',
    labels: [],
    help: 'Targets that the last sweep saw',
  },
} as const satisfies Declarations;

/** What the relay serves. */
export const relayMetrics = {
  millrace_relay_lag_seconds: {
    kind: 'gauge',
    unit: 'seconds',
    labels: ['kind', 'namespace'],
    help: 'Since the API server last spoke',
  },
  millrace_relay_dirty: {
    kind: 'gauge',
    unit: 'count',
    labels: ['step'],
    help: 'Hints owed',
  },
  millrace_relay_oldest_unsent_seconds: {
    kind: 'gauge',
    unit: 'seconds',
    labels: [],
    help: 'Age of the hint owed longest',
  },
  millrace_relay_hints_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['step', 'why'],
    help: 'Hints the queue has acknowledged',
  },
  millrace_relay_hint_delay_seconds: {
    kind: 'histogram',
    unit: 'seconds',
    labels: ['step'],
    help: 'From the change that was seen to the acknowledged hint',
    buckets: [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300],
  },
  millrace_relay_send_failures_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['step'],
    help: 'Batches not wholly acknowledged',
  },
  millrace_relay_unsendable_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['step'],
    help: 'Hints that no queue could take',
  },
  millrace_relay_wakes_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['step'],
    help: 'Wakes that were due',
  },
  millrace_relay_sleepers: {
    kind: 'gauge',
    unit: 'count',
    labels: [],
    help: 'Records that ask to be woken',
  },
  millrace_relay_lists_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['kind', 'how'],
    help: 'Complete lists',
  },
  millrace_relay_gaps_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['kind'],
    help: 'Objects that only a new list told of',
  },
  millrace_relay_gone_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['kind', 'where'],
    help: 'Places in the history that were gone (410)',
  },
  millrace_relay_silent_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['kind'],
    help: 'Watches given up because they said nothing',
  },
  millrace_relay_watch_failures_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['kind'],
    help: 'Lists and watches that failed',
  },
  millrace_relay_objects: {
    kind: 'gauge',
    unit: 'count',
    labels: ['kind'],
    help: 'Objects known',
  },
  millrace_relay_resyncs_total: {
    kind: 'counter',
    unit: 'count',
    labels: [],
    help: 'Times every target was made dirty',
  },
  millrace_relay_slowed_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['step'],
    help: 'Times a target hinted too often',
  },
  millrace_relay_slowed: {
    kind: 'gauge',
    unit: 'count',
    labels: ['step'],
    help: 'Hints held back now',
  },
  millrace_relay_leading: {
    kind: 'gauge',
    unit: 'count',
    labels: [],
    help: 'Whether this relay is the one that sends',
  },
  millrace_relay_lease_transitions_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['to'],
    help: 'Times it began and ceased to lead',
  },
  millrace_relay_lease_failures_total: {
    kind: 'counter',
    unit: 'count',
    labels: [],
    help: 'Failed reads and writes of the Lease',
  },
} as const satisfies Declarations;

/** What the local worker serves besides what its functions tell. */
export const workerMetrics = {
  millrace_worker_invocations_total: {
    kind: 'counter',
    unit: 'count',
    labels: ['function', 'result'],
    help: 'Invocations that `returned`, `failed` (threw, timed out, crashed), or whose answer was `refused`',
  },
} as const satisfies Declarations;

/** What relay and worker serve of themselves, under the names that Prometheus' client libraries share. */
export const processMetrics = {
  millrace_build_info: {
    kind: 'gauge',
    unit: 'count',
    labels: ['version'],
    help: 'Releases that run, always 1',
  },
  process_resident_memory_bytes: {
    kind: 'gauge',
    unit: 'bytes',
    labels: [],
    help: 'Resident memory',
  },
  process_cpu_seconds_total: {
    kind: 'counter',
    unit: 'seconds',
    labels: [],
    help: 'User and system time',
  },
} as const satisfies Declarations;

export type StepMetrics = typeof stepMetrics;
export type FunctionMetrics = typeof functionMetrics;

/** The names among these metrics that are of such a kind. */
export type NameOf<Metrics extends Declarations, Kind extends MetricDeclaration['kind']> = {
  [Name in keyof Metrics]: Metrics[Name]['kind'] extends Kind ? Name : never;
}[keyof Metrics];

/** A value for each label, and for none that is not declared. */
export type LabelsOf<Metric extends MetricDeclaration> = {
  readonly [Label in Metric['labels'][number]]: string;
};

/** One number that a function tells of its invocation, where it has gone through JSON or is on its way into it. */
export interface Sample {
  readonly metric: keyof StepMetrics | keyof FunctionMetrics;
  /** Also `namespace` and `name` of the target, where it is of one. */
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** What a function may tell, by name. */
export const toldMetrics: Declarations = { ...stepMetrics, ...functionMetrics };
