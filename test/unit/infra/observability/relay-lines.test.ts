import { expect, test } from 'vitest';
import { startRelay } from '#events/relay/start.ts';
import { problemOf } from '#infra/observability/log-lines.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { ModelApiServer } from '#test/unit/events/relay/model-api-server.ts';
import { RecordingQueue } from '#test/unit/events/relay/recording-queue.ts';
import { LineLog } from '#test/unit/infra/local/worker/line-log.ts';

/** A relay as it is run, over servers in memory of which each refuses its first request. */
function aRelay() {
  const log = new LineLog();
  const queues = new RecordingQueue();
  const options = {
    clusterId: 'test',
    stage: 'test',
    namespaces: [],
    queues,
    host: '127.0.0.1',
    port: 0,
    logger: createLogger('trace', { process: 'relay', cluster: 'test' }, { write: log.add }),
    connect() {
      const server = new ModelApiServer();
      server.write('orders');
      server.refusals.push(403);
      return server;
    },
  };
  return { log, queues, options };
}

function problemsIn(log: LineLog): readonly (string | undefined)[] {
  return log.lines.map(problemOf).filter((problem) => problem !== undefined);
}

test('a relay’s lines have their form, while watches break and a queue is down', async () => {
  const { log, queues, options } = aRelay();
  queues.isDown = true;
  const relay = await startRelay(options);

  await log.until({ msg: 'watch failed' });
  await log.until({ msg: 'send failed' });
  queues.isDown = false;
  relay.resync();
  await log.until({ msg: 'hint sent' });
  await relay.stop(1_000);

  const seen = new Set(log.lines.map(({ msg }) => msg));
  expect(problemsIn(log)).toEqual([]);
  expect([...seen]).toEqual(
    expect.arrayContaining(['listed', 'resync', 'hint sent', 'send failed', 'watch failed']),
  );
});

test('so have those about a Lease that it cannot have', async () => {
  const { log, options } = aRelay();
  const relay = await startRelay({
    ...options,
    lease: { namespace: 'millrace', name: 'relay', durationSeconds: 15, identity: 'a' },
  });

  await log.until({ msg: 'lease cannot be had' });
  await relay.stop(0);

  expect(problemsIn(log)).toEqual([]);
});
