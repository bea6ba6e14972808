import { describe, expect, test } from 'vitest';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import { primaryOf } from '#functions/drain-step/gates.ts';
import { isOfOthers } from '#functions/drain-step/leaving.ts';
import {
  advance,
  causeText,
  claimOf,
  databaseOf,
  drainingCondition,
  forceText,
  hold,
  isFinished,
  isForced,
  isReplaced,
  isSameWake,
  leaverOf,
  leaving,
  mayForce,
  memberOf,
  mirror,
  moveOn,
  podOf,
  policyOf,
  recordOf,
  releaseMark,
  statusEffects,
  whyNotWantedAnyMore,
  whyOf,
} from '#functions/drain-step/moves.ts';
import type { DrainSnapshot } from '#functions/drain-step/snapshot.ts';
import {
  type DrainBuilder,
  aClaim,
  aMember,
  aShardOf,
  now,
  poolerOf,
  shardUid,
  uidOf,
} from './a-drain.ts';

const draining = (...given: Parameters<DrainBuilder['draining']>) =>
  aShardOf(3)
    .wanting(2)
    .draining(...given);

/** A snapshot in which orders-2 is leaving, and its leaver. */
function leaverIn(drain: DrainBuilder) {
  const snapshot = drain.build();
  return { snapshot, leaver: leaving(snapshot).leaver };
}

function agreedPrimary(snapshot: DrainSnapshot) {
  const primary = primaryOf(snapshot);
  if (primary.kind !== 'agreed') {
    throw new Error(primary.why);
  }
  return primary;
}

function poolersOf(drain: DrainBuilder) {
  const { topology } = drain.build();
  return topology.kind === 'present' ? topology.value.poolers : [];
}

describe('the record', () => {
  test('of a shard without one is neither finished nor forced', () => {
    const snapshot = aShardOf(3).build();

    expect([isFinished(snapshot), isForced(snapshot)]).toEqual([false, false]);
    expect(() => leaving(snapshot)).toThrow('a row about the leaver ran without one');
  });

  test('that is finished or forced says so', () => {
    const finished = draining('orders-2', 'finished').build();
    const forced = draining('orders-2', 'requested', 6, { forced: true }).build();

    expect([isFinished(finished), isForced(finished)]).toEqual([true, false]);
    expect([isFinished(forced), isForced(forced)]).toEqual([false, true]);
  });

  test('is moved under uid, generation and text as they were read', () => {
    const snapshot = draining('orders-2', 'draining').build();

    expect(advance(snapshot, null).guard).toEqual({
      uid: shardUid,
      generation: 4,
      previous: snapshot.record.text,
    });
  });

  test('that moves on has its time and reason anew, its failures forgotten, and the same leaver', () => {
    const drain = draining('orders-2', 'draining', 60);
    const { record } = leaving(drain.build());
    const failing = { ...record, attempt: 3 };
    drain.with({ record: { kind: 'ours', text: 'x', record: failing } });

    const decision = moveOn(drain.build(), now, 'acknowledged', 'GatesHeld', 'held', []);

    expect(decision.effects[0]).toMatchObject({
      kind: 'advance',
      record: {
        ...record,
        state: 'acknowledged',
        since: '2026-01-01T00:10:00Z',
        reason: 'GatesHeld',
        attempt: 0,
        wake: { every: 5 },
      },
    });
  });

  test.each([
    [{ every: 5 }, true],
    [{ every: 60 }, false],
    [{ at: '2026-01-01T00:00:05Z' }, false],
    [undefined, false],
  ])('with the wake %o wakes every five seconds: %s', (wake, isSame) => {
    const { wake: _before, ...record } = leaving(draining('orders-2', 'draining').build()).record;

    expect(isSameWake(wake === undefined ? record : { ...record, wake }, 5)).toBe(isSame);
  });
});

describe('a force', () => {
  const named = (pod: string | null, drain: DrainBuilder) =>
    mayForce(drain.withShard({ forcedPodUid: pod === null ? null : uidOf(pod) }).build());

  test('is possible for the leaver, and for nobody else while it is leaving', () => {
    expect(named('orders-2', draining('orders-2', 'requested'))).toBe(true);
    expect(named('orders-1', draining('orders-2', 'requested').requested('orders-1'))).toBe(false);
    expect(named(null, draining('orders-2', 'requested'))).toBe(false);
  });

  test('is possible for whoever could be picked, and nobody else', () => {
    const drain = () => aShardOf(3).requested('orders-0').requested('orders-1');

    expect(['orders-0', 'orders-1', 'orders-2', null].map((pod) => named(pod, drain()))).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });
});

describe('what belongs to the leaver', () => {
  test('is its pod, its claim and its record, each by what the drain began with', () => {
    const { snapshot, leaver } = leaverIn(draining('orders-2', 'draining'));

    expect(memberOf(snapshot, leaver)).toEqual(aMember('orders-2'));
    expect(claimOf(snapshot, leaver)).toEqual(aClaim('orders-2'));
    expect(recordOf(snapshot, leaver)?.id).toEqual(poolerOf('orders-2'));
  });

  test('is nothing where it cannot be read', () => {
    const { snapshot, leaver } = leaverIn(
      draining('orders-2', 'draining').with({
        members: unknown(''),
        claims: unknown(''),
        topology: unknown(''),
      }),
    );

    expect(memberOf(snapshot, leaver)).toBeUndefined();
    expect(claimOf(snapshot, leaver)).toBeUndefined();
    expect(recordOf(snapshot, leaver)).toBeUndefined();
  });

  test('is its record also under a name that was shortened, or an id that changed', () => {
    const renamed = leaverIn(
      draining('orders-2', 'draining').withPooler('orders-2', { id: poolerOf('shortened') }),
    );
    const moved = leaverIn(
      draining('orders-2', 'draining').withPooler('orders-2', { hostname: '10.0.0.7' }),
    );

    expect(recordOf(renamed.snapshot, renamed.leaver)?.id.name).toBe('shortened');
    expect(recordOf(moved.snapshot, moved.leaver)?.hostname).toBe('10.0.0.7');
  });

  test('is replaced once a pod of its name is there again', () => {
    const drain = draining('orders-2', 'finished');
    const [, , pooler] = poolersOf(drain);
    if (pooler === undefined) {
      throw new Error('the leaver has no record');
    }

    expect(isReplaced(drain.build(), pooler)).toBe(true);
    expect(isReplaced(drain.withoutPod('orders-2').build(), pooler)).toBe(false);
    expect(isReplaced(drain.with({ members: unknown('') }).build(), pooler)).toBe(false);
  });

  test('is kept or deleted by the policy of its own pool, and kept where the pool is no more', () => {
    const drain = draining('orders-2', 'finished', 6, { pool: 'other' });
    const [main] = drain.build().shard.pools;
    const pools = main === undefined ? [] : [main, { ...main, name: 'other' }];
    const policyIn = (all: typeof pools) => {
      const { snapshot, leaver } = leaverIn(drain.withShard({ pools: all }));
      return policyOf(snapshot, leaver);
    };

    expect(policyIn(pools.map((pool) => ({ ...pool, whenScaled: 'Retain' })))).toBe('Retain');
    expect(
      policyIn(
        pools.map((pool) => ({
          ...pool,
          whenScaled: pool.name === 'other' ? 'Delete' : 'Retain',
        })),
      ),
    ).toBe('Delete');
    expect(policyIn(pools.slice(0, 1).map((pool) => ({ ...pool, whenScaled: 'Delete' })))).toBe(
      'Retain',
    );
  });

  test('is somebody else’s under another controller or another operator’s mark', () => {
    expect(isOfOthers(undefined)).toBe(false);
    expect(isOfOthers(aMember('orders-2'))).toBe(false);
    expect(isOfOthers({ ...aMember('orders-2'), control: 'attached' })).toBe(false);
    expect(isOfOthers({ ...aMember('orders-2'), control: 'foreign' })).toBe(true);
    expect(isOfOthers({ ...aMember('orders-2'), isMarkedByOthers: true })).toBe(true);
  });
});

describe('the primary’s pod', () => {
  test('is the one behind its record', () => {
    const snapshot = aShardOf(3).build();

    expect(podOf(snapshot, agreedPrimary(snapshot))).toBe('orders-0');
  });

  test('is nobody’s here where it is not among ours, or has no record any more', () => {
    const snapshot = aShardOf(3).build();
    const primary = agreedPrimary(snapshot);
    const withoutRecord = aShardOf(3).with({ topology: present({ poolers: [], undecodable: [] }) });

    expect(podOf(aShardOf(3).withoutPod('orders-0').build(), primary)).toBe('');
    expect(podOf(withoutRecord.build(), primary)).toBe('');
  });

  test('is not known where records or pods cannot be read', () => {
    const primary = agreedPrimary(aShardOf(3).build());

    expect(
      podOf(
        aShardOf(3)
          .with({ topology: unknown('') })
          .build(),
        primary,
      ),
    ).toBeNull();
    expect(
      podOf(
        aShardOf(3)
          .with({ members: unknown('') })
          .build(),
        primary,
      ),
    ).toBeNull();
  });
});

describe('a leaver is not wanted to leave any more', () => {
  const whyOfFailed = (drain: DrainBuilder) => {
    const { snapshot, leaver } = leaverIn(
      drain.draining('orders-2', 'requested', 6, { cause: 'failed' }),
    );
    return whyNotWantedAnyMore(snapshot, leaver);
  };

  test('once it has recovered, and not while it has failed or its pod is gone', () => {
    expect(whyOfFailed(aShardOf(3))).toBe('it has recovered');
    expect(whyOfFailed(aShardOf(3).withMember('orders-2', { hasEnded: true }))).toBeUndefined();
    expect(whyOfFailed(aShardOf(3).withoutPod('orders-2'))).toBeUndefined();
  });
});

describe('who is picked', () => {
  const pick = (drain: DrainBuilder, pod = 'orders-2') => {
    const snapshot = drain.build();
    return leaverOf(snapshot, { member: aMember(pod), cause: 'requested' }, now);
  };

  test('is written down with all that its drain will need, and unforced', () => {
    expect(pick(aShardOf(3))).toEqual({
      pod: 'orders-2',
      podUid: uidOf('orders-2'),
      node: 'node-1',
      claimUid: 'claim-uid-orders-2',
      pool: 'main',
      cell: 'zone-a',
      index: 2,
      pooler: poolerOf('orders-2'),
      cause: 'requested',
      startedAt: '2026-01-01T00:10:00Z',
      forced: false,
    });
  });

  test('has the id of its own record, and the derived one without any', () => {
    const id = poolerOf('shortened');

    expect(pick(aShardOf(3).withPooler('orders-2', { id })).pooler).toEqual(id);
    expect(pick(aShardOf(3).with({ topology: unknown('') })).pooler.cell).toBe('zone-a');
    expect(pick(aShardOf(3).with({ topology: unknown('') })).pooler.name).toMatch(/^orders-2/);
  });

  test('has no claim where none of its name is listed', () => {
    expect(pick(aShardOf(3).with({ claims: present([aClaim('orders-1')]) })).claimUid).toBe('');
    expect(pick(aShardOf(3).with({ claims: absent })).claimUid).toBe('');
  });
});

describe('what is held', () => {
  const held = (drain: DrainBuilder, needs?: string) =>
    hold(drain.build(), now, 'NoAgreedPrimary', 'nobody leads', needs);
  const kindsOf = (drain: DrainBuilder, needs?: string) =>
    held(drain, needs).effects.map(({ kind }) => kind);

  test('is stuck only after its deadline, or where nobody knows when it began (D8)', () => {
    expect(kindsOf(draining('orders-2', 'draining', 300))).toEqual([]);
    expect(kindsOf(draining('orders-2', 'draining', 300.001))).toEqual([
      'advance',
      'applyStatus',
      'emitEvent',
    ]);
    expect(kindsOf(draining('orders-2', 'draining', 6, { startedAt: 'long ago' }))).toEqual([
      'advance',
      'applyStatus',
      'emitEvent',
    ]);
  });

  test('says what a person has to do, at once and slowly from then on', () => {
    const decision = held(draining('orders-2', 'draining'), 'bring up a standby');
    const [record, status, event] = decision.effects;

    expect(decision).toMatchObject({
      outcome: 'blocked',
      needs: 'bring up a standby',
      wake: { every: 60 },
    });
    expect(record).toMatchObject({
      record: { state: 'draining', reason: 'NoAgreedPrimary', wake: { every: 60 } },
    });
    const message = 'nobody leads; to go on: bring up a standby';
    expect(status).toMatchObject({
      status: {
        conditions: [{ status: 'False', reason: 'NoAgreedPrimary', message }],
        drain: { pod: 'orders-2', cause: 'surplus', waitsFor: 'nobody leads' },
      },
    });
    expect(event).toMatchObject({ type: 'Warning', reason: 'NoAgreedPrimary', message });
  });
});

describe('the mirror on the pod', () => {
  test('is written where it differs, under the version that was read', () => {
    const { snapshot, leaver } = leaverIn(draining('orders-2', 'draining'));

    expect(mirror(snapshot, leaver, 'draining')).toEqual([
      {
        kind: 'patchObject',
        object: { kind: 'Pod', namespace: 'db', name: 'orders-2' },
        patch: { metadata: { annotations: { 'drain.millrace.dev/state': 'draining' } } },
        guard: { uid: uidOf('orders-2'), resourceVersion: '100' },
      },
    ]);
    expect(mirror(snapshot, leaver, null)).toEqual([]);
  });

  test('of a pod that is gone is not written', () => {
    const { snapshot, leaver } = leaverIn(draining('orders-2', 'draining').withoutPod('orders-2'));

    expect(mirror(snapshot, leaver, null)).toEqual([]);
  });
});

describe('the mark on a claim', () => {
  const markOf = (drain: DrainBuilder) => {
    const { snapshot, leaver } = leaverIn(drain);
    return releaseMark(snapshot, leaver);
  };
  const withClaim = (change: Partial<ReturnType<typeof aClaim>>) =>
    draining('orders-2', 'finished').with({
      claims: present([{ ...aClaim('orders-2'), ...change }]),
    });

  test('names the pod that left for good', () => {
    expect(markOf(draining('orders-2', 'finished'))).toEqual([
      {
        kind: 'patchObject',
        object: { kind: 'PersistentVolumeClaim', namespace: 'db', name: 'data-orders-2' },
        patch: { metadata: { annotations: { 'millrace.dev/released': uidOf('orders-2') } } },
        guard: { uid: 'claim-uid-orders-2', resourceVersion: '50' },
      },
    ]);
  });

  test.each([
    ['the member comes back', draining('orders-2', 'finished', 6, { cause: 'failed' })],
    ['the claim is gone', draining('orders-2', 'finished').with({ claims: present([]) })],
    ['the claim is going', withClaim({ isBeingDeleted: true })],
    ['it is there', withClaim({ released: uidOf('orders-2') })],
  ])('is not set where %s', (_what, drain) => {
    expect(markOf(drain)).toEqual([]);
  });

  test('of a former member is replaced', () => {
    expect(markOf(withClaim({ released: 'uid-of-a-former-pod' }))).toHaveLength(1);
  });
});

describe('the condition of a drain', () => {
  const messageOf = (drain: DrainBuilder) => {
    const { snapshot, leaver } = leaverIn(drain);
    return drainingCondition(snapshot, leaver).message;
  };

  test('warns where nobody further could be spared, and only there', () => {
    const warning = 'orders-2 is leaving (surplus); no further loss would be survivable';
    const plain = 'orders-2 is leaving (surplus)';
    const fewer = { policy: { kind: 'at-least-n' as const, requiredCount: 1 } };
    const nobodyKnows = { policy: { kind: 'unknown' as const, requiredCount: 2 } };

    expect(messageOf(draining('orders-2', 'draining'))).toBe(warning);
    expect(messageOf(draining('orders-2', 'draining').withRule(fewer))).toBe(plain);
    expect(messageOf(draining('orders-2', 'draining').withRule(nobodyKnows))).toBe(plain);
    expect(
      messageOf(draining('orders-2', 'draining').withPooler('orders-0', { role: 'none' })),
    ).toBe(plain);
  });
});

describe('the status', () => {
  const condition = { status: 'True' as const, reason: 'NobodyLeaves', message: 'nobody leaves' };
  const effectOf = (drain: DrainBuilder) => statusEffects(drain.build(), now, condition, null);
  const primary = { pod: 'orders-0', pooler: 'zone-a/orders-0', rule: '3.1' };
  const said = {
    type: 'Drained',
    ...condition,
    observedGeneration: 4,
    lastTransitionTime: '2026-01-01T00:00:00Z',
  };

  test('names the primary, its rule and who leaves, under the version of the Shard that was read', () => {
    const { snapshot, leaver } = leaverIn(draining('orders-2', 'draining'));

    const [effect] = statusEffects(snapshot, now, condition, leaver);

    expect(effect).toEqual({
      kind: 'applyStatus',
      status: {
        conditions: [expect.objectContaining({ type: 'Drained', reason: 'NobodyLeaves' })],
        primary,
        drain: { pod: 'orders-2', cause: 'surplus', since: leaver.startedAt },
      },
      guard: { uid: shardUid, resourceVersion: '900' },
    });
  });

  test('has the rule 0.0 where the primary’s record names none', () => {
    const [effect] = effectOf(aShardOf(3).withPooler('orders-0', { rule: null }));

    expect(effect?.status['primary']).toEqual({ ...primary, rule: '0.0' });
  });

  test('leaves the primary as it stands while none is known, and leaves out what is not there', () => {
    const nobody = () => aShardOf(3).withPooler('orders-0', { role: 'none' });
    const former = { pod: 'orders-9', pooler: 'zone-a/orders-9', rule: '1.0' };

    const [kept] = effectOf(nobody().withShard({ primary: former }));
    const [without] = effectOf(nobody());

    expect(kept?.status['primary']).toEqual(former);
    expect(Object.keys(without?.status ?? {})).toEqual(['conditions']);
  });

  test('that stands already, in whatever order of its fields, is not written', () => {
    const { pod, pooler, rule } = primary;
    const standing = aShardOf(3).withShard({ drained: said, primary: { rule, pooler, pod } });

    expect(effectOf(standing)).toEqual([]);
  });

  test.each([
    ['the primary', { primary: { ...primary, pod: 'orders-1' } }],
    ['the rule of the primary', { primary: { ...primary, rule: '3.0' } }],
    ['the primary, which is not there,', { primary: null }],
    ['who leaves', { drain: { pod: 'orders-2', cause: 'surplus' as const, since: 'x' } }],
    ['the condition', { drained: { ...said, reason: 'MemberLeft' } }],
    ['the condition, which is not there,', { drained: null }],
  ])('is written where %s differs', (_what, change) => {
    const standing = aShardOf(3).withShard({ drained: said, primary, drain: null, ...change });

    expect(effectOf(standing)).toHaveLength(1);
  });
});

describe('the texts for people', () => {
  const member = aMember('orders-2');

  test.each([
    ['surplus' as const, null, 'its pool has more members than wanted'],
    ['failed' as const, null, 'its pod has failed'],
    ['requested' as const, null, 'a person asked'],
    ['requested' as const, '', 'a person asked'],
    ['requested' as const, 'new disk', 'a person asked (new disk)'],
  ])('say why one leaves: %s, %j', (cause, request, text) => {
    expect(causeText({ member: { ...member, request }, cause })).toBe(text);
  });

  test('name the annotation that forces', () => {
    const { leaver } = leaverIn(draining('orders-2', 'draining'));

    expect(forceText(leaver)).toBe(
      'the annotation millrace.dev/force-drain=uid-orders-2 on the Shard',
    );
  });

  test('say of what is absent that it does not exist', () => {
    expect([whyOf(absent), whyOf(unknown('403'))]).toEqual(['it does not exist', '403']);
  });
});

test('a row that needs the database does not go on without it', () => {
  expect(() =>
    databaseOf(
      aShardOf(3)
        .with({ database: unknown('403') })
        .build(),
    ),
  ).toThrow('a row that needs the database ran without it');
  expect(databaseOf(aShardOf(3).build()).ref.name).toBe('main');
});
