import { poolerKey } from '#infra/local/data-plane/records.ts';
import type { World } from './world.ts';

const garbled = Buffer.from('no protobuf at all');

/** As answers of etcd have it. */
export const garbledValue = garbled.toString('base64');

/** Puts a pooler record that nobody can decode beside the others, and removes it after so many seconds. */
export function garble(world: World, seconds: number): void {
  const { config, cells } = world.multigres.state;
  const key = poolerKey(config, { cell: cells[0]?.name ?? '', name: 'garbled' });
  world.etcd.put(key, garbled);
  world.later('the garbled record is removed', seconds, (at) => at.etcd.delete(key));
}
