import { describe, expect, test } from 'vitest';
import { Buckets, type BucketRequest } from '#test/world/model/buckets.ts';
import { Tally } from '#test/world/oracles/tally.ts';
import { databaseEntries, restOfRecord } from '#test/world/run/database-records.ts';
import { faultsOf } from '#test/world/run/faults.ts';
import { beginningOf } from '#test/world/run/plans.ts';
import { runToEnd } from '#test/world/run/run.ts';
import type { Workload } from '#test/world/run/workload.ts';
import { workloads } from '#test/world/workloads/backup-config.ts';

function named(name: string): Workload {
  const found = workloads.find((workload) => workload.name === name);
  if (found === undefined) {
    throw new Error(`there is no workload ${name}`);
  }
  return found;
}

test('every promise of backup-config is asked about where a bucket is left for another (C1 to C6)', async () => {
  const workload = named('another bucket and back');
  const tally = new Tally();
  const world = await beginningOf(workload, tally);
  const before = databaseEntries(world.etcd).map(({ value }) => restOfRecord(value));

  await runToEnd(world, { workload, strikes: [], isUndisturbed: true });

  const asked = Object.keys(tally.toJson()).filter((id) => id.startsWith('C'));
  expect(asked.toSorted()).toEqual(['C1', 'C2', 'C3', 'C4', 'C5', 'C6']);
  expect(databaseEntries(world.etcd).map(({ value }) => restOfRecord(value))).toEqual(before);
});

test('what a fault does to buckets is not seen in a copy of the world that was made before', async () => {
  const workload = named('a first repository');
  const world = await beginningOf(workload, new Tally());
  await world.deliverNext();
  const operation = world.nextOperation();
  const fault = faultsOf(workload).find(({ name }) => name === 'F25 bucket gone');
  if (operation === undefined || fault === undefined) {
    throw new Error('there is nothing to strike, or no such fault');
  }
  const copy = world.fork();

  await fault.strike(operation, world);

  expect(world.buckets.get('backups')).toBeUndefined();
  expect(copy.buckets.get('backups')).toBeDefined();
});

describe('a bucket of the model', () => {
  const put: BucketRequest = {
    operation: 'putObject',
    endpoint: '',
    region: 'eu-west-1',
    bucket: 'backups',
    key: 'db/main/owner',
    text: 'one',
    ifMatch: null,
    ifNoneMatch: '*',
    accessKeyId: null,
  };

  function aBucket(): Buckets {
    const buckets = new Buckets();
    buckets.set('backups', {});
    return buckets;
  }

  test('takes an object that must not be there once', () => {
    const buckets = aBucket();

    expect(buckets.ask(put).status).toBe(200);
    expect(buckets.ask({ ...put, text: 'two' })).toMatchObject({ status: 412 });
    expect(buckets.get('backups')?.objects[put.key]?.text).toBe('one');
  });

  test('replaces an object only as the version that is named', () => {
    const buckets = aBucket();
    buckets.ask(put);
    const etag = buckets.get('backups')?.objects[put.key]?.etag ?? '';
    const change = { ...put, text: 'two', ifNoneMatch: null };

    expect(buckets.ask({ ...change, ifMatch: '"another"' }).status).toBe(412);
    expect(buckets.ask({ ...change, ifMatch: etag }).status).toBe(200);
    expect(buckets.ask({ ...change, ifMatch: etag }).status).toBe(412);
  });

  test('says that what is not there has no version, before anything is written', () => {
    const buckets = aBucket();

    expect(buckets.ask({ ...put, ifNoneMatch: null, ifMatch: '"one"' })).toMatchObject({
      status: 404,
      body: { code: 'NoSuchKey' },
    });
    expect(buckets.writes).toBe(0);
  });

  test.each([
    ['is forbidden', { isForbidden: true }, 403, 'AccessDenied'],
    ['is read-only', { isReadOnly: true }, 403, 'AccessDenied'],
    ['knows other keys', { accessKeyId: 'AKIA' }, 403, 'InvalidAccessKeyId'],
    ['is in another region', { region: 'us-east-1' }, 301, 'PermanentRedirect'],
  ])('that %s takes nothing', (_what, change, status, code) => {
    const buckets = aBucket();
    buckets.set('backups', change);

    expect(buckets.ask(put)).toMatchObject({ status, body: { code } });
    expect(buckets.writes).toBe(0);
  });
});
