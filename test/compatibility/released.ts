import { readFileSync, readdirSync } from 'node:fs';
import { compareVersions } from '#infra/cli/version-order.ts';
import { version } from '#shared/api/version.ts';
import { type Speech, speechSchema } from './speech.ts';

/** The newest release there is a snapshot of that is no newer than this code. */
export function lastReleased(): Speech {
  const newest = readdirSync(new URL('.', import.meta.url))
    .filter((file) => file.endsWith('.json'))
    .map((file) => file.replace(/\.json$/, ''))
    .filter((release) => (compareVersions(release, version) ?? 1) <= 0)
    .toSorted((a, b) => compareVersions(a, b) ?? 0)
    .at(-1);
  if (newest === undefined) {
    throw new Error(`there is no snapshot of a release up to ${version}`);
  }
  const text = readFileSync(new URL(`${newest}.json`, import.meta.url), 'utf8');
  return speechSchema.parse(JSON.parse(text));
}
