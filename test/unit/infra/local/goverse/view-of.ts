import { LiveView } from '#infra/local/goverse/cluster-view.ts';
import { keysOf } from '#shared/goverse/keys.ts';

interface ViewParts {
  readonly nodes?: readonly string[];
  readonly gates?: readonly string[];
  readonly leader?: string;
  /** The values of the shards' keys, from shard 0 on; one without a key is `null`. */
  readonly shards?: readonly (string | null)[];
  readonly atMs?: number;
}

/** What a node that has just read these keys knows. */
export function viewOf({ nodes = [], gates = [], leader, shards = [], atMs = 0 }: ViewParts) {
  const keys = keysOf('/goverse');
  const view = new LiveView(keys, shards.length);
  view.load(
    [
      ...nodes.map((node) => ({ key: `${keys.nodes}${node}`, value: node })),
      ...gates.map((gate) => ({ key: `${keys.gates}${gate}`, value: gate })),
      ...(leader === undefined ? [] : [{ key: keys.leader, value: leader }]),
      ...shards.flatMap((value, shard) =>
        value === null ? [] : [{ key: `${keys.shards}${shard}`, value }],
      ),
    ].map((entry, place) => ({ ...entry, modRevision: place + 1 })),
    atMs,
  );
  return view;
}
