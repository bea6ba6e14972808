import { enqueue } from './outbox.ts';
import { backupLeaseKey, toBase64 } from './records.ts';
import { type DataPlaneState, type Member, hasFault } from './state.ts';

/*
 * The lease of a shard's backups as it stands in etcd. Multigres keeps it under a lease of etcd's own; here the key is
 * written and removed when that would begin and end.
 */

/** Who has the lease while the fault says that somebody else does. */
const somebodyElse = { name: 'somebody-else', hostname: 'elsewhere', podUid: null };

export function writeLease(state: DataPlaneState, { id, pod }: Member): void {
  write(state, { name: id.name, hostname: pod.hostname, podUid: pod.uid });
}

export function writeForeignLease(state: DataPlaneState): void {
  write(state, somebodyElse);
}

function write(
  state: DataPlaneState,
  holder: { readonly name: string; readonly hostname: string; readonly podUid: string | null },
): void {
  const lock = {
    Action: `backup by ${holder.name}`,
    HostName: holder.hostname,
    UserName: 'postgres',
    Time: new Date(state.nowMs).toISOString().replace(/\.\d+/, ''),
    Options: {},
    Status: 'Running',
  };
  enqueue(state, {
    key: backupLeaseKey(state.config),
    value: toBase64(Buffer.from(JSON.stringify(lock, null, 2))),
    onlyAt: null,
    podUid: holder.podUid,
  });
}

/** What somebody else holds stays. */
export function removeLease(state: DataPlaneState): void {
  if (!hasFault(state, 'leaseHeld')) {
    enqueue(state, {
      key: backupLeaseKey(state.config),
      value: null,
      onlyAt: null,
      podUid: null,
    });
  }
}
