import { expect, required } from './acts.ts';
import { type GoverseNodes, addressOf, startGoverse } from './goverse-nodes.ts';
import { costRow } from './goverse-told.ts';
import type { Stage } from './stage.ts';

/**
 * GoVerse knows no way to let a shard go: whoever stops a node leaves its shards with nobody until the others have waited
 * for ten quiet seconds and for two ticks. The same node's pod, deleted with a hook that asks the relay, has none left by
 * the time it stops. What callers would have noticed is measured from etcd alone, shard by shard.
 */
export async function handover(stage: Stage): Promise<void> {
  stage.say(
    'four nodes of a stand-in for GoVerse start, at its own speed: 10 s without a change, then its leader gives the 8,192 shards out',
  );
  await using nodes = await startGoverse(stage, 'cache');
  const { observer } = nodes;
  const [first, second] = nodes.followers();
  const quick = required(first, 'a follower');
  const clean = required(second, 'another follower');

  stage.say(
    `the pod ${quick} is deleted in mode quick: it gets SIGTERM at once, and nobody hands its shards over`,
  );
  const alone = await nodes.measure(() => nodes.stopQuickly(quick));
  const aloneMarks = observer.marked().length;
  stage.say(
    `the pod ${clean} is deleted in mode clean: its preStop hook asks the relay before it gets SIGTERM`,
  );
  const handed = await nodes.measure(() => nodes.stopCleanly(clean));
  await nodes.untilAtRest();

  stage.table([
    costRow('SIGTERM alone', quick, alone, aloneMarks),
    costRow('handed over', clean, handed, observer.marked().length),
  ]);
  expect(
    handed.unroutable.meanMs < alone.unroutable.meanMs,
    'a shard that is handed over is out of reach for less time than one whose node just stops',
  );
  expect(handed.unowned.meanMs < alone.unowned.meanMs, 'it is with nobody for less time too');
  expectAtRest(nodes, [quick, clean]);
}

/** Nothing of Millrace's is left in etcd, and every shard is with a node that lives. */
export function expectAtRest({ observer }: GoverseNodes, gone: readonly string[]): void {
  expect(observer.marked().length === 0, 'no shard carries a mark of Millrace');
  expect(
    gone.every((pod) => !observer.registered.includes(addressOf(pod))),
    'the nodes that went are not registered any more',
  );
  expect(
    [...observer.loads().keys()].every((node) => observer.nodes.includes(node)),
    'every shard is with a node that lives, and meant for one',
  );
}
