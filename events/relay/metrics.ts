import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { secondsBetween } from '#shared/kernel/instant.ts';
import type { Relay, RelayNews } from './relay.ts';
import type { SenderNews } from './sender.ts';
import type { Timers } from './timers.ts';

export interface RelayMetrics {
  readonly registry: Registry;
  count(news: RelayNews): void;
  /** Adds the gauges, which are read from the relay's state when somebody asks. */
  observe(relay: Relay): readonly Gauge[];
}

/** The relay's metrics, in a registry of their own. Names and meanings: README.md beside this file. */
export function createRelayMetrics(timers: Timers): RelayMetrics {
  const registry = new Registry();
  const registers = [registry];
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[]) =>
    new Counter<L>({ name: `millrace_relay_${name}`, help, labelNames, registers });

  const gone = counter('gone_total', 'Places in the history that were gone (410)', [
    'kind',
    'where',
  ]);
  const silent = counter('silent_total', 'Watches given up because they said nothing', ['kind']);
  const failures = counter('watch_failures_total', 'Lists and watches that failed', ['kind']);
  const lists = counter('lists_total', 'Complete lists', ['kind']);
  const gaps = counter('gaps_total', 'Objects that only a new list told of', ['kind']);
  const hints = counter('hints_total', 'Hints the queue has acknowledged', ['step', 'why']);
  const sendFailures = counter('send_failures_total', 'Batches not wholly acknowledged', ['step']);
  const unsendable = counter('unsendable_total', 'Hints that no queue could take', ['step']);
  const wakes = counter('wakes_total', 'Wakes that were due', ['step']);
  const resyncs = counter('resyncs_total', 'Times every target was made dirty', []);
  const delay = new Histogram({
    name: 'millrace_relay_hint_delay_seconds',
    help: 'From the change that was seen to the acknowledged hint',
    labelNames: ['step'],
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300],
    registers,
  });

  const countSender = (news: SenderNews): void => {
    switch (news.kind) {
      case 'sent': {
        const { mark, since } = news.dirty;
        hints.inc({ step: mark.step, why: mark.cause });
        delay.observe({ step: mark.step }, Math.max(0, secondsBetween(since, timers.now())));
        return;
      }
      case 'failed':
        return sendFailures.inc({ step: news.step });
      case 'unsendable':
        return unsendable.inc({ step: news.dirty.mark.step });
    }
  };

  return {
    registry,
    count(news) {
      switch (news.kind) {
        case 'sender':
          return countSender(news.news);
        case 'woke':
          return wakes.inc({ step: news.step });
        case 'resync':
          return resyncs.inc();
        case 'listed':
          lists.inc({ kind: news.resource.kind });
          return gaps.inc({ kind: news.resource.kind }, news.gaps);
        case 'reflector': {
          const { kind } = news.resource;
          switch (news.news.kind) {
            case 'heard':
              return;
            case 'gone':
              return gone.inc({ kind, where: news.news.where });
            case 'silent':
              return silent.inc({ kind });
            case 'failed':
              return failures.inc({ kind });
          }
        }
      }
    },
    observe: (relay) => observe(relay, timers, registry),
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
    gauge('lag_seconds', 'Since the API server last spoke', ['kind', 'namespace'], (lag) => {
      for (const { resource, lastHeard } of relay.hearings) {
        const labels = { kind: resource.kind, namespace: resource.namespace ?? '' };
        lag.set(labels, Math.max(0, secondsBetween(lastHeard, timers.now())));
      }
    }),
    gauge('dirty', 'Hints owed', ['step'], (dirty) => {
      for (const [step, size] of relay.state().dirty) {
        dirty.set({ step }, size);
      }
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
