import { type Entries, askDoctor, nodePods } from './meaning.ts';

const goesOn =
  'It looks every few seconds and goes on by itself. A node whose time is over is let go as it is.';

/** Reasons of shard-release. */
export const release = {
  ShardsInPlace: {
    brief: 'every shard is in its place',
    means: 'Nobody waits for a hand-over, and every shard is with its node.',
    attention: 'none',
    next: 'Nothing, until a node goes.',
  },
  KeysUnknown: {
    brief: 'the cluster’s keys cannot be read',
    means:
      'The keys of the GoVerse cluster in etcd could not be read. Nothing is guessed about shards.',
    attention: 'needed',
    waitsFor: 'an answer from etcd',
    todo: (names) => [
      {
        text: 'see whether etcd runs, and whether endpoints, certificates and users in spec.topology are right',
      },
      askDoctor(names),
    ],
    next: 'It asks again by itself. A node that goes meanwhile is let go when its time is over.',
  },
  KeysUnreadable: {
    brief: 'a key of the cluster cannot be read',
    means:
      'A key under the prefix is not one of GoVerse as the spec describes it. It may be any node or shard, so nothing is handed over.',
    attention: 'needed',
    waitsFor: 'that key to be readable, or gone',
    todo: () => [{ text: 'correct spec.topology.prefix and spec.shards, or the key' }],
    next: 'It looks again by itself.',
  },
  NodeUnidentified: {
    brief: 'which node a pod is cannot be told',
    means:
      'A pod goes, and it cannot be told which registered node it is, so its shards are not handed over.',
    attention: 'needed',
    waitsFor: 'to know the node of the pod',
    todo: ({ namespace }) => [
      {
        text: 'say under which address it is registered',
        command: `kubectl annotate -n ${namespace} pod/<pod> goverse.millrace.dev/address=<address>`,
      },
    ],
    next: 'With it the hand-over begins by itself.',
  },
  GraceTooShort: {
    brief: 'pods have too little time to stop in',
    means:
      'A pod has no more time to stop in than a hand-over may take, so it can be killed before its shards have moved.',
    attention: 'advised',
    todo: () => [
      { text: 'make terminationGracePeriodSeconds of the pods longer than spec.shutdown.timeout' },
    ],
    next: 'Hand-overs go on with the time there is.',
  },
  LastNode: {
    brief: 'the last node cannot hand over',
    means: 'All nodes that are left want to go, so there is nobody to take the shards.',
    attention: 'needed',
    waitsFor: 'another node to join',
    todo: (names) => [
      nodePods(names),
      { text: 'let another node join, or let it go with its shards' },
    ],
    next: 'It goes on once a node has joined. Nodes whose time is over are let go with their shards.',
  },
  NoLiveLeader: {
    brief: 'no node leads the cluster',
    means: 'No registered node leads the GoVerse cluster, so nobody would move any shard.',
    attention: 'needed',
    waitsFor: 'a leader',
    todo: (names) => [nodePods(names), { text: 'see why no node becomes the leader' }],
    next: 'It goes on once there is one. Nodes whose time is over are let go with their shards.',
  },
  AwaitingStillness: {
    brief: 'a hand-over waits for quiet',
    means:
      'A node, a gate or the leader has changed just now. GoVerse moves shards by itself for some seconds after that.',
    attention: 'none',
    waitsFor: 'some seconds without a change',
    next: goesOn,
  },
  ShardsUnsettled: {
    brief: 'shards are on their way',
    means:
      'Some shards are not with a registered node that is meant to have them. GoVerse moves them.',
    attention: 'none',
    waitsFor: 'these shards to arrive',
    next: goesOn,
  },
  HandingOver: {
    brief: 'shards are handed over',
    means: 'A node goes, and its shards are given to the others.',
    attention: 'none',
    waitsFor: 'the others to take the shards',
    next: goesOn,
  },
  AwaitingClaims: {
    brief: 'shards are being taken over',
    means: 'The shards of a node that goes have new nodes, which have not taken all of them yet.',
    attention: 'none',
    waitsFor: 'the new nodes to take the shards',
    next: goesOn,
  },
  ShardsReleased: {
    brief: 'a node has handed over and may go',
    means: 'All shards of a node that goes are with other nodes. It may stop.',
    attention: 'none',
    waitsFor: 'the node to leave',
    next: 'Once it has left, what kept its shards in place is taken off.',
  },
  HandoverTimedOut: {
    brief: 'a hand-over was not done in time',
    means:
      'The shards of a node that was asked to leave could not be handed over in time. It stays and has its share again.',
    attention: 'needed',
    waitsFor: 'a person to ask again, or to take the request back',
    todo: (names) => [
      nodePods(names),
      {
        text: 'see why the others did not take the shards; then take the request off the pod and set it again',
      },
    ],
    next: 'Nothing by itself.',
  },
  HandoverBegun: {
    brief: 'a hand-over has begun',
    means: 'A node goes, and its shards are going to be handed over.',
    attention: 'none',
    waitsFor: 'the hand-over',
    next: goesOn,
  },
  HandoverBroken: {
    brief: 'a node left before its hand-over was done',
    means:
      'A node left before all of its shards were handed over. GoVerse starts these anew on other nodes.',
    attention: 'none',
    next: 'Its shards are moved by themselves.',
  },
  ShutdownQuick: {
    brief: 'a node is shut down quickly',
    means:
      'A node is deleted in quick mode: its shards stay as they are, and it finds them when it is back.',
    attention: 'none',
    next: 'Nothing is done.',
  },
  OrphansMoved: {
    brief: 'shards of a dead node are moved',
    means: 'Shards that were held for a node which is gone get another one.',
    attention: 'none',
    waitsFor: 'these shards to arrive',
    next: goesOn,
  },
  Levelling: {
    brief: 'shards are spread evenly',
    means: 'Shards are spread evenly over the nodes.',
    attention: 'none',
    waitsFor: 'the shards to arrive',
    next: goesOn,
  },
  PinsTakenOff: {
    brief: 'shards are set free again',
    means: 'What kept shards in place during a hand-over is taken off.',
    attention: 'none',
    next: goesOn,
  },
} as const satisfies Entries;
