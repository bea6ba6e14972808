import fc from 'fast-check';
import { test } from 'vitest';
import { backupConfig } from '#functions/backup-config/step.ts';
import { archivedSoundly } from '#test/unit/shared/archive/an-archive.ts';
import { now } from './a-look.ts';
import { anySnapshot } from './any-snapshot.ts';

test('the decision over an archived snapshot is that over the snapshot', async () => {
  await fc.assert(
    fc.asyncProperty(anySnapshot, async (snapshot) => {
      await archivedSoundly(backupConfig, snapshot, now);
    }),
    { numRuns: 500 },
  );
});
