import { confirmRepository } from '#shared/api/annotations.ts';
import type { Condition } from '#shared/api/condition.ts';
import { parseOwner } from '#shared/api/repository-owner.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { expect, patchObject, patienceSeconds, post, required } from './acts.ts';
import { type BucketSeen, openBucket, region } from './bucket-seen.ts';
import { othersIn, withLaterFields } from './database-bytes.ts';
import { openKeyBytes } from './key-bytes.ts';
import type { Stage } from './stage.ts';

const secretName = 'backup-keys';
const firstBucket = 'orders-backups';
const missingBucket = 'order-backups';
const secondBucket = 'orders-archive';

/** Where the data plane keeps what it knows of the database. */
const recordKey = '/multigres/global/databases/postgres/Database';

/**
 * Where backups go is said in the Database. A bucket that is not in order never takes the place of one that is, and one that
 * is moves no backups until a person has confirmed it, with the very command that the condition prints.
 */
export async function repository(stage: Stage): Promise<void> {
  const { endpoint, root } = required(stage.bucket, 'the S3 server');
  const bucket = openBucket({ endpoint, root });
  try {
    await prepareBuckets(stage, bucket);
    const record = openKeyBytes(stage.topologyEndpoint, recordKey);
    await record.write(withLaterFields(await record.read()));
    const others = othersIn(await record.read());
    stage.say(
      'the data plane’s record in etcd gets fields of a later version, which have to survive',
    );

    stage.say(`spec.backup.repository names the bucket ${firstBucket}`);
    await setBucket(stage, firstBucket);
    await confirmAsTold(stage);
    await untilConfigured(stage, firstBucket);

    stage.say(`it names ${missingBucket}, by mistake: there is no such bucket`);
    await setBucket(stage, missingBucket);
    const amiss = await untilRefused(stage, 'BucketMissing');
    stage.say(`BackupConfigured=False: ${amiss.message}`);
    await expectInUse(stage, firstBucket);

    stage.say(`it names another bucket, ${secondBucket}`);
    await setBucket(stage, secondBucket);
    const hash = await confirmAsTold(stage, firstBucket);
    await untilConfigured(stage, secondBucket);

    const { status } = databaseOf(stage);
    expect(status?.repository?.hash === hash, 'the status tells the repository that was confirmed');
    expect(
      Buffer.compare(others, othersIn(await record.read())) === 0,
      'everything else in the data plane’s record is as it was, byte for byte',
    );
    stage.say(
      `the data plane’s record names ${secondBucket}; everything else in it is as it was, byte for byte`,
    );
    await showOwners(stage, bucket);
    expectNothingSecret(stage);
  } finally {
    bucket.close();
  }
}

async function prepareBuckets(stage: Stage, bucket: BucketSeen): Promise<void> {
  const { root } = required(stage.bucket, 'the S3 server');
  await bucket.make(firstBucket);
  await bucket.make(secondBucket);
  await post(stage, 'Secret', {
    metadata: { name: secretName, namespace: stage.namespace },
    stringData: {
      AWS_ACCESS_KEY_ID: root.accessKeyId,
      AWS_SECRET_ACCESS_KEY: root.secretAccessKey,
    },
  });
  stage.say(
    `an S3 server that cannot encrypt has the buckets ${firstBucket} and ${secondBucket}; the Secret ${secretName} holds its keys`,
  );
}

async function setBucket(stage: Stage, bucket: string): Promise<void> {
  const { endpoint } = required(stage.bucket, 'the S3 server');
  const s3 = { bucket, region, endpoint, credentialsSecret: secretName };
  await patchObject(stage, 'Database', stage.database, {
    spec: { backup: { repository: { type: 's3', s3 } } },
  });
}

/**
 * Waits for the refusal, and does exactly what it says.
 *
 * @param inUse the bucket that must stay in use until then; without it, what the data plane began with
 * @returns the hash that was confirmed
 */
async function confirmAsTold(stage: Stage, inUse?: string): Promise<string> {
  const { message } = await untilRefused(stage, 'BackupsWouldBeOrphaned');
  stage.say(`BackupConfigured=False: ${message}`);
  await (inUse === undefined ? undefined : expectInUse(stage, inUse));
  const command = /kubectl annotate -n (\S+) mdb\/(\S+) --overwrite (\S+)=([0-9a-f]{12})$/;
  const [, namespace, name, annotation, hash = ''] = command.exec(message) ?? [];
  expect(
    namespace === stage.namespace && name === stage.database && annotation === confirmRepository,
    'the condition names the command that confirms it',
  );
  stage.say(`as it says, mdb/${name} is annotated with ${annotation}=${hash}`);
  await patchObject(stage, 'Database', stage.database, {
    metadata: { annotations: { [confirmRepository]: hash } },
  });
  return hash;
}

async function untilRefused(stage: Stage, reason: string): Promise<Condition> {
  return untilTold(stage, `refused: ${reason}`, (told) => told.reason === reason);
}

async function untilConfigured(stage: Stage, bucket: string): Promise<void> {
  const { message } = await untilTold(
    stage,
    `backups go to ${bucket}`,
    ({ status }) => status === 'True',
  );
  stage.say(`BackupConfigured=True: ${message}`);
  expect(message.includes(`/${bucket}`), 'the condition names the bucket');
  await expectInUse(stage, bucket);
}

/** The condition as it was found under the newest spec. */
async function untilTold(
  stage: Stage,
  what: string,
  holds: (told: Condition) => boolean,
): Promise<Condition> {
  const find = () => {
    const { metadata, status } = databaseOf(stage);
    const told = status?.conditions?.find(({ type }) => type === 'BackupConfigured');
    return told !== undefined && told.observedGeneration === metadata.generation && holds(told)
      ? told
      : undefined;
  };
  await stage.world.until(what, patienceSeconds, () => find() !== undefined);
  return required(find(), 'the condition');
}

/** What the data plane itself would read. */
async function expectInUse(stage: Stage, bucket: string): Promise<void> {
  const { place } = await stage.databaseRecord();
  expect(
    place?.type === 's3' && place.bucket === bucket && place.usesEnvironment,
    `the data plane’s record names ${bucket}`,
  );
}

/** Whoever looks into a bucket later must see whose it is, also into one that is not in use any more. */
async function showOwners(stage: Stage, bucket: BucketSeen): Promise<void> {
  const { namespace, database, clusterId } = stage;
  const { uid } = databaseOf(stage).metadata;
  const key = `${namespace}/${database}/millrace-owner.json`;
  const found = await Promise.all(
    [firstBucket, secondBucket].map(async (name) => ({
      name,
      owner: parseOwner(await bucket.read(name, key)),
    })),
  );
  stage.table(
    found.map(({ name, owner }) => ({
      object: `${name}/${key}`,
      'says that it is of': `${owner?.namespace}/${owner?.name}`,
      'in use': name === secondBucket ? 'yes' : 'no, kept with its backups',
    })),
  );
  expect(
    found.every(({ owner }) => owner?.uid === uid && owner.cluster === clusterId),
    'both buckets hold the owner object of this Database',
  );
}

function expectNothingSecret(stage: Stage): void {
  const { root } = required(stage.bucket, 'the S3 server');
  const told = JSON.stringify([
    stage.world.all('Database'),
    stage.world.all('Event'),
    stage.decisions.all,
  ]);
  expect(!told.includes(root.secretAccessKey), 'the key is in no object, Event or decision');
}

function databaseOf(stage: Stage): KubeObject<'Database'> {
  return required(stage.world.get('Database', stage.database), 'the Database');
}
