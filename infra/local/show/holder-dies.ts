import type { GoverseObserver, Observation } from '#infra/local/goverse/observer.ts';
import { expect, required } from './acts.ts';
import { type GoverseNodes, addressOf, loadsOf, podAt, startGoverse } from './goverse-nodes.ts';
import { costRow, counted, mostNamed, seconds } from './goverse-told.ts';
import { expectAtRest } from './handover.ts';
import type { Stage } from './stage.ts';

/** Longer than a lease, and than everything that follows its end. */
const patienceMs = 90_000;

/**
 * A hand-over pins every shard of one node, the holder, so that GoVerse's leader undoes nothing. A pin outlives its node:
 * were the holder killed then, nobody but Millrace could give its shards another one. So Millrace does, at once when the
 * holder's lease has ended: in the ten seconds after that GoVerse's nodes do nothing anyway.
 */
export async function holderDies(stage: Stage): Promise<void> {
  stage.say(
    'four nodes of a stand-in for GoVerse start, at its own speed: 10 s without a change, then its leader gives the 8,192 shards out',
  );
  await using nodes = await startGoverse(stage, 'lobby');
  const { observer } = nodes;
  const leaving = required(nodes.followers().at(-1), 'a follower');

  stage.say(
    `the pod ${leaving} is deleted; its preStop hook asks the relay before it gets SIGTERM`,
  );
  const [{ holder, seen }] = await Promise.all([
    killHolder(stage, nodes, leaving),
    nodes.stopCleanly(leaving),
  ]);
  await nodes.untilAtRest();
  stage.say(`${leaving} was handed over after all, and has stopped`);

  stage.table([costRow('kill -9 of the holder', holder, seen, observer.marked().length)]);
  expectAtRest(nodes, [holder, leaving]);
  const moves = observer
    .history()
    .filter(
      ({ before, after }) => before.target === addressOf(holder) && before.target !== after.target,
    );
  expect(
    moves.length > 0 && moves.every(({ revision }) => observer.writerOf(revision) === undefined),
    'Millrace, and no node of GoVerse, gave the shards of the dead one to others',
  );
}

/** Kills the holder once shards are under way, and measures until every shard is owned and in reach for the first time. */
async function killHolder(
  stage: Stage,
  nodes: GoverseNodes,
  leaving: string,
): Promise<{ readonly holder: string; readonly seen: Observation }> {
  const { observer } = nodes;
  await observer.until((seen) => isMoving(seen, addressOf(leaving)), patienceMs);
  const pinnedTo = observer.marked().map((shard) => observer.shard(shard)?.target ?? '');
  const address = required(mostNamed(pinnedTo), 'the holder of the pins');
  const holder = podAt(address);
  const pinCount = pinnedTo.filter((target) => target === address).length;
  const isLeader = address === observer.leader;
  stage.say(
    `kill -9 of ${holder}${isLeader ? ', the leader' : ''}: ${counted(pinCount)} shards are pinned to it, and ${leaving} still has some; its key stays until its lease of 15 s is over`,
  );
  observer.begin();
  const killedAtMs = performance.now();
  await nodes.kill(holder);
  await observer.until(({ registered }) => !registered.includes(address), patienceMs);
  const leftAtMs = performance.now();
  await observer.until((seen) => (seen.loads().get(address)?.target ?? 0) === 0, patienceMs);
  stage.say(
    `its key went ${seconds(leftAtMs - killedAtMs)} s after the kill; ${seconds(performance.now() - leftAtMs)} s later its shards were meant for others: ${loadsOf(observer)}`,
  );
  expect(isLevel(observer), 'every node that lives has as many as the others, the leaving one too');
  const seen = await observer.settled(0, patienceMs);
  stage.say(
    `all shards are owned and in reach ${seconds(seen.allOwnedMs)} s after the kill; the hand-over begins anew`,
  );
  return { holder, seen };
}

/** Every shard of the leaving node is meant for another, and some are still with it. */
function isMoving(seen: GoverseObserver, leaving: string): boolean {
  const { current = 0, target = 0 } = seen.loads().get(leaving) ?? {};
  return target === 0 && current > 0 && seen.marked().length > 0;
}

/** As many shards are meant for each node that lives, or one more than for another. */
function isLevel(observer: GoverseObserver): boolean {
  const loads = observer.loads();
  const targets = observer.nodes.map((node) => loads.get(node)?.target ?? 0);
  return Math.max(...targets) - Math.min(...targets) <= 1;
}
