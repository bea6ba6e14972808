import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import * as z from 'zod';
import { type Recorded, recordedChoices } from '#shared/archive/config.ts';
import { ConfigurationError, commaList, logLevel, readConfig } from '#shared/kernel/config.ts';
import { plainIssue } from '#shared/kernel/plain-issue.ts';
import { type KubeconfigSummary, summariseKubeconfig } from './kubeconfig-summary.ts';

/** The options of `withSettings` as commander hands them over. */
export interface SettingsFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace?: readonly string[];
  readonly stage?: string;
  readonly clusterId?: string;
  readonly dataDir?: string;
  readonly record?: boolean;
}

/** A value and where it came from: `flag --stage`, `MILLRACE_STAGE`, `kubeconfig`, `default`. */
export interface Setting<T> {
  readonly value: T;
  readonly source: string;
}

export interface Settings {
  readonly kubeconfig: Setting<string>;
  /** What the kubeconfig says, under the context in force. */
  readonly cluster: KubeconfigSummary;
  readonly contextSource: string;
  /** Empty = every namespace. */
  readonly namespaces: Setting<readonly string[]>;
  readonly stage: Setting<string>;
  /** `undefined` = the uid of the namespace kube-system. */
  readonly clusterId: Setting<string | undefined>;
  /** `undefined` = {@link stateFolder} and the cluster id. */
  readonly dataDir: Setting<string | undefined>;
  /** The user's state folder of Millrace, by the XDG base directory specification. */
  readonly stateFolder: Setting<string>;
  readonly region: Setting<string>;
  readonly logLevel: Setting<string>;
  /** Which decisions `dev` records, in its data folder. */
  readonly recorded: Setting<Recorded>;
  readonly functionTimeoutSeconds: Setting<number>;
  readonly functionConcurrency: Setting<number>;
  /** How often the sweep looks for what is overdue. */
  readonly sweepSeconds: Setting<number>;
  /** How long a received message stays hidden; at least six times the timeout. */
  readonly visibilitySeconds: Setting<number>;
}

/** AWS's rule for a queue that feeds a function (AWS Lambda Developer Guide, "Configuring a queue"). */
const visibilityFactor = 6;

const dnsLabel = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** Part of a queue's name, which has 80 characters in all. */
const stageName = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$/, 'must be 1 to 20 of a-z, 0-9 and -');

/** Part of every hint, and of a folder's name. */
const clusterName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/, 'must be 1 to 100 of A-Z, a-z, 0-9, ., _ and -');

const visibility = (leastSeconds: number) =>
  z.coerce
    .number()
    .int()
    .min(leastSeconds, `must be at least ${visibilityFactor} times the functions' timeout`)
    .max(43_200);

const regionName = z.string().regex(/^[a-z0-9-]{1,30}$/, 'is not the name of a region');

/** This process's environment, empty variables left out. */
export function readEnvironment(): Record<string, string> {
  return readConfig(z.record(z.string(), z.string()));
}

/**
 * Puts together what is in force: a flag before a variable before a default.
 *
 * Throws {@link ConfigurationError} with every problem at once.
 */
export function resolveSettings(
  flags: SettingsFlags,
  environment: Readonly<Record<string, string>>,
): Settings {
  const problems: string[] = [];
  const pick: Pick = (choice) => choose(choice, environment, problems);
  const kubeconfig = pick({
    flag: '--kubeconfig',
    given: flags.kubeconfig,
    variable: 'KUBECONFIG',
    schema: z.string().transform((path) => resolve(path)),
    otherwise: join(homedir(), '.kube', 'config'),
  });
  const settings: Settings = {
    kubeconfig,
    cluster: summariseKubeconfig(kubeconfig.value, flags.context, problems),
    contextSource: flags.context === undefined ? 'current-context' : '--context',
    namespaces: namespacesOf(flags, environment, problems),
    stage: pick({
      flag: '--stage',
      given: flags.stage,
      variable: 'MILLRACE_STAGE',
      schema: stageName,
      otherwise: 'local',
    }),
    clusterId: pick({
      flag: '--cluster-id',
      given: flags.clusterId,
      variable: 'MILLRACE_CLUSTER_ID',
      schema: clusterName,
      otherwise: undefined,
    }),
    dataDir: pick({
      flag: '--data-dir',
      given: flags.dataDir,
      variable: 'MILLRACE_DATA_DIR',
      schema: z.string().transform((path) => resolve(path)),
      otherwise: undefined,
    }),
    stateFolder: stateFolderOf(environment),
    region: pick({ variable: 'AWS_REGION', schema: regionName, otherwise: 'us-east-1' }),
    logLevel: pick({ variable: 'MILLRACE_LOG_LEVEL', schema: logLevel, otherwise: 'info' }),
    recorded: pick({
      flag: '--record',
      given: flags.record === true ? 'all' : undefined,
      variable: 'MILLRACE_ARCHIVE_DECISIONS',
      schema: z.enum(recordedChoices, `must be one of ${recordedChoices.join(', ')}`),
      otherwise: 'failures',
    }),
    ...functionSettings(pick),
  };
  if (problems.length > 0) {
    throw new ConfigurationError(problems);
  }
  return settings;
}

/** How functions run in the local worker. */
function functionSettings(pick: Pick) {
  const timeout = pick({
    variable: 'MILLRACE_FUNCTION_TIMEOUT_SECONDS',
    schema: z.coerce.number().int().min(1).max(900),
    otherwise: 30,
  });
  return {
    functionTimeoutSeconds: timeout,
    functionConcurrency: pick({
      variable: 'MILLRACE_FUNCTION_CONCURRENCY',
      schema: z.coerce.number().int().min(1).max(50),
      otherwise: 2,
    }),
    sweepSeconds: pick({
      variable: 'MILLRACE_SWEEP_SECONDS',
      schema: z.coerce.number().int().min(1).max(86_400),
      otherwise: 300,
    }),
    visibilitySeconds: pick({
      variable: 'MILLRACE_VISIBILITY_SECONDS',
      schema: visibility(visibilityFactor * timeout.value),
      otherwise: visibilityFactor * timeout.value,
    }),
  };
}

type Pick = <T, D>(choice: Choice<T, D>) => Setting<T | D>;

/** One setting: where it may come from, what it must look like, and what holds otherwise. */
interface Choice<T, D> {
  readonly flag?: string;
  readonly given?: string | undefined;
  readonly variable: string;
  readonly schema: z.ZodType<T>;
  readonly otherwise: D;
}

function choose<T, D>(
  choice: Choice<T, D>,
  environment: Readonly<Record<string, string>>,
  problems: string[],
): Setting<T | D> {
  const { flag, given, variable, schema, otherwise } = choice;
  const source = given === undefined ? variable : (flag ?? variable);
  const text = given ?? environment[variable];
  if (text === undefined) {
    return { value: otherwise, source: 'default' };
  }
  const parsed = schema.safeParse(text, { error: plainIssue });
  if (!parsed.success) {
    problems.push(`${source}: ${parsed.error.issues[0]?.message ?? 'has an unknown form'}`);
    return { value: otherwise, source: 'default' };
  }
  return { value: parsed.data, source };
}

function namespacesOf(
  flags: SettingsFlags,
  environment: Readonly<Record<string, string>>,
  problems: string[],
): Setting<readonly string[]> {
  const listed = commaList.parse(environment['MILLRACE_NAMESPACES']);
  const source =
    flags.namespace !== undefined
      ? '--namespace'
      : listed.length > 0
        ? 'MILLRACE_NAMESPACES'
        : 'default';
  const value = flags.namespace ?? listed;
  for (const name of value) {
    if (!dnsLabel.test(name)) {
      problems.push(`${source}: ${JSON.stringify(name)} is not the name of a namespace`);
    }
  }
  return { value, source };
}

function stateFolderOf(environment: Readonly<Record<string, string>>): Setting<string> {
  const root = environment['XDG_STATE_HOME'];
  return root === undefined
    ? { value: join(homedir(), '.local', 'state', 'millrace'), source: 'default' }
    : { value: join(root, 'millrace'), source: 'XDG_STATE_HOME' };
}
