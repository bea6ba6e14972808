import { expect, test } from 'vitest';
import { plusSeconds } from '#shared/kernel/instant.ts';
import { Tally } from '#test/world/oracles/tally.ts';
import { faultsOf } from '#test/world/run/faults.ts';
import { textOf } from '#test/world/run/fingerprint.ts';
import { ofMoment } from '#test/world/run/known-moments.ts';
import { beginningOf } from '#test/world/run/plans.ts';
import type { World } from '#test/world/run/world.ts';
import { everyWorkload } from '#test/world/verify/workloads.ts';

const workloads = await everyWorkload();
const workload = workloads.find(({ name }) => name === 'a member fails');
if (workload === undefined) {
  throw new Error('the workload is gone');
}

const lasting = [
  'F21 node lost',
  'F26 one clock ahead',
  'F26 every clock behind',
  'F29 next version',
  'F33 two primaries',
  'F33 undecided proposal',
  'F33 nobody leads',
  'F19 record malformed',
];

const printOf = (world: World): string =>
  textOf(ofMoment(world, '')) + JSON.stringify(world.circumstances);

test.each(lasting)(
  '%s: what it leaves for later happens in the copy that is gone on with',
  async (name) => {
    const world = await beginningOf(workload, new Tally());
    world.settle();
    await world.deliverNext();
    const operation = world.nextOperation();
    const fault = faultsOf(workload).find((each) => each.name === name);
    if (operation === undefined || fault === undefined) {
      throw new Error(`there is nothing to strike, or no fault ${name}`);
    }
    await fault.strike(operation, world);
    world.crash(operation.by);
    const copy = world.fork();
    const before = printOf(world);

    copy.passTo(plusSeconds(copy.now, 61));
    copy.settle();

    expect(printOf(world)).toBe(before);
    expect(copy.circumstances).toMatchObject({
      planned: [],
      clocks: { handlerMs: 0, apiServerMs: 0 },
      version: 'shipped',
    });
    expect(copy.multigres.state.faults).toEqual([]);
  },
);
