import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import * as z from 'zod';
import { describeError } from '#shared/kernel/errors.ts';

/** What a kubeconfig says for one context, without any secret of it. Nothing it names is run or read. */
export interface KubeconfigSummary {
  readonly context: string;
  readonly server: string;
  /** How the caller signs in: `client certificate`, `token`, `program aws-iam-authenticator`. */
  readonly credentials: string;
}

const entry = <T extends z.ZodRawShape>(shape: T) =>
  z.array(z.looseObject({ name: z.string(), ...shape })).default([]);

const kubeconfigSchema = z.looseObject({
  'current-context': z.string().default(''),
  clusters: entry({ cluster: z.looseObject({ server: z.string() }) }),
  contexts: entry({
    context: z.looseObject({ cluster: z.string(), user: z.string().default('') }),
  }),
  users: entry({ user: z.record(z.string(), z.unknown()).nullish() }),
});

/**
 * Reads the parts of a kubeconfig that a person may see.
 *
 * @param wanted the context asked for, else the file's current one
 * @param problems gets one sentence for everything that is wrong; the summary is then without meaning
 */
export function summariseKubeconfig(
  path: string,
  wanted: string | undefined,
  problems: string[],
): KubeconfigSummary {
  const nothing = { context: wanted ?? '', server: '', credentials: '' };
  let text: unknown;
  try {
    text = parse(readFileSync(path, 'utf8'));
  } catch (error) {
    // The parser's own message would quote the line, which may hold a secret.
    problems.push(`kubeconfig: ${whyUnread(path, error)}; name another with --kubeconfig`);
    return nothing;
  }
  const parsed = kubeconfigSchema.safeParse(text);
  if (!parsed.success) {
    problems.push(`kubeconfig: ${path} is not a kubeconfig; name another with --kubeconfig`);
    return nothing;
  }
  const { clusters, contexts, users } = parsed.data;
  const name = wanted ?? parsed.data['current-context'];
  const context = contexts.find((candidate) => candidate.name === name)?.context;
  if (context === undefined) {
    const known = contexts.map((candidate) => candidate.name).join(', ');
    problems.push(
      `kubeconfig: ${path} has no context ${JSON.stringify(name)}; it has: ${known || 'none'}`,
    );
    return nothing;
  }
  const cluster = clusters.find((candidate) => candidate.name === context.cluster)?.cluster;
  if (cluster === undefined || !URL.canParse(cluster.server)) {
    problems.push(`kubeconfig: context ${JSON.stringify(name)} names no cluster with a server`);
    return nothing;
  }
  const user = users.find((candidate) => candidate.name === context.user)?.user ?? {};
  return { context: name, server: shown(cluster.server), credentials: kindOf(user) };
}

/** The address without a user and password that may stand in it. */
function shown(server: string): string {
  const { origin, pathname } = new URL(server);
  return `${origin}${pathname === '/' ? '' : pathname}`;
}

function whyUnread(path: string, error: unknown): string {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) {
    return `${path} is not YAML`;
  }
  return error.code === 'ENOENT'
    ? `there is no ${path}`
    : `${path} cannot be read: ${describeError(error)}`;
}

function kindOf(user: Record<string, unknown>): string {
  if ('client-certificate' in user || 'client-certificate-data' in user) {
    return 'client certificate';
  }
  if ('token' in user || 'tokenFile' in user) {
    return 'token';
  }
  if ('exec' in user) {
    const program = z.looseObject({ command: z.string() }).safeParse(user['exec']);
    return program.success ? `program ${program.data.command}` : 'program';
  }
  if ('auth-provider' in user) {
    return 'auth provider';
  }
  return 'username' in user ? 'username and password' : 'none';
}
