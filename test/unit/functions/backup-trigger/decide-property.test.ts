import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decide } from '#functions/backup-trigger/decide.ts';
import { backupTrigger } from '#functions/backup-trigger/step.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { execute } from '#shared/kernel/execute.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { aShard } from '#test/builders/shard.ts';
import { anInvocation, aWriter } from '#test/unit/shared/kernel/an-execution.ts';
import { at, kindsOf, now } from './a-backup.ts';
import { anySnapshot, seconds } from './any-snapshot.ts';

const starts: ReadonlySet<string> = new Set(['startBackup', 'startJob']);

describe('every decision', () => {
  test('is total, and the same for the same view', () => {
    fc.assert(
      fc.property(anySnapshot, seconds, (snapshot, later) => {
        const decision = decide(snapshot, at(later));

        expect(decide(structuredClone(snapshot), at(later))).toEqual(decision);
      }),
      { numRuns: 2000 },
    );
  });

  test('begins a backup only where everything that could forbid it is known not to (B1, B7)', () => {
    fc.assert(
      fc.property(anySnapshot, seconds, (snapshot, later) => {
        const decision = decide(snapshot, at(later));
        const send = kindsOf(decision).find((kind) => starts.has(kind));
        if (send === undefined) {
          return;
        }

        expect(snapshot.lease.kind).toBe('absent');
        expect(snapshot.backups.kind).toBe('present');
        expect(snapshot.drain.kind).toBe('clear');
        expect(snapshot.shard.isPaused).toBe(false);
        const data = snapshot.record.kind === 'ours' ? snapshot.record.record.data : undefined;
        expect(data?.run).toBeUndefined();
        const earlier = data?.left ?? data?.leftJob;
        expect(earlier === undefined || snapshot.job.kind !== 'unknown').toBe(true);
        expect(kindsOf(decision)).toEqual(['advance', send]);
      }),
      { numRuns: 3000 },
    );
  });

  test('is one the executor accepts', async () => {
    await fc.assert(
      fc.asyncProperty(anySnapshot, seconds, async (snapshot, later) => {
        const { record, shard } = snapshot;
        const built = aShard().build();
        const target: KubeObject<'Shard'> = {
          ...built,
          metadata: {
            ...built.metadata,
            uid: shard.uid,
            generation: shard.generation,
            annotations:
              record.text === null ? {} : { [recordAnnotation('backup-trigger')]: record.text },
          },
        };
        const decision = decide(snapshot, at(later));

        const execution = await execute(
          backupTrigger,
          target,
          decision,
          aWriter().writers,
          anInvocation({ clock: () => at(later) }),
        );

        expect(execution.kind).toBe('done');
      }),
      { numRuns: 1000 },
    );
  });
});

test('the situations begin backups, watch and end them', () => {
  // Always the same ones: that one is rare says nothing about the step.
  const situations = fc.sample(anySnapshot, { numRuns: 4000, seed: 1 });
  const reasons = new Set(situations.map((snapshot) => decide(snapshot, now).reason));

  expect([...reasons]).toEqual(
    expect.arrayContaining([
      'BackupAsked',
      'JobReleased',
      'BackupRunning',
      'BackupSucceeded',
      'BackupFailed',
      'SlotsSkipped',
      'AwaitingSlot',
      'BackupLeaseHeld',
    ]),
  );
});
