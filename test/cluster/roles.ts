import type { Permission } from './secured-etcd.ts';

/** What functions/etcd-cleanup/README.md tells to grant. */
export function cleanupRole({
  globalRoot,
  cellRoot,
}: {
  readonly globalRoot: string;
  readonly cellRoot: string;
}): readonly Permission[] {
  return [
    { type: 'READ', prefix: `${globalRoot}/cells/` },
    { type: 'READWRITE', prefix: `${cellRoot}/poolers/` },
  ];
}

/** What functions/shard-release/README.md tells to grant. */
export function releaseRole(prefix: string): readonly Permission[] {
  return [
    { type: 'READ', prefix: `${prefix}/` },
    { type: 'READWRITE', prefix: `${prefix}/shard/` },
  ];
}
