import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import * as z from 'zod';
import { plainIssue } from '#shared/kernel/plain-issue.ts';

/** The fields of a cluster that are obeyed. */
const clusterSchema = z.looseObject({
  server: z.url({ protocol: /^https$/, error: 'must be an https:// URL' }),
  'certificate-authority': z.string().nullish(),
  'certificate-authority-data': z.string().nullish(),
});

/** The fields of a user that are obeyed. */
const userSchema = z.looseObject({
  token: z.string().nullish(),
  tokenFile: z.string().nullish(),
  'client-certificate': z.string().nullish(),
  'client-certificate-data': z.string().nullish(),
  'client-key': z.string().nullish(),
  'client-key-data': z.string().nullish(),
  exec: z.unknown().optional(),
  'auth-provider': z.unknown().optional(),
});
export type KubeconfigUser = z.infer<typeof userSchema>;

const named = z.looseObject({ name: z.string() });

/** Only the entries that the context names are looked into: another one's defect is no concern of it. */
const kubeconfigSchema = z.looseObject({
  'current-context': z.string().nullish(),
  contexts: z.array(named).nullish(),
  clusters: z.array(named).nullish(),
  users: z.array(named).nullish(),
});

const contextSchema = z.looseObject({ cluster: z.string(), user: z.string() });

/** What one context of a kubeconfig names. */
export interface KubeconfigContext {
  readonly name: string;
  readonly cluster: z.infer<typeof clusterSchema>;
  readonly user: KubeconfigUser;
}

/**
 * Reads a context of a kubeconfig file, its current one where none is asked for. Throws when the file has no such
 * context, cluster and user. No message repeats what the file says, names aside.
 */
export async function readContext(
  path: string,
  wanted: string | undefined,
): Promise<KubeconfigContext> {
  const text = await readFile(path, 'utf8');
  let content: unknown;
  try {
    content = parse(text);
  } catch {
    // The parser's own message would quote the line, which may hold a secret.
    throw new Error(`${path} is not YAML`);
  }
  const config = kubeconfigSchema.safeParse(content, { error: plainIssue });
  if (!config.success) {
    throw new Error(`${path} is not a kubeconfig: ${problemOf(config.error)}`);
  }
  const { contexts, clusters, users } = config.data;
  const name = wanted ?? config.data['current-context'] ?? '';
  const found = contextSchema.safeParse(entryOf(contexts, name)?.['context']);
  const cluster = found.success ? entryOf(clusters, found.data.cluster) : undefined;
  const user = found.success ? entryOf(users, found.data.user) : undefined;
  if (cluster === undefined || user === undefined) {
    throw new Error(`${path}: the context ${JSON.stringify(name)} names no known cluster and user`);
  }
  return {
    name,
    cluster: checked(clusterSchema, cluster['cluster'], `${path}: cluster ${cluster.name}`),
    user: checked(userSchema, user['user'] ?? {}, `${path}: user ${user.name}`),
  };
}

function entryOf(entries: z.infer<typeof named>[] | null | undefined, name: string) {
  return entries?.find((entry) => entry.name === name);
}

function checked<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value, { error: plainIssue });
  if (!parsed.success) {
    throw new Error(`${what}: ${problemOf(parsed.error)}`);
  }
  return parsed.data;
}

function problemOf(error: z.ZodError): string {
  const issue = error.issues[0];
  return `${issue?.path.join('.') || 'its root'}: ${issue?.message}`;
}
