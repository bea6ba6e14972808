import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { afterEach, describe, expect, test } from 'vitest';
import { freeze } from '#infra/local/show/freeze.ts';

const server = `
  const server = require('node:http').createServer((_, response) => response.end('here'));
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));
`;

const freezer = new URL('../../../../../infra/local/show/freeze.ts', import.meta.url).href;

const started: ChildProcess[] = [];

afterEach(async () => {
  for (const child of started.splice(0)) {
    child.kill('SIGKILL');
    await (child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined);
  }
});

async function start(words: readonly string[]): Promise<{ child: ChildProcess; line: string }> {
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  started.push(child);
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  return { child, line };
}

async function aServer(): Promise<{ pid: number; child: ChildProcess; url: string }> {
  const { child, line } = await start(['-e', server]);
  return { pid: child.pid ?? 0, child, url: `http://127.0.0.1:${line}` };
}

/** Whether the server answers within so long. A new connection each time: a kept one proves nothing. */
async function answers(url: string, withinMs: number): Promise<boolean> {
  const signal = AbortSignal.timeout(withinMs);
  return fetch(url, { signal, headers: { connection: 'close' } }).then(
    (answer) => answer.ok,
    () => false,
  );
}

describe('a frozen process', { timeout: 30_000 }, () => {
  test('answers nobody, and whoever asked meanwhile is answered once it is thawed', async () => {
    const { pid, url } = await aServer();
    const outage = await freeze(pid);

    const isAnswered = await answers(url, 500);
    const patient = answers(url, 20_000);
    await outage[Symbol.asyncDispose]();

    expect(isAnswered).toBe(false);
    expect(await patient).toBe(true);
  });

  test('is thawed when whoever froze it is killed', async () => {
    const { pid, url } = await aServer();
    const code = `
      import { freeze } from ${JSON.stringify(freezer)};
      await freeze(${pid});
      console.log('frozen');
      setInterval(() => undefined, 60_000);
    `;
    const { child, line } = await start(['--input-type=module', '-e', code]);

    const isAnswered = await answers(url, 500);
    child.kill('SIGKILL');

    expect(line).toBe('frozen');
    expect(isAnswered).toBe(false);
    expect(await answers(url, 20_000)).toBe(true);
  });

  test('may be killed while it is frozen, and thawing it then is no error', async () => {
    const { pid, child } = await aServer();
    const outage = await freeze(pid);

    child.kill('SIGKILL');
    await once(child, 'exit');

    await expect(outage[Symbol.asyncDispose]()).resolves.toBeUndefined();
  });

  test('that does not exist is an error', async () => {
    const { pid, child } = await aServer();
    child.kill('SIGKILL');
    await once(child, 'exit');

    await expect(freeze(pid)).rejects.toThrow(`process ${pid} could not be stopped`);
  });
});
