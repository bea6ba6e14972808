import type { RepositoryRead } from '#shared/repository/repository.ts';
import type { BackupConfigSnapshot } from './snapshot.ts';
import { bucketOf, wantedOf } from './wanted.ts';

/** What is worth knowing of a repository that is used all the same. Sentences, in a fixed order. */
export function warningsOf(snapshot: BackupConfigSnapshot): readonly string[] {
  const bucket = bucketOf(snapshot);
  return bucket === null
    ? sharing(snapshot)
    : [
        ...doubt(
          bucket.survey.isVersioned,
          'whether the bucket keeps versions',
          'the bucket keeps no versions, so a backup that is overwritten or deleted by mistake is lost: turn versioning on',
        ),
        ...doubt(
          bucket.survey.isEncrypted,
          'whether the bucket encrypts by default',
          'the bucket does not encrypt by default: turn default encryption on',
        ),
      ];
}

function doubt(answer: RepositoryRead<boolean>, question: string, without: string): string[] {
  if (answer.kind === 'present') {
    return answer.value ? [] : [without];
  }
  return [`${question} cannot be told${'why' in answer ? ` (${answer.why})` : ''}`];
}

/** With such a claim the scheduler puts all members onto one node, or those on other nodes never start. */
function sharing(snapshot: BackupConfigSnapshot): string[] {
  if (wantedOf(snapshot)?.isOneNodeOnly !== true) {
    return [];
  }
  const { shards } = snapshot;
  if (shards.kind !== 'present') {
    return ['who shares the file system cannot be told, and one node at a time can mount it'];
  }
  const shared = shards.value.filter(({ members, cells }) => members > 1 || cells > 1);
  return shared.length === 0
    ? []
    : [
        `one node at a time can mount the file system, but ${shared.map(nameOf).join(', ')} share it: use ReadWriteMany or a bucket`,
      ];
}

function nameOf({ name, members, cells }: { name: string; members: number; cells: number }) {
  return `${members} members of shd/${name} in ${cells} cell${cells === 1 ? '' : 's'}`;
}
