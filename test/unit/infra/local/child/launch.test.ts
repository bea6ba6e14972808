import { describe, expect, test, vi } from 'vitest';
import * as z from 'zod';
import { type LaunchOptions, launch } from '#infra/local/child/launch.ts';

function aChild(file: string): LaunchOptions<Record<string, never>> {
  return {
    name: 'the child',
    entry: new URL(`fixtures/${file}`, import.meta.url),
    environment: {},
    announcement: z.object({}),
    readyTimeoutMs: 20_000,
  };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('a launched child', { timeout: 30_000 }, () => {
  test('hands on every line but its announcement', async () => {
    const lines: string[] = [];

    const child = await launch({ ...aChild('idle.ts'), onLine: (line) => lines.push(line) });
    await child.stop(5_000);

    expect(lines).toEqual(['not JSON', 'afterwards']);
    expect(await child.exited).toBe('signal SIGTERM');
  });

  test('that dies before it is ready is explained with what it wrote', async () => {
    const launching = launch(aChild('broken.ts'));

    await expect(launching).rejects.toThrow(
      'the child ended before it was ready (code 3):\nthe disk is full',
    );
  });

  test('that announces itself in another form is stopped', async () => {
    const launching = launch({ ...aChild('idle.ts'), announcement: z.object({ url: z.url() }) });

    await expect(launching).rejects.toThrow('the child announced itself in an unknown form');
  });

  test('is gone after its parent was killed without a word', async () => {
    const parent = await launch({
      ...aChild('parent.ts'),
      announcement: z.object({ child: z.number() }),
    });
    const { child } = parent.announced;
    expect(isAlive(child)).toBe(true);

    parent.signal('SIGKILL');
    await parent.exited;

    await vi.waitFor(() => expect(isAlive(child)).toBe(false), { timeout: 10_000 });
  });
});
