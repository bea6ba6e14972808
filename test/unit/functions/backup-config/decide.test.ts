import { describe, expect, test } from 'vitest';
import { hashOfPlace } from '#shared/api/repository.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import type { RepositorySurvey } from '#shared/repository/repository.ts';
import { checks } from '#functions/backup-config/decide.ts';
import {
  type Look,
  aBucket,
  aFilesystem,
  aLook,
  bucketPlace,
  conditionsOf,
  effectOf,
  kindsOf,
  saidBy,
  why,
} from './a-look.ts';

const hash = hashOfPlace(bucketPlace);
const other = { cluster: 'test', namespace: 'db', name: 'other', uid: 'other-uid' };
const earlier = { cluster: 'test', namespace: 'db', name: 'main', uid: 'earlier-uid' };

function owned(owner: typeof other | null): Partial<RepositorySurvey> {
  return { owner: present({ etag: '"9"', owner }) };
}

function converged(): Look {
  const look = aLook().told({ place: bucketPlace });
  return look.after(look.decide());
}

test('the order of the checks is the one that its README explains', () => {
  expect(checks.map(({ name }) => name)).toEqual([
    'targetBeingDeleted',
    'pausedByUser',
    'recordUnreadable',
    'foreignRecord',
    'fenceEarlierWrite',
    'noRepository',
    'repositoryInvalid',
    'credentialsUnknown',
    'credentialsMissing',
    'bucketMissing',
    'bucketElsewhere',
    'accessRefused',
    'writingRefused',
    'repositoryUnknown',
    'conditionsIgnored',
    'ownerUnreadable',
    'repositoryOfOthers',
    'repositoryTaken',
    'encryptionMissing',
    'topologyUnknown',
    'databaseNotRegistered',
    'backupsWouldBeOrphaned',
    'repositoryUnclaimable',
    'claimRepository',
    'adoptRepository',
    'applyRepository',
  ]);
});

describe('people come first', () => {
  test('a Database that is being deleted is left alone, whatever its record says', () => {
    const decision = aLook()
      .applying({ modRevision: '42', generation: 1 })
      .withDatabase({ isBeingDeleted: true })
      .decide();

    expect(decision).toMatchObject({
      outcome: 'settled',
      reason: 'TargetBeingDeleted',
      effects: [],
    });
  });

  test('a paused one is told so, and keeps what was found and what may be under way', () => {
    const paused = converged()
      .applying({ modRevision: '42', generation: 1 })
      .withDatabase({ isPaused: true, generation: 3 });

    const decision = paused.decide();

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'Paused' });
    expect(kindsOf(decision)).toEqual(['applyStatus']);
    expect(conditionsOf(decision)).toEqual([
      'BackupConfigured=True/RepositoryConfigured',
      'Ready=True/RepositoryConfigured',
      'Reconciling=False/Paused',
      'Stalled=False/Paused',
    ]);
    expect(effectOf(decision, 'applyStatus')?.status).toMatchObject({
      observedGeneration: 3,
      conditions: [{ observedGeneration: 2 }, { observedGeneration: 2 }, {}, {}],
      repository: { hash },
    });
    expect(paused.after(decision).decide().effects).toEqual([]);
  });

  test('one that was paused from its first day is unknown', () => {
    expect(conditionsOf(aLook().withDatabase({ isPaused: true }).decide())).toContain(
      'BackupConfigured=Unknown/Paused',
    );
  });

  test('a record that cannot be read is not touched, and the way out is named', () => {
    const decision = aLook()
      .with({ record: { kind: 'unreadable', text: '{', why: 'it is not JSON' } })
      .decide();

    expect(decision).toMatchObject({
      outcome: 'blocked',
      reason: 'RecordUnreadable',
      needs: expect.stringContaining('millrace reset mdb/main backup-config -n db'),
    });
    expect(kindsOf(decision)).toEqual(['applyStatus']);
    expect(conditionsOf(decision)).toContain('Stalled=True/RecordUnreadable');
  });

  test('a record of another object is cleared, and nothing else happens (D9)', () => {
    const decision = aLook()
      .with({ record: { kind: 'foreign', text: '{"v":1}', uid: 'x' } })
      .decide();

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'RecordForeign' });
    expect(decision.effects).toMatchObject([
      { kind: 'advance', record: null, guard: { previous: '{"v":1}' } },
    ]);
  });
});

describe('an older generation never overtakes a newer (C2)', () => {
  const intent = { modRevision: '42', generation: 1 };

  test('a write of it that may be under way loses its revision before anything else is decided', () => {
    const decision = aLook().told({ place: bucketPlace }).applying(intent).decide();

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'EarlierWriteFenced' });
    expect(effectOf(decision, 'topologyTxn')).toMatchObject({
      operation: {
        kind: 'rewriteDatabase',
        name: 'postgres',
        change: { place: null, mustEncrypt: null },
      },
      guard: { modRevision: '42', recordKey: 'backup-config/database-uid/2' },
    });
    expect(effectOf(decision, 'advance')?.record).toMatchObject({
      key: 'backup-config/database-uid/2',
      data: { intent },
    });
  });

  test('also where the spec names nothing any more, or nothing that could be used', () => {
    const look = aLook().applying(intent);

    expect(look.wanting(null, 2).decide().reason).toBe('EarlierWriteFenced');
    expect(look.withSurvey({ owner: { kind: 'noBucket' } }).decide().reason).toBe(
      'EarlierWriteFenced',
    );
  });

  test('a crash before the fence was written is made up for, without another record', () => {
    const look = aLook().told({ place: bucketPlace }).applying(intent);
    const decision = look.decide();

    const again = look.after(decision).decide();

    expect(again.reason).toBe('EarlierWriteFenced');
    expect(kindsOf(again)).toEqual(['topologyTxn']);
  });

  test('what has another revision by now needs no fence', () => {
    expect(aLook().told({ modRevision: '43' }).applying(intent).decide().reason).toBe(
      'RepositoryApplied',
    );
    expect(aLook().applying(intent).with({ topology: absent }).decide().reason).toBe(
      'DatabaseNotRegistered',
    );
  });

  test('while the revision cannot be read it is waited, and the intent is carried on', () => {
    const decision = aLook().applying(intent).with({ topology: why }).decide();

    expect(decision).toMatchObject({ outcome: 'waiting', reason: 'TopologyUnknown' });
    expect(effectOf(decision, 'advance')?.record).toMatchObject({ data: { intent } });
  });

  test('an obstacle keeps in mind the write that may be under way', () => {
    const own = { modRevision: '42', generation: 2 };

    const decision = aLook().applying(own).withSurvey({ owner: why }).decide();

    expect(decision.reason).toBe('RepositoryUnknown');
    expect(effectOf(decision, 'advance')?.record).toMatchObject({ data: { intent: own } });
  });
});

describe('without a repository', () => {
  test('what the data plane was told by others stays, and nothing is missing', () => {
    const decision = aLook(null).decide();

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'NoRepository' });
    expect(kindsOf(decision)).toEqual(['applyStatus']);
    expect(conditionsOf(decision)).toEqual([
      'BackupConfigured=False/NoRepository',
      'Ready=True/NoRepository',
      'Reconciling=False/NothingToDo',
      'Stalled=False/NothingStalled',
    ]);
    expect(aLook(null).after(decision).decide().effects).toEqual([]);
  });
});

/** Obstacles that a person removes: none of them changes what the data plane was told last (C5). */
const unmet: readonly (readonly [what: string, look: Look, reason: string, needs: string])[] = [
  [
    'a name that could lead elsewhere',
    aLook({ type: 's3', s3: { bucket: '../etc', region: 'eu-west-1' } }),
    'RepositoryInvalid',
    'correct spec.backup.repository',
  ],
  [
    'a type without its block',
    aLook({ type: 's3' }),
    'RepositoryInvalid',
    'correct spec.backup.repository',
  ],
  [
    'no Secret',
    aLook().withSurvey({ credentials: absent }),
    'CredentialsMissing',
    'create it in namespace',
  ],
  [
    'a Secret without a key',
    aLook().withSurvey({ credentials: present({ missing: ['AWS_SECRET_ACCESS_KEY'] }) }),
    'CredentialsMissing',
    'without a line break',
  ],
  [
    'no bucket',
    aLook().withSurvey({ owner: { kind: 'noBucket' } }),
    'BucketMissing',
    'create the bucket',
  ],
  [
    'a bucket in another region',
    aLook().withSurvey({ owner: { kind: 'otherRegion', region: 'us-east-1' } }),
    'BucketInOtherRegion',
    'region to us-east-1',
  ],
  [
    'a refusal',
    aLook().withSurvey({ owner: { kind: 'refused', why: '403 AccessDenied' } }),
    'RepositoryForbidden',
    's3:GetObject and s3:PutObject on backups/db/main/*',
  ],
  [
    'a bucket that can only be read',
    aLook().withSurvey({ keepsConditions: { kind: 'refused', why: '403 AccessDenied' } }),
    'RepositoryReadOnly',
    's3:PutObject',
  ],
  [
    'a server that ignores conditions',
    aLook().withSurvey({ keepsConditions: present(false) }),
    'ConditionalWritesIgnored',
    'conditional writes',
  ],
  [
    'an owner object that nobody can read',
    aLook().withSurvey(owned(null)),
    'RepositoryOwnerUnreadable',
    'another keyPrefix',
  ],
  [
    'an owner of another name',
    aLook().withSurvey(owned(other)),
    'RepositoryOfOthers',
    'remove s3://backups/db/main/millrace-owner.json',
  ],
  [
    'an owner of another cluster',
    aLook().withSurvey(owned({ ...earlier, cluster: 'elsewhere' })),
    'RepositoryOfOthers',
    'another keyPrefix',
  ],
  [
    'a bucket without encryption where it is required',
    aLook({ ...aBucket, encryption: { required: true } }).withSurvey({
      isEncrypted: present(false),
    }),
    'BucketUnencrypted',
    'turn default encryption of the bucket on',
  ],
  [
    'encryption that is required and may not be asked for',
    aLook({ ...aBucket, encryption: { required: true } }).withSurvey({
      isEncrypted: { kind: 'refused', why: '403 AccessDenied' },
    }),
    'RepositoryForbidden',
    's3:GetEncryptionConfiguration',
  ],
  [
    'backups at another place',
    aLook().told({ place: { type: 'filesystem', path: '/old' } }),
    'BackupsWouldBeOrphaned',
    `mdb/main --overwrite millrace.dev/confirm-repository=${hash}`,
  ],
];

describe('what is wrong is said, with what to do, and changes nothing (C5)', () => {
  test.each(unmet)('%s', (_what, look, reason, needs) => {
    const decision = look.decide();

    expect(decision).toMatchObject({
      outcome: 'blocked',
      reason,
      needs: expect.stringContaining(needs),
      wake: { every: 60 },
    });
    expect(kindsOf(decision)).toEqual(['advance', 'applyStatus']);
    expect(conditionsOf(decision)).toEqual([
      `BackupConfigured=False/${reason}`,
      `Ready=False/${reason}`,
      `Reconciling=False/${reason}`,
      `Stalled=True/${reason}`,
    ]);
    expect(saidBy(decision)).toContain(needs);
    expect(look.after(decision).decide().effects).toEqual([]);
  });

  test('the last good repository stays in the status', () => {
    const decision = converged()
      .wanting({ type: 's3', s3: { bucket: 'others', region: 'eu-west-1' } }, 3)
      .withSurvey({ owner: { kind: 'noBucket' } })
      .decide();

    expect(effectOf(decision, 'applyStatus')?.status).toMatchObject({ repository: { hash } });
  });
});

describe('unknown is never safe', () => {
  const required = aLook({ ...aBucket, encryption: { required: true } });

  test.each([
    ['the Secret', aLook().withSurvey({ credentials: why }), 'CredentialsUnknown'],
    ['the owner object', aLook().withSurvey({ owner: why }), 'RepositoryUnknown'],
    ['the probe', aLook().withSurvey({ keepsConditions: why }), 'RepositoryUnknown'],
    ['required encryption', required.withSurvey({ isEncrypted: why }), 'RepositoryUnknown'],
    ['the topology', aLook().with({ topology: why }), 'TopologyUnknown'],
  ])('%s', (_what, look, reason) => {
    const decision = look.decide();

    expect(decision).toMatchObject({ outcome: 'waiting', reason, wake: { every: 60 } });
    expect(kindsOf(decision)).toEqual(['advance', 'applyStatus']);
    expect(conditionsOf(decision)).toContain(`BackupConfigured=Unknown/${reason}`);
    expect(conditionsOf(decision)).toContain(`Stalled=True/${reason}`);
    expect(saidBy(decision)).toContain('it took too long');
  });

  test('a database that the data plane has not registered is waited for, without alarm', () => {
    const decision = aLook().with({ topology: absent }).decide();

    expect(decision).toMatchObject({ outcome: 'waiting', reason: 'DatabaseNotRegistered' });
    expect(conditionsOf(decision)).toContain('Reconciling=True/DatabaseNotRegistered');
    expect(conditionsOf(decision)).toContain('Stalled=False/NothingStalled');
  });
});

describe('one move at a time', () => {
  test('a free repository is claimed first, under the condition that it still is (C4)', () => {
    const decision = aLook().unclaimed().decide();

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'RepositoryClaimed' });
    expect(kindsOf(decision)).toEqual(['advance', 'applyStatus', 'putRepositoryObject']);
    expect(effectOf(decision, 'advance')?.record).toMatchObject({
      state: 'claiming',
      wake: { every: 5 },
    });
    expect(effectOf(decision, 'putRepositoryObject')).toEqual({
      kind: 'putRepositoryObject',
      database: { namespace: 'db', name: 'main', uid: 'database-uid', generation: 2 },
      key: 'millrace-owner.json',
      text: '{"v":1,"cluster":"test","namespace":"db","name":"main","uid":"database-uid"}\n',
      guard: { ifNoneMatch: '*' },
    });
  });

  test('one of the same name before it is adopted, under the version that was read (C4)', () => {
    const decision = aLook().withSurvey(owned(earlier)).decide();

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'RepositoryAdopted' });
    expect(effectOf(decision, 'putRepositoryObject')?.guard).toEqual({ ifMatch: '"9"' });
  });

  test('but not back from one that has adopted it since: both are alive', () => {
    const decision = converged().withSurvey(owned(earlier)).decide();

    expect(decision).toMatchObject({
      outcome: 'blocked',
      reason: 'RepositoryTaken',
      needs: expect.stringContaining('no other cluster works under the id test'),
    });
  });

  test('what is its own is told to the data plane, last and under a record that says so', () => {
    const decision = aLook().decide();

    expect(decision).toMatchObject({ outcome: 'acting', reason: 'RepositoryApplied' });
    expect(kindsOf(decision)).toEqual(['advance', 'applyStatus', 'topologyTxn']);
    expect(effectOf(decision, 'advance')?.record).toMatchObject({
      state: 'applying',
      wake: { every: 5 },
      data: { intent: { modRevision: '42', generation: 2 } },
    });
    expect(effectOf(decision, 'topologyTxn')).toMatchObject({
      database: { uid: 'database-uid', generation: 2 },
      operation: { change: { place: bucketPlace, mustEncrypt: null } },
      guard: { modRevision: '42', recordKey: 'backup-config/database-uid/2' },
    });
    expect(conditionsOf(decision)).toContain('Reconciling=True/RepositoryApplied');
  });

  test('a write that did not land is made again under the record that stands', () => {
    const look = aLook();

    const again = look.after(look.decide()).decide();

    expect(kindsOf(again)).toEqual(['topologyTxn']);
  });

  test('what is to be moved is not claimed before a person has confirmed', () => {
    const look = aLook()
      .unclaimed()
      .told({ place: { type: 'filesystem', path: '/old' } });

    expect(look.decide().reason).toBe('BackupsWouldBeOrphaned');
    expect(look.withDatabase({ confirmed: hash }).decide().reason).toBe('RepositoryClaimed');
  });

  test('a confirmation of another place is none', () => {
    const look = aLook().told({ place: { type: 'filesystem', path: '/old' } });

    expect(look.withDatabase({ confirmed: 'cafecafecafe' }).decide().reason).toBe(
      'BackupsWouldBeOrphaned',
    );
  });

  test.each([
    ['the region', { ...bucketPlace, region: 'us-east-1' }],
    ['how members sign in', { ...bucketPlace, usesEnvironment: false }],
    ['slashes around the prefix', { ...bucketPlace, keyPrefix: '/db/main/' }],
  ])('%s can be put right without a confirmation: the backups are the same', (_what, place) => {
    expect(aLook().told({ place }).decide().reason).toBe('RepositoryApplied');
  });

  test.each([
    ['required', true, false, 'RepositoryApplied'],
    ['required, as it is', true, true, 'RepositoryConfigured'],
    ['required no more', false, true, 'RepositoryApplied'],
    ['not spoken of', null, true, 'RepositoryConfigured'],
  ])('encryption that is %s', (_what, required, mustEncrypt, reason) => {
    const encryption = required === null ? {} : { encryption: { required } };

    const look = aLook({ ...aBucket, ...encryption }).told({ place: bucketPlace, mustEncrypt });

    expect(look.decide().reason).toBe(reason);
  });
});

describe('converged', () => {
  test('it says so once, and a look at it writes nothing (X7)', () => {
    const look = aLook().told({ place: bucketPlace });

    const decision = look.decide();

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'RepositoryConfigured' });
    expect(kindsOf(decision)).toEqual(['applyStatus']);
    expect(effectOf(decision, 'applyStatus')?.status).toMatchObject({
      observedGeneration: 2,
      repository: { hash, owner: 'test/db/main', checkedAt: '2026-01-01T00:00:00Z' },
    });
    expect(conditionsOf(decision)).toEqual([
      'BackupConfigured=True/RepositoryConfigured',
      'Ready=True/RepositoryConfigured',
      'Reconciling=False/NothingToDo',
      'Stalled=False/NothingStalled',
    ]);
    expect(saidBy(decision)).toBe(`backups go to s3://backups/db/main (${hash})`);
    expect(look.after(decision).decide().effects).toEqual([]);
  });

  test('the record of the moves before is cleared', () => {
    const decision = aLook()
      .told({ place: bucketPlace, modRevision: '43' })
      .applying({ modRevision: '42', generation: 2 })
      .decide();

    expect(effectOf(decision, 'advance')?.record).toBeNull();
  });

  test.each([
    ['no versions', { isVersioned: present(false) }, 'turn versioning on'],
    ['no encryption', { isEncrypted: present(false) }, 'turn default encryption on'],
    ['unknown versions', { isVersioned: why }, 'whether the bucket keeps versions cannot be told'],
    [
      'encryption that may not be asked for',
      { isEncrypted: { kind: 'refused', why: '403' } },
      'whether the bucket encrypts by default cannot be told (403)',
    ],
  ] satisfies [string, Partial<RepositorySurvey>, string][])(
    '%s is a warning',
    (_what, survey, says) => {
      const decision = aLook().told({ place: bucketPlace }).withSurvey(survey).decide();

      expect(decision).toMatchObject({ outcome: 'settled', reason: 'RepositoryWithWarnings' });
      expect(conditionsOf(decision)).toContain('Ready=True/RepositoryWithWarnings');
      expect(saidBy(decision)).toContain(says);
    },
  );
});

describe('a file system', () => {
  const inUse = aLook(aFilesystem).told({ place: { type: 'filesystem', path: '/backups' } });
  const withShards = (members: number, cells: number) =>
    inUse.with({ shards: present([{ name: 'orders', members, cells }]) });

  test('is told to the data plane without any bucket being asked', () => {
    const survey: RepositorySurvey = {
      credentials: why,
      owner: why,
      keepsConditions: why,
      isVersioned: why,
      isEncrypted: why,
    };

    const decision = aLook(aFilesystem).with({ survey }).decide();

    expect(decision.reason).toBe('RepositoryApplied');
    expect(effectOf(decision, 'topologyTxn')).toMatchObject({
      operation: { change: { place: { type: 'filesystem', path: '/backups' } } },
    });
  });

  test.each([
    [3, 1, '3 members of shd/orders in 1 cell share it'],
    [2, 2, '2 members of shd/orders in 2 cells share it'],
  ])('of one node that %i members in %i cells share is warned of', (members, cells, says) => {
    const decision = withShards(members, cells).decide();

    expect(decision.reason).toBe('RepositoryWithWarnings');
    expect(saidBy(decision)).toContain(says);
  });

  test('of one node with one member is none', () => {
    const decision = withShards(1, 1).decide();

    expect(decision.reason).toBe('RepositoryConfigured');
    expect(effectOf(decision, 'applyStatus')?.status['repository']).not.toHaveProperty('owner');
  });

  test('whose users cannot be told is warned of', () => {
    const decision = inUse.with({ shards: unknown('403') }).decide();

    expect(saidBy(decision)).toContain('who shares the file system cannot be told');
  });

  test('that many nodes mount is not asked about', () => {
    const { filesystem } = aFilesystem;
    const shared = {
      type: 'filesystem' as const,
      filesystem: {
        path: filesystem?.path ?? '',
        storage: { size: '10Gi', accessModes: ['ReadWriteMany' as const] },
      },
    };

    const decision = inUse.wanting(shared, 2).decide();

    expect(decision.reason).toBe('RepositoryConfigured');
  });
});
