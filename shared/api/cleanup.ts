import * as z from 'zod';
import { durationPattern, maxDurationLength } from './duration.ts';
import { type ApiRule, text, withRules } from './fields.ts';

const isQuietTime: ApiRule = {
  rule: `self.matches('${durationPattern}') && duration(self) >= duration('5s')`,
  message:
    'give quietFor as a duration of at least 5s, better 10m: a member that only restarts must be back before it is over',
};
const isDeleteTime: ApiRule = {
  rule: `self.matches('${durationPattern}')`,
  message: 'give deleteAfter as a duration, for example 24h',
};
const passSize: ApiRule = {
  rule: 'self >= 1 && self <= 8',
  message: 'set maxPerPass to 1 or more, and at most 8',
};
const deletedLast: ApiRule = {
  rule: `!self.quietFor.matches('${durationPattern}') || !self.deleteAfter.matches('${durationPattern}') || duration(self.deleteAfter) >= duration(self.quietFor)`,
  message: 'give a deleteAfter that is not shorter than quietFor',
};

/** What becomes of the pooler records of members that are gone. */
export const cleanupSchema = z
  .object({
    enabled: z.boolean().default(true).meta({
      description: 'Without it such records are only told in the status, and none is changed.',
    }),
    quietFor: text(
      maxDurationLength,
      'How long a record must have had no member, and not have been written, before it is marked as stopped; a pause as long follows each pass. At least 5s.',
      isQuietTime,
    ).default('10m'),
    deleteAfter: text(
      maxDurationLength,
      'How long a record that is marked as stopped stays unwritten before it is deleted; not shorter than quietFor.',
      isDeleteTime,
    ).default('24h'),
    maxPerPass: z
      .int()
      .default(1)
      .meta({
        description:
          "How many records are marked or deleted in one pass: 1 to 8, and never more than a third (rounded up) of the Shard's records.",
        format: 'int32',
        ...withRules(passSize),
      }),
  })
  .meta({
    description: 'The pooler records of members that are gone.',
    ...withRules(deletedLast),
  });

/**
 * Why a pooler record is told of. Those of `NoPod` and `Stopped` go in their time, the others are left to people:
 * `Answers`: its pooler is alive, although no pod is it. `Leads`: nobody else claims to lead. `SetAside`: the data plane
 * quarantined it. `Undecodable`: not a record that this version can read.
 */
export const staleCauses = [
  'NoPod',
  'Stopped',
  'Answers',
  'Leads',
  'SetAside',
  'Undecodable',
] as const;
export type StaleCause = (typeof staleCauses)[number];

/** What etcd-cleanup writes into the status of a Shard. */
export const cleanupStatusFields = {
  cleanup: z
    .object({
      candidates: z
        .array(
          z.object({
            pooler: z.string().meta({
              description:
                'The pooler, `<cell>/<name>`; of a record that cannot be decoded its key.',
            }),
            why: z.enum(staleCauses).meta({
              description:
                '`NoPod` and `Stopped` (it said so itself, or was marked) go in their time; records that are `Answers`, `Leads`, `SetAside` or `Undecodable` are left.',
            }),
            since: z
              .string()
              .optional()
              .meta({ description: 'When it was first seen like that.', format: 'date-time' }),
          }),
        )
        .optional()
        .meta({
          description: 'Pooler records that no member explains; the first ten.',
          'x-kubernetes-list-type': 'atomic',
        }),
      lastRemoved: z
        .object({
          pooler: z.string().meta({ description: 'The pooler, `<cell>/<name>`.' }),
          at: z.string().meta({ description: 'When it was gone.', format: 'date-time' }),
        })
        .optional()
        .meta({ description: 'The record that was deleted last.' }),
    })
    .optional()
    .meta({ description: 'The pooler records of members that are gone (etcd-cleanup).' }),
};
