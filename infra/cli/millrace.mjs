#!/usr/bin/env node
// The command for any Node: an old one cannot even load TypeScript, so it is told so before anything else is loaded.
// oxlint-disable-next-line import/no-unassigned-import -- it is run, not used
import './node-version.mjs';

const { runProgram } = await import('./program.ts');
process.exitCode = await runProgram(process.argv.slice(2));
