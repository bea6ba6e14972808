import { forceDrain, reconcileRequest } from '#shared/api/annotations.ts';
import { type ClusterScript, atSeconds } from './cluster-script.ts';

/** Something that happens in a cluster while relays watch it. */
export interface Act {
  /** Since the relays started. */
  readonly atMs: number;
  readonly words: string;
  readonly act: (cluster: ClusterScript) => void;
}

export interface RelayWorkload {
  readonly name: string;
  /** The name of the workload in which the same happens to one relay. */
  readonly story: string;
  /** What is there before a relay starts. */
  readonly before: (cluster: ClusterScript) => void;
  readonly acts: readonly Act[];
  /** When the first relay is restarted as on SIGTERM. */
  readonly rollsAtMs: readonly number[];
  /** At least so long it goes on. */
  readonly endMs: number;
  readonly relays: 'one' | 'two' | 'two with a lease';
  /** How the API server gives lists. */
  readonly lists: 'streamed' | 'in pages';
  /** How much later than usual hints may be, in milliseconds. */
  readonly slackMs: number;
}

type Story = Pick<RelayWorkload, 'name' | 'before' | 'acts' | 'endMs'> &
  Partial<Pick<RelayWorkload, 'rollsAtMs' | 'slackMs'>>;

function at(seconds: number, words: string, act: Act['act']): Act {
  return { atMs: seconds * 1_000, words, act };
}

const oneShard = (cluster: ClusterScript): void => {
  cluster.makeDatabase('orders');
  cluster.makeShard('a', 'orders');
  cluster.makePod('a-0', 'a');
};

/** One drain as the relay sees it, from the scale-down to the end of the Shard. */
const aShardLives: Story = {
  name: 'a shard lives',
  before: oneShard,
  endMs: 40_000,
  acts: [
    at(2, 'a pod comes', (cluster) => cluster.makePod('a-1', 'a')),
    at(3, 'a person scales', (cluster) => cluster.setReplicas('a', 2)),
    at(3.005, 'pool-pods claims', (cluster) => cluster.record('a', 'pool-pods')),
    at(5, 'drain-step waits', (cluster) => cluster.record('a', 'drain-step', { every: 4 })),
    at(5.02, 'drain-step says so', (cluster) => cluster.setCondition('a', 'Drained', 'Draining')),
    at(11, 'the pod is marked', (cluster) =>
      cluster.annotate('Pod', 'a-1', { 'drain.millrace.dev/state': 'finished' }),
    ),
    at(12, 'the pod goes', (cluster) => cluster.remove('Pod', 'a-1')),
    at(14, 'drain-step is done', (cluster) => cluster.clearRecord('a', 'drain-step')),
    at(20, 'somebody edits a foreign annotation', (cluster) =>
      cluster.annotate('Shard', 'a', { 'example.com/note': 'x' }),
    ),
    at(25, 'the Shard goes', (cluster) => cluster.remove('Shard', 'a')),
    at(25.004, 'the pod goes after it', (cluster) => cluster.remove('Pod', 'a-0')),
  ],
};

const namesReturn: Story = {
  name: 'names return',
  before: (cluster) => {
    oneShard(cluster);
    cluster.makeShard('b', 'orders');
    cluster.makePod('b-0', 'b');
    cluster.record('b', 'drain-step', { every: 4 });
  },
  endMs: 40_000,
  acts: [
    at(2, 'Shard a goes', (cluster) => cluster.remove('Shard', 'a')),
    at(2.001, 'and is back', (cluster) => cluster.makeShard('a', 'orders')),
    at(6, 'pod b-0 goes', (cluster) => cluster.remove('Pod', 'b-0')),
    at(6.5, 'and is back, for a', (cluster) => cluster.makePod('b-0', 'a')),
    at(9, 'Shard b goes, and its wake', (cluster) => cluster.remove('Shard', 'b')),
    at(12, 'b is back without a record', (cluster) => cluster.makeShard('b', 'orders')),
    at(15, 'b goes', (cluster) => cluster.remove('Shard', 'b')),
    at(15.2, 'b is back', (cluster) => cluster.makeShard('b', 'orders')),
    at(15.4, 'b goes once more', (cluster) => cluster.remove('Shard', 'b')),
  ],
};

const podsMove: Story = {
  name: 'pods move',
  before: (cluster) => {
    oneShard(cluster);
    cluster.makeShard('b', 'orders');
    cluster.makePod('nobodys', undefined);
  },
  endMs: 35_000,
  acts: [
    at(2, 'a pod moves from a to b', (cluster) => cluster.movePod('a-0', 'b')),
    at(4, 'a pod of nobody becomes a’s', (cluster) => cluster.movePod('nobodys', 'a')),
    at(6, 'a pod becomes nobody’s', (cluster) => cluster.movePod('a-0', null)),
    at(8, 'a pod comes before its Shard', (cluster) => cluster.makePod('c-0', 'c')),
    at(8.002, 'the Shard comes', (cluster) => cluster.makeShard('c', 'orders')),
    at(10, 'a pod in another namespace has the same label', (cluster) =>
      cluster.makePod('a-9', 'a', 'other'),
    ),
    at(12, 'pods of two Shards are written at once', (cluster) => {
      cluster.annotate('Pod', 'c-0', { 'example.com/note': '1' });
      cluster.annotate('Pod', 'nobodys', { 'example.com/note': '1' });
    }),
    at(14, 'a pod goes', (cluster) => cluster.remove('Pod', 'c-0')),
  ],
};

const wakes: Story = {
  name: 'wakes',
  before: (cluster) => {
    cluster.makeDatabase('orders');
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      cluster.makeShard(name, 'orders');
    }
    cluster.record('a', 'drain-step', { every: 20 });
    cluster.record('b', 'pool-pods', { at: '2025-12-31T23:00:00Z' });
  },
  endMs: 150_000,
  acts: [
    at(5, 'c asks for every 15 s', (cluster) => cluster.record('c', 'drain-step', { every: 15 })),
    at(6, 'd asks for an instant', (cluster) =>
      cluster.record('d', 'pool-pods', { at: atSeconds(65) }),
    ),
    at(30, 'a asks for less', (cluster) => cluster.record('a', 'drain-step', { every: 45 })),
    at(40, 'e asks for both steps', (cluster) => {
      cluster.record('e', 'drain-step', { every: 30 });
      cluster.record('e', 'pool-pods', { at: atSeconds(90) });
    }),
    at(50, 'b is done', (cluster) => cluster.clearRecord('b', 'pool-pods')),
    at(70, 'c goes', (cluster) => cluster.remove('Shard', 'c')),
    at(71, 'c is back without a record', (cluster) => cluster.makeShard('c', 'orders')),
    at(101, 'd asks for sooner than anybody', (cluster) =>
      cluster.record('d', 'drain-step', { every: 4 }),
    ),
  ],
};

const manyTargets: Story = {
  name: 'many targets',
  before: (cluster) => {
    cluster.makeDatabase('orders');
    cluster.makeDatabase('orders', 'other');
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) {
      cluster.makeShard(name, 'orders');
      cluster.makeShard(name, 'orders', 'other');
    }
  },
  endMs: 30_000,
  acts: [
    at(2, 'a Database is asked for', (cluster) =>
      cluster.annotate('Database', 'orders', { [reconcileRequest]: '1' }),
    ),
    at(4, 'a foreign note on a Database', (cluster) =>
      cluster.annotate('Database', 'orders', { 'example.com/note': '1' }),
    ),
    at(5, 'a Shard is asked for', (cluster) =>
      cluster.annotate('Shard', 'a', { [reconcileRequest]: '1' }),
    ),
    at(6, 'a drain is forced', (cluster) =>
      cluster.annotate('Shard', 'b', { [forceDrain]: 'pod-uid' }),
    ),
    at(7, 'five Shards are scaled at once', (cluster) => {
      for (const name of ['a', 'b', 'c', 'd', 'e']) {
        cluster.setReplicas(name, 3);
      }
    }),
    at(9, 'a Database goes', (cluster) => cluster.remove('Database', 'orders', 'other')),
    at(11, 'it is back', (cluster) => cluster.makeDatabase('orders', 'other')),
  ],
};

/** More hints than a target may cause at once. */
const aStorm: Story = {
  name: 'a storm',
  before: (cluster) => {
    oneShard(cluster);
    cluster.makeShard('b', 'orders');
  },
  endMs: 30_000,
  slackMs: 1_100,
  acts: [
    ...Array.from({ length: 72 }, (_, place) =>
      at(2 + place / 20, 'a changes', (cluster) => cluster.record('a', 'pool-pods')),
    ),
    at(6.1, 'b changes', (cluster) => cluster.record('b', 'pool-pods')),
  ],
};

/** Long enough for everything to be looked at again, and for watches to end by themselves. */
const aLongLife: Story = {
  name: 'a long life',
  before: oneShard,
  endMs: 64 * 60_000,
  acts: [
    at(700, 'pool-pods waits', (cluster) => cluster.record('a', 'pool-pods', { every: 900 })),
    at(2_000, 'a pod comes', (cluster) => cluster.makePod('a-1', 'a')),
    at(2_001, 'b comes', (cluster) => cluster.makeShard('b', 'orders')),
  ],
};

const restarts: Story = {
  name: 'restarts',
  before: (cluster) => {
    oneShard(cluster);
    cluster.record('a', 'drain-step', { every: 7 });
  },
  rollsAtMs: [4_000, 30_000],
  endMs: 60_000,
  acts: [
    at(3.999, 'a changes just before', (cluster) => cluster.setReplicas('a', 2)),
    at(4.001, 'b comes meanwhile', (cluster) => cluster.makeShard('b', 'orders')),
    at(29.995, 'b goes just before', (cluster) => cluster.remove('Shard', 'b')),
  ],
};

const stories = [
  aShardLives,
  namesReturn,
  podsMove,
  wakes,
  manyTargets,
  aStorm,
  aLongLife,
  restarts,
];

function workload(
  story: Story,
  relays: RelayWorkload['relays'] = 'one',
  lists: RelayWorkload['lists'] = 'streamed',
): RelayWorkload {
  const how = [relays === 'one' ? '' : `, ${relays}`, lists === 'streamed' ? '' : `, ${lists}`];
  return {
    rollsAtMs: [],
    slackMs: 0,
    ...story,
    name: story.name + how.join(''),
    story: story.name,
    relays,
    lists,
  };
}

/** Every workload: each story with one relay, some of them with two and with lists in pages. */
export const relayWorkloads: readonly RelayWorkload[] = [
  ...stories.map((story) => workload(story)),
  workload(aShardLives, 'one', 'in pages'),
  workload(namesReturn, 'one', 'in pages'),
  workload(manyTargets, 'one', 'in pages'),
  workload(aShardLives, 'two'),
  workload(namesReturn, 'two'),
  workload(aShardLives, 'two with a lease'),
  workload(namesReturn, 'two with a lease'),
  workload(wakes, 'two with a lease'),
  workload(restarts, 'two with a lease'),
];

export function workloadNamed(name: string): RelayWorkload {
  const found = relayWorkloads.find((candidate) => candidate.name === name);
  if (found === undefined) {
    throw new Error(`there is no workload ${name}`);
  }
  return found;
}
