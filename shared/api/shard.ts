import type { V1PodSpec } from '@kubernetes/client-node';
import * as z from 'zod';
import type { AsJson } from '#shared/kube/json.ts';
import { backupScheduleSchema, backupStatusFields } from './backup.ts';
import { cleanupSchema, cleanupStatusFields } from './cleanup.ts';
import { type Condition, conditionSchema } from './condition.ts';
import { drainCauses } from './drain-record.ts';
import { durationPattern, maxDurationLength } from './duration.ts';
import { type ApiRule, immutable, label, listMap, objectName, text, withRules } from './fields.ts';
import type { ObjectMetadata } from './metadata.ts';
import { type JobTemplate, jobTemplateSchema } from './job-template.ts';
import { storageOf } from './storage.ts';
import { namedSchema, templateMetadata } from './template.ts';

export type { Condition };

const onlyTableGroup: ApiRule = {
  rule: "self == 'default'",
  message: 'leave tableGroup out, or set it to default: Multigres knows no other',
};
const onlyShard: ApiRule = {
  rule: "self == '0-inf'",
  message: 'leave shard out, or set it to 0-inf: Multigres knows no other',
};
const poolsAreKept: ApiRule = {
  rule: 'oldSelf.all(old, self.exists(pool, pool.name == old.name))',
  message:
    'keep every pool, under its name: its pods, claims and topology records would be orphaned',
};
const cellsAreKept: ApiRule = {
  rule: 'oldSelf.all(old, old in self)',
  message:
    'keep every cell, under its name: its pods, claims and topology records would be orphaned',
};
const cellsDiffer: ApiRule = {
  rule: 'self.all(cell, self.exists_one(other, other == cell))',
  message: 'name each cell once',
};
const memberCount: ApiRule = {
  rule: 'self >= 1 && self <= 32',
  message:
    'set replicasPerCell to 1 or more, and at most 32: a pool keeps a member in each of its cells',
};
const modeIsKept: ApiRule = {
  rule: 'has(self.podTemplate) == has(oldSelf.podTemplate)',
  message:
    'podTemplate can be neither added to a pool nor taken away: add another pool, since two owners of the same members would undo each other',
};
const storageForPods: ApiRule = {
  rule: '!has(self.podTemplate) || has(self.storage)',
  message:
    'give storage with podTemplate, at least its size: it is for the claim that each pod mounts as data',
};
const dataIsOurs: ApiRule = {
  rule: "self.all(volume, volume.name != 'data')",
  message: "leave the volume data out and only mount it: Millrace puts each pod's own claim there",
};
const placeIsOpen: ApiRule = {
  rule: '!has(self.nodeName)',
  message: 'leave nodeName out and use affinity or nodeSelector: all pods would be on one node',
};
const hostIsOurs: ApiRule = {
  rule: '!has(self.hostname) && !has(self.subdomain)',
  message: 'leave hostname and subdomain out: Millrace sets them for each pod',
};
const runsForEver: ApiRule = {
  rule: "(!has(self.restartPolicy) || self.restartPolicy == 'Always') && !has(self.activeDeadlineSeconds)",
  message:
    'leave restartPolicy (or set it to Always) and activeDeadlineSeconds out: a member runs until it is drained',
};
const stopsGracefully: ApiRule = {
  rule: '!has(self.terminationGracePeriodSeconds) || self.terminationGracePeriodSeconds >= 1',
  message:
    'give terminationGracePeriodSeconds at least 1, better 30: with 0 a pod is forgotten while it still runs',
};
const jobsHaveATemplate: ApiRule = {
  rule: "has(self.jobTemplate) || self.schedules.all(schedule, schedule.engine != 'job')",
  message: 'give jobTemplate too: schedules with engine job make their Jobs from it',
};
const isDeadline: ApiRule = {
  rule: `self.matches('${durationPattern}') && duration(self) >= duration('10s')`,
  message:
    'give deadline as a duration of at least 10s, for example 5m or 1h30m: two looks that are 5s apart must fit in',
};

const storageSchema = storageOf(
  'The data claim of each member. Needed with `podTemplate`, unused without it.',
  immutable('storage', 'claims are not resized yet; add another pool with the storage you want'),
);

const podMetadataSchema = templateMetadata(
  'the pods',
  'Labels and annotations. A change reaches running pods in place.',
);

const podSpecSchema = z
  .looseObject({
    containers: z
      .array(namedSchema)
      .min(1)
      .max(32)
      .meta({ description: 'The containers of a member.', ...listMap('name') }),
    volumes: z
      .array(namedSchema)
      .max(64)
      .optional()
      .meta({
        description:
          'Volumes besides `data`, which a container mounts without it being here. A volume `backup` gives way to the claim of the backups where these are in a file system.',
        ...listMap('name'),
        ...withRules(dataIsOurs),
      }),
    nodeName: z.string().max(253).optional().meta({ description: 'Not to be given.' }),
    hostname: z.string().max(63).optional().meta({ description: 'Not to be given.' }),
    subdomain: z.string().max(63).optional().meta({ description: 'Not to be given.' }),
    restartPolicy: z.string().max(16).optional().meta({ description: '`Always`.' }),
    activeDeadlineSeconds: z
      .int()
      .optional()
      .meta({ description: 'Not to be given.', format: 'int64' }),
    terminationGracePeriodSeconds: z.int().optional().meta({
      description: 'Time to stop in, in seconds: at least 1. Kubernetes takes 30 when not given.',
      format: 'int64',
    }),
  })
  .meta({
    description:
      'A PodSpec with all its fields. Millrace adds the hostname, the subdomain, the volume `data`, and what members need to reach the repository that the Database names.',
    ...withRules(placeIsOpen, hostIsOurs, runsForEver, stopsGracefully),
  });

const podTemplateSchema = z
  .object({ metadata: podMetadataSchema.optional(), spec: podSpecSchema })
  .meta({
    description:
      "The pods of the pool. Without it the pool is in attach mode: its pods are somebody else's and are found by the labels of Millrace; they are drained on request, never because of their number.",
  });

const poolSchema = z
  .object({
    name: label(25, 'Its name, unique in the Shard.'),
    cells: z
      .array(label(30, 'A cell.'))
      .min(1)
      .max(16)
      .meta({
        description: 'The cells it has members in. Cells can be added, not taken away.',
        'x-kubernetes-list-type': 'atomic',
        ...withRules(cellsDiffer, cellsAreKept),
      }),
    replicasPerCell: z
      .int()
      .default(1)
      .meta({
        description: 'How many members it has in each cell: 1 to 32.',
        format: 'int32',
        ...withRules(memberCount),
      }),
    storage: storageSchema.optional(),
    podTemplate: podTemplateSchema.optional(),
    pvcPolicy: z
      .object({
        whenScaled: z.enum(['Retain', 'Delete']).default('Retain').meta({
          description: 'Of a member that left because the pool became smaller.',
        }),
      })
      .default({ whenScaled: 'Retain' })
      .meta({ description: 'What becomes of the claims.' }),
  })
  .meta({ description: 'A pool of members.', ...withRules(modeIsKept, storageForPods) });

/** The spec of a Shard. */
export const shardSpecSchema = z
  .object({
    databaseRef: z
      .object({
        name: label(
          30,
          'Name of a Database in this namespace.',
          immutable('databaseRef.name', 'create another Shard for another Database'),
        ),
      })
      .meta({ description: 'The Database it belongs to.' }),
    tableGroup: text(
      25,
      'Its table group in the data plane.',
      onlyTableGroup,
      immutable('tableGroup', 'create another Shard'),
    ).default('default'),
    shard: text(
      25,
      'Its name in the data plane.',
      onlyShard,
      immutable('shard', 'create another Shard'),
    ).default('0-inf'),
    paused: z.boolean().default(false).meta({
      description: 'Every step observes and none acts, whatever its record authorises.',
    }),
    pools: z
      .array(poolSchema)
      .min(1)
      .max(8)
      .meta({
        description: 'Its members. Pools can be added, not taken away.',
        ...listMap('name'),
        ...withRules(poolsAreKept),
      }),
    drain: z
      .object({
        deadline: text(
          maxDurationLength,
          'When a drain counts as stuck and asks for a person; the pod stays then.',
          isDeadline,
        ).default('5m'),
      })
      .default({ deadline: '5m' })
      .meta({ description: 'How members leave.' }),
    backup: z
      .object({
        schedules: z
          .array(backupScheduleSchema)
          .max(8)
          .default([])
          .meta({
            description:
              'When which backups are made. One at a time, the one due first before others.',
            ...listMap('name'),
          }),
        jobTemplate: jobTemplateSchema.optional(),
      })
      .optional()
      .meta({ description: 'Its backups.', ...withRules(jobsHaveATemplate) }),
    cleanup: cleanupSchema.default({
      enabled: true,
      quietFor: '10m',
      deleteAfter: '24h',
      maxPerPass: 1,
    }),
  })
  .meta({ description: 'What the shard shall be.' });

/**
 * The status of a Shard. Each field has one step that writes it.
 *
 * Its texts have no bounds: these could only keep a step from saying what it found.
 */
export const shardStatusSchema = z
  .object({
    observedGeneration: z.int().min(0).optional().meta({
      description: 'The `metadata.generation` that pool-pods last looked at.',
      format: 'int64',
    }),
    conditions: z
      .array(conditionSchema)
      .optional()
      .meta({ description: 'Each type is written by one step.', ...listMap('type') }),
    pools: z
      .array(
        z.object({
          name: z.string().meta({ description: 'The pool.' }),
          cell: z.string().meta({ description: 'The cell.' }),
          desired: z.int().min(0).meta({ description: 'Members wanted.', format: 'int32' }),
          ready: z.int().min(0).meta({ description: 'Members ready.', format: 'int32' }),
        }),
      )
      .optional()
      .meta({
        description: 'The members of each pool in each cell (pool-pods).',
        ...listMap('name', 'cell'),
      }),
    primary: z
      .object({
        pod: z.string().meta({ description: "Its pod; empty where no pod of the Shard's is it." }),
        pooler: z.string().meta({ description: 'Its pooler in the topology, `<cell>/<name>`.' }),
        rule: z.string().meta({ description: 'The rule it leads under, `<term>.<subterm>`.' }),
      })
      .optional()
      .meta({ description: 'The primary, as the last look at the topology had it (drain-step).' }),
    drain: z
      .object({
        pod: z.string().meta({ description: 'Its pod.' }),
        cause: z.enum(drainCauses).meta({ description: 'Why it leaves.' }),
        since: z.string().meta({ description: 'When it was chosen.', format: 'date-time' }),
        waitsFor: z
          .string()
          .optional()
          .meta({ description: 'What it waits for once it is stuck.' }),
      })
      .optional()
      .meta({ description: 'The member that is leaving (drain-step).' }),
    ...backupStatusFields,
    ...cleanupStatusFields,
  })
  .meta({ description: 'What the steps found.' });

export type ShardStatus = z.output<typeof shardStatusSchema>;

type PoolFields = Omit<z.output<typeof poolSchema>, 'podTemplate' | 'storage'>;
type Storage = z.output<typeof storageSchema>;

/** A pool whose pods Millrace makes. */
export type ManagedPool = PoolFields & {
  readonly storage: Storage;
  readonly podTemplate: {
    readonly metadata?: z.output<typeof podMetadataSchema>;
    readonly spec: AsJson<V1PodSpec>;
  };
};

/** A pool in attach mode: its pods are somebody else's. */
type AttachedPool = PoolFields & {
  readonly storage?: Storage;
  readonly podTemplate?: undefined;
};

/** One pool of a Shard; `podTemplate` tells which of the two it is. */
export type Pool = ManagedPool | AttachedPool;

type SpecFields = z.output<typeof shardSpecSchema>;
type BackupFields = NonNullable<SpecFields['backup']>;

type ShardSpec = Omit<SpecFields, 'pools' | 'backup'> & {
  readonly pools: readonly Pool[];
  readonly backup?: Omit<BackupFields, 'jobTemplate'> & { readonly jobTemplate?: JobTemplate };
};

/** A Shard as the API server returns it: every default is there. */
export interface Shard {
  readonly apiVersion: 'millrace.dev/v1alpha1';
  readonly kind: 'Shard';
  readonly metadata: ObjectMetadata;
  readonly spec: ShardSpec;
  readonly status?: ShardStatus;
}

/** Rules over the whole object. */
export const shardRules: readonly ApiRule[] = [objectName];
