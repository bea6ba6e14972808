import * as z from 'zod';
import { conditionSchema } from './condition.ts';
import { etcdFields, etcdRules, serviceSchema } from './etcd.ts';
import { type ApiRule, immutable, listMap, objectName, text, withRules } from './fields.ts';
import type { ObjectMetadata } from './metadata.ts';
import { repositorySchema } from './repository.ts';

const isAdminUrl: ApiRule = {
  rule: "isURL(self) && self.matches('^https?://[^/?#@]+(/[^?#]*)?$')",
  message:
    'write the url as http://host:port or https://host:port, without user, query and fragment',
};
const isRoot: ApiRule = {
  rule: "self.matches('^(/[A-Za-z0-9._-]+)+$')",
  message: 'write globalRoot as a path such as /multigres/global, without a slash at its end',
};
const oneWayToAdmin: ApiRule = {
  rule: 'has(self.url) != has(self.service)',
  message:
    'give either url, reached directly, or service, reached through the API server: one of them, not both',
};
const onlyPostgres: ApiRule = {
  rule: "self.dataPlane.kind != 'multigres' || self.name == 'postgres'",
  message: 'set spec.name to postgres: Multigres knows no other database',
};

const topologySchema = z
  .object({
    ...etcdFields("the global topology store's etcd"),
    globalRoot: text(253, "Prefix of the global store's keys.", isRoot).default(
      '/multigres/global',
    ),
  })
  .meta({
    description: 'Where the data plane keeps who its members are.',
    ...withRules(...etcdRules),
  });

const adminSchema = z
  .object({
    url: text(
      253,
      "http(s)://host:port of the admin service's REST interface.",
      isAdminUrl,
    ).optional(),
    service: serviceSchema.optional().meta({ description: 'The Service of the admin service.' }),
  })
  .meta({
    description: 'Where the data plane is asked and told what to do.',
    ...withRules(oneWayToAdmin),
  });

/** The spec of a Database: what the shards of one database share. */
export const databaseSpecSchema = z
  .object({
    name: text(
      30,
      "The database's name in the data plane.",
      immutable('spec.name', 'create another Database for another database'),
    ),
    paused: z.boolean().default(false).meta({
      description: 'Every step observes and none acts, on every shard of this database.',
    }),
    dataPlane: z
      .object({
        kind: z
          .enum(['multigres'])
          .default('multigres')
          .meta({ description: 'What the database runs on.' }),
        topology: topologySchema,
        admin: adminSchema,
      })
      .meta({ description: 'The running system that the steps read and ask.' }),
    backup: z.object({ repository: repositorySchema }).optional().meta({
      description:
        'How it is backed up. Without it Millrace leaves alone what the data plane was told by others.',
    }),
  })
  .meta({
    description: 'What the shards of one database share.',
    ...withRules(onlyPostgres),
  });

type DatabaseSpec = z.output<typeof databaseSpecSchema>;

/** The status of a Database, which backup-config writes. */
export const databaseStatusSchema = z
  .object({
    observedGeneration: z.int().min(0).optional().meta({
      description: 'The `metadata.generation` that backup-config last looked at.',
      format: 'int64',
    }),
    conditions: z
      .array(conditionSchema)
      .optional()
      .meta({ description: 'Each type is written by one step.', ...listMap('type') }),
    repository: z
      .object({
        hash: z.string().meta({
          description: 'Names the place, as `millrace.dev/confirm-repository` does.',
        }),
        owner: z.string().optional().meta({
          description:
            'Whose it is by the object in it, `<cluster>/<namespace>/<name>`. Only of a bucket.',
        }),
        checkedAt: z.string().meta({
          description: 'When a look first found it as it is, under this spec.',
          format: 'date-time',
        }),
      })
      .optional()
      .meta({ description: 'The last repository that was found in order and is in use.' }),
  })
  .meta({ description: 'What the steps found.' });

export type DatabaseStatus = z.output<typeof databaseStatusSchema>;

/** A Database as the API server returns it: every default is there. */
export interface Database {
  readonly apiVersion: 'millrace.dev/v1alpha1';
  readonly kind: 'Database';
  readonly metadata: ObjectMetadata;
  readonly spec: DatabaseSpec;
  readonly status?: DatabaseStatus;
}

/** Rules over the whole object. */
export const databaseRules: readonly ApiRule[] = [objectName];
