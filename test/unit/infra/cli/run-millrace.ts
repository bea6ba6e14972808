import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

const binary = fileURLToPath(new URL('../../../../infra/cli/millrace.mjs', import.meta.url));

export interface Run {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the real command with nothing in its environment but what the test gives. Its stdin has no terminal. */
export async function runMillrace(
  words: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Run> {
  const child = spawn(process.execPath, [binary, ...words], {
    env: { HOME: '/nonexistent', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr, [exitCode]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  return { exitCode, stdout, stderr };
}
