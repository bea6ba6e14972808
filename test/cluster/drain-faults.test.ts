import { describe, expect, test } from 'vitest';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { forceDrain } from '#shared/api/annotations.ts';
import { claimName } from '#shared/api/names.ts';
import { isRecordOfPod } from '#shared/topology/identity.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { collectionPath } from '#shared/kube/http-kube.ts';
import { isReady } from '#shared/kube/readiness.ts';
import {
  annotatePod,
  drainState,
  leadOf,
  prepare,
  setReplicas,
  untilSteady,
} from '#infra/local/show/acts.ts';
import { useStage } from './a-stage.ts';

const stageUnderTest = useStage();

/** The pod whose drain is open. */
function leaver(): { pod: string; podUid: string } {
  const { stage } = stageUnderTest();
  const shard = stage.world.get('Shard', stage.shard);
  const read = shard === undefined ? undefined : readDrainRecord(shard.metadata);
  if (read?.kind !== 'ours' || read.record.state === 'choosing') {
    throw new Error('nobody is leaving');
  }
  return read.record.data;
}

describe('a drain comes to its end', () => {
  test('when the member dies without a word in its middle: its record is retired, nothing else is touched (F32)', async () => {
    const { stage, dataPlane, decisions } = stageUnderTest();
    await prepare(stage);
    const from = decisions.length;

    await setReplicas(stage, 2);
    await stage.world.until('the drain has begun', 60, () => drainState(stage) === 'draining');
    const { pod } = leaver();
    await dataPlane.faults.inject({ kind: 'podDeath', pod, leaves: 'nothing' });
    await untilSteady(stage, 2);

    const record = (await stage.poolers()).find((pooler) => isRecordOfPod(pooler, pod));
    expect(record).toMatchObject({ lifecycle: 'shutdown', serving: 'disabled', role: 'none' });
    expect(decisions.slice(from).map(({ reason }) => reason)).toContain('SilentMemberRetired');
    expect((await leadOf(stage)).cohort).toHaveLength(2);
  });

  test('when its pod has failed: it leaves by the same gates and is made again on its claim', async () => {
    const { stage, dataPlane } = stageUnderTest();
    await prepare(stage);
    const { pod: primary } = await leadOf(stage);
    const replica = stage.world.all('Pod').find(({ metadata }) => metadata.name !== primary);
    const { name = '', uid = '' } = replica?.metadata ?? {};
    const claim = stage.world.get('PersistentVolumeClaim', claimName(name))?.metadata.uid;

    await dataPlane.faults.inject({ kind: 'podDeath', pod: name, leaves: 'failed' });
    await stage.world.until(`${name} is replaced`, 120, () => {
      const pod = stage.world.get('Pod', name);
      return pod !== undefined && pod.metadata.uid !== uid && isReady(pod);
    });
    await untilSteady(stage, 3);

    expect(stage.world.get('PersistentVolumeClaim', claimName(name))?.metadata.uid).toBe(claim);
  });

  test('when the switchover’s reply is lost: it is asked for once, and the lead moves once (X9)', async () => {
    const { stage, dataPlane } = stageUnderTest();
    await prepare(stage);
    const before = await leadOf(stage);
    const uid = stage.world.get('Pod', before.pod)?.metadata.uid;
    await dataPlane.faults.inject({ kind: 'lostSwitchReply' });

    await annotatePod(stage, before.pod, { 'millrace.dev/drain': 'test' });
    await stage.world.until(`${before.pod} is replaced`, 120, () => {
      const pod = stage.world.get('Pod', before.pod);
      return pod !== undefined && pod.metadata.uid !== uid && isReady(pod);
    });
    await untilSteady(stage, 3);

    const after = await leadOf(stage);
    expect(after.pod).not.toBe(before.pod);
    expect(BigInt(after.rule.term) - BigInt(before.rule.term)).toBe(1n);
  });

  test('when its node is lost: it stops until a person forces it, and says how', async () => {
    const { stage, dataPlane, patchShard, drained } = stageUnderTest();
    await prepare(stage);
    const { pod: primary } = await leadOf(stage);
    const replica = stage.world.all('Pod').find(({ metadata }) => metadata.name !== primary);
    const { name = '', uid = '' } = replica?.metadata ?? {};

    await annotatePod(stage, name, { 'millrace.dev/drain': 'test' });
    await stage.world.until('the drain has begun', 60, () => drainState(stage) === 'draining');
    await dataPlane.faults.inject({ kind: 'nodeNotReady' });
    await stage.world.until('the pod is being deleted', 60, () => {
      const pod = stage.world.get('Pod', name);
      return pod?.metadata.deletionTimestamp !== undefined;
    });
    await stage.connection.request({
      method: 'DELETE',
      path: `${collectionPath('Pod', stage.namespace)}/${name}`,
      body: { gracePeriodSeconds: 0, preconditions: { uid } } satisfies JsonObject,
    });
    await stage.world.until(
      'Drained says NodeUnproven',
      90,
      () => drained()?.reason === 'NodeUnproven',
    );
    const forcedFrom = drainState(stage);
    await patchShard({ metadata: { annotations: { [forceDrain]: uid } } });
    await stage.world.until('the drain has ended', 90, () => drainState(stage) === undefined);
    await dataPlane.faults.lift();
    await patchShard({ metadata: { annotations: { [forceDrain]: null } } });
    await untilSteady(stage, 3);

    expect(forcedFrom).toBe('finished');
  });

  test('and takes the claim of a surplus member with it where the policy says so (S3, S4)', async () => {
    const { stage, patchShard } = stageUnderTest();
    await prepare(stage);
    const jsonPatch = 'application/json-patch+json';
    const path = '/spec/pools/0/pvcPolicy/whenScaled';
    await patchShard([{ op: 'replace', path, value: 'Delete' }], jsonPatch);

    await setReplicas(stage, 2);
    await stage.world.until('the drain has begun', 60, () => drainState(stage) !== undefined);
    const { pod } = leaver();
    await untilSteady(stage, 2);

    const gone = () => stage.world.get('PersistentVolumeClaim', claimName(pod)) === undefined;
    await stage.world.until('the claim is gone', 60, gone);
    expect(stage.world.all('PersistentVolumeClaim')).toHaveLength(2);
    await patchShard([{ op: 'replace', path, value: 'Retain' }], jsonPatch);
    await prepare(stage);
  });
});
