import * as z from 'zod';
import { etcdAccessSchema } from '#infra/local/control-plane/etcd-access.ts';
import { timing } from './timing.ts';

const port = z.int().min(0).max(65_535);
const root = z.string().regex(/^(\/[^/]+)+$/, 'must begin with a slash and not end with one');
const durationMs = z.int().min(1);
const name = z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, 'must be a DNS label');

/** All that one data plane can be told. What is not given is as a plain Multigres has it. */
const dataPlaneShape = {
  /** Of everything that is left to chance: which member leads first, how long things take. */
  seed: z.int().default(1),
  /** Cells that exist from the beginning; others as pods name them. */
  cells: z.array(name).default([]),
  shard: z
    .strictObject({
      database: z.string().min(1),
      tableGroup: z.string().min(1),
      shard: z.string().min(1),
    })
    .default({ database: 'postgres', tableGroup: 'default', shard: '0-inf' }),
  globalRoot: root.default('/multigres/global'),
  /** Where a cell keeps its records; `{cell}` stands for its name. Without it the cells share one root. */
  cellRoot: root.default('/multigres/{cell}'),
  /** Members that must hold a write before it counts, the leader among them. */
  requiredCount: z.int().min(1).max(9).default(2),
  /** Names of pods whose pooler writes records of the older generation. */
  legacyPods: z.array(z.string()).default([]),
  /** How long a backup of each type runs, in milliseconds at speed 1. */
  backupMs: z
    .strictObject({
      full: durationMs.default(timing.backupMs.full),
      differential: durationMs.default(timing.backupMs.differential),
      incremental: durationMs.default(timing.backupMs.incremental),
    })
    .prefault({}),
  /** On the loopback interface; 0 takes a free one. */
  adminPort: port.default(0),
  controlPort: port.default(0),
};

/** The node that a process stands for. */
const nodeShape = {
  /** `https://host:port` of the API server, the PEM of who signed its certificate, and who signs in. */
  server: z.url(),
  ca: z.string().optional(),
  token: z.string(),
  /** `http(s)://host:port` of the etcd that holds the topology. */
  etcdEndpoint: z.url(),
  etcdAccess: etcdAccessSchema,
  /** Kept over restarts: the same folder goes on where it ended. */
  dataDir: z.string().min(1),
  /** Divides all durations. At the highest, 100 looks a second are as many as one etcd answers comfortably. */
  speed: z.number().positive().max(100).default(1),
  nodeName: name.default('millrace-node'),
  /** Which pods are bound to this node: a label selector over all namespaces. */
  selector: z.string().min(1).default('millrace.dev/shard'),
};

const dataPlaneSchema = z.strictObject({
  ...dataPlaneShape,
  /** Its members are the pods whose label `millrace.dev/shard` has this value; without it, all pods of the node. */
  shardName: name.optional(),
});

export type DataPlaneSettings = z.infer<typeof dataPlaneSchema>;

/** One process: a node, and the data planes whose members run on it. */
export const settingsSchema = z
  .strictObject({ ...nodeShape, dataPlanes: z.array(dataPlaneSchema).min(1) })
  .refine(({ dataPlanes: planes }) => planes.length === 1 || haveOwnPods(planes), {
    path: ['dataPlanes'],
    error: 'several need a shard name each, all different',
  })
  .refine(({ dataPlanes: planes }) => haveOwnKeys(planes), {
    path: ['dataPlanes'],
    error: 'several need roots in etcd of their own, none below another’s',
  });

function haveOwnPods(planes: readonly DataPlaneSettings[]): boolean {
  return new Set(planes.flatMap(({ shardName }) => shardName ?? [])).size === planes.length;
}

function haveOwnKeys(planes: readonly DataPlaneSettings[]): boolean {
  const roots = planes.flatMap((plane) =>
    [plane.globalRoot, plane.cellRoot].map((root) => ({ plane, path: `${root}/` })),
  );
  return !roots.some(({ plane, path }) =>
    roots.some((other) => other.plane !== plane && other.path.startsWith(path)),
  );
}

export type Settings = z.infer<typeof settingsSchema>;
export type SettingsInput = z.input<typeof settingsSchema>;

/** The same for a process with one data plane, which has all pods of its node. */
export const singleSettingsSchema = z.strictObject({ ...nodeShape, ...dataPlaneShape });

export type SingleSettingsInput = z.input<typeof singleSettingsSchema>;
