import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { obtain } from '#infra/local/control-plane/binaries.ts';
import { kubectlProgram } from '#infra/local/control-plane/program.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { wallClock } from '#shared/kernel/instant.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { restRecord } from '#shared/kernel/own-record.ts';
import { recordText } from '#shared/kernel/record.ts';
import { databaseManifest } from '#test/builders/manifest.ts';
import { type Figure, figure } from './figure.ts';
import { type Cluster, startCluster } from './installation.ts';
import { create, forEach, namespace, patch, shardManifest } from './objects.ts';
import { type Part, type PartOptions, scaled } from './part.ts';

const run = promisify(execFile);
const command = fileURLToPath(new URL('../../infra/cli/millrace.mjs', import.meta.url));

const shardCount = 1_000;

/** What a person waits for without wondering, in milliseconds, from Enter to the prompt. */
const goals = { statusMs: 2_000, explainMs: 500 };

/** Each is run so often after one run that is not counted; the middle one is told. */
const runs = 5;

const conditionTypes = [
  'Ready',
  'Reconciling',
  'Stalled',
  'PodsUpToDate',
  'Drained',
  'BackupsOnSchedule',
  'TopologyClean',
];

/**
 * What `millrace status` and `millrace explain` take as whole processes, on a real API server with a thousand Shards that
 * carry records and conditions, beside kubectl reading the same objects in the same run.
 */
export const sight: Part = {
  name: 'sight',
  title: 'millrace status of a thousand shards, and explain of one, beside kubectl get',
  async measure(options) {
    await using cluster = await startCluster(options, { isAudited: false });
    const count = await makeShards(cluster, options);
    const kubectl = await obtain(kubectlProgram);
    const target = ['--kubeconfig', cluster.kubeconfigPath, '-n', namespace];
    // Where Node keeps what it has compiled, as it would in a person's home.
    const home = cluster.folder;
    const first = await timed(process.execPath, [command, 'explain', '--help'], home);
    const millrace = (...words: string[]) =>
      middleOf(() => timed(process.execPath, [command, ...words, ...target], home), options);
    const peer = (...words: string[]) =>
      middleOf(() => timed(kubectl, [...words, ...target], home), options);
    const name = nameOf(0);
    return [
      figure(`sight: status of ${count} shards`, await millrace('status'), 'ms', {
        goal: goals.statusMs,
        peer: await peer('get', 'shards,databases'),
      }),
      figure('sight: explain of one shard', await millrace('explain', `shd/${name}`), 'ms', {
        goal: goals.explainMs,
        peer: await peer('get', 'shard', name),
      }),
      figure('sight: the command that does nothing', await millrace('--version'), 'ms'),
      figure('sight: its help when nothing is compiled yet', first, 'ms'),
    ] satisfies readonly Figure[];
  },
};

function nameOf(index: number): string {
  return `orders-${index}`;
}

/** One Database, and Shards of it as four steps leave them: each tenth needs a person. */
async function makeShards(cluster: Cluster, options: PartOptions): Promise<number> {
  const count = scaled(shardCount, options);
  options.log(`making ${count} shards`);
  await create(cluster.connection, 'Database', databaseManifest('main'));
  await forEach(
    Array.from({ length: count }, (_, index) => index),
    async (index) => {
      const made = await create(cluster.connection, 'Shard', shardManifest(nameOf(index), 'main'));
      await tell(cluster, index, made.metadata);
    },
  );
  return count;
}

async function tell(
  { connection }: Cluster,
  index: number,
  { name, uid, generation = 1 }: { name: string; uid: string; generation?: number },
): Promise<void> {
  const isStuck = index % 10 === 0;
  const reason = isStuck ? 'NoStandbyReady' : 'NobodyLeaves';
  const now = wallClock();
  const conditions = conditionTypes.map((type) => ({
    type,
    status: isStuck && type === 'Drained' ? 'False' : 'True',
    observedGeneration: generation,
    lastTransitionTime: new Date(now).toISOString(),
    reason: type === 'Drained' ? reason : 'OnSchedule',
    message:
      'a sentence that is about as long as those of the steps are; to go on: bring up a standby',
  }));
  const rest = {
    state: 'choosing',
    reason: 'NoStandbyReady',
    wake: { every: 60 },
    data: {},
  } as const;
  const record = restRecord('drain-step', { uid, generation }, rest, now);
  if (isStuck) {
    const annotations = { [recordAnnotation('drain-step')]: recordText(record) };
    await patch(connection, 'Shard', name, { metadata: { annotations } });
  }
  await connection.request({
    method: 'PATCH',
    path: `${collectionPath('Shard', namespace)}/${name}/status`,
    contentType: 'application/merge-patch+json',
    body: { status: { conditions, observedGeneration: generation } },
  });
}

/** Milliseconds from the start of the process to its end; 1 says that somebody needs a person, which is so here. */
async function timed(program: string, words: readonly string[], home: string): Promise<number> {
  const startMs = performance.now();
  await run(program, words, { maxBuffer: 1 << 26, env: { HOME: home } }).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === 1)) {
      throw error;
    }
  });
  return performance.now() - startMs;
}

async function middleOf(work: () => Promise<number>, { log }: PartOptions): Promise<number> {
  await work();
  const times: number[] = [];
  for (let round = 0; round < runs; round += 1) {
    times.push(await work());
  }
  log(`runs: ${times.map((ms) => ms.toFixed(0)).join(', ')} ms`);
  return times.toSorted((a, b) => a - b)[Math.floor(runs / 2)] ?? Number.NaN;
}
