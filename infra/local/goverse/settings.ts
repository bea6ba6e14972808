import * as z from 'zod';
import { etcdAccessSchema } from '#infra/local/control-plane/etcd-access.ts';
import { defaultPrefix, defaultShardCount } from '#shared/goverse/keys.ts';

/** All that one member can be told. What is not given is as GoVerse has it. */
export const settingsSchema = z.strictObject({
  /** `http(s)://host:port` of etcd. */
  endpoint: z.url(),
  access: etcdAccessSchema,
  prefix: z.string().default(defaultPrefix),
  /** What it is known by, and its key: `10.0.0.7:48000`. */
  address: z.string().min(1),
  /** A gate has no shards: all it does here is to be registered. */
  role: z.enum(['node', 'gate']).default('node'),
  shardCount: z.int().min(1).max(65_536).default(defaultShardCount),
  /** How many objects the cluster has, spread over the shards by their ids. */
  objects: z.int().min(0).max(1_000_000).default(4_000),
  /** Divides all durations. */
  speed: z.number().positive().max(50).default(1),
  /** Where in the period of a shared clock it ticks, from 0 up to 1; without it, counted from its own start. */
  phase: z.number().min(0).lt(1).optional(),
});

export type Settings = z.infer<typeof settingsSchema>;
export type SettingsInput = z.input<typeof settingsSchema>;

/** What a member says on stdout, one JSON line each. */
export const saidSchema = z.union([
  z.object({ lease: z.string(), atMs: z.number() }),
  z.object({
    tick: z.array(z.object({ work: z.string(), count: z.number() })),
    revisions: z.array(z.number()),
    tookMs: z.number(),
  }),
]);

export type Said = z.infer<typeof saidSchema>;
