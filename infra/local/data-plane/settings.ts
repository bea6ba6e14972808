import * as z from 'zod';

const port = z.int().min(0).max(65_535);
const root = z.string().regex(/^(\/[^/]+)+$/, 'must begin with a slash and not end with one');
const name = z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, 'must be a DNS label');

/** All that one data plane can be told. What is not given is as a plain Multigres has it. */
export const settingsSchema = z.strictObject({
  /** `https://host:port` of the API server, the PEM of who signed its certificate, and who signs in. */
  server: z.url(),
  ca: z.string().optional(),
  token: z.string(),
  /** `http://host:port` of the etcd that holds the topology. */
  etcdEndpoint: z.url(),
  /** Kept over restarts: the same folder goes on where it ended. */
  dataDir: z.string().min(1),
  /** Divides all durations. At the highest, 100 looks a second are as many as one etcd answers comfortably. */
  speed: z.number().positive().max(100).default(1),
  /** Of everything that is left to chance: which member leads first, how long things take. */
  seed: z.int().default(1),
  /** Cells that exist from the beginning; others as pods name them. */
  cells: z.array(name).default([]),
  nodeName: name.default('millrace-node'),
  /** Which pods are this data plane's: a label selector over all namespaces. One data plane is one shard. */
  selector: z.string().min(1).default('millrace.dev/shard'),
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
  /** On the loopback interface; 0 takes a free one. */
  adminPort: port.default(0),
  controlPort: port.default(0),
});

export type Settings = z.infer<typeof settingsSchema>;
export type SettingsInput = z.input<typeof settingsSchema>;
