import { runShow } from './show/show.ts';

process.exitCode = await runShow(process.argv.slice(2));
