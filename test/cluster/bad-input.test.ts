import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Context } from 'aws-lambda';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { recordAnnotation, reconcileRequest } from '#shared/api/annotations.ts';
import { createHandler } from '#shared/kernel/pipeline.ts';
import { connectOutside } from '#shared/outside/connect.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { drainStep } from '#functions/drain-step/step.ts';
import { makeHint } from '#events/hint.ts';
import {
  annotatePod,
  drainState,
  leadOf,
  prepare,
  setReplicas,
  untilSteady,
} from '#infra/local/show/acts.ts';
import { useStage } from './a-stage.ts';
import { sqsRecord } from '#test/builders/sqs-record.ts';

const run = promisify(execFile);
const millrace = fileURLToPath(new URL('../../infra/cli/millrace.mjs', import.meta.url));

const stageUnderTest = useStage();
let tokens = 0;

afterEach(() => {
  vi.unstubAllEnvs();
});

/** Has both steps look once more, and waits until drain-step has. */
async function lookAgain(): Promise<void> {
  const { decisions, patchShard } = stageUnderTest();
  const seen = () => decisions.filter(({ step }) => step === 'drain-step').length;
  const before = seen();
  tokens += 1;
  await patchShard({
    metadata: { annotations: { [reconcileRequest]: `look-${tokens}` } },
  });
  await expect.poll(seen, { timeout: 30_000 }).toBeGreaterThan(before);
}

/** Resolves with the message that the condition then had: another look may soon write another. */
async function untilDrained(reason: string): Promise<string> {
  const { stage, drained } = stageUnderTest();
  let message = '';
  await stage.world.until(`Drained says ${reason}`, 60, () => {
    const condition = drained();
    message = condition?.message ?? '';
    return condition?.reason === reason;
  });
  return message;
}

async function untilDecided(reason: string, from: number): Promise<void> {
  const { decisions } = stageUnderTest();
  await expect
    .poll(() => decisions.slice(from).map((decision) => decision.reason), { timeout: 60_000 })
    .toContain(reason);
}

/** A replica, by name, once somebody leads. */
async function aReplica(): Promise<string> {
  const { stage } = stageUnderTest();
  const someoneLeads = () =>
    leadOf(stage).then(
      () => true,
      () => false,
    );
  await expect.poll(someoneLeads, { timeout: 60_000 }).toBe(true);
  const { pod: primary } = await leadOf(stage);
  const replica = stage.world.all('Pod').find(({ metadata }) => metadata.name !== primary);
  return replica?.metadata.name ?? '';
}

/** Deletes that Millrace sent while the work ran. */
async function deletesDuring(work: () => Promise<void>): Promise<readonly string[]> {
  const requests = await stageUnderTest().during(work);
  return requests
    .filter(({ verb }) => verb === 'delete')
    .map(({ resource, name }) => `${resource} ${name}`);
}

async function takeRequestBack(pod: string): Promise<void> {
  const { stage } = stageUnderTest();
  await annotatePod(stage, pod, { 'millrace.dev/drain': null });
  await lookAgain();
  await untilSteady(stage, 3);
}

describe('a drain destroys nothing and says why', () => {
  test('when the topology’s etcd is down: condition TopologyUnknown, and it goes on once etcd is back', async () => {
    const { stage, topologyEtcd, drained } = stageUnderTest();
    await prepare(stage);
    await topologyEtcd.kill();

    const deleted = await deletesDuring(async () => {
      await setReplicas(stage, 2);
      await untilDrained('TopologyUnknown');
    });
    const message = drained()?.message;
    await topologyEtcd.restart();
    await lookAgain();
    await untilSteady(stage, 2);

    expect(deleted).toEqual([]);
    expect(message).toMatch(/the topology cannot be read: .*zone-a/);
  });

  test.each([
    ['multiadmin is down', { kind: 'adminDown' as const }],
    ['multiadmin refuses the credentials', { kind: 'adminUnauthorized' as const }],
    ['nobody leads', { kind: 'noPrimary' as const }],
  ])('when %s: it waits with the reason NoAgreedPrimary', async (_what, fault) => {
    const { stage, dataPlane, decisions } = stageUnderTest();
    await prepare(stage);
    const pod = await aReplica();
    await dataPlane.faults.inject(fault);
    const from = decisions.length;

    const deleted = await deletesDuring(async () => {
      await annotatePod(stage, pod, { 'millrace.dev/drain': 'test' });
      await untilDecided('NoAgreedPrimary', from);
    });
    await dataPlane.faults.lift();
    await takeRequestBack(pod);

    expect(deleted).toEqual([]);
  });

  test('when a rule is proposed and not decided: it waits with the reason ProposalUndecided', async () => {
    const { stage, dataPlane, decisions } = stageUnderTest();
    await prepare(stage);
    const pod = await aReplica();
    await dataPlane.faults.inject({ kind: 'undecidedProposal' });
    const from = decisions.length;

    const deleted = await deletesDuring(async () => {
      await annotatePod(stage, pod, { 'millrace.dev/drain': 'test' });
      await untilDecided('ProposalUndecided', from);
    });
    await dataPlane.faults.lift();
    await takeRequestBack(pod);

    expect(deleted).toEqual([]);
  });

  test('when too few members are healthy: condition QuorumTooSmall says what to do', async () => {
    const { stage, dataPlane, drained } = stageUnderTest();
    await prepare(stage);
    const pod = await aReplica();
    const { pod: primary } = await leadOf(stage);
    const other = stage.world
      .all('Pod')
      .find(({ metadata }) => ![pod, primary].includes(metadata.name));
    await dataPlane.faults.inject({ kind: 'poolerUnreachable', pod: other?.metadata.name ?? '' });

    const deleted = await deletesDuring(async () => {
      await annotatePod(stage, pod, { 'millrace.dev/drain': 'test' });
      await untilDrained('QuorumTooSmall');
    });
    const message = drained()?.message;
    await dataPlane.faults.lift();
    await takeRequestBack(pod);

    expect(deleted).toEqual([]);
    expect(message).toContain('only 1 healthy member remains, and a commit needs 2');
    expect(message).toContain('millrace.dev/force-drain=');
  });

  test('when the record is of a later version: hands off, until it is reset by hand', async () => {
    const { stage, folder, patchShard } = stageUnderTest();
    await prepare(stage);
    const later = JSON.stringify({
      v: 2,
      uid: stage.world.get('Shard', stage.shard)?.metadata.uid,
      key: 'x',
      wake: { every: 5 },
    });
    await patchShard({
      metadata: { annotations: { [recordAnnotation('drain-step')]: later } },
    });
    await untilDrained('RecordUnreadable');

    const deleted = await deletesDuring(async () => {
      await patchShard({ spec: { paused: false } });
      await patchShard(
        [{ op: 'replace', path: '/spec/pools/0/replicasPerCell', value: 2 }],
        'application/json-patch+json',
      );
      await lookAgain();
    });
    const stillThere = stage.world.get('Shard', stage.shard)?.metadata.annotations?.[
      recordAnnotation('drain-step')
    ];
    await run(process.execPath, [
      millrace,
      'reset',
      `shd/${stage.shard}`,
      'drain-step',
      '-n',
      stage.namespace,
      '--kubeconfig',
      join(folder, 'kubeconfig'),
      '--yes',
    ]);
    await untilSteady(stage, 2);

    expect(deleted).toEqual([]);
    expect(stillThere).toBe(later);
  });

  test('when the record was copied from another object: it is cleared and never obeyed', async () => {
    const { stage, patchShard } = stageUnderTest();
    await prepare(stage);
    const pod = stage.world.all('Pod')[0]?.metadata;
    const copied = JSON.stringify({
      v: 1,
      uid: 'another-object',
      key: `drain-step/another-object/${pod?.uid}`,
      state: 'finished',
      generation: 1,
      attempt: 0,
      since: '2026-01-01T00:00:00Z',
      reason: 'MemberMayGo',
      data: { pod: pod?.name, podUid: pod?.uid },
    });

    const deleted = await deletesDuring(async () => {
      await patchShard({
        metadata: { annotations: { [recordAnnotation('drain-step')]: copied } },
      });
      await stage.world.until(
        'the record is cleared',
        60,
        () =>
          stage.world.get('Shard', stage.shard)?.metadata.annotations?.[
            recordAnnotation('drain-step')
          ] === undefined,
      );
    });

    expect(deleted).toEqual([]);
  });

  test('when a pod carries another operator’s drain marks: it is left to that operator', async () => {
    const { stage } = stageUnderTest();
    await prepare(stage);
    const pod = await aReplica();
    await annotatePod(stage, pod, { 'drain.multigres.com/state': 'draining' });

    const deleted = await deletesDuring(async () => {
      await setReplicas(stage, 2);
      await lookAgain();
      await lookAgain();
    });
    await annotatePod(stage, pod, { 'drain.multigres.com/state': null });
    await untilSteady(stage, 2);

    expect(deleted).toEqual([]);
  });

  test('when a pod under our labels belongs to another controller: it is never touched', async () => {
    const { stage } = stageUnderTest();
    await prepare(stage);
    const owner = await stage.connection.request({
      method: 'POST',
      path: `/api/v1/namespaces/${stage.namespace}/configmaps`,
      body: { metadata: { name: 'somebody-else' } },
    });
    const { uid } = (owner.body as { metadata: { uid: string } }).metadata;
    const foreign = await stage.connection.request({
      method: 'POST',
      path: collectionPath('Pod', stage.namespace),
      body: {
        metadata: {
          name: 'somebody-elses-pod',
          labels: {
            'millrace.dev/shard': stage.shard,
            'millrace.dev/pool': 'main',
            'millrace.dev/cell': 'zone-a',
            'millrace.dev/index': '9',
          },
          annotations: { 'millrace.dev/drain': 'please' },
          ownerReferences: [
            { apiVersion: 'v1', kind: 'ConfigMap', name: 'somebody-else', uid, controller: true },
          ],
        },
        spec: { containers: [{ name: 'a', image: 'a' }] },
      },
    });
    expect(foreign.status).toBe(201);

    const deleted = await deletesDuring(async () => {
      await lookAgain();
      await lookAgain();
    });
    await stage.connection.request({
      method: 'DELETE',
      path: `${collectionPath('Pod', stage.namespace)}/somebody-elses-pod`,
      body: { gracePeriodSeconds: 0 },
    });
    await untilSteady(stage, 3);

    expect(deleted).toEqual([]);
    expect(drainState(stage)).toBeUndefined();
  });

  test('when listing pods is forbidden: condition MembersUnknown names the verb that is missing', async () => {
    const { stage } = stageUnderTest();
    await prepare(stage);
    const handler = await aHandlerThatMayNotListPods();
    const shard = stage.world.get('Shard', stage.shard);
    const hint = makeHint({
      step: 'drain-step',
      cause: 'changed',
      source: 'test',
      target: {
        kind: 'Shard',
        plural: 'shards',
        namespace: stage.namespace,
        name: stage.shard,
        uid: shard?.metadata.uid ?? '',
      },
      token: '1',
      at: Date.now() as never,
    });

    const [response, message] = await Promise.all([
      handler({ Records: [sqsRecord('a', JSON.stringify(hint))] }, aContext()),
      untilDrained('MembersUnknown'),
    ]);

    expect(response).toEqual({ batchItemFailures: [] });
    expect(message).toContain('listing pods: 403 Forbidden');
    await lookAgain();
  });

  test('when a pooler record cannot be decoded: condition PoolerRecordUnreadable names its key', async () => {
    const { stage, dataPlane, drained } = stageUnderTest();
    await prepare(stage);
    const pod = await aReplica();
    await dataPlane.faults.inject({ kind: 'undecodableRecord', pod });

    const deleted = await deletesDuring(async () => {
      await setReplicas(stage, 2);
      await untilDrained('PoolerRecordUnreadable');
    });

    expect(deleted).toEqual([]);
    expect(drained()?.message).toContain(`/poolers/multipooler-zone-a-${pod}/Pooler`);
  });
});

/** The real handler, signed in as someone whose rights miss one verb. */
async function aHandlerThatMayNotListPods() {
  const { stage, controlPlane, folder } = stageUnderTest();
  const rules = [
    {
      apiGroups: ['millrace.dev'],
      resources: ['shards', 'shards/status', 'databases'],
      verbs: ['get', 'list', 'patch'],
    },
    { apiGroups: [''], resources: ['events'], verbs: ['create'] },
  ];
  const rbac = '/apis/rbac.authorization.k8s.io/v1';
  await stage.connection.request({
    method: 'POST',
    path: `${rbac}/clusterroles`,
    body: { metadata: { name: 'half' }, rules },
  });
  await stage.connection.request({
    method: 'POST',
    path: `${rbac}/clusterrolebindings`,
    body: {
      metadata: { name: 'half' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'half' },
      subjects: [{ kind: 'ServiceAccount', name: 'half', namespace: stage.namespace }],
    },
  });
  await stage.connection.request({
    method: 'POST',
    path: `/api/v1/namespaces/${stage.namespace}/serviceaccounts`,
    body: { metadata: { name: 'half' } },
  });
  const issued = await stage.connection.request({
    method: 'POST',
    path: `/api/v1/namespaces/${stage.namespace}/serviceaccounts/half/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
  });
  const { token } = (issued.body as { status: { token: string } }).status;
  await writeFile(join(folder, 'half.token'), token, { mode: 0o600 });
  await writeFile(join(folder, 'half.ca'), controlPlane.ca);
  vi.stubEnv('MILLRACE_CLUSTER_ID', 'test');
  vi.stubEnv('MILLRACE_LOG_LEVEL', 'silent');
  vi.stubEnv('MILLRACE_KUBE_SERVER', controlPlane.server);
  vi.stubEnv('MILLRACE_KUBE_CA', join(folder, 'half.ca'));
  vi.stubEnv('MILLRACE_KUBE_TOKEN_FILE', join(folder, 'half.token'));
  return createHandler(drainStep, connectOutside);
}

function aContext(): Context {
  return { awsRequestId: 'a', getRemainingTimeInMillis: () => 30_000 } as Context;
}
