import { indexLabel } from '#shared/api/labels.ts';
import { claimName } from '#shared/api/names.ts';
import { isRecordOfPod } from '#shared/topology/identity.ts';
import { type PoolerRecord, isRetired, isSamePooler } from '#shared/topology/topology.ts';
import {
  askForReplicas,
  deleteObject,
  expect,
  leadOf,
  patchObject,
  patienceSeconds,
  post,
  required,
  setReplicas,
  untilAsked,
  untilSteady,
} from './acts.ts';
import { openKeyBytes } from './key-bytes.ts';
import { recordRows } from './records-told.ts';
import type { Stage } from './stage.ts';

/** As short as it may be: in earnest it is ten minutes and a day. */
const cleanup = { quietFor: '5s', deleteAfter: '6s' };

/**
 * A pooler that is killed leaves its record as it was, serving and in the cohort, and Multigres never deletes one. Here its
 * pod is gone too and is not to come back, while a pooler lives whose name is the beginning of its own. The dead one's record
 * is marked and then deleted; the other's must stay as it is, byte for byte.
 */
export async function deadRecord(stage: Stage): Promise<void> {
  const live = await aReplica(stage);
  const dead = `${live}0`;
  await addMember(stage, { name: dead, like: live });
  const { cohort } = await leadOf(stage);
  expect(cohort.length === 4, 'all four members are in the cohort');
  const bytes = openKeyBytes(stage.topologyEndpoint, (await recordOf(stage, live)).key);
  const bytesBefore = await bytes.read();

  await killForGood(stage, dead);
  const left = await stage.poolers();
  const record = await recordOf(stage, dead);
  expect(
    record.lifecycle === 'active' && record.serving === 'serving',
    'its record says ACTIVE and SERVING, as if nothing had happened',
  );
  stage.say(
    `etcd still says that ${record.id.name} serves; spec.cleanup: quietFor ${cleanup.quietFor}, deleteAfter ${cleanup.deleteAfter}`,
  );
  await untilAsked('its record is marked', async () => isRetired(await recordOf(stage, dead)));
  const marked = await stage.poolers();
  await untilAsked('its record is deleted', async () => !(await isListed(stage, dead)));
  await stage.world.until('that is told', patienceSeconds, () => isToldOf(stage, record));

  const atTheEnd = await stage.poolers();
  stage.table(
    recordRows([
      ['when it was killed', left],
      ['marked', marked],
      ['at the end', atTheEnd],
    ]),
  );
  expectUntouched(atTheEnd, left, live);
  expect(
    Buffer.compare(bytesBefore, await bytes.read()) === 0,
    `the record of ${live} is as it was, byte for byte`,
  );
  await expectOutOfCohort(stage, record);
  await takeAway(stage, dead);
}

/** One whose index can be the first digit of another's. */
async function aReplica(stage: Stage): Promise<string> {
  const { pod: primary } = await leadOf(stage);
  const replica = stage.world
    .all('Pod')
    .find(
      ({ metadata: { name, labels } }) =>
        name !== primary && !['0', undefined].includes(labels?.[indexLabel]),
    );
  return required(replica, 'a replica with another index than 0').metadata.name;
}

/** A member is made where a claim is that lost its pod, before any free index: so it gets the name that is wanted. */
async function addMember(
  stage: Stage,
  { name, like }: { readonly name: string; readonly like: string },
): Promise<void> {
  const model = required(stage.world.get('PersistentVolumeClaim', claimName(like)), 'its claim');
  const { labels = {} } = model.metadata;
  const index = `${labels[indexLabel]}0`;
  stage.say(`a fourth member joins, on a claim that is there for the index ${index}: ${name}`);
  await post(stage, 'PersistentVolumeClaim', {
    metadata: { name: claimName(name), labels: { ...labels, [indexLabel]: index } },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  });
  await setReplicas(stage, 4);
  await untilSteady(stage, 4);
  required(stage.world.get('Pod', name), 'the fourth member');
}

/** Processes and pod of a member go without a word, and three are wanted by the time that anybody acts on it. */
async function killForGood(stage: Stage, pod: string): Promise<void> {
  await patchObject(stage, 'Shard', stage.shard, { spec: { paused: true, cleanup } });
  stage.say(
    `the Shard is paused; kill -9 of all that runs in ${pod}, whose pod vanishes; three members are to be enough, and the Shard goes on`,
  );
  await stage.loseMember(pod);
  await stage.world.until(
    `${pod} is gone`,
    patienceSeconds,
    () => stage.world.get('Pod', pod) === undefined,
  );
  await askForReplicas(stage, 3);
  await patchObject(stage, 'Shard', stage.shard, { spec: { paused: false } });
}

/** The status names the pooler as the last one that was removed, and has no other to tell of. */
function isToldOf(stage: Stage, { id }: PoolerRecord): boolean {
  const { status } = required(stage.world.get('Shard', stage.shard), 'the Shard');
  const told = status?.conditions?.find(({ type }) => type === 'TopologyClean');
  return (
    told?.status === 'True' &&
    told.reason === 'TopologyClean' &&
    status?.cleanup?.lastRemoved?.pooler === `${id.cell}/${id.name}`
  );
}

function expectUntouched(
  atTheEnd: readonly PoolerRecord[],
  before: readonly PoolerRecord[],
  live: string,
): void {
  const revisionIn = (records: readonly PoolerRecord[]) =>
    records.find((record) => isRecordOfPod(record, live))?.modRevision;
  expect(atTheEnd.length === 3, 'three records are left');
  expect(
    revisionIn(atTheEnd) !== undefined && revisionIn(atTheEnd) === revisionIn(before),
    `nobody has written the record of ${live}`,
  );
}

/** The mark is what the data plane goes by: without it the dead one would count for ever. */
async function expectOutOfCohort(stage: Stage, { id }: PoolerRecord): Promise<void> {
  const { cohort } = await leadOf(stage);
  expect(
    cohort.length === 3 && !cohort.some((member) => isSamePooler(member, id)),
    'the cohort does without it',
  );
}

/** Leaves the Shard as it was: nobody else would want a member at that index. */
async function takeAway(stage: Stage, dead: string): Promise<void> {
  await deleteObject(stage, 'PersistentVolumeClaim', claimName(dead));
  await patchObject(stage, 'Shard', stage.shard, { spec: { cleanup: null } });
  await stage.world.until(
    'its claim is gone',
    patienceSeconds,
    () => stage.world.get('PersistentVolumeClaim', claimName(dead)) === undefined,
  );
  await untilSteady(stage, 3);
}

async function isListed(stage: Stage, pod: string): Promise<boolean> {
  return (await stage.poolers()).some((record) => isRecordOfPod(record, pod));
}

async function recordOf(stage: Stage, pod: string): Promise<PoolerRecord> {
  const found = (await stage.poolers()).find((record) => isRecordOfPod(record, pod));
  return required(found, `the record of ${pod}`);
}
