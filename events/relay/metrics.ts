import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { type MetricDeclaration, type NameOf, relayMetrics } from '#shared/api/metrics.ts';
import { processGauges } from './process-gauges.ts';
import type { LeaseNews } from './lease.ts';
import type { ReflectedResource, ReflectorNews } from './reflector.ts';
import type { Relay, RelayNews } from './relay.ts';
import type { SenderNews } from './sender.ts';
import type { Timers } from './timers.ts';

export interface RelayMetrics {
  readonly registry: Registry;
  count(news: RelayNews): void;
  countLease(news: LeaseNews): void;
  /** Adds the gauges, which are read from the relay's state when somebody asks. */
  observe(relay: Relay): readonly Gauge[];
}

/** The relay's metrics, in a registry of their own. Names and meanings: README.md beside this file. */
export function createRelayMetrics(timers: Timers): RelayMetrics {
  const registry = new Registry();
  const counter = countersOf(registry);
  const countSender = senderCounter(counter, registry, timers);
  const countReflector = reflectorCounter(counter);
  const lists = counter('lists_total');
  const gaps = counter('gaps_total');
  const slowed = counter('slowed_total');
  const wakes = counter('wakes_total');
  const resyncs = counter('resyncs_total');
  return {
    registry,
    count(news) {
      switch (news.kind) {
        case 'sender':
          return countSender(news.news);
        case 'slowed':
          return slowed.inc({ step: news.mark.step });
        case 'woke':
          return wakes.inc({ step: news.step });
        case 'resync':
          return resyncs.inc();
        case 'ignored':
          return;
        case 'listed':
          lists.inc({ kind: news.resource.kind, how: news.how });
          return gaps.inc({ kind: news.resource.kind }, news.gaps);
        case 'reflector':
          return countReflector(news.resource, news.news);
      }
    },
    countLease: leaseCounter(counter),
    observe: (relay) => observe(relay, timers, registry),
  };
}

type MakeCounter = ReturnType<typeof countersOf>;

/** The declared metrics of such a kind, without the prefix that all of them have. */
type RelayName<Kind extends MetricDeclaration['kind']> =
  NameOf<typeof relayMetrics, Kind> extends `millrace_relay_${infer Name}` ? Name : never;

type RelayLabel<Name extends RelayName<MetricDeclaration['kind']>> =
  (typeof relayMetrics)[`millrace_relay_${Name}`]['labels'][number];

function countersOf(registry: Registry) {
  return <Name extends RelayName<'counter'>>(short: Name) => {
    const name = `millrace_relay_${short}` as const;
    const { help, labels: labelNames } = relayMetrics[name];
    return new Counter<RelayLabel<Name>>({ name, help, labelNames, registers: [registry] });
  };
}

function senderCounter(counter: MakeCounter, registry: Registry, timers: Timers) {
  const hints = counter('hints_total');
  const failures = counter('send_failures_total');
  const unsendable = counter('unsendable_total');
  const { help, labels, buckets } = relayMetrics.millrace_relay_hint_delay_seconds;
  const delay = new Histogram({
    name: 'millrace_relay_hint_delay_seconds',
    help,
    labelNames: labels,
    buckets: [...buckets],
    registers: [registry],
  });
  return (news: SenderNews): void => {
    switch (news.kind) {
      case 'sent': {
        const { mark, owedSinceMs } = news.dirty;
        hints.inc({ step: mark.step, why: mark.cause });
        delay.observe({ step: mark.step }, (timers.monotonicMs() - owedSinceMs) / 1000);
        return;
      }
      case 'failed':
        return failures.inc({ step: news.step });
      case 'unsendable':
        return unsendable.inc({ step: news.dirty.mark.step });
    }
  };
}

function reflectorCounter(counter: MakeCounter) {
  const gone = counter('gone_total');
  const silent = counter('silent_total');
  const failures = counter('watch_failures_total');
  return ({ kind }: ReflectedResource, news: ReflectorNews): void => {
    switch (news.kind) {
      case 'heard':
        return;
      case 'gone':
        return gone.inc({ kind, where: news.where });
      case 'silent':
        return silent.inc({ kind });
      case 'failed':
        return failures.inc({ kind });
    }
  };
}

function leaseCounter(counter: MakeCounter) {
  const transitions = counter('lease_transitions_total');
  const failures = counter('lease_failures_total');
  return (news: LeaseNews): void => {
    switch (news.kind) {
      case 'leading':
        return transitions.inc({ to: 'leading' });
      case 'standby':
        return transitions.inc({ to: 'standby' }, news.hasLed ? 1 : 0);
      case 'failed':
        return failures.inc();
    }
  };
}

/** Gauges are read from the relay when somebody asks. They register themselves. */
function observe(relay: Relay, timers: Timers, registry: Registry): readonly Gauge[] {
  const gauge = <Name extends RelayName<'gauge'>>(
    short: Name,
    read: (gauge: Gauge<RelayLabel<Name>>) => void,
  ) => {
    const name = `millrace_relay_${short}` as const;
    const { help, labels: labelNames } = relayMetrics[name];
    return new Gauge<RelayLabel<Name>>({
      name,
      help,
      labelNames,
      registers: [registry],
      collect() {
        read(this);
      },
    });
  };
  return [
    ...processGauges(registry),
    gauge('lag_seconds', (lag) => {
      for (const { resource, lastHeardMs } of relay.hearings) {
        const labels = { kind: resource.kind, namespace: resource.namespace ?? '' };
        lag.set(labels, (timers.monotonicMs() - lastHeardMs) / 1000);
      }
    }),
    gauge('dirty', (dirty) => {
      for (const [step, size] of relay.state().dirty) {
        dirty.set({ step }, size);
      }
    }),
    gauge('slowed', (slowed) => {
      for (const [step, size] of relay.state().held) {
        slowed.set({ step }, size);
      }
    }),
    gauge('leading', (leading) => {
      leading.set(relay.isLeading ? 1 : 0);
    }),
    gauge('oldest_unsent_seconds', (age) => {
      age.set(relay.state().oldestUnsentSeconds);
    }),
    gauge('sleepers', (sleepers) => {
      sleepers.set(relay.state().wakes);
    }),
    gauge('objects', (objects) => {
      for (const [kind, size] of relay.state().objects) {
        objects.set({ kind }, size);
      }
    }),
  ];
}
