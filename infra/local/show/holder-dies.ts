import type { GoverseObserver, Observation } from '#infra/local/goverse/observer.ts';
import { timing } from '#infra/local/goverse/timing.ts';
import { expect, required } from './acts.ts';
import { type GoverseNodes, addressOf, loadsOf, startGoverse } from './goverse-nodes.ts';
import { costRow, counted, mostNamed, seconds } from './goverse-told.ts';
import { expectAtRest } from './handover.ts';
import type { Stage } from './stage.ts';

/** Longer than a lease, and than everything that follows its end. */
const patienceMs = 90_000;

/**
 * A hand-over pins every shard of one node, the holder, so that GoVerse's leader undoes nothing. A pin outlives its node:
 * were the holder killed then, nobody but Millrace could give its shards another one. So it does, as soon as the holder's
 * lease has ended, and within the ten seconds in which GoVerse's leader does nothing anyway.
 */
export async function holderDies(stage: Stage): Promise<void> {
  stage.say(
    'four nodes of a stand-in for GoVerse start, at its own speed: 10 s without a change, then its leader gives the 8,192 shards out',
  );
  await using nodes = await startGoverse(stage, 'lobby');
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
  stage.table([costRow('kill -9 of the holder', holder, seen, nodes.observer.marked().length)]);
  expectAtRest(nodes, [holder, leaving]);
}

/** Kills the holder once shards are under way, and measures until every shard is owned and in reach for the first time. */
async function killHolder(
  stage: Stage,
  nodes: GoverseNodes,
  leaving: string,
): Promise<{ readonly holder: string; readonly seen: Observation }> {
  const { observer } = nodes;
  await observer.until((seen) => isMoving(seen, addressOf(leaving)), patienceMs);
  const address = required(mostNamed(pinnedTo(observer)), 'the holder of the pins');
  const holder = required(
    [...nodes.followers(), nodes.leader()].find((pod) => addressOf(pod) === address),
    'its pod',
  );
  stage.say(
    `kill -9 of ${holder}${holder === nodes.leader() ? ', the leader' : ''}: ${counted(pinnedTo(observer).filter((to) => to === address).length)} shards are pinned to it, and ${leaving} still has some; its key stays until its lease of 15 s is over`,
  );
  observer.begin();
  const killedAtMs = performance.now();
  await nodes.kill(holder);

  await observer.until(({ registered }) => !registered.includes(address), patienceMs);
  const leftAtMs = performance.now();
  await observer.until((seen) => (seen.loads().get(address)?.target ?? 0) === 0, patienceMs);
  const levelledMs = performance.now() - leftAtMs;
  stage.say(
    `its key went ${seconds(leftAtMs - killedAtMs)} s after the kill; ${seconds(levelledMs)} s later its shards were meant for ${loadsOf(observer)}`,
  );
  const seen = await observer.settled(0, patienceMs);
  stage.say(
    `all shards are owned and in reach ${seconds(seen.allOwnedMs)} s after the kill; the hand-over begins anew`,
  );
  expect(
    levelledMs < timing.stableMs,
    'its shards had other targets before GoVerse’s leader may do anything',
  );
  return { holder, seen };
}

/** Every shard of the leaving node is meant for another, and some are still with it. */
function isMoving(seen: GoverseObserver, leaving: string): boolean {
  const { current = 0, target = 0 } = seen.loads().get(leaving) ?? {};
  return target === 0 && current > 0 && seen.marked().length > 0;
}

/** Where the shards with a pin of Millrace's are meant to be, one entry for each. */
function pinnedTo(observer: GoverseObserver): readonly string[] {
  return observer.marked().map((shard) => observer.shard(shard)?.target ?? '');
}
