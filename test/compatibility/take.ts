import { writeFile } from 'node:fs/promises';
import { harvest } from './harvest.ts';
import { speechOf } from './speech.ts';

/** Writes down what this release speaks, for the releases after it to be held to: CONTRIBUTING.md, How a release is made. */
const speech = speechOf(await harvest());
const file = new URL(`${speech.version}.json`, import.meta.url);
await writeFile(file, `${JSON.stringify(speech, null, 2)}\n`);
console.log(`wrote ${file.pathname}`);
