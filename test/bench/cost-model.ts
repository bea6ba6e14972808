/** What one thing that happens asks for, as counted. */
export interface Counts {
  /** Hints sent, and looks at targets. */
  readonly looks: number;
  /** Reads and writes of the API server. */
  readonly requests: number;
}

/** What was measured. */
export interface Measured {
  /** Every target hinted at once, per shard with a Database of its own. */
  readonly resync: Counts;
  /** One member of a shard leaves, and is replaced or not. */
  readonly drain: Counts;
  /** One look of a packaged handler at a shard with nothing to do. */
  readonly look: {
    readonly cpuMs: number;
    readonly logBytes: number;
    /** Metrics that CloudWatch makes of its log, one for each set of dimensions. */
    readonly metrics: number;
  };
}

/** A month of some shards. */
export interface Fleet {
  readonly shards: number;
  readonly drainsPerShard: number;
}

/** One line of a bill. */
export interface Item {
  readonly name: string;
  readonly count: number;
  readonly unit: string;
  readonly dollars: number;
}

/** On-demand prices of us-east-1 in US dollars, without any free tier. Whoever pays others changes them here. */
export const prices = {
  lambdaGbSecondArm: 0.000_013_333_4,
  lambdaRequest: 0.2 / 1e6,
  sqsRequest: 0.4 / 1e6,
  logGb: 0.5,
  alarmMonth: 0.1,
  metricMonth: 0.3,
  /** An hour of a virtual processor and of a GB, on ARM, of what runs all the time instead. */
  fargateCpuHour: 0.032_38,
  fargateGbHour: 0.003_56,
} as const;

/** What is not measured here, and what it is taken for. */
export const assumptions = {
  hoursOfMonth: 730,
  memoryGb: 0.5,
  /** Lambda gives a whole processor at 1,769 MB (AWS Lambda Developer Guide, "Configure Lambda function memory"). */
  processorShare: 512 / 1_769,
  /** From a function to the API server and back, waited for one after the other. */
  roundTripMs: 10,
  /** Lambda asks each queue by five long polls of 20 s at a time, also while it is empty. */
  pollsAtOnce: 5,
  pollSeconds: 20,
  resyncMinutes: 30,
  sweepMinutes: 5,
  /** A sweep reads a page of 500 targets a second or so; one second is what a small one takes. */
  sweepSeconds: 1,
  targetsOfPage: 500,
  /** What runs all the time instead: two tasks, a leader and one that waits. */
  tasks: 2,
  taskCpu: 0.25,
  taskGb: 0.5,
} as const;

/** The stack as it is deployed: what is paid for whether or not there is anything to do. */
export interface Stack {
  /** One for each step. */
  readonly queues: number;
  readonly alarms: number;
}

/**
 * What a month costs, with every hint an invocation of its own: batches make it cheaper.
 *
 * Each hint is one request to send it, one to receive and one to delete it, though batches share them too.
 */
export function monthlyBill(
  { resync, drain, look }: Measured,
  { shards, drainsPerShard }: Fleet,
  stack: Stack,
): readonly Item[] {
  const minutes = assumptions.hoursOfMonth * 60;
  const resyncs = minutes / assumptions.resyncMinutes;
  const sweeps = minutes / assumptions.sweepMinutes;
  const drains = shards * drainsPerShard;
  const looks = resyncs * shards * resync.looks + drains * drain.looks;
  const requests = resyncs * shards * resync.requests + drains * drain.requests;
  const lookSeconds =
    (looks * look.cpuMs) / assumptions.processorShare / 1000 +
    (requests * assumptions.roundTripMs) / 1000;
  const gbSeconds = (lookSeconds + sweeps * assumptions.sweepSeconds) * assumptions.memoryGb;
  const emptyPolls =
    (stack.queues * assumptions.pollsAtOnce * minutes * 60) / assumptions.pollSeconds;
  const logGb = (looks * look.logBytes) / 1e9;
  const item = (name: string, count: number, unit: string, price: number): Item => ({
    name,
    count,
    unit,
    dollars: count * price,
  });
  return [
    item('polls of queues', emptyPolls, 'requests', prices.sqsRequest),
    item('hints sent, received, deleted', looks * 3, 'requests', prices.sqsRequest),
    item('invocations', looks + sweeps, 'invocations', prices.lambdaRequest),
    item('time of functions', gbSeconds, 'GB-s', prices.lambdaGbSecondArm),
    item('logs', logGb, 'GB', prices.logGb),
    // Each step tells its own, and at every resync, so in every hour; what is told seldom comes on top.
    item('metrics', stack.queues * look.metrics, 'metrics', prices.metricMonth),
    item('alarms', stack.alarms, 'alarms', prices.alarmMonth),
  ];
}

/** Reads and writes of the API server in a month, the sweep's pages among them. */
export function monthlyApiRequests(
  { resync, drain }: Measured,
  { shards, drainsPerShard }: Fleet,
): number {
  const minutes = assumptions.hoursOfMonth * 60;
  const pagesOfSweep = 2 * Math.ceil(shards / assumptions.targetsOfPage) + 1;
  return (
    (minutes / assumptions.resyncMinutes) * shards * resync.requests +
    (minutes / assumptions.sweepMinutes) * pagesOfSweep +
    shards * drainsPerShard * drain.requests
  );
}

/** The same month of what runs all the time instead. */
export function alwaysOn(): number {
  const { tasks, taskCpu, taskGb, hoursOfMonth } = assumptions;
  const hour = taskCpu * prices.fargateCpuHour + taskGb * prices.fargateGbHour;
  return tasks * hour * hoursOfMonth;
}
