#!/usr/bin/env node
// The command for any Node: an old one cannot even load TypeScript, so it is told so before anything else is loaded.
// oxlint-disable-next-line import/no-unassigned-import -- it is run, not used
import './node-version.mjs';

// Only now: an old Node has no such function. What was compiled is kept in the user's own folder, which halves each later start;
// Node compares it with the source, and NODE_COMPILE_CACHE and NODE_DISABLE_COMPILE_CACHE have the last word.
const [{ enableCompileCache }, { existsSync }, { homedir }, path] = await Promise.all([
  import('node:module'),
  import('node:fs'),
  import('node:os'),
  import('node:path'),
]);
if (existsSync(homedir())) {
  enableCompileCache(path.join(homedir(), '.cache', 'millrace', 'compiled'));
}

const { runProgram } = await import('./program.ts');
process.exitCode = await runProgram(process.argv.slice(2));
