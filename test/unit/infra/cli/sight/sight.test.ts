import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { seenPod, seenTarget } from '#infra/cli/sight/seen.ts';
import { explanationOf, sightOf } from '#infra/cli/sight/sight.ts';
import { explanationText, statusText } from '#infra/cli/sight/tell.ts';
import { backupConfigStates } from '#functions/backup-config/record.ts';
import { backupStates } from '#functions/backup-trigger/record.ts';
import { cleanupStates } from '#functions/etcd-cleanup/record.ts';
import { poolPodsStates } from '#functions/pool-pods/record.ts';
import { releaseStates } from '#functions/shard-release/record.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { drainStates } from '#shared/api/drain-record.ts';
import { reasons } from '#shared/api/reasons.ts';
import { stepNames } from '#shared/api/steps.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { TargetKind } from '#shared/kube/resources.ts';

const now = Date.parse('2026-01-01T00:00:00Z') as Instant;

const time = fc.oneof(
  fc.constantFrom(
    '2025-12-31T23:59:00Z',
    '2026-01-02T00:00:00Z',
    '',
    'soon',
    '9999-99-99T99:99:99Z',
  ),
  fc.string(),
);
const reason = fc.oneof(fc.constantFrom(...reasons), fc.string());
const condition = fc.record(
  {
    type: fc.oneof(
      fc.constantFrom(
        'Ready',
        'Reconciling',
        'Stalled',
        'Drained',
        'PodsUpToDate',
        'BackupsOnSchedule',
        'TopologyClean',
        'BackupConfigured',
        'Released',
      ),
      fc.string(),
    ),
    status: fc.constantFrom('True', 'False', 'Unknown', 'Perhaps'),
    reason,
    message: fc.oneof(fc.string(), fc.constant('it is so; to go on: run: kubectl get pods')),
    observedGeneration: fc.oneof(fc.integer(), fc.string()),
    lastTransitionTime: time,
  },
  { requiredKeys: ['type', 'status', 'reason'] },
);

const run = fc.record({
  schedule: fc.constantFrom('nightly', '@now'),
  slot: fc.constant('2025-12-31T02:00:00Z'),
  type: fc.constant('full'),
  attempt: fc.nat(3),
  at: fc.constant('2025-12-31T02:00:00.000Z'),
  until: fc.constant('2025-12-31T08:00:00.000Z'),
});
const leaver = fc.record({
  pod: fc.constant('orders-main-zone-a-0'),
  podUid: fc.constantFrom('pod-1', 'claim-1'),
  node: fc.constantFrom('', 'node-1'),
  claimUid: fc.constant('claim-1'),
  pool: fc.constant('main'),
  cell: fc.constant('zone-a'),
  index: fc.nat(4),
  pooler: fc.constant({ cell: 'zone-a', name: 'abc' }),
  cause: fc.constantFrom('surplus', 'requested', 'failed'),
  startedAt: fc.constant('2025-12-31T23:00:00Z'),
  forced: fc.boolean(),
});
const data = fc.oneof(
  fc.constant({}),
  leaver,
  run.map((one) => ({ schedules: {}, run: one })),
  fc.constant({ schedules: {} }),
  fc.constant({ seen: [] }),
  fc.constant({ seen: [], act: { pooler: 'zone-a/abc', rev: '7' } }),
  fc.integer({ min: 0 }).map((since) => ({
    leavers: [{ pod: 'a', uid: 'u', node: 'n:1', why: 'deleted', since, had: 3 }],
  })),
);
const states = [
  ...drainStates,
  ...poolPodsStates,
  ...backupConfigStates,
  ...backupStates,
  ...cleanupStates,
  ...releaseStates,
];
const record = fc
  .record({
    v: fc.constantFrom(1, 2),
    uid: fc.constantFrom('uid-1', 'uid-of-another'),
    key: fc.constant('key'),
    state: fc.constantFrom(...states),
    generation: fc.nat(5),
    attempt: fc.nat(3),
    since: fc.constantFrom('2025-12-31T23:00:00Z', '2026-01-01T00:00:00Z'),
    reason,
    wake: fc.constantFrom(
      { every: 5 },
      { every: 60 },
      { at: '2025-12-31T22:00:00Z' },
      { at: '2026-01-01T02:00:00Z' },
    ),
    data,
  })
  .map((value) => JSON.stringify(value));

const anything = fc.oneof(
  fc.anything(),
  fc.record({
    metadata: fc.record(
      {
        name: fc.constant('orders'),
        namespace: fc.constant('db'),
        uid: fc.constant('uid-1'),
        generation: fc.nat(5),
        creationTimestamp: time,
        deletionTimestamp: time,
        finalizers: fc.array(fc.string()),
        annotations: fc.dictionary(
          fc.constantFrom(...stepNames.map(recordAnnotation)),
          fc.oneof(record, fc.string(), fc.json()),
        ),
        managedFields: fc.array(fc.anything()),
      },
      { requiredKeys: ['name', 'namespace', 'uid', 'generation'] },
    ),
    spec: fc.oneof(
      fc.anything(),
      fc.record({ paused: fc.boolean(), databaseRef: fc.record({ name: fc.string() }) }),
    ),
    status: fc.oneof(
      fc.anything(),
      fc.record(
        {
          conditions: fc.array(condition),
          nextBackup: time,
          backups: fc.array(
            fc.record({
              schedule: fc.string(),
              lastResult: fc.string(),
              lastReason: fc.string(),
              lastSuccess: time,
              next: fc.array(time),
            }),
          ),
        },
        { requiredKeys: [] },
      ),
    ),
  }),
);

describe('whatever stands in an object', () => {
  test('it is explained, in plain JSON and always the same', () => {
    fc.assert(
      fc.property(
        fc.constantFrom<TargetKind>('Shard', 'Database', 'GoverseCluster'),
        anything,
        fc.option(anything, { nil: undefined }),
        fc.array(anything, { maxLength: 3 }),
        (kind, object, database, pods) => {
          const scene = {
            target: seenTarget(kind, object),
            now,
            pods: pods.map(seenPod),
            ...(database === undefined ? {} : { database: seenTarget('Database', database) }),
          };

          const explanation = explanationOf(scene);

          expect(JSON.parse(JSON.stringify(explanation))).toEqual(explanation);
          expect(explanationOf(scene)).toEqual(explanation);
          expect(sightOf(scene)).toEqual(explanation.sight);
          expect(explanation.sight.standing === 'stuck').toBe(
            explanation.sight.attention === 'needed',
          );
          expect(explanationText(explanation, 80)).toContain('Step by step');
          expect(statusText([explanation.sight], 'wide', now)).toContain('1 target');
        },
      ),
      { numRuns: 500 },
    );
  });
});
