import { drainMirror, drainRequest, releasedClaim } from '#shared/api/annotations.ts';
import { claimName } from '#shared/api/names.ts';
import { compareRules } from '#shared/topology/topology.ts';
import { isReady } from '#shared/kube/readiness.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import {
  annotatePod,
  claimUids,
  createObjects,
  deleteObject,
  drainState,
  expect,
  expectLeft,
  leadOf,
  patienceSeconds,
  podsByUid,
  required,
  same,
  setReplicas,
  untilSteady,
} from './acts.ts';
import { backups } from './backups.ts';
import { badHints } from './bad-hints.ts';
import { deadRecord } from './dead-record.ts';
import { handover } from './handover.ts';
import { holderDies } from './holder-dies.ts';
import { queueDown } from './queue-down.ts';
import { repository } from './repository.ts';
import type { Scene, Stage } from './stage.ts';

/** Every scene, in the order in which they are played. */
export const scenes: readonly Scene[] = [
  { name: 'create', title: 'a Shard becomes three members, from nothing', play: create },
  {
    name: 'scale-down',
    title: 'three members become two: one is drained and leaves',
    play: scaleDown,
  },
  { name: 'scale-up', title: 'two members become three again, on the freed index', play: scaleUp },
  {
    name: 'lost-pod',
    title: 'a pod is deleted from outside and comes back on its own claim',
    play: lostPod,
  },
  {
    name: 'primary',
    title: 'the primary is asked to leave: switchover first, then it is replaced',
    play: drainPrimary,
  },
  { name: 'cancel', title: 'a drain request is taken back in time', play: cancel },
  { name: 'relay-killed', title: 'kill -9 of the relay in the middle of a drain', play: killRelay },
  {
    name: 'queue-down',
    title: 'ten seconds without the queue in the middle of a drain',
    play: queueDown,
  },
  {
    name: 'bad-hints',
    title: 'repeated, old, forged and broken messages in every queue',
    play: badHints,
  },
  {
    name: 'backups',
    title: 'a backup every ten seconds, with the relay dead over two, and suspended over two',
    play: backups,
  },
  {
    name: 'dead-record',
    title: 'the record of a killed pooler is deleted; that of a live one with a similar name stays',
    play: deadRecord,
  },
  {
    name: 'repository',
    title: 'where backups go is set, refused where something is amiss, and moved once confirmed',
    needsBucket: true,
    play: repository,
  },
  {
    name: 'handover',
    title: 'two of four nodes of GoVerse go: one by SIGTERM alone, one after a hand-over',
    isWithoutShard: true,
    play: handover,
  },
  {
    name: 'holder-dies',
    title: 'kill -9 of the node that holds the pins, in the middle of a hand-over',
    isWithoutShard: true,
    play: holderDies,
  },
];

async function create(stage: Stage): Promise<void> {
  stage.say('a Database and a Shard with three replicas are created');
  await createObjects(stage);
  await untilSteady(stage, 3);
  const poolers = await stage.poolers();
  const { cohort } = await leadOf(stage);
  expect(poolers.length === 3, 'etcd holds three pooler records');
  expect(
    poolers.every(({ lifecycle }) => lifecycle === 'active'),
    'every pooler record is ACTIVE',
  );
  expect(cohort.length === 3, 'the decided cohort has three members');
  expect(stage.world.all('PersistentVolumeClaim').length === 3, 'there are three claims');
}

async function scaleDown(stage: Stage): Promise<void> {
  const before = podsByUid(stage);
  const { pod: primary } = await leadOf(stage);
  stage.say('spec.pools[0].replicasPerCell goes from 3 to 2');
  await setReplicas(stage, 2);
  await untilSteady(stage, 2);
  const after = podsByUid(stage);
  const [left] = [...before].filter(([uid]) => !after.has(uid)).map(([, name]) => name);
  expect(left !== undefined && after.size === 2, 'exactly one member left');
  expect(
    [...after].every(([uid, name]) => before.get(uid) === name),
    'the others were not touched',
  );
  expect(left !== primary, 'it was not the primary');
  await expectLeft(stage, left ?? '');
  await stage.world.until('its claim was kept and marked free', patienceSeconds, () =>
    isMarkedFree(stage.world.get('PersistentVolumeClaim', claimName(left ?? ''))),
  );
}

async function scaleUp(stage: Stage): Promise<void> {
  await setReplicas(stage, 2);
  await untilSteady(stage, 2);
  const claims = claimUids(stage);
  stage.say('spec.pools[0].replicasPerCell goes from 2 to 3');
  await setReplicas(stage, 3);
  await untilSteady(stage, 3);
  const { cohort } = await leadOf(stage);
  expect(cohort.length === 3, 'the newcomer is in the cohort');
  expect(same(claims, claimUids(stage)), 'it uses the claim that was kept');
  await stage.world.until(
    'no claim is marked free any more',
    patienceSeconds,
    () => !stage.world.all('PersistentVolumeClaim').some(isMarkedFree),
  );
}

async function lostPod(stage: Stage): Promise<void> {
  const { pod: primary } = await leadOf(stage);
  const claims = claimUids(stage);
  const lost = stage.world.all('Pod').find(({ metadata }) => metadata.name !== primary);
  const { name, uid } = required(lost, 'a replica').metadata;
  stage.say(`someone deletes the pod ${name}`);
  await deleteObject(stage, 'Pod', name);
  await stage.world.until(`${name} has come back`, patienceSeconds, () => {
    const pod = stage.world.get('Pod', name);
    return pod !== undefined && pod.metadata.uid !== uid && isReady(pod);
  });
  await untilSteady(stage, 3);
  expect(same(claims, claimUids(stage)), 'it came back on its own claim, and no other was made');
}

async function drainPrimary(stage: Stage): Promise<void> {
  const before = await leadOf(stage);
  const uid = required(stage.world.get('Pod', before.pod), 'the primary’s pod').metadata.uid;
  stage.say(`the primary ${before.pod} is annotated with ${drainRequest}`);
  await annotatePod(stage, before.pod, { [drainRequest]: 'moving to another node' });
  await stage.world.until(`${before.pod} is replaced`, patienceSeconds, () => {
    const pod = stage.world.get('Pod', before.pod);
    return pod !== undefined && pod.metadata.uid !== uid && isReady(pod);
  });
  await untilSteady(stage, 3);
  const after = await leadOf(stage);
  expect(after.pod !== before.pod, 'another member leads');
  expect(compareRules(after.rule, before.rule) > 0, 'it leads under a newer rule');
  expect(after.cohort.length === 3, 'the replaced member is back in the cohort');
}

async function cancel(stage: Stage): Promise<void> {
  const before = podsByUid(stage);
  const { pod: primary } = await leadOf(stage);
  const replica = required(
    stage.world.all('Pod').find(({ metadata }) => metadata.name !== primary),
    'a replica',
  ).metadata.name;
  stage.say(
    `${replica} is annotated with ${drainRequest}, and the annotation is taken away once the drain has begun`,
  );
  await annotatePod(stage, replica, { [drainRequest]: 'a mistake' });
  await stage.world.until(
    'the drain has begun',
    patienceSeconds,
    () => drainState(stage) === 'draining',
  );
  await annotatePod(stage, replica, { [drainRequest]: null });
  await untilSteady(stage, 3);
  expect(same(before, podsByUid(stage)), 'no pod was deleted');
  await stage.world.until('nothing of ours is left on the pod', patienceSeconds, () => {
    const pod = required(stage.world.get('Pod', replica), 'the replica');
    return pod.metadata.annotations?.[drainMirror] === undefined;
  });
}

async function killRelay(stage: Stage): Promise<void> {
  const before = podsByUid(stage);
  stage.say(
    'spec.pools[0].replicasPerCell goes from 3 to 2; the relay is killed in the middle of the drain',
  );
  await setReplicas(stage, 2);
  await stage.world.until(
    'the drain has begun',
    patienceSeconds,
    () => drainState(stage) === 'draining',
  );
  await stage.millrace.killAndAwaitRestart('relay');
  stage.say('the relay has been started again');
  await untilSteady(stage, 2);
  const after = podsByUid(stage);
  const gone = [...before].filter(([uid]) => !after.has(uid)).map(([, name]) => name);
  expect(gone.length === 1 && after.size === 2, 'exactly one member left');
  await expectLeft(stage, gone[0] ?? '');
}

function isMarkedFree(claim: KubeObject<'PersistentVolumeClaim'> | undefined): boolean {
  return claim?.metadata.annotations?.[releasedClaim] !== undefined;
}
