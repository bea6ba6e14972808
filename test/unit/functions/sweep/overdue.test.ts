import { describe, expect, test } from 'vitest';
import type { Route } from '#events/routes.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { Wake } from '#shared/kernel/record.ts';
import { isOverdue } from '#functions/sweep/overdue.ts';
import { aDrainOf } from '#test/builders/drain-record.ts';
import { type ShardBuilder, aShard } from '#test/builders/shard.ts';

const now = Date.parse('2026-01-01T00:00:00Z') as Instant;

const drainStep: Route = {
  step: 'drain-step',
  target: 'Shard',
  records: [],
  conditions: [],
  ownConditions: ['Drained'],
  requests: [],
  members: true,
};

const poolPods: Route = {
  ...drainStep,
  step: 'pool-pods',
  records: ['drain-step'],
  conditions: ['Drained'],
  ownConditions: ['Ready', 'PodsUpToDate'],
};

/** Each step has said what it found at the present generation, and has no record. */
function aConvergedShard(): ShardBuilder {
  return ['Drained', 'Ready', 'PodsUpToDate'].reduce(
    (shard, type) => shard.withCondition({ type, status: 'True', reason: 'AllIsWell' }),
    aShard().withPool(3),
  );
}

/** drain-step's record asks for this; its condition has observed the present generation. */
function aShardThatSleeps(wake: Wake | undefined): ShardBuilder {
  const shard = aConvergedShard();
  const { wake: _, ...record } = aDrainOf(shard.build(), 2, 'draining');
  return shard.withRecord('drain-step', wake === undefined ? record : { ...record, wake });
}

function withRecordText(text: string): ShardBuilder {
  return aConvergedShard().withAnnotation(recordAnnotation('drain-step'), text);
}

/** Its spec was changed so many times since it was made. */
function atGeneration(generation: number, builder: ShardBuilder) {
  const shard = builder.build();
  return { ...shard, metadata: { ...shard.metadata, generation } };
}

const table: readonly (readonly [
  situation: string,
  target: ReturnType<ShardBuilder['build']>,
  overdue: boolean,
])[] = [
  ['nothing was ever said of it', aShard().withPool(3).build(), true],
  ['the condition has observed its generation', aConvergedShard().build(), false],
  ['the condition has observed an older generation', atGeneration(2, aConvergedShard()), true],
  ['the condition has observed a generation yet to come', atGeneration(0, aConvergedShard()), true],
  [
    'the condition does not say what it has observed',
    aShard()
      .withStatus({ conditions: [{ type: 'Drained' } as never] })
      .build(),
    true,
  ],
  [
    'only another step’s conditions are there',
    aShard().withCondition({ type: 'Ready', status: 'True', reason: 'MembersReady' }).build(),
    true,
  ],
  ['the record asks to be woken every few seconds', aShardThatSleeps({ every: 5 }).build(), true],
  ['the same, every day', aShardThatSleeps({ every: 86_400 }).build(), true],
  [
    'the record’s instant has passed',
    aShardThatSleeps({ at: '2025-12-31T23:59:59Z' }).build(),
    true,
  ],
  ['the record’s instant is now', aShardThatSleeps({ at: '2026-01-01T00:00:00Z' }).build(), true],
  [
    'the record’s instant is to come',
    aShardThatSleeps({ at: '2026-01-01T00:00:01Z' }).build(),
    false,
  ],
  ['the record asks for nothing', aShardThatSleeps(undefined).build(), false],
  [
    'the record sleeps and the spec was changed',
    atGeneration(2, aShardThatSleeps({ at: '2026-01-02T00:00:00Z' })),
    true,
  ],
  ['the record is no JSON', withRecordText('{"wake":').build(), false],
  ['the record’s instant is none', withRecordText('{"wake":{"at":"soon"}}').build(), false],
  [
    'the record is of a version yet to come and asks to be woken',
    withRecordText('{"v":2,"wake":{"every":60}}').build(),
    true,
  ],
  [
    'the record sleeps and there is no condition',
    aShard()
      .withRecord('drain-step', {
        ...aDrainOf(aShard().build(), 2, 'draining'),
        wake: { at: '2026-01-02T00:00:00Z' },
      })
      .build(),
    true,
  ],
  ['a paused one whose condition has observed it', aConvergedShard().paused().build(), false],
  ['a paused one whose spec was changed', atGeneration(2, aConvergedShard().paused()), true],
  [
    'one being deleted whose record asks to be woken',
    aShardThatSleeps({ every: 5 }).beingDeleted().build(),
    true,
  ],
];

describe('a look of drain-step is overdue', () => {
  test.each(table)('or not where %s', (_, target, overdue) => {
    expect(isOverdue(drainStep, target, now)).toBe(overdue);
  });
});

describe('a look is overdue for each step by itself', () => {
  test('a record wakes the step whose record it is, and no other', () => {
    const target = aShardThatSleeps({ every: 5 }).build();

    expect([drainStep, poolPods].map((route) => isOverdue(route, target, now))).toEqual([
      true,
      false,
    ]);
  });

  test('a step with several conditions is overdue when one of them is behind', () => {
    const ready = { type: 'Ready', status: 'True', reason: 'MembersReady' } as const;
    const target = aConvergedShard();

    const behind = target.withStatus({
      conditions: (target.withCondition(ready).build().status?.conditions ?? []).map((condition) =>
        condition.type === 'PodsUpToDate' ? { ...condition, observedGeneration: 0 } : condition,
      ),
    });

    expect(isOverdue(poolPods, target.build(), now)).toBe(false);
    expect(isOverdue(poolPods, behind.build(), now)).toBe(true);
    expect(isOverdue(drainStep, behind.build(), now)).toBe(false);
  });
});
