import pLimit from 'p-limit';
import { membersOf } from '#functions/shard-release/members.ts';
import { clusterView, isRunning, podView } from '#functions/shard-release/observe.ts';
import type { ClusterView, PodView } from '#functions/shard-release/snapshot.ts';
import { goverseLabel } from '#shared/api/labels.ts';
import type { GoverseView } from '#shared/goverse/goverse.ts';
import { describeError } from '#shared/kernel/errors.ts';
import type { Read } from '#shared/kernel/read.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import { goverseClusters } from '#shared/outside/goverse.ts';
import type { Cluster } from '../cluster.ts';
import { type Check, failed, ok, skipped } from './check.ts';
import { listAll } from './list-all.ts';

/** Clusters that are looked at side by side. */
const clustersAtOnce = 4;

/** Every GoverseCluster: are its keys to be read, which pod is which node, and has each pod time enough to stop? */
export async function checkGoverseClusters(
  cluster: Cluster,
  namespaces: readonly string[],
): Promise<readonly Check[]> {
  const found = await listAll(cluster.kube, 'GoverseCluster', namespaces);
  if (typeof found === 'string') {
    return [skipped('GoVerse clusters', found)];
  }
  const limit = pLimit(clustersAtOnce);
  const checks = await Promise.all(found.map((each) => limit(() => checkCluster(cluster, each))));
  return checks.flat();
}

async function checkCluster(
  cluster: Cluster,
  object: KubeObject<'GoverseCluster'>,
): Promise<readonly Check[]> {
  const { namespace = '', name } = object.metadata;
  const view = clusterView(object, '');
  const [keys, pods] = await Promise.all([
    readKeys(cluster, object),
    listAll(cluster.kube, 'Pod', [namespace], { [goverseLabel]: name }),
  ]);
  const running = typeof pods === 'string' ? pods : pods.filter(isRunning).map(podView);
  return [
    checkKeys(view, keys),
    checkMembers(view, keys, running),
    checkGraceOfNodes(view, running),
  ];
}

async function readKeys(
  { kube, connection }: Cluster,
  object: KubeObject<'GoverseCluster'>,
): Promise<Read<GoverseView>> {
  try {
    const store = await goverseClusters(kube, connection).store(object, undefined);
    try {
      return await store.view();
    } finally {
      await store.close();
    }
  } catch (error) {
    return { kind: 'unknown', why: describeError(error) };
  }
}

export function checkKeys({ name, shardCount }: ClusterView, keys: Read<GoverseView>): Check {
  const check = `keys of gvc/${name}`;
  if (keys.kind !== 'present') {
    return failed(
      check,
      keys.kind === 'unknown' ? keys.why : 'there are none',
      "the steps must reach its etcd from where they run: check spec.topology, or name a service there to go through the API server's proxy",
    );
  }
  const { nodes, leader, shards, unreadable } = keys.value;
  const [first] = unreadable;
  if (first !== undefined) {
    return failed(
      check,
      `${unreadable.length} cannot be read, the first is ${first.key}: ${first.why}`,
      'correct spec.topology.prefix and spec.shards, or the key: nothing is handed over while it is there',
    );
  }
  return shards.length === shardCount
    ? ok(check, `${nodes.length} nodes, ${leader?.address ?? 'nobody'} leads, ${shardCount} shards`)
    : failed(
        check,
        `${shards.length} of ${shardCount} shards have a key`,
        'check that spec.topology.prefix and spec.shards are what its nodes are configured with, and that one of them leads',
      );
}

/** Only a node that one pod is, and a pod that is one node, are handed over. */
export function checkMembers(
  { name }: ClusterView,
  keys: Read<GoverseView>,
  pods: readonly PodView[] | string,
): Check {
  const check = `pods of gvc/${name}`;
  if (typeof pods === 'string' || keys.kind !== 'present') {
    return skipped(check, typeof pods === 'string' ? pods : 'its nodes are not known');
  }
  const nodes = keys.value.nodes.map(({ address }) => address);
  const { strays } = membersOf(nodes, pods);
  return strays.length === 0
    ? ok(check, `each of ${nodes.length} nodes has its pod`)
    : failed(
        check,
        `it cannot be told which pod ${strays.join(', ')} is`,
        `label its pods with ${goverseLabel}: ${name}, and where their addresses do not tell, annotate them with goverse.millrace.dev/address`,
      );
}

/** The kubelet kills a pod at the end of its grace period, handed over or not. */
export function checkGraceOfNodes(
  { name, mode, timeoutSeconds }: ClusterView,
  pods: readonly PodView[] | string,
): Check {
  const check = `grace period of gvc/${name}`;
  if (typeof pods === 'string') {
    return skipped(check, pods);
  }
  const clean = pods.filter((pod) => (pod.mode ?? mode) === 'clean');
  if (clean.length === 0) {
    return skipped(check, 'none of its pods is shut down cleanly');
  }
  const hasty = clean.filter(({ graceSeconds }) => graceSeconds <= timeoutSeconds);
  return hasty.length === 0
    ? ok(check, `longer than the ${timeoutSeconds} s of a hand-over`)
    : failed(
        check,
        `${hasty.map((pod) => `${pod.name} has ${pod.graceSeconds} s`).join(', ')}, a hand-over may take ${timeoutSeconds} s`,
        'raise terminationGracePeriodSeconds above spec.shutdown.timeout, and the time the node needs to stop besides',
      );
}
