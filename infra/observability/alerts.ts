import type { Reason } from '#shared/api/reasons.ts';

/** One alert: a rule of Prometheus, and the page of the same name under `runbooks` that says what to do. */
export interface Alert {
  readonly name: string;
  /** `critical`: nothing is done for anybody until it is repaired. `warning`: something is not done. */
  readonly severity: 'critical' | 'warning';
  /** How long it must hold before anybody is told. */
  readonly for: string;
  readonly expr: string;
  readonly summary: string;
  /** A sentence that names what it is about; `{{ … }}` is Prometheus' own template. */
  readonly description: string;
}

export interface AlertGroup {
  readonly name: string;
  readonly alerts: readonly Alert[];
}

/** Decisions that could not be made because the data plane, or what leads to it, was not to be read. */
const unreadableReasons: readonly Reason[] = [
  'DatabaseUnknown',
  'TopologyUnknown',
  'BackupsUnknown',
  'KeysUnknown',
  'RepositoryUnknown',
  'CredentialsUnknown',
];

/**
 * That a counter of rare things has grown. `increase` alone misses the first time, because a series that begins with 1 has
 * not grown.
 */
function grew(selector: string, range: string): string {
  return `increase(${selector}[${range}]) > 0 or (${selector} > 0 unless ${selector} offset ${range})`;
}

function percentile(quantile: number, histogram: string, range: string): string {
  return `histogram_quantile(${quantile}, sum by (step, le) (rate(${histogram}_bucket[${range}])))`;
}

const errors: AlertGroup = {
  name: 'millrace-errors',
  alerts: [
    {
      name: 'MillraceLooksFail',
      severity: 'warning',
      for: '10m',
      expr: 'sum by (step, reason) (rate(millrace_looks_total{outcome="failed"}[10m])) > 0',
      summary: 'Looks fail in a way that nobody foresaw',
      description: 'Looks of {{ $labels.step }} end as {{ $labels.reason }}.',
    },
    {
      name: 'MillraceTargetBlocked',
      severity: 'warning',
      for: '10m',
      expr: 'max by (namespace, name, step) (millrace_target_blocked) > 0',
      summary: 'A target needs a person',
      description:
        '{{ $labels.step }} cannot go on with {{ $labels.namespace }}/{{ $labels.name }}.',
    },
    {
      name: 'MillraceDataPlaneUnknown',
      severity: 'warning',
      for: '15m',
      expr: `sum by (step, reason) (increase(millrace_looks_total{reason=~"${unreadableReasons.join('|')}"}[10m])) > 0`,
      summary: 'A data plane cannot be read',
      description: '{{ $labels.step }} has found nothing but {{ $labels.reason }} for a while.',
    },
    {
      name: 'MillracePoolDegraded',
      severity: 'warning',
      for: '15m',
      expr: 'max by (namespace, name, pool, cell) (millrace_pool_members_missing) > 0',
      summary: 'A pool has fewer ready members than it shall have',
      description:
        '{{ $value }} members of pool {{ $labels.pool }} in {{ $labels.cell }} of {{ $labels.namespace }}/{{ $labels.name }} are missing or not ready.',
    },
    {
      name: 'MillraceWritesRefused',
      severity: 'warning',
      for: '5m',
      expr: 'sum by (step, reason) (increase(millrace_looks_total{outcome=~"ended|repeated", reason=~"Write(Forbidden|Invalid)|.*Forbidden"}[15m])) > 0',
      summary: 'Writes are refused',
      description: 'What {{ $labels.step }} wants to write is refused: {{ $labels.reason }}.',
    },
    {
      name: 'MillraceHintsRefused',
      severity: 'warning',
      for: '0m',
      expr: grew('millrace_hints_refused_total', '15m'),
      summary: 'Messages are no hints',
      description: 'A message to {{ $labels.step }} was refused, and is kept for inspection.',
    },
    {
      name: 'MillraceHintsUnsendable',
      severity: 'warning',
      for: '0m',
      expr: grew('millrace_relay_unsendable_total', '1h'),
      summary: 'Hints are too long for a queue',
      description: 'The relay dropped a hint to {{ $labels.step }}.',
    },
    {
      name: 'MillraceInvocationsFail',
      severity: 'warning',
      for: '5m',
      expr: grew('millrace_worker_invocations_total{result!="returned"}', '15m'),
      summary: 'Invocations end without an answer',
      description: 'Invocations of {{ $labels.function }} ended as {{ $labels.result }}.',
    },
  ],
};

const latency: AlertGroup = {
  name: 'millrace-latency',
  alerts: [
    {
      name: 'MillraceLooksSlow',
      severity: 'warning',
      for: '15m',
      expr: `${percentile(0.99, 'millrace_look_seconds', '10m')} > 10`,
      summary: 'Looks take long',
      description: 'One look of {{ $labels.step }} in a hundred takes {{ $value }} s.',
    },
    {
      name: 'MillraceHintsLate',
      severity: 'warning',
      for: '15m',
      expr: `${percentile(0.99, 'millrace_hint_age_seconds', '10m')} > 300`,
      summary: 'Looks come late',
      description: 'Hints to {{ $labels.step }} are {{ $value }} s old when they are looked at.',
    },
  ],
};

const saturation: AlertGroup = {
  name: 'millrace-saturation',
  alerts: [
    {
      name: 'MillraceRelaySaturated',
      severity: 'warning',
      for: '5m',
      expr: 'max(millrace_relay_oldest_unsent_seconds) > 60',
      summary: 'The relay cannot send what it owes',
      description: 'A hint has waited for {{ $value }} s in the relay.',
    },
    {
      name: 'MillraceTargetTooBusy',
      severity: 'warning',
      for: '30m',
      expr: 'sum by (step) (millrace_relay_slowed) > 0',
      summary: 'A target changes without end',
      description: 'Hints to {{ $labels.step }} have been held back for half an hour.',
    },
  ],
};

const relay: AlertGroup = {
  name: 'millrace-relay',
  alerts: [
    {
      name: 'MillraceNobodyLeads',
      severity: 'critical',
      for: '2m',
      expr: '(max(millrace_relay_leading) or vector(0)) == 0',
      summary: 'No relay sends hints',
      description: 'No relay is there, or none holds the Lease; only the sweep still wakes steps.',
    },
    {
      name: 'MillraceRelayDeaf',
      severity: 'warning',
      for: '2m',
      expr: 'max by (job, instance, kind, namespace) (millrace_relay_lag_seconds) > 90',
      summary: 'The relay hears nothing from the API server',
      description: 'Nothing was heard about {{ $labels.kind }} for {{ $value }} s.',
    },
    {
      name: 'MillraceSendsFail',
      severity: 'warning',
      for: '10m',
      expr: 'sum by (step) (rate(millrace_relay_send_failures_total[5m])) > 0',
      summary: 'A queue does not take hints',
      description: 'Batches to the queue of {{ $labels.step }} fail.',
    },
    {
      name: 'MillraceSweepIncomplete',
      severity: 'warning',
      for: '0m',
      expr: grew('millrace_sweeps_total{result="part"}', '15m'),
      summary: 'The sweep could not read or send everything',
      description: 'The backstop behind the relay has a hole.',
    },
    {
      name: 'MillraceNoSweep',
      severity: 'warning',
      for: '15m',
      expr: '(sum(increase(millrace_sweeps_total[30m])) or vector(0)) == 0',
      summary: 'Nothing is swept',
      description: 'No sweep has ended within half an hour: nobody stands behind the relay.',
    },
  ],
};

const outcomes: AlertGroup = {
  name: 'millrace-outcomes',
  alerts: [
    {
      name: 'MillraceBackupFailed',
      severity: 'warning',
      for: '0m',
      expr: grew('backup_runs_total{result=~"failed|unknown"}', '1h'),
      summary: 'A backup did not succeed',
      description:
        'A {{ $labels.type }} backup of {{ $labels.namespace }}/{{ $labels.name }} ({{ $labels.schedule }}) ended as {{ $labels.result }}.',
    },
    {
      name: 'MillraceBackupsOld',
      severity: 'critical',
      for: '15m',
      // Two days fit a daily schedule. The condition BackupsOnSchedule knows each schedule and is exact.
      expr: 'max by (namespace, name) (backup_last_success_age_seconds{backup="any"}) > 172800',
      summary: 'There is no new backup',
      description:
        'The newest good backup of {{ $labels.namespace }}/{{ $labels.name }} is {{ $value | humanizeDuration }} old.',
    },
    {
      name: 'MillraceHandoverTimedOut',
      severity: 'warning',
      for: '0m',
      expr: grew('goverse_clean_shutdown_timeouts_total', '1h'),
      summary: 'A node left before its shards were claimed',
      description: 'A hand-over in {{ $labels.namespace }}/{{ $labels.name }} ran out of time.',
    },
  ],
};

export const alertGroups: readonly AlertGroup[] = [errors, latency, saturation, relay, outcomes];
