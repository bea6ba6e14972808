import { describe, expect, test } from 'vitest';
import { decide as decideCleanup } from '#functions/etcd-cleanup/decide.ts';
import { decide as decidePods } from '#functions/pool-pods/decide.ts';
import { decide as decideRelease } from '#functions/shard-release/decide.ts';
import type { StepSight } from '#infra/cli/sight/model.ts';
import { seenTarget } from '#infra/cli/sight/seen.ts';
import { stepSight } from '#infra/cli/sight/step-sight.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import type { StepName } from '#shared/api/steps.ts';
import type { Decision } from '#shared/kernel/decision.ts';
import { type Instant, plusSeconds } from '#shared/kernel/instant.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import type { TargetKind } from '#shared/kube/resources.ts';
import {
  type Look,
  aLook,
  bucketPlace,
  sound,
  now as repositoryNow,
} from '../../../functions/backup-config/a-look.ts';
import {
  type SnapshotBuilder as CleanupBuilder,
  aPooler,
  aShardOfThree,
  aStatus,
  stopped,
  now as cleanupNow,
} from '../../../functions/etcd-cleanup/a-cleanup.ts';
import {
  type SnapshotBuilder as PodsBuilder,
  aSnapshotOf,
  now as podsNow,
} from '../../../functions/pool-pods/a-snapshot.ts';
import {
  type ReleaseBuilder,
  aReleaseOf,
  now as releaseNow,
} from '../../../functions/shard-release/a-release.ts';
import { asTold } from './as-told.ts';

interface Looked {
  readonly decision: Decision;
  readonly sight: StepSight;
}

/** What is said of a target after a look: the record it found, and what it wrote. */
function said(
  step: StepName,
  kind: TargetKind,
  { uid, generation }: { readonly uid: string; readonly generation: number },
  record: string | null,
  decision: Decision,
  now: Instant,
  toldAt = now,
): Looked {
  const before = {
    metadata: {
      name: 'main',
      namespace: 'db',
      uid,
      generation,
      ...(record === null ? {} : { annotations: { [recordAnnotation(step)]: record } }),
    },
    spec: {},
  };
  const target = seenTarget(kind, asTold(before, step, decision, now));
  return { decision, sight: stepSight(step, { target, now: toldAt }) };
}

function afterCleanup(builder: CleanupBuilder): Looked {
  const snapshot = builder.build();
  const decision = decideCleanup(snapshot, cleanupNow);
  return said('etcd-cleanup', 'Shard', snapshot.shard, snapshot.record.text, decision, cleanupNow);
}

/** @param minutes how long after the look it is asked about */
function afterPods({ snapshot }: PodsBuilder, minutes = 0): Looked {
  const decision = decidePods(snapshot, podsNow);
  const { shard, record } = snapshot;
  const toldAt = plusSeconds(podsNow, 60 * minutes);
  return said('pool-pods', 'Shard', shard, record.text, decision, podsNow, toldAt);
}

function afterRelease(builder: ReleaseBuilder): Looked {
  const snapshot = builder.build();
  const decision = decideRelease(snapshot, releaseNow);
  const { cluster, record } = snapshot;
  return said('shard-release', 'GoverseCluster', cluster, record.text, decision, releaseNow);
}

function afterRepository(look: Look): Looked {
  const decision = look.decide();
  const { database, record } = look.snapshot;
  return said('backup-config', 'Database', database, record.text, decision, repositoryNow);
}

const stale = aPooler('orders-9');

describe('what a step waits for is said of it, and whether a person is needed', () => {
  test.each<[string, Looked, string, StepSight['standing']]>([
    ['all pooler records have members', afterCleanup(aShardOfThree()), 'TopologyClean', 'settled'],
    [
      'a record without a member',
      afterCleanup(aShardOfThree().records(stale)),
      'StaleRecords',
      'working',
    ],
    [
      'a record of a member that has stopped',
      afterCleanup(aShardOfThree().records(aPooler('orders-9', stopped))),
      'DeletionAwaited',
      'settled',
    ],
    [
      'a pooler that answers without a pod',
      afterCleanup(aShardOfThree().records(stale).answering(aStatus('orders-9'))),
      'RecordsLeft',
      'settled',
    ],
    [
      'cleanup that is off',
      afterCleanup(aShardOfThree().records(stale).shard({ isEnabled: false })),
      'CleanupOff',
      'settled',
    ],
    [
      'a topology that cannot be read',
      afterCleanup(aShardOfThree().with({ topology: unknown('refused') })),
      'TopologyUnknown',
      'stuck',
    ],
    [
      'no pods at all',
      afterCleanup(aShardOfThree().with({ members: present([]), pods: present([]) })),
      'NoMembers',
      'stuck',
    ],
    ['members that are all ready', afterPods(aSnapshotOf(3)), 'MembersReady', 'settled'],
    ['a member that is missing', afterPods(aSnapshotOf(3).withoutPod(2)), 'ObjectsMade', 'working'],
    [
      'one that starts',
      afterPods(aSnapshotOf(3).withPod(2, { isReady: false })),
      'MembersStarting',
      'working',
    ],
    [
      'members that are too many',
      afterPods(aSnapshotOf(3).wanting(2)),
      'SurplusMembers',
      'working',
    ],
    [
      'pods that cannot be read',
      afterPods(aSnapshotOf(3).with({ pods: unknown('403') })),
      'MembersUnknown',
      'stuck',
    ],
    [
      'a Database that is missing',
      afterPods(aSnapshotOf(3).with({ database: absent })),
      'DatabaseMissing',
      'stuck',
    ],
    ['nobody who goes', afterRelease(aReleaseOf('a', 'b')), 'ShardsInPlace', 'settled'],
    [
      'a node that goes',
      afterRelease(aReleaseOf('a', 'b', 'c').withPod('c', { isBeingDeleted: true })),
      'AwaitingStillness',
      'working',
    ],
    [
      'the last node that goes',
      afterRelease(aReleaseOf('a').withPod('a', { isBeingDeleted: true })),
      'LastNode',
      'stuck',
    ],
    [
      'keys that cannot be read',
      afterRelease(aReleaseOf('a', 'b').with({ view: unknown('etcd is down') })),
      'KeysUnknown',
      'stuck',
    ],
    ['no repository', afterRepository(aLook(null)), 'NoRepository', 'settled'],
    ['a repository that is told', afterRepository(aLook()), 'RepositoryApplied', 'working'],
    [
      'a bucket that is missing',
      afterRepository(aLook().withSurvey({ owner: { kind: 'noBucket' } })),
      'BucketMissing',
      'stuck',
    ],
    [
      'a repository of others',
      afterRepository(
        aLook().withSurvey({
          ...sound,
          owner: present({
            etag: '"1"',
            owner: { cluster: 'test', namespace: 'db', name: 'other', uid: 'other' },
          }),
        }),
      ),
      'RepositoryOfOthers',
      'stuck',
    ],
  ])('%s', (_what, { decision, sight }, reason, standing) => {
    expect(sight).toMatchObject({ reason, standing });
    if (decision.outcome === 'blocked') {
      expect(sight.attention).toBe('needed');
      expect(sight.todo.length).toBeGreaterThan(0);
    }
    if (decision.outcome === 'waiting' || decision.outcome === 'blocked') {
      expect(sight.look?.wake).toEqual(decision.wake);
    }
  });

  test('a member that is said to be made, and minutes later still is, needs a person: its writes may be refused', () => {
    const look = aSnapshotOf(3).withoutPod(2);

    const soon = afterPods(look, 1).sight;
    const late = afterPods(look, 3).sight;

    expect(soon).toMatchObject({ standing: 'working', todo: [] });
    expect(late).toMatchObject({
      standing: 'stuck',
      attention: 'needed',
      brief: 'what it began does not come to an end',
    });
    expect(late.todo.map(({ command }) => command)).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^kubectl describe -n \S+ shd\//),
        'millrace replay --dlq pool-pods --dry-run',
      ]),
    );
  });

  test('one that is made anew after a long start is not taken for one that was never made', () => {
    const { snapshot } = aSnapshotOf(3).withoutPod(2);
    const decision = decidePods(snapshot, podsNow);
    const before = {
      metadata: { name: 'main', namespace: 'db', uid: 'u', generation: 1 },
      spec: {},
    };
    const told = asTold(before, 'pool-pods', decision);

    const sight = stepSight('pool-pods', {
      target: seenTarget('Shard', told),
      now: plusSeconds(podsNow, 3_600),
    });

    expect(sight.standing).toBe('working');
  });

  test('a node that goes is told with its time', () => {
    const { sight } = afterRelease(
      aReleaseOf('a', 'b', 'c').withPod('c', { isBeingDeleted: true }),
    );

    expect(sight.notes).toEqual([
      'c is deleted: 8 of its 8 shards are left; it has 30s from 2026-01-01T00:00:00Z on, until 2026-01-01T00:00:30Z (in 30s).',
    ]);
  });

  test('the record of another step that cannot be read is the one to clear', () => {
    const { sight } = afterPods(
      aSnapshotOf(3)
        .withoutPod(2)
        .with({ drain: { kind: 'unreadable', text: '{}', why: 'it is broken' } }),
    );

    expect(sight).toMatchObject({ reason: 'RecordUnreadable', standing: 'stuck' });
    expect(sight.todo.map(({ command }) => command)).toEqual([
      'millrace reset shd/orders drain-step -n db',
    ]);
  });

  test('shards that GoVerse itself moves are waited for', () => {
    const { sight } = afterRelease(
      aReleaseOf('a', 'b').withShards(({ shard }) => (shard === 0 ? { target: 'b' } : {})),
    );

    expect(sight).toMatchObject({ reason: 'ShardsUnsettled', standing: 'working' });
  });

  test('what ends in something to type has that as its command', () => {
    const { sight } = afterRepository(
      aLook().told({ place: { ...bucketPlace, bucket: 'another' } }),
    );

    expect(sight.reason).toBe('BackupsWouldBeOrphaned');
    expect(sight.todo).toEqual([
      { text: 'correct spec.backup.repository' },
      {
        text: 'or move all the same',
        command: expect.stringMatching(
          /^kubectl annotate -n db mdb\/main --overwrite millrace\.dev\/confirm-repository=[0-9a-f]{12}$/,
        ),
      },
    ]);
  });
});
