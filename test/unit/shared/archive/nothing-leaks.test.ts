import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import type { ManagedPool } from '#shared/api/shard.ts';
import { archivedLook } from '#shared/archive/archived-look.ts';
import { present } from '#shared/kernel/read.ts';
import { backupTrigger } from '#functions/backup-trigger/step.ts';
import { drainStep } from '#functions/drain-step/step.ts';
import { poolPods } from '#functions/pool-pods/step.ts';
import { aShard, aTemplate } from '#test/builders/shard.ts';
import {
  aJob,
  aRun,
  aSchedule,
  aShardWith,
  at,
} from '#test/unit/functions/backup-trigger/a-backup.ts';
import { aShardOf, now as drainNow } from '#test/unit/functions/drain-step/a-drain.ts';
import { aSnapshotOf, now } from '#test/unit/functions/pool-pods/a-snapshot.ts';
import { archivedSoundly } from './an-archive.ts';

type PodSpec = ManagedPool['podTemplate']['spec'];

const canary = 'canary';

/** Anything that JSON can hold, full of canaries: also in its names. */
const { anything } = fc.letrec<{ anything: unknown; object: { [name: string]: unknown } }>(
  (tie) => ({
    anything: fc.oneof(
      { maxDepth: 3 },
      fc.constantFrom(canary, `--password=${canary}`),
      fc.array(tie('anything'), { maxLength: 3 }),
      tie('object'),
    ),
    object: fc.dictionary(fc.constantFrom('a', canary), tie('anything'), { maxKeys: 2 }),
  }),
);

/** Fields of a pod's spec, of its containers and volumes, some of which are real ones. */
const further = fc.dictionary(
  fc.constantFrom('image', 'command', 'args', 'resources', 'affinity', 'hostPath', 'rest', canary),
  anything,
  { maxKeys: 4 },
);

const podSpec: fc.Arbitrary<PodSpec> = fc
  .record({
    spec: further,
    container: further,
    volume: further,
    mount: further,
    variable: fc.oneof(
      fc.constant({ value: canary }),
      anything.map((valueFrom) => ({ valueFrom })),
    ),
    hasInit: fc.boolean(),
    names: fc.constantFrom('AWS_ACCESS_KEY_ID', 'MILLRACE_SHARD', 'OTHER'),
  })
  .map(({ spec, container, volume, mount, variable, hasInit, names }) => {
    const full = {
      ...container,
      name: 'main',
      env: [{ name: names, ...variable }],
      volumeMounts: [{ ...mount, name: 'data', mountPath: '/data' }],
    };
    const init = hasInit ? { initContainers: [full] } : {};
    const volumes = [{ ...volume, name: 'tmp' }];
    return { ...spec, containers: [full], ...init, volumes } as PodSpec;
  });

const metadata = fc.record({
  labels: fc.constantFrom({}, { team: canary }),
  annotations: fc.constantFrom({}, { 'example.org/token': canary, 'millrace.dev': canary }),
});

describe('of what people write into templates, labels and annotations nothing is archived', () => {
  test('by pool-pods, whatever the template and whatever its pods carry', async () => {
    await fc.assert(
      fc.asyncProperty(
        podSpec,
        metadata,
        fc.nat({ max: 3 }),
        fc.constantFrom<(spec: PodSpec) => PodSpec>(
          (spec) => spec,
          () => aTemplate(),
        ),
        async (spec, given, members, madeWith) => {
          const made = aShard().withPool(3, {
            podTemplate: { metadata: given, spec: madeWith(spec) },
          });
          const { snapshot } = aSnapshotOf(members, made)
            .withClaim(5, { labels: { team: canary } })
            .withPod(6, { owner: 'foreign', labels: { team: canary } });
          const { pools, ...shard } = snapshot.shard;
          const looked = {
            ...snapshot,
            shard: {
              ...shard,
              pools: pools.map((pool) => ({ ...pool, podTemplate: { metadata: given, spec } })),
            } as typeof snapshot.shard,
          };

          const archived = await archivedSoundly(poolPods, looked, now);

          expect(JSON.stringify(archived)).not.toContain(canary);
        },
      ),
      { numRuns: 300 },
    );
  });

  test('also of one in whose lists there is what no pod could have', async () => {
    const container: { readonly [field: string]: unknown } = {
      name: 'main',
      env: [{ value: canary }, { name: 'A', value: canary }],
      volumeMounts: [{ name: 'data', mountPath: '/data' }, { mountPath: canary }],
      volumeDevices: null,
    };
    const spec: { readonly [field: string]: unknown } = {
      containers: [container, { ...container, env: null }],
      initContainers: null,
      volumes: null,
    };
    const made = aShard().withPool(3, { podTemplate: { spec: spec as PodSpec } });

    const archived = await archivedSoundly(poolPods, aSnapshotOf(2, made).snapshot, now);

    expect(JSON.stringify(archived)).not.toContain(canary);
  });

  test('by backup-trigger, whatever its Jobs are made from', async () => {
    await fc.assert(
      fc.asyncProperty(podSpec, metadata, async (spec, given) => {
        const snapshot = aShardWith(aSchedule({ engine: 'job' }))
          .shard({ jobTemplate: { metadata: given, spec } })
          .build();

        const archived = await archivedSoundly(backupTrigger, snapshot, at(1));

        expect(JSON.stringify(archived.decision)).toContain('startJob');
        expect(JSON.stringify(archived)).not.toContain(canary);
      }),
      { numRuns: 300 },
    );
  });
});

test('of a record that is not ours, or cannot be read, only what is wrong with it is archived', async () => {
  const texts = [
    canary,
    JSON.stringify({ v: 1, uid: canary }),
    JSON.stringify({ v: 1, uid: aShard().build().metadata.uid, [canary]: canary }),
  ];
  for (const text of texts) {
    const shard = aShard().build().metadata;
    const annotations = { 'step.millrace.dev/drain-step': text };
    const record = readDrainRecord({ ...shard, annotations });
    const snapshot = aShardOf(3).with({ record }).build();

    const archived = await archivedSoundly(drainStep, snapshot, drainNow);

    expect(record.kind).not.toBe('ours');
    expect(JSON.stringify(archived)).not.toContain(canary);
  }
});

test('of what the data plane says of a backup that failed only is archived that it is the same', async () => {
  const snapshot = aShardWith(aSchedule())
    .running(aRun({ job: 'job-1' }))
    .with({ job: present(aJob('failed', { why: canary })) })
    .build();

  const archived = await archivedSoundly(backupTrigger, snapshot, at(60));

  expect(archived.decision.reason).toBe('BackupFailed');
  expect(JSON.stringify(archived)).not.toContain(canary);
});

test('what a snapshot has besides, of whatever release, is left out', async () => {
  const { snapshot } = aSnapshotOf(3);
  const pods = snapshot.pods.kind === 'present' ? snapshot.pods.value : [];
  const looked = {
    ...snapshot,
    secret: canary,
    shard: { ...snapshot.shard, secret: canary },
    pods: present(pods.map((pod) => ({ ...pod, env: [{ name: 'a', value: canary }] }))),
  };

  const archived = await archivedLook(poolPods, looked, poolPods.decide(looked, now), now);

  expect(JSON.stringify(archived)).not.toContain(canary);
});
