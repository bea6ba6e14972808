import { describe, expect, test } from 'vitest';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { type RepositoryPlace, hashOfPlace } from '#shared/api/repository.ts';
import { parseOwner } from '#shared/api/repository-owner.ts';
import { plusSeconds } from '#shared/kernel/instant.ts';
import type { Repository } from './a-look.ts';
import { aBucket, bucketPlace } from './a-look.ts';
import { Crash, Run } from './a-run.ts';

const others: Repository = { type: 's3', s3: { bucket: 'others', region: 'eu-west-1' } };
const otherPlace: RepositoryPlace = {
  type: 's3',
  bucket: 'others',
  region: 'eu-west-1',
  endpoint: '',
  keyPrefix: 'db/main',
  usesEnvironment: false,
};

/** The status without the instants, which all are the same here. */
function standing(run: Run) {
  const configured = run.database.status?.conditions?.find(
    ({ type }) => type === 'BackupConfigured',
  );
  return {
    status: configured?.status,
    reason: configured?.reason,
    repository: run.database.status?.repository,
    record: run.database.metadata.annotations?.[recordAnnotation('backup-config')],
    place: run.topology?.place,
    owner: run.owner === null ? null : parseOwner(run.owner.text)?.uid,
  };
}

async function faultFree(): Promise<ReturnType<typeof standing>> {
  const run = new Run(aBucket);
  await run.settle();
  return standing(run);
}

test('a repository is claimed, told and confirmed in three looks, and then costs no write (X7, C1)', async () => {
  const run = new Run(aBucket);

  const reasons = [await run.look(), await run.look(), await run.look(), await run.look()].map(
    ({ reason }) => reason,
  );
  run.kube.calls.length = 0;
  await run.look();

  expect(reasons).toEqual([
    'RepositoryClaimed',
    'RepositoryApplied',
    'RepositoryConfigured',
    'RepositoryConfigured',
  ]);
  expect(standing(run)).toMatchObject({ status: 'True', place: bucketPlace, record: undefined });
  expect(run.kube.calls).toEqual([]);
});

describe('a crash anywhere is a re-read', () => {
  const moments = ['owner', 'topology'].flatMap((name) => [
    [`before the write of the ${name}`, name, 'beforeWrite'] as const,
    [`after the write of the ${name}`, name, 'afterWrite'] as const,
  ]);

  test.each(moments)('%s', async (_when, name, hook) => {
    const run = new Run(aBucket);
    let crashes = 0;
    run[hook] = (written) => {
      if (written === name && crashes === 0) {
        crashes += 1;
        throw new Crash();
      }
    };

    await expect(run.settle()).rejects.toBeInstanceOf(Crash);
    const end = await run.settle();

    expect(crashes).toBe(1);
    expect(end.reason).toBe('RepositoryConfigured');
    expect(standing(run)).toEqual(await faultFree());
    expect(run.places).toHaveLength(1);
  });

  test('also between two writes of the Database itself', async () => {
    for (let last = 1; last <= 8; last += 1) {
      const run = new Run(aBucket);
      let writes = 0;
      run.kube.beforeWrite = () => {
        writes += 1;
        if (writes === last) {
          throw new Crash();
        }
      };

      await run.settle().catch((error: unknown) => expect(error).toBeInstanceOf(Crash));
      await run.settle();

      expect(standing(run), `crash at write ${last}`).toEqual(await faultFree());
    }
  });
});

describe('two handlers with one view', () => {
  test.each(['claims', 'tells the data plane'])('only one %s', async (what) => {
    const run = new Run(aBucket);
    await (what === 'claims' ? undefined : run.look());
    const one = await run.begin();
    const two = await run.begin();

    const endings = [await one.perform(), await two.perform()].map(({ kind }) => kind);
    await run.settle();

    expect(endings).toEqual(['done', 'lostRace']);
    expect(standing(run)).toEqual(await faultFree());
  });
});

describe('an older generation never overtakes a newer (C2)', () => {
  /** A handler that has just said in its record that it will write, and then stands still. */
  async function aPausedHandler(run: Run) {
    let goOn = (): void => undefined;
    const resumed = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const { perform } = await run.begin();
    const said = Promise.withResolvers<void>();
    const original = run.kube.applyStatus.bind(run.kube);
    run.kube.applyStatus = async (...given) => {
      run.kube.applyStatus = original;
      const result = await original(...given);
      said.resolve();
      await resumed;
      return result;
    };
    const performing = perform();
    await said.promise;
    return { finish: () => (goOn(), performing) };
  }

  test('not even where the newer one goes back to what is in use', async () => {
    const run = new Run(aBucket);
    await run.settle();
    run.want(others);
    run.confirm(hashOfPlace(otherPlace));
    const paused = await aPausedHandler(run);

    run.want(aBucket);
    const reasons = [(await run.look()).reason, (await run.settle()).reason];
    const ending = await paused.finish();
    await run.settle();

    expect(reasons).toEqual(['EarlierWriteFenced', 'RepositoryConfigured']);
    expect(ending.kind).toBe('lostRace');
    expect(run.topology?.place).toEqual(bucketPlace);
    expect(run.places).not.toContainEqual(otherPlace);
  });
});

describe('a server that says that the owner object is there and does not show it', () => {
  test('is asked three times, and then a person is', async () => {
    const run = new Run(aBucket);
    run.isOwnerHidden = true;
    run.owner = { etag: '"1"', text: '' };

    const reasons = [];
    for (let look = 0; look < 5; look += 1) {
      reasons.push((await run.look()).reason);
    }
    run.kube.calls.length = 0;
    await run.look();

    expect(reasons).toEqual([
      'RepositoryClaimed',
      'RepositoryClaimed',
      'RepositoryClaimed',
      'RepositoryUnclaimable',
      'RepositoryUnclaimable',
    ]);
    expect(run.kube.calls).toEqual([]);
  });

  test('is asked once more after ten minutes, and then it may have been put right', async () => {
    const run = new Run(aBucket);
    run.isOwnerHidden = true;
    run.owner = { etag: '"1"', text: '' };
    for (let look = 0; look < 4; look += 1) {
      await run.look();
    }

    run.now = plusSeconds(run.now, 600);
    const again = [(await run.look()).reason, (await run.look()).reason];
    run.now = plusSeconds(run.now, 600);
    run.owner = null;
    run.isOwnerHidden = false;
    const end = await run.settle();

    expect(again).toEqual(['RepositoryClaimed', 'RepositoryUnclaimable']);
    expect(end.reason).toBe('RepositoryConfigured');
  });
});

describe('a change of place', () => {
  test('waits for a person, and is made once that person has said which', async () => {
    const run = new Run(aBucket);
    await run.settle();
    run.want(others);

    const refused = await run.settle();
    run.confirm(hashOfPlace(otherPlace));
    const done = await run.settle();

    expect(refused.reason).toBe('BackupsWouldBeOrphaned');
    expect(done.reason).toBe('RepositoryConfigured');
    expect(run.places).toEqual([bucketPlace, otherPlace]);
  });

  test('to what is not in order leaves the last good one in place (C5)', async () => {
    const run = new Run(aBucket);
    await run.settle();
    const before = standing(run);
    run.want(others);
    run.survey = { owner: { kind: 'noBucket' } };

    const decision = await run.settle();

    expect(decision.reason).toBe('BucketMissing');
    expect(standing(run)).toMatchObject({
      status: 'False',
      repository: before.repository,
      place: bucketPlace,
    });
  });
});

describe('a Database that is made again', () => {
  test('adopts its own repository, and the data plane is told nothing anew (C4)', async () => {
    const run = new Run(aBucket);
    await run.settle();
    run.recreate('second-uid');

    const reasons = [(await run.look()).reason, (await run.settle()).reason];

    expect(reasons).toEqual(['RepositoryAdopted', 'RepositoryConfigured']);
    expect(standing(run)).toMatchObject({ status: 'True', owner: 'second-uid' });
    expect(run.places).toHaveLength(1);
  });

  test('in another cluster does not (C4)', async () => {
    const run = new Run(aBucket);
    await run.settle();
    const foreign = new Run(aBucket, 'elsewhere');
    foreign.owner = run.owner;

    const decision = await foreign.settle();

    expect(decision.reason).toBe('RepositoryOfOthers');
    expect(foreign.places).toEqual([]);
    expect(foreign.owner).toBe(run.owner);
  });

  test('while the first lives stops the first, not both in turns', async () => {
    const run = new Run(aBucket);
    await run.settle();
    const twin = new Run(aBucket);
    twin.recreate('twin-uid');
    twin.owner = run.owner;
    await twin.settle();
    run.owner = twin.owner;

    const decision = await run.settle();

    expect(decision.reason).toBe('RepositoryTaken');
    expect(run.owner).toBe(twin.owner);
  });
});
