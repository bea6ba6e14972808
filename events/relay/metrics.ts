import { Counter, Gauge, Histogram, Registry } from 'prom-client';
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
  const lists = counter('lists_total', 'Complete lists', ['kind', 'how']);
  const gaps = counter('gaps_total', 'Objects that only a new list told of', ['kind']);
  const slowed = counter('slowed_total', 'Times a target hinted too often', ['step']);
  const wakes = counter('wakes_total', 'Wakes that were due', ['step']);
  const resyncs = counter('resyncs_total', 'Times every target was made dirty', []);
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

function countersOf(registry: Registry) {
  return <L extends string>(name: string, help: string, labelNames: readonly L[]) =>
    new Counter<L>({ name: `millrace_relay_${name}`, help, labelNames, registers: [registry] });
}

function senderCounter(counter: MakeCounter, registry: Registry, timers: Timers) {
  const hints = counter('hints_total', 'Hints the queue has acknowledged', ['step', 'why']);
  const failures = counter('send_failures_total', 'Batches not wholly acknowledged', ['step']);
  const unsendable = counter('unsendable_total', 'Hints that no queue could take', ['step']);
  const delay = new Histogram({
    name: 'millrace_relay_hint_delay_seconds',
    help: 'From the change that was seen to the acknowledged hint',
    labelNames: ['step'],
    buckets: [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300],
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
  const gone = counter('gone_total', 'Places in the history that were gone (410)', [
    'kind',
    'where',
  ]);
  const silent = counter('silent_total', 'Watches given up because they said nothing', ['kind']);
  const failures = counter('watch_failures_total', 'Lists and watches that failed', ['kind']);
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
  const transitions = counter('lease_transitions_total', 'Times it began and ceased to lead', [
    'to',
  ]);
  const failures = counter('lease_failures_total', 'Failed reads and writes of the Lease', []);
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
  const gauge = <L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    read: (gauge: Gauge<L>) => void,
  ) =>
    new Gauge<L>({
      name: `millrace_relay_${name}`,
      help,
      labelNames,
      registers: [registry],
      collect() {
        read(this);
      },
    });
  return [
    ...processGauges(registry),
    gauge('lag_seconds', 'Since the API server last spoke', ['kind', 'namespace'], (lag) => {
      for (const { resource, lastHeardMs } of relay.hearings) {
        const labels = { kind: resource.kind, namespace: resource.namespace ?? '' };
        lag.set(labels, (timers.monotonicMs() - lastHeardMs) / 1000);
      }
    }),
    gauge('dirty', 'Hints owed', ['step'], (dirty) => {
      for (const [step, size] of relay.state().dirty) {
        dirty.set({ step }, size);
      }
    }),
    gauge('slowed', 'Hints held back now', ['step'], (slowed) => {
      for (const [step, size] of relay.state().held) {
        slowed.set({ step }, size);
      }
    }),
    gauge('leading', 'Whether this relay is the one that sends', [], (leading) => {
      leading.set(relay.isLeading ? 1 : 0);
    }),
    gauge('oldest_unsent_seconds', 'Age of the hint owed longest', [], (age) => {
      age.set(relay.state().oldestUnsentSeconds);
    }),
    gauge('sleepers', 'Records that ask to be woken', [], (sleepers) => {
      sleepers.set(relay.state().wakes);
    }),
    gauge('objects', 'Objects known', ['kind'], (objects) => {
      for (const [kind, size] of relay.state().objects) {
        objects.set({ kind }, size);
      }
    }),
  ];
}

/**
 * What everybody looks at first, under the names that Prometheus' client libraries share. Not their whole default set: its
 * watch over the event loop wakes the process a hundred times a second, its watch over the collector at each collection.
 */
function processGauges(registry: Registry): readonly Gauge[] {
  const registers = [registry];
  return [
    new Gauge({
      name: 'process_resident_memory_bytes',
      help: 'Resident memory',
      registers,
      collect() {
        this.set(process.memoryUsage.rss());
      },
    }),
    new Gauge({
      name: 'process_cpu_seconds_total',
      help: 'User and system time',
      registers,
      collect() {
        const { user, system } = process.cpuUsage();
        this.set((user + system) / 1e6);
      },
    }),
  ];
}
