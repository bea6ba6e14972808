import { collectDefaultMetrics } from 'prom-client';
import type { Logger } from '#shared/kernel/logger.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { createRelayMetrics } from './metrics.ts';
import { Reflector, type ReflectorLimits, reflectorLimits } from './reflector.ts';
import { Relay, type RelayNews, type RelayParts } from './relay.ts';
import { serveRelay } from './server.ts';
import { systemTimers } from './timers.ts';

export interface RelayOptions extends Pick<
  RelayParts,
  'clusterId' | 'stage' | 'namespaces' | 'queues' | 'limits'
> {
  /** Called once per watched resource: each watch holds a socket for as long as the relay runs. */
  connect(): KubeConnection;
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly logger: Logger;
  readonly reflectorLimits?: ReflectorLimits;
}

export interface RunningRelay {
  /** Where health, metrics and pods are served. */
  readonly url: string;
  /** Resolves when every resource has been listed once. */
  readonly ready: Promise<void>;
  /** Rejects when a part of it broke in a way that only a new process can mend. */
  readonly broken: Promise<never>;
  resync(): void;
  /** Stops watching, sends what is owed for at most so long, closes. Resolves with whether all was sent. */
  stop(graceMs: number): Promise<boolean>;
}

/** Runs a relay in this process with real time, sockets and randomness. */
export async function startRelay(options: RelayOptions): Promise<RunningRelay> {
  const { logger } = options;
  const metrics = createRelayMetrics(systemTimers);
  const ready = Promise.withResolvers<void>();
  const relay: Relay = new Relay({
    ...options,
    timers: systemTimers,
    random: Math.random,
    report(news) {
      metrics.count(news);
      logNews(logger, news);
      if (news.kind === 'listed' && relay.notReady().length === 0) {
        ready.resolve();
      }
    },
  });
  metrics.observe(relay);
  collectDefaultMetrics({ register: metrics.registry });
  const server = await serveRelay(relay, metrics.registry, options);
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
      for (const connection of connections) {
        connection.close();
      }
      await server.close();
      return isAllSent;
    },
  };
}

function logNews(logger: Logger, news: RelayNews): void {
  switch (news.kind) {
    case 'listed': {
      const { resource, objects, gaps } = news;
      return logger.info({ ...place(resource), objects, gaps }, 'listed');
    }
    case 'reflector':
      return logReflector(logger, news);
    case 'sender':
      return logSender(logger, news);
    case 'woke':
      return logger.debug({ step: news.step }, 'wake is due');
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
      return logger.debug({ step, cause, kind, namespace, name, uid, token }, 'hint sent');
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
