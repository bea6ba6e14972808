import { describe, expect, test } from 'vitest';
import { ProcessTimers, VirtualClock } from '#test/world/relay/virtual-clock.ts';

describe('virtual time', () => {
  test('runs alarms in the order of their times, and of their setting where these are equal', async () => {
    const clock = new VirtualClock();
    const ran: string[] = [];
    clock.after(20, () => ran.push('third'));
    clock.after(10, () => ran.push('first'));
    clock.after(10, () => ran.push('second'));

    await clock.pass(20);

    expect(ran).toEqual(['first', 'second', 'third']);
    expect(clock.monotonicMs()).toBe(20);
  });

  test('lets all that an alarm started go on before the next alarm', async () => {
    const clock = new VirtualClock();
    const ran: string[] = [];
    clock.after(1, () => {
      void (async () => {
        for (let turn = 0; turn < 100; turn += 1) {
          await Promise.resolve();
        }
        ran.push(`at ${clock.monotonicMs()}`);
      })();
    });
    clock.after(2, () => ran.push('next'));

    await clock.pass(5);

    expect(ran).toEqual(['at 1', 'next']);
  });

  test('runs nothing that was cancelled, and an alarm that an alarm sets for now', async () => {
    const clock = new VirtualClock();
    const ran: string[] = [];
    const cancel = clock.after(5, () => ran.push('cancelled'));
    clock.after(3, () => {
      cancel();
      clock.after(0, () => ran.push(`set at ${clock.monotonicMs()}`));
    });

    await clock.pass(10);

    expect(ran).toEqual(['set at 3']);
    expect(clock.pending).toBe(0);
  });

  test('has a wall clock in whole milliseconds that can be set', async () => {
    const clock = new VirtualClock();
    await clock.pass(1.5);

    clock.setClock(-3_600_000);

    expect(new Date(clock.now()).toISOString()).toBe('2025-12-31T23:00:00.001Z');
    expect(clock.monotonicMs()).toBe(1.5);
  });

  test('a process that was killed runs nothing any more, and sets nothing', async () => {
    const clock = new VirtualClock();
    const timers = new ProcessTimers(clock);
    const ran: string[] = [];
    timers.after(1, () => ran.push('before'));
    timers.after(5, () => ran.push('after'));
    await clock.pass(2);

    timers.kill();
    timers.after(1, () => ran.push('never'));
    await clock.pass(10);

    expect(ran).toEqual(['before']);
    expect(timers.pending).toBe(0);
  });
});
