import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { startWorkerProcess } from '#infra/local/worker/start.ts';
import { LineLog } from './line-log.ts';

test('a worker whose port is taken runs all the same, and says where its metrics are', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  onTestFinished(() => void other.close());
  const { port } = other.address() as AddressInfo;
  const log = new LineLog();

  const worker = await startWorkerProcess({
    environment: {
      MILLRACE_QUEUE_ENDPOINT: 'http://127.0.0.1:1',
      MILLRACE_STAGE: 'test',
      MILLRACE_WORKER_PORT: String(port),
      AWS_REGION: 'us-east-1',
    },
    onLine: log.add,
  });
  onTestFinished(() => worker.stop(1_000).then(() => undefined));
  const answer = await fetch(new URL('/metrics', worker.announced.url));

  expect(worker.announced.url).not.toContain(`:${port}`);
  expect(await answer.text()).toContain('millrace_worker_invocations_total');
  await log.until({ msg: 'port of the metrics taken, another one is used' });
});
