import { describe, expect, test } from 'vitest';
import type { ShardRule } from '#shared/admin/admin.ts';
import { present, unknown } from '#shared/kernel/read.ts';
import type { RuleNumber } from '#shared/topology/topology.ts';
import {
  claimedPrimary,
  openProposal,
  primaryOf,
  quorumWithout,
  readyStandby,
} from '#functions/drain-step/gates.ts';
import { type DrainBuilder, aShardOf, poolerOf } from './a-drain.ts';

const older: RuleNumber = { term: '2', subterm: '9' };
const newer: RuleNumber = { term: '3', subterm: '2' };

/** The rule that every pooler of a shard knows. */
function ruleOf(drain: DrainBuilder): ShardRule {
  const view = primaryOf(drain.build());
  if (view.kind !== 'agreed') {
    throw new Error(`the shard has no agreed primary: ${view.why}`);
  }
  return view.rule;
}

/** A member's pooler is in this cell, for everybody who knows it. */
function inCell(drain: DrainBuilder, pod: string, cell: string): DrainBuilder {
  const id = { cell, name: pod };
  const rule = ruleOf(drain);
  drain.withPooler(pod, { id });
  drain.with({
    statuses: drain.build().statuses.map((entry) => ({
      id: entry.id.name === pod ? id : entry.id,
      status:
        entry.status.kind === 'present' && entry.id.name === pod
          ? present({ ...entry.status.value, id })
          : entry.status,
    })),
  });
  return drain.withRule({
    cohort: rule.cohort.map((member) => (member.name === pod ? id : member)),
  });
}

describe('the primary', () => {
  test('is agreed where its record and the pooler itself say so', () => {
    const view = primaryOf(aShardOf(3).build());

    expect(view).toMatchObject({
      kind: 'agreed',
      status: { id: poolerOf('orders-0'), role: 'primary' },
      rule: { rule: { term: '3', subterm: '1' }, leader: poolerOf('orders-0') },
    });
  });

  test.each([
    ['the records', (drain: DrainBuilder) => drain.with({ topology: unknown('etcd is down') })],
    ['the pods', (drain: DrainBuilder) => drain.with({ members: unknown('403') })],
  ])('is unknown while %s cannot be read', (_what, change) => {
    expect(primaryOf(change(aShardOf(3)).build())).toEqual({
      kind: 'unknown',
      why: 'the pooler records cannot be read',
    });
  });

  test('is unknown while a record cannot be decoded: it may be the primary’s', () => {
    const drain = aShardOf(3);
    const { topology } = drain.build();
    drain.with({
      topology: present({
        poolers: topology.kind === 'present' ? topology.value.poolers : [],
        undecodable: [{ key: '/x/Pooler', why: 'it is no record' }],
      }),
    });

    expect(primaryOf(drain.build())).toEqual({
      kind: 'unknown',
      why: 'the record /x/Pooler cannot be decoded',
    });
  });

  test('is unknown while a living pooler has a role this version does not know', () => {
    const living = aShardOf(3).withPooler('orders-1', { role: 'unknown' });
    const stopped = aShardOf(3).withPooler('orders-1', { role: 'unknown', lifecycle: 'shutdown' });

    expect(primaryOf(living.build())).toEqual({
      kind: 'unknown',
      why: 'pooler zone-a/orders-1 has a role this version does not know',
    });
    expect(primaryOf(stopped.build()).kind).toBe('agreed');
  });

  test('is not a pooler that has stopped, whatever rule its record names', () => {
    const drain = aShardOf(3).withPooler('orders-2', {
      role: 'primary',
      rule: { term: '9', subterm: '0' },
      lifecycle: 'shutdown',
    });

    expect(primaryOf(drain.build())).toMatchObject({
      kind: 'agreed',
      status: { id: poolerOf('orders-0') },
    });
  });

  test('is nobody where no record claims it', () => {
    const drain = aShardOf(3).withPooler('orders-0', { role: 'replica' });

    expect(primaryOf(drain.build())).toEqual({ kind: 'none', why: 'no pooler is PRIMARY' });
  });

  test.each([
    ['an older rule, while its pod is there', older, true, 'disputed'],
    ['an older rule, with no pod behind it', older, false, 'agreed'],
    ['the same rule, even with no pod behind it', { term: '3', subterm: '1' }, false, 'disputed'],
    ['no rule, while its pod is there', null, true, 'disputed'],
    ['no rule, with no pod behind it', null, false, 'agreed'],
  ])('is rivalled by a claim under %s: %s', (_what, rule, hasPod, kind) => {
    const drain = aShardOf(4).withPooler('orders-3', { role: 'primary', rule });
    if (!hasPod) {
      drain.withoutPod('orders-3');
    }

    expect(primaryOf(drain.build())).toMatchObject(
      kind === 'disputed'
        ? {
            kind,
            why: 'both zone-a/orders-0 and zone-a/orders-3 claim to be PRIMARY',
          }
        : { kind, status: { id: poolerOf('orders-0') } },
    );
  });

  test('is rivalled where neither claim names a rule', () => {
    const drain = aShardOf(4)
      .withPooler('orders-0', { rule: null })
      .withPooler('orders-3', { role: 'primary', rule: null })
      .withoutPod('orders-3');

    expect(primaryOf(drain.build()).kind).toBe('disputed');
  });

  test('is unknown while it does not answer', () => {
    expect(primaryOf(aShardOf(3).withStatus('orders-0', null).build())).toEqual({
      kind: 'unknown',
      why: 'the primary zone-a/orders-0 does not answer',
    });
    expect(primaryOf(aShardOf(3).with({ statuses: [] }).build()).kind).toBe('unknown');
  });

  test.each([
    ['follows', { role: 'replica' as const }],
    ['knows no rule', { decision: null }],
  ])('is nobody while the one recorded says that it %s', (_what, change) => {
    expect(primaryOf(aShardOf(3).withStatus('orders-0', change).build())).toEqual({
      kind: 'none',
      why: 'zone-a/orders-0 is recorded as PRIMARY and does not say so itself',
    });
  });

  test('is nobody while the decided rule names no leader', () => {
    expect(primaryOf(aShardOf(3).withRule({ leader: null }).build()).kind).toBe('none');
  });

  test('is disputed while its own rule names another', () => {
    expect(
      primaryOf(
        aShardOf(3)
          .withRule({ leader: poolerOf('orders-1') })
          .build(),
      ),
    ).toEqual({
      kind: 'disputed',
      why: 'zone-a/orders-0 claims to be PRIMARY under a rule of zone-a/orders-1',
    });
  });

  test('is disputed while another pooler knows a newer rule than it does', () => {
    const drain = aShardOf(3);
    const decision = { ...ruleOf(drain), rule: newer };
    drain.withStatus('orders-2', { decision });

    expect(primaryOf(drain.build())).toEqual({
      kind: 'disputed',
      why: 'zone-a/orders-2 knows a newer rule than the primary zone-a/orders-0',
    });
  });

  test('is agreed while others know an older rule, none, or do not answer', () => {
    const drain = aShardOf(4);
    const decision = { ...ruleOf(drain), rule: older };
    drain
      .withStatus('orders-1', { decision })
      .withStatus('orders-2', { decision: null })
      .withStatus('orders-3', null);

    expect(primaryOf(drain.build()).kind).toBe('agreed');
  });
});

describe('the primary in status', () => {
  test('is the pod behind the claim under the highest rule, confirmed or not', () => {
    const drain = aShardOf(3)
      .withPooler('orders-2', { role: 'primary', rule: newer })
      .withStatus('orders-2', null);

    expect(claimedPrimary(drain.build())).toMatchObject({
      pod: 'orders-2',
      record: { id: poolerOf('orders-2') },
    });
  });

  test.each([
    ['the records cannot be read', (drain: DrainBuilder) => drain.with({ topology: unknown('') })],
    ['the pods cannot be read', (drain: DrainBuilder) => drain.with({ members: unknown('') })],
    [
      'no record claims to lead',
      (drain: DrainBuilder) => drain.withPooler('orders-0', { role: 'none' }),
    ],
    ['its pod is gone', (drain: DrainBuilder) => drain.withoutPod('orders-0')],
    [
      'its pooler has stopped',
      (drain: DrainBuilder) => drain.withPooler('orders-0', { lifecycle: 'shutdown' }),
    ],
  ])('is not known while %s', (_what, change) => {
    expect(claimedPrimary(change(aShardOf(3)).build())).toBeNull();
  });
});

describe('a proposal', () => {
  const proposalUnder = (rule: RuleNumber): ShardRule => ({
    rule,
    leader: null,
    cohort: [],
    policy: { kind: 'at-least-n', requiredCount: 2 },
  });

  test.each([
    ['older than the decided rule', older, false],
    ['the decided rule itself', { term: '3', subterm: '1' }, false],
    ['newer than the decided rule', newer, true],
  ])('that is %s is open: %s', (_what, rule, isOpen) => {
    const drain = aShardOf(3);
    const decided = ruleOf(drain);
    const proposal = proposalUnder(rule);
    drain.withStatus('orders-0', null).withStatus('orders-2', { proposal });

    expect(openProposal(drain.build(), decided)).toEqual(isOpen ? proposal : null);
  });

  test('is not open where nobody made one', () => {
    const drain = aShardOf(3);

    expect(openProposal(drain.build(), ruleOf(drain))).toBeNull();
  });
});

describe('the quorum without a member', () => {
  const quorumOf = (drain: DrainBuilder, rule = ruleOf(drain)) =>
    quorumWithout(drain.build(), rule, poolerOf('orders-2'));

  test('counts the healthy voters that remain', () => {
    expect(quorumOf(aShardOf(3))).toEqual({ needed: 2, healthy: 2, unit: 'member' });
  });

  test('counts distinct cells where the policy asks for cells', () => {
    const drain = aShardOf(4).withRule({
      policy: { kind: 'multi-cell-at-least-n', requiredCount: 2 },
    });
    inCell(drain, 'orders-3', 'zone-b');

    expect(quorumOf(drain)).toEqual({ needed: 2, healthy: 2, unit: 'cell' });
  });

  test('tells apart two members of one name in two cells', () => {
    const drain = inCell(aShardOf(3), 'orders-2', 'zone-b');

    expect(quorumOf(drain).healthy).toBe(3);
  });

  test('needs nobody knows how many under an unknown policy', () => {
    const drain = aShardOf(3).withRule({ policy: { kind: 'unknown', requiredCount: 1 } });

    expect(quorumOf(drain)).toEqual({ needed: null, healthy: 2, unit: 'member' });
  });

  test.each([
    [
      'has no record',
      (drain: DrainBuilder) =>
        drain.with({
          topology: present({
            poolers: poolersOf(drain).filter(({ id }) => id.name !== 'orders-1'),
            undecodable: [],
          }),
        }),
    ],
    [
      'is a primary by its own word without being one, and not ready',
      (drain: DrainBuilder) => drain.withStatus('orders-1', { role: 'primary', isReady: false }),
    ],
    [
      'was never asked',
      (drain: DrainBuilder) =>
        drain.with({ statuses: drain.build().statuses.filter(({ id }) => id.name !== 'orders-1') }),
    ],
    ['has no pod', (drain: DrainBuilder) => drain.withoutPod('orders-1')],
    [
      'has a pod that ended',
      (drain: DrainBuilder) => drain.withMember('orders-1', { hasEnded: true }),
    ],
    [
      'another controller owns',
      (drain: DrainBuilder) => drain.withMember('orders-1', { control: 'foreign' }),
    ],
    [
      'another operator drains',
      (drain: DrainBuilder) => drain.withMember('orders-1', { isMarkedByOthers: true }),
    ],
    [
      'has stopped',
      (drain: DrainBuilder) => drain.withPooler('orders-1', { lifecycle: 'shutdown' }),
    ],
    ['is not ready', (drain: DrainBuilder) => drain.withStatus('orders-1', { isReady: false })],
  ])('does not count a voter that %s', (_what, change) => {
    const drain = aShardOf(3);
    const rule = ruleOf(drain);

    expect(quorumOf(change(drain), rule).healthy).toBe(1);
  });

  test.each([
    ['the records', (drain: DrainBuilder) => drain.with({ topology: unknown('') })],
    ['the pods', (drain: DrainBuilder) => drain.with({ members: unknown('') })],
  ])('counts nobody while %s cannot be read', (_what, change) => {
    const drain = aShardOf(3);
    const rule = ruleOf(drain);

    expect(quorumOf(change(drain), rule).healthy).toBe(0);
  });

  function poolersOf(drain: DrainBuilder) {
    const { topology } = drain.build();
    return topology.kind === 'present' ? topology.value.poolers : [];
  }
});

describe('a standby', () => {
  test('that is ready is a healthy voter other than the leader', () => {
    const drain = aShardOf(3).withStatus('orders-1', { isStreaming: false });

    expect(readyStandby(drain.build(), ruleOf(drain), poolerOf('orders-0'))).toEqual(
      poolerOf('orders-2'),
    );
  });

  test('is not there where only the leader is healthy', () => {
    const drain = aShardOf(2).withStatus('orders-1', { isStreaming: false });

    expect(readyStandby(drain.build(), ruleOf(drain), poolerOf('orders-0'))).toBeNull();
  });
});
