import * as z from 'zod';
import { defaultPrefix, defaultShardCount } from '#shared/goverse/keys.ts';
import { conditionSchema } from './condition.ts';
import { durationPattern, maxDurationLength } from './duration.ts';
import { etcdFields, etcdRules } from './etcd.ts';
import { type ApiRule, immutable, listMap, objectName, text, withRules } from './fields.ts';
import type { ObjectMetadata } from './metadata.ts';

const isPrefix: ApiRule = {
  rule: "self.matches('^(/[A-Za-z0-9._-]+)+$')",
  message: 'write prefix as a path such as /goverse, without a slash at its end',
};
const isTimeout: ApiRule = {
  rule: `self.matches('${durationPattern}') && duration(self) >= duration('5s') && duration(self) <= duration('1h')`,
  message:
    'give timeout as a duration from 5s to 1h, for example 30s: a quiet hand-over takes 8 to 13s',
};

const topologySchema = z
  .object({
    ...etcdFields("the cluster's etcd"),
    prefix: text(
      253,
      "Prefix of the cluster's keys, as its nodes are configured.",
      isPrefix,
      immutable(
        'prefix',
        'create another GoverseCluster: what was begun under these keys must end there',
      ),
    ).default(defaultPrefix),
  })
  .meta({
    description: 'Where GoVerse keeps who its nodes are, and who has which shard.',
    ...withRules(...etcdRules),
  });

const shutdownSchema = z
  .object({
    mode: z.enum(['quick', 'clean']).default('quick').meta({
      description:
        '`quick`: nothing is done; a node that comes back finds its shards. `clean`: its shards are handed over before it goes. A pod says otherwise by `millrace.dev/shutdown-mode`.',
    }),
    timeout: text(
      maxDurationLength,
      'How long a hand-over may take, 5s to 1h; after it the node is let go with the shards it still has. Pods need a longer `terminationGracePeriodSeconds`.',
      isTimeout,
    ).default('30s'),
  })
  .meta({ description: 'What becomes of the shards of a node that goes.' });

/** The spec of a GoverseCluster. Its nodes' pods name it by the label `millrace.dev/goverse`. */
export const goverseClusterSpecSchema = z
  .object({
    topology: topologySchema,
    shards: z
      .int()
      .min(1)
      .max(65_536)
      .default(defaultShardCount)
      .meta({
        description: 'How many shards the cluster has, as its nodes are configured.',
        format: 'int32',
        ...withRules(
          immutable(
            'shards',
            'GoVerse has no way to another number of shards; create another GoverseCluster',
          ),
        ),
      }),
    shutdown: shutdownSchema.default({ mode: 'quick', timeout: '30s' }),
    rebalance: z.enum(['inside', 'outside']).default('inside').meta({
      description:
        "Who levels the shards when a node has joined. `inside`: GoVerse's leader, a few at a time. `outside`: Millrace, by one hand-over.",
    }),
    paused: z
      .boolean()
      .default(false)
      .meta({ description: 'Everything is observed and nothing is done.' }),
  })
  .meta({ description: 'A cluster of GoVerse: how its shards are handed over.' });

type GoverseClusterSpec = z.output<typeof goverseClusterSpecSchema>;

const count = (meaning: string) =>
  z.int().min(0).optional().meta({ description: meaning, format: 'int32' });

/** The status of a GoverseCluster, which shard-release writes. */
export const goverseClusterStatusSchema = z
  .object({
    observedGeneration: z.int().min(0).optional().meta({
      description: 'The `metadata.generation` that shard-release last looked at.',
      format: 'int64',
    }),
    conditions: z
      .array(conditionSchema)
      .optional()
      .meta({ description: 'Each type is written by one step.', ...listMap('type') }),
    nodes: count('Nodes that are registered.'),
    leader: z.string().optional().meta({ description: 'The node that leads, where one does.' }),
    shardsPerNode: z
      .array(
        z.object({
          node: z.string().meta({ description: "The node's address." }),
          shards: z.int().min(0).meta({ description: 'Shards it has.', format: 'int32' }),
        }),
      )
      .optional()
      .meta({
        description: 'How the shards are spread; the first 32 nodes.',
        'x-kubernetes-list-type': 'atomic',
      }),
    inMigration: count('Shards that are meant for another node than the one that has them.'),
    unowned: count('Shards that no registered node has.'),
    draining: z
      .object({
        pod: z.string().meta({ description: 'The pod; the first where there are several.' }),
        left: z.int().min(0).meta({ description: 'Shards it still has.', format: 'int32' }),
        since: z
          .string()
          .meta({ description: 'When it was first seen to go.', format: 'date-time' }),
      })
      .optional()
      .meta({ description: 'The node whose shards are being handed over.' }),
  })
  .meta({
    description: 'What shard-release found, as of the last time that something moved on.',
  });

export type GoverseClusterStatus = z.output<typeof goverseClusterStatusSchema>;

/** A GoverseCluster as the API server returns it: every default is there. */
export interface GoverseCluster {
  readonly apiVersion: 'millrace.dev/v1alpha1';
  readonly kind: 'GoverseCluster';
  readonly metadata: ObjectMetadata;
  readonly spec: GoverseClusterSpec;
  readonly status?: GoverseClusterStatus;
}

/** Rules over the whole object. */
export const goverseClusterRules: readonly ApiRule[] = [objectName];
