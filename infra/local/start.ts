import { runShow } from './show/show.ts';

// What it started has ended by now. A scene that was cut off may still wait, for minutes, for what will not come.
process.exit(await runShow(process.argv.slice(2)));
