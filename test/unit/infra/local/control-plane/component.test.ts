import { appendFile, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  ComponentDied,
  type ComponentPlan,
  startComponent,
} from '#infra/local/control-plane/component.ts';

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'millrace-component-test-'));
});

afterEach(async () => {
  await rm(dir, { recursive: true, force: true });
});

/** A component that a shell plays; it is ready when it made the file `ready`. */
function aComponent(script: string, more: Partial<ComponentPlan> = {}): ComponentPlan {
  return {
    name: 'the player',
    command: '/bin/sh',
    flags: ['-c', script, 'player', join(dir, 'ready')],
    logPath: join(dir, 'player.log'),
    isReady: async () => (await stat(join(dir, 'ready'))).isFile(),
    ...more,
  };
}

const serving = ': > "$1"; exec sleep 600';

describe('a component', () => {
  test('that ends before it is ready is reported with the end of its log', async () => {
    const lines = 'i=0; while [ $i -lt 40 ]; do echo "line $i"; i=$((i + 1)); done; exit 3';

    const start = startComponent(aComponent(lines));

    await expect(start).rejects.toThrow(ComponentDied);
    await expect(start).rejects.toThrow(
      /^the player ended with code 3 before it was ready.*\nline 28\n/,
    );
    await expect(start).rejects.toThrow(/\nline 39$/);
  });

  test('tells apart that its port was taken, also when an earlier run had written so', async () => {
    const taken = await startComponent(
      aComponent('echo "bind: address already in use"; exit 1'),
    ).catch((error: unknown) => error);
    const broken = await startComponent(aComponent('echo "no such flag"; exit 1')).catch(
      (error: unknown) => error,
    );

    expect(taken).toMatchObject({ isPortTaken: true });
    expect(broken).toMatchObject({ isPortTaken: false });
    expect(broken).toBeInstanceOf(ComponentDied);
  });

  test('runs as another process after a restart', async () => {
    const component = await startComponent(aComponent(serving));
    const before = component.pid;

    await component.restart();

    expect(component.pid).not.toBe(before);
    expect(() => process.kill(before, 0)).toThrow('ESRCH');
    expect(process.kill(component.pid, 0)).toBe(true);
    await component.stop();
    expect(() => process.kill(component.pid, 0)).toThrow('ESRCH');
  });

  test.each([
    ['before its new process was started', () => true],
    ['before its new process is ready', (pid: number, before: number) => pid !== before],
  ])('that is stopped during a restart, %s, stays stopped', async (_, isTime) => {
    let isReady = true;
    const component = await startComponent(
      aComponent('exec sleep 600', { isReady: async () => isReady }),
    );
    const before = component.pid;
    isReady = false;

    const stopInTime = async () => {
      await vi.waitUntil(() => isTime(component.pid, before), { interval: 1 });
      await component.stop();
      expect(() => process.kill(component.pid, 0)).toThrow('ESRCH');
    };

    await Promise.all([
      expect(component.restart()).rejects.toThrow(/^the player (ended|was stopped)/),
      stopInTime(),
    ]);

    expect(() => process.kill(component.pid, 0)).toThrow('ESRCH');
  });

  test('that ends by itself is reported, one that was killed or stopped is not', async () => {
    const { promise: reported, resolve } = Promise.withResolvers<string>();
    const messages: string[] = [];
    const onUnexpectedExit = (message: string) => {
      messages.push(message);
      resolve(message);
    };
    const killed = await startComponent(aComponent(serving, { onUnexpectedExit }));
    const stopped = await startComponent(aComponent(serving, { onUnexpectedExit }));
    const dying = await startComponent(aComponent(serving, { onUnexpectedExit }));
    await killed.kill();
    await stopped.stop();
    await appendFile(join(dir, 'player.log'), 'out of memory\n');

    process.kill(dying.pid, 'SIGKILL');

    expect(await reported).toMatch(/^the player ended with signal SIGKILL.*\nout of memory$/);
    expect(messages).toHaveLength(1);
  });
});
