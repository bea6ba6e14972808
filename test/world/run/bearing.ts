import { isSamePooler } from '#shared/topology/topology.ts';
import { type Fault, leaverIn } from './faults.ts';
import { truthOf } from './truth.ts';
import type { World } from './world.ts';

/** Whether the data plane can bear a fault just now: beyond that nothing can be demanded of anybody. */
export function canBear({ costs }: Pick<Fault, 'costs'>, world: World): boolean {
  switch (costs) {
    case 'nothing':
    case 'a node':
      return true;
    case 'the lead':
      return spareMembers(world) >= 0;
    case 'a member':
    case 'a further member':
      return spareMembers(world) >= 1;
    case 'every member':
      return false;
  }
}

/**
 * How many of the members that neither leave nor are going can be lost, the leader among them, so that the others can
 * commit, and every write that was acknowledged is on one of them. Negative where they cannot as it is.
 */
function spareMembers(world: World): number {
  const { healthy, cohort, requiredCount } = truthOf(world.multigres.state);
  const { members } = world.multigres.state;
  const leaver = leaverIn(world);
  const staying = world.api
    .list('Pod')
    .flatMap(({ metadata: { uid, name, deletionTimestamp } }) => {
      const id = members[uid]?.id;
      return id === undefined || deletionTimestamp !== undefined || name === leaver ? [] : [id];
    });
  const sure = healthy.filter((id) => staying.some((other) => isSamePooler(id, other)));
  return sure.length - Math.max(requiredCount, cohort.length - requiredCount + 1);
}
