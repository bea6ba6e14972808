import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setInterval as ticks } from 'node:timers/promises';
import { describeError } from '#shared/kernel/errors.ts';
import type { KubeAccess, KubeCredentials } from '#shared/kube/connection.ts';

/** Tokens of cloud providers live for ten minutes and more; a minute's delay is far from their end. */
const refreshMs = 60_000;

/**
 * Writes what the handlers sign in with into files that only this user can read, because a handler loads no kubeconfig:
 * one could run a program. Returns the variables that name the files.
 */
export async function writeCredentials(
  folder: string,
  access: KubeAccess,
): Promise<Record<string, string>> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const variables: Record<string, string> = { MILLRACE_KUBE_SERVER: access.server };
  if (access.ca !== undefined) {
    variables['MILLRACE_KUBE_CA'] = await replace(join(folder, 'ca.crt'), access.ca);
  }
  return { ...variables, ...(await writeIdentity(folder, await access.credentials())) };
}

/** Keeps the files fresh until the signal aborts: a short-lived token is replaced before it ends. */
export async function refreshCredentials(
  folder: string,
  access: KubeAccess,
  onFailure: (why: string) => void,
  signal: AbortSignal,
): Promise<void> {
  try {
    for await (const _ of ticks(refreshMs, undefined, { signal, ref: false })) {
      await access.credentials().then(
        (credentials) => writeIdentity(folder, credentials),
        (error: unknown) => onFailure(describeError(error)),
      );
    }
  } catch (error) {
    if (!signal.aborted) {
      throw error;
    }
  }
}

async function writeIdentity(
  folder: string,
  { token, certificate, key }: KubeCredentials,
): Promise<Record<string, string>> {
  const variables: Record<string, string> = {};
  if (token !== undefined) {
    variables['MILLRACE_KUBE_TOKEN_FILE'] = await replace(join(folder, 'token'), token);
  }
  if (certificate !== undefined && key !== undefined) {
    variables['MILLRACE_KUBE_CERT_FILE'] = await replace(join(folder, 'client.crt'), certificate);
    variables['MILLRACE_KUBE_KEY_FILE'] = await replace(join(folder, 'client.key'), key);
  }
  return variables;
}

/** A reader sees the old content or the new, never a part. */
async function replace(path: string, content: string): Promise<string> {
  const draft = `${path}.new`;
  await writeFile(draft, content, { mode: 0o600 });
  await rename(draft, path);
  return path;
}
