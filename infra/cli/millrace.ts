#!/usr/bin/env node
// Loads nothing before the version of Node is known to be enough: the rest comes by a dynamic import.
// oxlint-disable-next-line import/no-unassigned-import -- it is run, not used
import './node-version.mjs';

const { runProgram } = await import('./program.ts');
process.exitCode = await runProgram(process.argv.slice(2));
