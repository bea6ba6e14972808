import type { V1PodSpec } from '@kubernetes/client-node';
import * as z from 'zod';
import type { AsJson } from '#shared/kube/json.ts';
import { type ApiRule, listMap, withRules } from './fields.ts';
import { namedSchema, templateMetadata } from './template.ts';

const runsOnce: ApiRule = {
  rule: "!has(self.restartPolicy) || self.restartPolicy == 'Never'",
  message:
    'leave restartPolicy out, or set it to Never: an attempt at a backup runs once, and onUnknown says whether another is made',
};

const metadataSchema = templateMetadata(
  'the Jobs and their pods',
  'Labels and annotations of each Job and of its pod.',
);

const podSpecSchema = z
  .looseObject({
    containers: z
      .array(namedSchema)
      .min(1)
      .max(32)
      .meta({
        description:
          'What makes the backup. Each container, also of `initContainers`, gets `MILLRACE_DATABASE`, `MILLRACE_TABLE_GROUP`, `MILLRACE_SHARD`, `MILLRACE_BACKUP_TYPE`, `MILLRACE_BACKUP_SLOT` and `MILLRACE_BACKUP_SCHEDULE`; what it sets itself stays.',
        ...listMap('name'),
      }),
    restartPolicy: z.string().max(16).optional().meta({ description: '`Never`.' }),
  })
  .meta({
    description:
      'A PodSpec with all its fields. A run that is to end at some time says so with `activeDeadlineSeconds`.',
    ...withRules(runsOnce),
  });

/** What the Jobs of a Shard's backups are made from. */
export const jobTemplateSchema = z
  .object({ metadata: metadataSchema.optional(), spec: podSpecSchema })
  .meta({
    description:
      'The pods of the Jobs that make the backups of schedules with the engine `job`. All else of a Job is set by Millrace.',
  });

/** The template as the API server returns it. */
export type JobTemplate = {
  readonly metadata?: z.output<typeof metadataSchema>;
  readonly spec: AsJson<V1PodSpec>;
};
