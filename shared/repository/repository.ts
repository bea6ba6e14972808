import type { RepositoryOwner } from '#shared/api/repository-owner.ts';
import type { ObjectGuard } from '#shared/kernel/effect.ts';
import type { Read } from '#shared/kernel/read.ts';
import type { WriteResult } from '#shared/kube/kube.ts';

/**
 * What a question to a bucket came to. Besides the three answers of every read there are those that only a person
 * changes, since each needs another repair. A refusal says nothing of what is there, so it is as little safe as `unknown`.
 */
export type RepositoryRead<T> =
  | Read<T>
  | { readonly kind: 'noBucket' }
  /** `region`: where the server says that the bucket is, `null` where it does not say. */
  | { readonly kind: 'otherRegion'; readonly region: string | null }
  /** The server understood and said no: wrong credentials, or too few permissions. */
  | { readonly kind: 'refused'; readonly why: string };

/** The object that says whose the repository is, with the token of a compare-and-swap. */
export interface OwnerObject {
  readonly etag: string;
  /** `null` where it is not Millrace's, or of a later version. */
  readonly owner: RepositoryOwner | null;
}

/** Everything that is asked of a bucket before it is used, as this process sees it with the credentials it has. */
export interface RepositorySurvey {
  /** Keys that the credentials Secret should have and has not. None where no Secret is named. */
  readonly credentials: Read<{ readonly missing: readonly string[] }>;
  readonly owner: RepositoryRead<OwnerObject>;
  /** Whether a conditional write that must fail does: `false` is a server that ignores conditions. */
  readonly keepsConditions: RepositoryRead<boolean>;
  readonly isVersioned: RepositoryRead<boolean>;
  /** Whether it encrypts what comes without asking for it. */
  readonly isEncrypted: RepositoryRead<boolean>;
}

export interface RepositoryReader {
  /** Asks everything. Failures are answers, not thrown; once the credentials or the owner are none, no more is asked. */
  survey(signal?: AbortSignal): Promise<RepositorySurvey>;
}

export interface RepositoryWriter {
  /**
   * Writes an object below the prefix as a whole, under the guard; a guard that no longer holds returns `lostRace`. Where
   * the answer is lost the object may have been written.
   *
   * @param key its name below the prefix
   */
  put(key: string, text: string, guard: ObjectGuard, signal?: AbortSignal): Promise<WriteResult>;
}
