import fc from 'fast-check';
import { test } from 'vitest';
import { backupTrigger } from '#functions/backup-trigger/step.ts';
import { archivedSoundly } from '#test/unit/shared/archive/an-archive.ts';
import { at } from './a-backup.ts';
import { anySnapshot, seconds } from './any-snapshot.ts';

test('the decision over an archived snapshot is that over the snapshot', async () => {
  await fc.assert(
    fc.asyncProperty(anySnapshot, seconds, async (snapshot, later) => {
      await archivedSoundly(backupTrigger, snapshot, at(later));
    }),
    { numRuns: 500 },
  );
});
