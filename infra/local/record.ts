import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { folderSegments } from '#shared/archive/folder-segments.ts';
import { stepNames } from '#shared/api/steps.ts';
import { readArchive } from '#shared/archive/read-archive.ts';
import { chooseSamples } from './show/samples.ts';
import { runShow } from './show/show.ts';

/** What the samples may weigh together, so that people still read them, in bytes. */
const mostBytes = 300_000;

const samples = fileURLToPath(new URL('../../events/samples/decisions/', import.meta.url));

/**
 * Records events/samples/decisions anew: plays the show, and keeps one look of each sort. Exits 1 where a scene did not hold,
 * where the archived form of a look is decided otherwise, and where there is too much.
 */
const { from } = new Command('npm run record --')
  .description('Records the sample decisions anew, from the show or from an archive of it.')
  .option('--from <folder>', 'an archive that `npm start -- --record` has left')
  .parse()
  .opts<{ readonly from?: string }>();

const folder = from ?? (await mkdtemp(join(tmpdir(), 'millrace-record-')));
try {
  process.exitCode = from === undefined ? await runShow(['--record', folder]) : 0;
  if (process.exitCode === 0) {
    process.exitCode = await keep(folder);
  }
} finally {
  if (from === undefined) {
    await rm(folder, { recursive: true, force: true });
  }
}

async function keep(archive: string): Promise<0 | 1> {
  const { files, looks, bytes, unfaithful } = await chooseSamples(
    readArchive(folderSegments(archive), { kinds: ['decision'], steps: stepNames }),
    mostBytes,
  );
  if (unfaithful.length > 0) {
    console.error(`archived looks are decided otherwise: ${unfaithful.join(', ')}`);
    return 1;
  }
  if (looks === 0 || bytes > mostBytes) {
    console.error(`there are ${bytes} bytes of samples; some are needed, and at most ${mostBytes}`);
    return 1;
  }
  await rm(samples, { recursive: true, force: true });
  await mkdir(samples, { recursive: true });
  for (const [name, content] of files) {
    await writeFile(join(samples, name), content);
  }
  console.log(`${looks} looks, about ${bytes} bytes, in ${[...files.keys()].join(', ')}`);
  return 0;
}
