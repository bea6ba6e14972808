import * as z from 'zod';
import { readConfig } from '#shared/kernel/config.ts';
import type { Recorder } from '#shared/kernel/look-story.ts';
import { archiveVariables } from './config.ts';
import { openSegmentWriter } from './open.ts';

const recorderSchema = z.object(archiveVariables);

/**
 * The recorder that a function's environment asks for; none where it names no archive. What writes is loaded when something is
 * recorded.
 *
 * @throws ConfigurationError
 */
export function openRecorder(
  environment: Readonly<Record<string, string | undefined>>,
  cluster: string,
): Recorder | undefined {
  const { MILLRACE_ARCHIVE: place, MILLRACE_ARCHIVE_DECISIONS: recorded } = readConfig(
    recorderSchema,
    environment,
  );
  if (place === undefined || recorded === 'off') {
    return undefined;
  }
  const writer = openSegmentWriter(place, environment);
  return {
    recorded,
    async record(step, stories, signal) {
      const { writeStories } = await import('./write-stories.ts');
      await writeStories({ writer, cluster }, step, stories, signal);
    },
  };
}
