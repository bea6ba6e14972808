import { readFileSync, writeSync } from 'node:fs';
import { type LoadHookSync, registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import { catalogue } from './catalogue.ts';
import { type Mutant, filesOf, inForcePrefix, mutantOf, mutatedSource } from './mutant.ts';

/**
 * Preloaded into a process that is to run with one guard taken off: `node --import ./test/world/mutants/load-mutant.ts …`
 * with `MILLRACE_MUTANT=<id>`. Without the variable it does nothing.
 *
 * The mutant's text is replaced while its file is loaded, before Node strips the types; nothing on disk changes. Worker
 * threads take over the options of the process, and child processes those in `NODE_OPTIONS`, so both are mutated too.
 *
 * Each file that is loaded with the mutant in force is told on stderr, behind {@link inForcePrefix}: whoever runs
 * it can tell a mutant that survived from one that was never loaded. An unknown id, and a text that does not occur exactly
 * once, end the process.
 */
const id = process.env['MILLRACE_MUTANT'];
if (id !== undefined && id !== '') {
  registerHooks({ load: loaderOf(mutantOf(catalogue, id)) });
}

function loaderOf(mutant: Mutant): LoadHookSync {
  const root = new URL('../../../', import.meta.url);
  const files = new Map(filesOf(mutant).map((file) => [new URL(file, root).href, file]));
  return (url, context, nextLoad) => {
    const loaded = nextLoad(url, context);
    const file = files.get(url);
    if (file === undefined) {
      return loaded;
    }
    // Not what `nextLoad` read: its text may have been through another hook, and the catalogue is about the file.
    const source = mutatedSource(mutant, file, readFileSync(fileURLToPath(url), 'utf8'));
    // To the descriptor itself: a worker thread's `process.stderr` is lost when the thread ends early.
    writeSync(2, `${inForcePrefix(mutant.id)}${file}\n`);
    return { ...loaded, source };
  };
}
