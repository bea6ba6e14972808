import { afterEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { type Child, launch } from '#infra/local/child/launch.ts';
import { type Supervised, supervise } from '#infra/cli/dev/supervise.ts';

type Idle = Child<Record<string, never>>;

let supervised: Supervised<Record<string, never>> | undefined;

afterEach(async () => {
  await supervised?.stop(5_000);
});

function startIdle(): Promise<Idle> {
  return launch({
    name: 'the child',
    entry: new URL('../../local/child/fixtures/idle.ts', import.meta.url),
    environment: {},
    announcement: z.object({}),
    readyTimeoutMs: 20_000,
  });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('a supervised child', { timeout: 30_000 }, () => {
  test('is started again when it was killed', async () => {
    const restarted = Promise.withResolvers<Idle>();
    const deaths: string[] = [];
    const first = await startIdle();
    supervised = supervise({
      first,
      start: startIdle,
      onDeath: (why) => deaths.push(why),
      onRestart: restarted.resolve,
    });

    first.signal('SIGKILL');
    const second = await restarted.promise;

    expect(deaths).toEqual(['ended with signal SIGKILL']);
    expect(second.pid).not.toBe(first.pid);
    expect(supervised.current().pid).toBe(second.pid);
    expect(isAlive(second.pid)).toBe(true);
  });

  test('is tried again, ever more slowly, while it does not start', async () => {
    const restarted = Promise.withResolvers<Idle>();
    const deaths: { why: string; pauseMs: number }[] = [];
    let starts = 0;
    const first = await startIdle();
    supervised = supervise({
      first,
      start: () => {
        starts += 1;
        return starts < 3 ? Promise.reject(new Error('the port is taken')) : startIdle();
      },
      onDeath: (why, pauseMs) => deaths.push({ why, pauseMs }),
      onRestart: restarted.resolve,
    });

    first.signal('SIGKILL');
    await restarted.promise;

    expect(deaths.map((death) => death.why)).toEqual([
      'ended with signal SIGKILL',
      'the port is taken',
      'the port is taken',
    ]);
    // Each wait is between the half and the whole of a limit that doubles from 250 ms.
    deaths.forEach((death, position) => {
      expect(death.pauseMs).toBeGreaterThanOrEqual(125 * 2 ** position);
      expect(death.pauseMs).toBeLessThanOrEqual(250 * 2 ** position);
    });
  });

  test('stays away after a stop, also one that came while it was started again', async () => {
    const starting = Promise.withResolvers<void>();
    const started = Promise.withResolvers<Idle>();
    const first = await startIdle();
    const stopped = supervise({
      first,
      start: () => {
        starting.resolve();
        return started.promise;
      },
      onDeath: () => undefined,
      onRestart: () => undefined,
    });

    first.signal('SIGKILL');
    await starting.promise;
    const startLate = async () => {
      const idle = await startIdle();
      started.resolve(idle);
      return idle;
    };
    const [, late] = await Promise.all([stopped.stop(5_000), startLate()]);

    expect(isAlive(late.pid)).toBe(false);
  });
});
