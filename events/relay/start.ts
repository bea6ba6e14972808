import { version } from '#shared/api/version.ts';
import type { Logger } from '#shared/kernel/logger.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { versionOfHolder } from './identity.ts';
import { type LeaseName, leaseOnServer } from './lease-store.ts';
import { Candidate, type LeaseNews, leaseLimitsOf } from './lease.ts';
import { type RelayMetrics, createRelayMetrics } from './metrics.ts';
import { Reflector, type ReflectorLimits, reflectorLimits } from './reflector.ts';
import { Relay, type RelayNews, type RelayParts } from './relay.ts';
import { serveRelay } from './server.ts';
import { systemTimers } from './timers.ts';

export interface RelayOptions extends Pick<
  RelayParts,
  'clusterId' | 'stage' | 'namespaces' | 'queues' | 'limits' | 'tracer'
> {
  /** Called once per watched resource, each of which holds a socket for as long as the relay runs, and for the lease. */
  connect(): KubeConnection;
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly logger: Logger;
  /** Agreed on with other relays: who holds it sends. Without one this relay always sends. */
  readonly lease?: RelayLease;
  readonly reflectorLimits?: ReflectorLimits;
}

export interface RelayLease extends LeaseName {
  readonly durationSeconds: number;
  /** Of this process; no other one ever has it. */
  readonly identity: string;
}

export interface RunningRelay {
  /** Where health, metrics and pods are served. */
  readonly url: string;
  /** Resolves when every resource has been listed once. */
  readonly ready: Promise<void>;
  /** Rejects when a part of it broke in a way that only a new process can mend. */
  readonly broken: Promise<never>;
  resync(): void;
  /** Stops watching, sends what is owed for at most so long, gives the lease back. Resolves with whether all was sent. */
  stop(graceMs: number): Promise<boolean>;
}

/** Runs a relay in this process with real time, sockets and randomness. */
export async function startRelay(options: RelayOptions): Promise<RunningRelay> {
  const { logger } = options;
  const metrics = createRelayMetrics(systemTimers);
  const ready = Promise.withResolvers<void>();
  const candidacy =
    options.lease === undefined
      ? undefined
      : competeFor(options.lease, options, metrics, () => relay.leadershipChanged());
  const relay: Relay = new Relay({
    ...options,
    timers: systemTimers,
    random: Math.random,
    isLeading: () => candidacy?.isLeading ?? true,
    report(news) {
      metrics.count(news);
      logNews(logger, news);
      if (news.kind === 'listed' && relay.notReady().length === 0) {
        ready.resolve();
      }
    },
  });
  metrics.observe(relay);
  const server = await serveRelay(relay, metrics.registry, options);
  candidacy?.start();
  const stopping = new AbortController();
  const connections: KubeConnection[] = [];
  const reflectors = relay.sources.map(async ({ resource, sink, report }) => {
    const connection = options.connect();
    connections.push(connection);
    const ports = { connection, timers: systemTimers, random: Math.random };
    const limits = options.reflectorLimits ?? reflectorLimits;
    await new Reflector(resource, ports, sink, report, limits).run(stopping.signal);
  });
  const broken = Promise.withResolvers<never>();
  Promise.all(reflectors).catch(broken.reject);
  return {
    url: server.url,
    ready: ready.promise,
    broken: broken.promise,
    resync: () => relay.resync(),
    async stop(graceMs) {
      stopping.abort();
      await Promise.allSettled(reflectors);
      const isAllSent = await relay.stop(graceMs);
      // Only now: what is owed has to be sent under the lease.
      await candidacy?.end();
      for (const connection of connections) {
        connection.close();
      }
      await server.close();
      return isAllSent;
    },
  };
}

interface Candidacy {
  readonly isLeading: boolean;
  start(): void;
  /** Lets another one lead. */
  end(): Promise<void>;
}

/** @param onChange called whenever this relay begins or ceases to lead */
function competeFor(
  lease: RelayLease,
  options: RelayOptions,
  metrics: RelayMetrics,
  onChange: () => void,
): Candidacy {
  const limits = leaseLimitsOf(lease.durationSeconds);
  const connection = options.connect();
  const candidate = new Candidate({
    store: leaseOnServer(connection, lease, limits.requestTimeoutMs),
    timers: systemTimers,
    random: Math.random,
    identity: lease.identity,
    limits,
    report(news) {
      metrics.countLease(news);
      logLease(options.logger, lease, news);
      if (news.kind !== 'failed') {
        onChange();
      }
    },
  });
  const ending = new AbortController();
  let running: Promise<void> | undefined;
  return {
    get isLeading() {
      return candidate.isLeading;
    },
    start() {
      running = candidate.run(ending.signal);
    },
    async end() {
      ending.abort();
      await running;
      await candidate.release();
      connection.close();
    },
  };
}

function logLease(logger: Logger, { namespace, name }: LeaseName, news: LeaseNews): void {
  const lease = `${namespace}/${name}`;
  switch (news.kind) {
    case 'leading':
      return logger.info({ lease }, 'leading');
    case 'standby': {
      const { holder } = news;
      const other = holder === undefined ? undefined : versionOfHolder(holder);
      return other === undefined || other === version
        ? logger.info({ lease, holder }, 'standing by')
        : logger.warn({ lease, holder, why: otherRelease(other) }, 'standing by');
    }
    case 'failed':
      return logger.warn({ lease, why: news.why }, 'lease cannot be had');
  }
}

function otherRelease(other: string): string {
  return `a relay of ${other} leads, and this is ${version}: see that the rollout of one of them comes to its end, and what millrace doctor says`;
}

function logNews(logger: Logger, news: RelayNews): void {
  switch (news.kind) {
    case 'listed': {
      const { resource, how, objects, gaps } = news;
      return logger.info({ ...place(resource), how, objects, gaps }, 'listed');
    }
    case 'reflector':
      return logReflector(logger, news);
    case 'sender':
      return logSender(logger, news);
    case 'woke':
      return logger.debug({ step: news.step }, 'wake is due');
    case 'ignored': {
      const { kind, namespace, name } = news.target;
      return logger.debug({ kind, namespace, name, why: news.why }, 'trace context ignored');
    }
    case 'slowed': {
      const { step, target } = news.mark;
      const { kind, namespace, name, uid } = target;
      return logger.debug({ step, kind, namespace, name, uid }, 'target hints too often');
    }
    case 'resync':
      return logger.info({ hints: news.duties }, 'resync');
  }
}

function logReflector(
  logger: Logger,
  { resource, news }: Extract<RelayNews, { kind: 'reflector' }>,
): void {
  switch (news.kind) {
    case 'heard':
      return;
    case 'gone':
      return logger.info(
        { ...place(resource), where: news.where },
        'history is gone, listing anew',
      );
    case 'silent':
      return logger.warn(place(resource), 'watch went silent');
    case 'failed':
      return logger.warn({ ...place(resource), why: news.why }, 'watch failed');
  }
}

function logSender(logger: Logger, { news }: Extract<RelayNews, { kind: 'sender' }>): void {
  switch (news.kind) {
    case 'sent': {
      const { step, target, cause, token } = news.dirty.mark;
      const { kind, namespace, name, uid } = target;
      return logger.debug(
        { step, cause, kind, namespace, name, uid, token, ...news.correlation },
        'hint sent',
      );
    }
    case 'failed':
      return logger.warn({ step: news.step, hints: news.hints, why: news.why }, 'send failed');
    case 'unsendable':
      return logger.error({ ...news.dirty.mark, why: news.why }, 'hint cannot be sent');
  }
}

function place({ kind, namespace }: { kind: string; namespace?: string }): Record<string, string> {
  return { kind, ...(namespace === undefined ? {} : { namespace }) };
}
