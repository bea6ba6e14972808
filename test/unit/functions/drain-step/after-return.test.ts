import { describe, expect, test } from 'vitest';
import type { Leaver } from '#shared/api/drain-record.ts';
import { toText } from '#shared/kernel/instant.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import { type DrainBuilder, aShardOf, now, shardUid, uidOf } from './a-drain.ts';
import { look, nextRecord } from './what-it-says.ts';

function finished(leaver: Partial<Leaver> = {}): DrainBuilder {
  return aShardOf(3).wanting(2).draining('orders-2', 'finished', 6, leaver);
}

/** Gone in good order, and out of the cohort: only its claim and its record remain. */
function left(leaver: Partial<Leaver> = {}): DrainBuilder {
  return finished(leaver).gone('orders-2').outOfCohort('orders-2');
}

describe('while the pod stands', () => {
  test.each([
    ['finished', null],
    [null, 'draining'],
  ])('a leader’s goes back to its request, and its mirror from %s to %s', (mirror, next) => {
    const drain = finished().withMember('orders-2', { mirror }).ledBy('orders-2');
    const { record } = drain.build();

    const decision = look(drain);

    expect(decision.effects[0]).toMatchObject({
      kind: 'patchObject',
      patch: { metadata: { annotations: { 'drain.millrace.dev/state': next } } },
    });
    expect(nextRecord(decision)).toEqual({
      ...(record.kind === 'ours' ? record.record : {}),
      state: 'requested',
      since: toText(now),
      reason: 'BecamePrimary',
      wake: { every: 5 },
    });
  });

  test('nothing is deleted without an agreed primary, unless by force', () => {
    const nobody = (leaver: Partial<Leaver> = {}) =>
      finished(leaver).withPooler('orders-0', { role: 'none' });

    expect(look(nobody())).toMatchObject({
      outcome: 'waiting',
      reason: 'NoAgreedPrimary',
      message: 'orders-2 may go once there is an agreed primary: no pooler is PRIMARY',
    });
    expect(look(nobody({ forced: true })).reason).toBe('MemberDeleted');
  });

  test.each([
    ['leads', (drain: DrainBuilder) => drain.ledBy('orders-2')],
    [
      'nobody knows who leads',
      (drain: DrainBuilder) => drain.withPooler('orders-0', { role: 'none' }),
    ],
    [
      'is in somebody else’s hands',
      (drain: DrainBuilder) => drain.withMember('orders-2', { isMarkedByOthers: true }),
    ],
  ])('one that is stopping already is only waited for, also where it or %s', (_what, change) => {
    const drain = change(finished()).withMember('orders-2', { isBeingDeleted: true });

    expect(look(drain)).toMatchObject({ outcome: 'waiting', reason: 'AwaitingPodGone' });
  });
});

describe('the node of a pod that is gone', () => {
  const onNode = (node: string, nodes: ReturnType<DrainBuilder['build']>['nodes']) =>
    left({ node }).with({ nodes });

  test.each([
    ['is Ready', onNode('node-1', { 'node-1': present({ isReady: true }) })],
    ['is gone', onNode('node-1', { 'node-1': absent })],
    ['was none: it was never bound', onNode('', {})],
  ])('proves that it has stopped where it %s', (_what, drain) => {
    expect(look(drain).reason).toBe('MemberLeft');
  });

  test.each([
    ['is not Ready', { 'node-1': present({ isReady: false }) }, 'is not Ready'],
    ['cannot be read', { 'node-1': unknown('403') }, 'cannot be read: 403'],
    ['was not asked', {}, 'cannot be read: it was not asked'],
  ])('proves nothing where it %s', (_what, nodes, why) => {
    expect(look(onNode('node-1', nodes))).toMatchObject({
      outcome: 'blocked',
      reason: 'NodeUnproven',
      message: `orders-2 is gone, but its node node-1 ${why}: the member may still run`,
    });
  });
});

describe('the record of a member that is gone', () => {
  test('is retired where it still says that it lives, in its own cell and under its own key', () => {
    const drain = left().withPooler('orders-2', { lifecycle: 'active', storeCell: 'zone-b' });

    expect(look(drain).effects).toEqual([
      {
        kind: 'topologyTxn',
        database: { namespace: 'db', name: 'main', uid: 'database-uid' },
        operation: {
          kind: 'retirePooler',
          cell: 'zone-b',
          key: '/multigres/zone-a/poolers/multipooler-zone-a-orders-2/Pooler',
        },
        guard: {
          modRevision: '42',
          recordKey: `drain-step/${shardUid}/${uidOf('orders-2')}`,
        },
      },
    ]);
  });

  test('holds up nobody where there is none', () => {
    const drain = left();
    const { topology } = drain.build();
    drain.with({
      topology: present({
        poolers:
          topology.kind === 'present'
            ? topology.value.poolers.filter(({ id }) => id.name !== 'orders-2')
            : [],
        undecodable: [],
      }),
    });

    expect(look(drain).reason).toBe('MemberLeft');
  });

  test('is waited for with the cohort while nobody knows who leads, unless by force', () => {
    const nobody = (leaver: Partial<Leaver> = {}) =>
      left(leaver).withPooler('orders-0', { role: 'none' });

    expect(look(nobody())).toMatchObject({
      outcome: 'waiting',
      reason: 'NoAgreedPrimary',
      message: 'orders-2 is gone; there is no agreed primary: no pooler is PRIMARY',
    });
    expect(look(nobody({ forced: true })).reason).toBe('MemberLeft');
  });
});

describe('the claim of a member that is gone', () => {
  test('is waited for while the claims cannot be listed', () => {
    expect(look(left().with({ claims: unknown('403') }))).toMatchObject({
      outcome: 'waiting',
      reason: 'ClaimsUnknown',
      message: 'the claim of orders-2 cannot be read: 403',
    });
  });

  test('holds up nobody where it had none', () => {
    const drain = left({ claimUid: '' }).with({ claims: unknown('403') });

    expect(look(drain).reason).toBe('MemberLeft');
  });

  test('is deleted under its own uid and version, by the record that names it (S3)', () => {
    expect(look(left().withPool({ whenScaled: 'Delete' })).effects).toEqual([
      {
        kind: 'deleteObject',
        object: { kind: 'PersistentVolumeClaim', namespace: 'db', name: 'data-orders-2' },
        guard: {
          uid: 'claim-uid-orders-2',
          resourceVersion: '50',
          recordKey: `drain-step/${shardUid}/${uidOf('orders-2')}`,
        },
      },
    ]);
  });

  test('that is in use names what to do about it', () => {
    const drain = left()
      .withPool({ whenScaled: 'Delete' })
      .with({ claimsInUse: present(['data-orders-2']) });

    expect(look(drain)).toMatchObject({
      outcome: 'blocked',
      message: 'a pod still uses the claim data-orders-2',
      needs: 'delete the pod that mounts data-orders-2',
    });
  });
});

test('the end of a drain says who left, why, and whether a person forced it', () => {
  const endOf = (leaver: Partial<Leaver>) => look(left(leaver)).effects.at(-1);

  expect(endOf({})).toMatchObject({ type: 'Normal', message: 'orders-2 has left: surplus' });
  expect(endOf({ forced: true, cause: 'requested' })).toMatchObject({
    message: 'orders-2 has left: requested, forced by a person',
  });
});
