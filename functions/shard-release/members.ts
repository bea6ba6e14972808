import type { PodView } from './snapshot.ts';

/** Which node each pod is, and which nodes no pod is. */
export interface Members {
  /** By the pod's uid. A pod without an entry is no node that is registered, or it cannot be told which. */
  readonly nodeOf: ReadonlyMap<string, string>;
  /** Registered nodes that no pod is, or more than one. */
  readonly strays: readonly string[];
}

/**
 * Finds each node's pod: by the address that a person gave, else by the host before the port, which is an address of the
 * pod, its name, or begins with its name and a dot. A node that two pods might be, and a pod that might be two nodes, are
 * nobody's: nothing is handed over on a guess.
 */
export function membersOf(nodes: readonly string[], pods: readonly PodView[]): Members {
  const matches = nodes.map((node) => ({ node, pods: pods.filter((pod) => mayBe(pod, node)) }));
  const sure = matches.flatMap(({ node, pods: [pod, other] }) =>
    pod !== undefined && other === undefined ? [{ node, uid: pod.uid }] : [],
  );
  const only = sure.filter(
    ({ uid }) =>
      matches.filter(({ pods: found }) => found.some((pod) => pod.uid === uid)).length === 1,
  );
  const known = new Set(only.map(({ node }) => node));
  return {
    nodeOf: new Map(only.map(({ node, uid }) => [uid, node])),
    strays: nodes.filter((node) => !known.has(node)),
  };
}

function mayBe({ address, ips, name }: PodView, node: string): boolean {
  if (address !== null) {
    return address === node;
  }
  const host = hostOf(node);
  return host === name || host.startsWith(`${name}.`) || ips.includes(host);
}

/** `10.0.0.7:48000` → `10.0.0.7`, `[fd00::7]:48000` → `fd00::7`. */
function hostOf(node: string): string {
  const [, bracketed] = /^\[([^\]]+)\](?::\d+)?$/.exec(node) ?? [];
  return bracketed ?? node.replace(/:\d+$/, '');
}
