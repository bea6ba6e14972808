import { join } from 'node:path';
import * as z from 'zod';
import { writeCredentials } from '#infra/cli/dev/credentials.ts';
import { startQueue } from '#infra/local/queue/start.ts';
import { makeScheduledEvent } from '#infra/local/worker/event.ts';
import { createSandbox } from '#infra/local/worker/sandbox.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { functionName, sweepName } from '#shared/api/steps.ts';
import { recordText } from '#shared/kernel/record.ts';
import { type Figure, figure } from './figure.ts';
import {
  type Cluster,
  auditedRequests,
  clusterId,
  millraceUser,
  startCluster,
} from './installation.ts';
import { create, forEach, namespace, patch, shardManifest } from './objects.ts';
import { type Part, type PartOptions, scaled } from './part.ts';

const shardCount = 1_000;

/** What a sweep may take: its function's time-out leaves room for a slow API server beside it. */
const goalSeconds = 5;
const goalRequests = 60;

const stage = 'bench';
const region = 'us-east-1';

const sweptSchema = z.looseObject({ targets: z.number(), sent: z.number(), seconds: z.number() });

/**
 * What a sweep costs after a night without a relay: a thousand Shards with four schedules each, every one of them due, and
 * no step ever looked at any of them. So each is hinted at once for every step.
 *
 * The function as it ships runs in a sandbox of its own, as its schedule would invoke it: the seconds are its own, from its
 * first read to the last acknowledged hint. The API server's audit log tells how often it was asked.
 */
export const sweep: Part = {
  name: 'sweep',
  title: 'a sweep over a thousand shards with four schedules each, all overdue',
  async measure(options) {
    await using stack = new AsyncDisposableStack();
    const cluster = stack.use(await startCluster(options, { isAudited: true }));
    const queue = await startQueue({
      dataDir: join(cluster.folder, 'queue'),
      port: 0,
      stage,
      region,
      visibilitySeconds: 60,
    });
    stack.defer(() => queue.stop(5_000));
    const count = await makeShards(cluster, options);
    const name = functionName(stage, sweepName);
    const sandbox = createSandbox({
      functionName: name,
      functionArn: `arn:aws:lambda:${region}:000000000000:function:${name}`,
      handler: new URL('../../functions/sweep/handler.ts', import.meta.url),
      environment: {
        ...(await writeCredentials(
          join(cluster.folder, 'sign-in'),
          cluster.controlPlane.access(millraceUser),
        )),
        MILLRACE_CLUSTER_ID: clusterId,
        MILLRACE_STAGE: stage,
        MILLRACE_NAMESPACES: namespace,
        MILLRACE_QUEUE_ENDPOINT: queue.announced.url,
        MILLRACE_LOG_LEVEL: 'silent',
        AWS_REGION: region,
        AWS_ACCESS_KEY_ID: 'local',
        AWS_SECRET_ACCESS_KEY: 'local',
      },
      timeoutMs: 60_000,
      initTimeoutMs: 60_000,
      onLine: options.log,
    });
    stack.defer(() => sandbox.close());
    const before = (await auditedRequests(cluster)).length;
    options.log('sweeping');
    const result = await sandbox.invoke(
      makeScheduledEvent(new Date(), { functionName: name, region }),
    );
    if (result.kind === 'failed') {
      throw new Error(result.why);
    }
    const swept = sweptSchema.parse(result.value);
    if (swept.targets !== count) {
      throw new Error(`${swept.targets} of ${count} shards were seen`);
    }
    const requests = (await auditedRequests(cluster)).length - before;
    return figuresOf(swept, requests);
  },
};

async function makeShards({ connection }: Cluster, options: PartOptions): Promise<number> {
  const names = Array.from({ length: scaled(shardCount, options) }, (_, place) => `shard-${place}`);
  options.log(`making ${names.length} shards`);
  const schedules = ['full', 'differential', 'incremental', 'incremental'].map((type, place) => ({
    name: `schedule-${place}`,
    cron: `${place * 10} * * * *`,
    type,
  }));
  const plain = shardManifest('', 'main');
  await forEach(names, async (name) => {
    const { metadata } = await create(connection, 'Shard', {
      ...plain,
      metadata: { name },
      spec: { ...(plain['spec'] as object), backup: { schedules } },
    });
    await patch(connection, 'Shard', name, recordPatch(metadata.uid));
  });
  return names.length;
}

/** A record as backup-trigger would have left it the evening before. */
function recordPatch(uid: string) {
  const entry = { at: 1_700_000_000, from: 1_700_000_000, timing: '0a1b2c' };
  const record = recordText({
    v: 1,
    uid,
    key: `backup-trigger/${uid}/1`,
    state: 'idle',
    generation: 1,
    attempt: 0,
    since: '2026-01-01T00:00:00.000Z',
    reason: 'AwaitingSlot',
    wake: { at: '2026-01-01T02:00:00.000Z' },
    data: { schedules: Object.fromEntries([0, 1, 2, 3].map((n) => [`schedule-${n}`, entry])) },
  });
  return { metadata: { annotations: { [recordAnnotation('backup-trigger')]: record } } };
}

function figuresOf(
  { seconds, sent, targets }: z.infer<typeof sweptSchema>,
  requests: number,
): Figure[] {
  return [
    figure('sweep: all overdue', seconds, 's', { goal: goalSeconds }),
    figure('sweep: requests to the API server', requests, 'requests', { goal: goalRequests }),
    figure('sweep: shards', targets, 'shards'),
    figure('sweep: hints', sent, 'hints'),
  ];
}
