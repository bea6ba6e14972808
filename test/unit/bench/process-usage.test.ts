import { describe, expect, test } from 'vitest';
import { CpuMeter, usageOf } from '#test/bench/process-usage.ts';

/** Keeps this thread busy until the process has used so much more processor time. */
function spend(milliseconds: number): void {
  const before = process.cpuUsage();
  for (let spentMs = 0; spentMs < milliseconds;) {
    for (let round = 0; round < 1e6; round += 1) {
      // Nothing but work.
    }
    const { user, system } = process.cpuUsage(before);
    spentMs = (user + system) / 1000;
  }
}

describe.skipIf(process.platform !== 'linux')('the usage of a process', () => {
  test('is what the process itself is told', async () => {
    const { cpuMs, rssMib } = await usageOf(process.pid);
    const { user, system } = process.cpuUsage();

    // Linux counts in hundredths of a second, and other threads go on meanwhile.
    expect(Math.abs(cpuMs - (user + system) / 1000)).toBeLessThan(250);
    expect(rssMib / (process.memoryUsage.rss() / 2 ** 20)).toBeCloseTo(1, 0);
  });

  test('counts from the start of the meter', async () => {
    const meter = new CpuMeter(() => ({ 'this one': process.pid }));

    spend(100);
    await meter.start();
    spend(200);
    const spent = (await meter.read()).get('this one') ?? 0;

    expect(spent).toBeGreaterThanOrEqual(190);
    expect(spent).toBeLessThan(2_000);
  });

  test('cannot be read of a process that is not there', async () => {
    await expect(usageOf(2 ** 22 + 1)).rejects.toThrow('ENOENT');
  });
});
