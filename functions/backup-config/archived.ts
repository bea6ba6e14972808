import * as z from 'zod';
import type { RepositoryOwner } from '#shared/api/repository-owner.ts';
import type { WantedRepository } from '#shared/api/repository.ts';
import { allow, byKind, readOf, recordReadOf } from '#shared/archive/allow-list.ts';
import { databaseRecord, repositoryPlace } from '#shared/archive/data-plane.ts';
import { conditions, targetFields } from '#shared/archive/kubernetes.ts';
import type { Present } from '#shared/kernel/read.ts';
import type { ArchivedForm } from '#shared/kernel/step.ts';
import type {
  OwnerObject,
  RepositoryRead,
  RepositorySurvey,
} from '#shared/repository/repository.ts';
import { backupConfigRecordSchema } from './record.ts';
import type { BackupConfigSnapshot, DatabaseView, ShardView } from './snapshot.ts';

type WantedOf<K> = Extract<WantedRepository, { readonly kind: K }>;

const wanted = byKind<WantedRepository>({
  none: allow<WantedOf<'none'>>({ kind: z.literal('none') }),
  invalid: allow<WantedOf<'invalid'>>({ kind: z.literal('invalid'), why: z.string() }),
  wanted: allow<WantedOf<'wanted'>>({
    kind: z.literal('wanted'),
    place: repositoryPlace,
    hash: z.string(),
    mustEncrypt: z.boolean().nullable(),
    isOneNodeOnly: z.boolean(),
    credentialsSecret: z.string().nullable(),
  }),
});

const database = allow<DatabaseView>({
  cluster: z.string(),
  ...targetFields,
  dataPlaneName: z.string(),
  wanted,
  confirmed: z.string().nullable(),
  conditions: conditions,
  observedGeneration: z.number().nullable(),
  repository: allow<NonNullable<DatabaseView['repository']>>({
    hash: z.string(),
    owner: z.string().optional(),
    checkedAt: z.string(),
  }).nullable(),
});

function repositoryRead<T>(value: z.ZodType<T>): z.ZodType<RepositoryRead<T>> {
  type ReadOf<K> = Extract<RepositoryRead<T>, { readonly kind: K }>;
  return byKind<RepositoryRead<T>>({
    present: allow<Present<T>>({ kind: z.literal('present'), value }),
    absent: allow<ReadOf<'absent'>>({ kind: z.literal('absent') }),
    unknown: allow<ReadOf<'unknown'>>({ kind: z.literal('unknown'), why: z.string() }),
    noBucket: allow<ReadOf<'noBucket'>>({ kind: z.literal('noBucket') }),
    otherRegion: allow<ReadOf<'otherRegion'>>({
      kind: z.literal('otherRegion'),
      region: z.string().nullable(),
    }),
    refused: allow<ReadOf<'refused'>>({ kind: z.literal('refused'), why: z.string() }),
  });
}

const survey = allow<RepositorySurvey>({
  credentials: readOf(
    allow<{ readonly missing: readonly string[] }>({ missing: z.array(z.string()) }),
  ),
  owner: repositoryRead(
    allow<OwnerObject>({
      etag: z.string(),
      owner: allow<RepositoryOwner>({
        cluster: z.string(),
        namespace: z.string(),
        name: z.string(),
        uid: z.string(),
      }).nullable(),
    }),
  ),
  keepsConditions: repositoryRead(z.boolean()),
  isVersioned: repositoryRead(z.boolean()),
  isEncrypted: repositoryRead(z.boolean()),
});

/** What of backup-config's snapshots may be archived. */
export const archived: ArchivedForm<BackupConfigSnapshot> = {
  schema: allow<BackupConfigSnapshot>({
    database,
    record: recordReadOf(backupConfigRecordSchema),
    topology: readOf(databaseRecord),
    survey,
    shards: readOf(
      z.array(allow<ShardView>({ name: z.string(), members: z.number(), cells: z.number() })),
    ),
  }),
};
