#!/usr/bin/env node
// The command for any Node: an old one cannot even load TypeScript, so it is told so here.
// oxlint-disable-next-line import/no-unassigned-import -- it is run, not used
import './node-version.mjs';

await import('./millrace.ts');
