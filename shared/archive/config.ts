import * as z from 'zod';
import { type ArchivePlace, parsePlace, placeForms } from './place.ts';

/** Which decisions are recorded: those of looks that failed, all, or none. */
export const recordedChoices = ['failures', 'all', 'off'] as const;
export type Recorded = (typeof recordedChoices)[number];

/** An archive's place as a variable or an option says it. */
export const placeSchema = z.string().transform((text, context): ArchivePlace => {
  const place = parsePlace(text);
  if (place === undefined) {
    context.addIssue(`is no archive: give ${placeForms}`);
    return z.NEVER;
  }
  return place;
});

/** What a function's environment says of the archive. Without a place nothing is recorded. */
export const archiveVariables = {
  MILLRACE_ARCHIVE: placeSchema.optional(),
  MILLRACE_ARCHIVE_DECISIONS: z
    .enum(recordedChoices, `must be one of ${recordedChoices.join(', ')}`)
    .default('failures'),
};

/** How a bucket is reached: the SDK's own variables, of which the more particular one counts. */
export const bucketSchema = z.object({
  AWS_REGION: z.string().default('us-east-1'),
  AWS_ENDPOINT_URL_S3: z.url('must be a URL').optional(),
  AWS_ENDPOINT_URL: z.url('must be a URL').optional(),
});
