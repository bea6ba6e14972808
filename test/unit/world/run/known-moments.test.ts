import { describe, expect, test } from 'vitest';
import { Tally } from '#test/world/oracles/tally.ts';
import { Chronicle } from '#test/world/run/chronicle.ts';
import { textOf } from '#test/world/run/fingerprint.ts';
import { KnownMoments, ofMoment } from '#test/world/run/known-moments.ts';
import { type PlanName, beginningOf, strikesOf } from '#test/world/run/plans.ts';
import { runToEnd } from '#test/world/run/run.ts';
import type { Witness, World } from '#test/world/run/world.ts';
import { aWorld } from '#test/world/workloads/cluster.ts';
import { everyWorkload } from '#test/world/verify/workloads.ts';

const workloads = await everyWorkload();

/** Each quiet moment that a run comes through, with everything that is told from there on; numbers of handlers aside. */
async function momentsOf(plan: PlanName): Promise<ReadonlyMap<string, readonly string[]>> {
  const workload = workloads.find(({ name }) => name === plan.workload);
  if (workload === undefined) {
    throw new Error(`there is no workload ${plan.workload}`);
  }
  const lines: string[] = [];
  const from = new Map<string, number>();
  const world = await beginningOf(workload, new Tally());
  world.listen(new Chronicle((line) => lines.push(line.replaceAll(/#\d+/g, ''))));
  await runToEnd(world, {
    workload,
    strikes: strikesOf(workload, plan),
    isKnown: (at, stage) => {
      from.set(textOf(ofMoment(at, stage)), lines.length);
      return false;
    },
  });
  return new Map([...from].map(([moment, line]) => [moment, lines.slice(line)]));
}

const faults = [
  'F1 crash before',
  'F3 reply lost, applied',
  'F4 reply lost, not applied',
  'F5 conflict',
  'F8 read fails',
  'F9 delivered twice',
  'F10 twin runs first',
  'F11 zombie',
  'F19 record removed',
  'F20 lead moves',
  'F21 node lost',
  'F22 throttled',
  'F24 etcd away',
  'F26 every clock ahead',
  'F29 next version',
  'F33 two primaries',
  'F33 undecided proposal',
];

describe.each(['3 to 2', 'a member fails', 'pods go while it scales'])('%s', (workload) => {
  test('runs that come through the same quiet moment go on in the same way from there', async () => {
    const goingOn = new Map<string, readonly string[]>();
    let shared = 0;
    for (const fault of faults) {
      for (const at of [4, 9, 22]) {
        const moments = await momentsOf({ workload, strikes: [{ at, fault }] });
        for (const [moment, story] of moments) {
          const known = goingOn.get(moment);
          shared += Number(known !== undefined);
          expect(story).toEqual(known ?? story);
          goingOn.set(moment, story);
        }
      }
    }
    expect(shared).toBeGreaterThan(50);
  });
});

describe('a moment', () => {
  const course = { strikes: 1, isCompared: true };

  function aRunThrough(moments: KnownMoments, change: (world: ReturnType<typeof aWorld>) => void) {
    const world = aWorld(new Tally(), { replicas: 2 });
    change(world);
    moments.begin();
    return (how: Partial<typeof course> = {}) =>
      moments.isKnown(world, 'faults', { ...course, ...how });
  }

  test('is known where an earlier run came through it, and not where the same one did', () => {
    const moments = new KnownMoments();
    const first = aRunThrough(moments, () => undefined);

    expect([first(), first()]).toEqual([false, false]);
    expect(aRunThrough(moments, () => undefined)()).toBe(true);
  });

  test('is not known where what is planned differs', () => {
    const moments = new KnownMoments();
    aRunThrough(moments, () => undefined)();

    const later = aRunThrough(moments, (world) => world.later('an act', 30, () => undefined));

    expect(later()).toBe(false);
  });

  test('is not known where somebody checks who does not say what he remembers', () => {
    const moments = new KnownMoments();
    const forgetful: Witness = {
      told: () => undefined,
      sent: () => undefined,
      ended: () => undefined,
      wrote: () => undefined,
      fork: () => forgetful,
    };
    const accompanied = (world: World) => world.accompany(forgetful);

    aRunThrough(moments, accompanied)();

    expect(aRunThrough(moments, accompanied)()).toBe(false);
  });

  test('is not known from a run that had more left to spend', () => {
    const moments = new KnownMoments();
    aRunThrough(moments, () => undefined)();

    const dearer = aRunThrough(moments, (world) => {
      world.deliveries += 1;
    });

    expect(dearer()).toBe(false);
  });

  test('is not known from a run that was compared with nothing, to one that is', () => {
    const moments = new KnownMoments();
    aRunThrough(moments, () => undefined)({ isCompared: false });

    expect(aRunThrough(moments, () => undefined)({ isCompared: false })).toBe(true);
    expect(aRunThrough(moments, () => undefined)({ isCompared: true })).toBe(false);
  });

  test('is not known from a run that more faults had struck', () => {
    const moments = new KnownMoments();
    aRunThrough(moments, () => undefined)({ strikes: 2 });

    expect(aRunThrough(moments, () => undefined)({ strikes: 2 })).toBe(true);
    expect(aRunThrough(moments, () => undefined)({ strikes: 1 })).toBe(false);
  });
});
