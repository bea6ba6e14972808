import { type Entries, askDoctor } from './meaning.ts';

const untilThen = 'Until then the data plane keeps the repository it was told last.';
const looksEveryMinute = `It looks every minute and goes on by itself. ${untilThen}`;

/** Reasons of backup-config. */
export const repository = {
  NoRepository: {
    brief: 'no backup repository is wanted',
    means: 'The spec names no backup repository; the data plane keeps the one it has, if any.',
    attention: 'none',
    next: 'Nothing, until spec.backup.repository is set.',
  },
  RepositoryInvalid: {
    brief: 'the repository is not valid',
    means: 'spec.backup.repository cannot be used as it is.',
    attention: 'needed',
    waitsFor: 'a corrected spec',
    next: untilThen,
  },
  EarlierWriteFenced: {
    brief: 'an earlier write is fenced off',
    means:
      'The spec changed while an earlier one was being told to the data plane. The earlier write is made void first.',
    attention: 'none',
    waitsFor: 'that write',
    next: 'It looks every few seconds and goes on by itself.',
  },
  CredentialsUnknown: {
    brief: 'the credentials cannot be read',
    means:
      'The Secret with the credentials of the repository could not be read: refused, or no answer.',
    attention: 'needed',
    waitsFor: 'leave to read the Secret',
    todo: (names) => [askDoctor(names)],
    next: looksEveryMinute,
  },
  CredentialsMissing: {
    brief: 'the credentials are missing',
    means: 'The Secret with the credentials of the repository is missing, or lacks a key.',
    attention: 'needed',
    waitsFor: 'the Secret',
    next: looksEveryMinute,
  },
  RepositoryUnknown: {
    brief: 'the repository does not answer',
    means: 'The bucket could not be looked at: no answer, or one that says nothing.',
    attention: 'needed',
    waitsFor: 'an answer from the bucket',
    todo: () => [
      { text: 'see whether the endpoint is reachable from where Millrace’s functions run' },
    ],
    next: looksEveryMinute,
  },
  BucketMissing: {
    brief: 'the bucket does not exist',
    means: 'There is no bucket of that name.',
    attention: 'needed',
    waitsFor: 'the bucket',
    next: looksEveryMinute,
  },
  BucketInOtherRegion: {
    brief: 'the bucket is in another region',
    means: 'The bucket is in another region than the spec says.',
    attention: 'needed',
    waitsFor: 'the right region in the spec',
    next: untilThen,
  },
  RepositoryForbidden: {
    brief: 'the repository refuses access',
    means: 'The bucket refuses to be read with the credentials it was asked with.',
    attention: 'needed',
    waitsFor: 'access',
    next: looksEveryMinute,
  },
  RepositoryReadOnly: {
    brief: 'the repository cannot be written',
    means: 'The bucket can be read with these credentials but not written.',
    attention: 'needed',
    waitsFor: 'leave to write',
    next: looksEveryMinute,
  },
  ConditionalWritesIgnored: {
    brief: 'the bucket’s server is too simple',
    means:
      'The server of the bucket ignores conditions on writes, so two databases could overwrite each other there unnoticed.',
    attention: 'needed',
    waitsFor: 'a server that keeps conditions',
    next: looksEveryMinute,
  },
  RepositoryOwnerUnreadable: {
    brief: 'whose the repository is cannot be read',
    means:
      'The object in the bucket that names its owner is not what this version writes, so the repository may be somebody’s.',
    attention: 'needed',
    waitsFor: 'to know whose it is',
    next: looksEveryMinute,
  },
  RepositoryOfOthers: {
    brief: 'the repository is another Database’s',
    means:
      'Another Database keeps its backups in the same place. Two in one place would destroy each other’s backups, so this one writes nothing there.',
    attention: 'needed',
    waitsFor: 'a place of its own',
    next: looksEveryMinute,
  },
  RepositoryTaken: {
    brief: 'another cluster took the repository',
    means:
      'The repository was this Database’s, and another of the same name has taken it over: two clusters work under one cluster id.',
    attention: 'needed',
    waitsFor: 'the repository to be its own again',
    next: looksEveryMinute,
  },
  BucketUnencrypted: {
    brief: 'the bucket does not encrypt',
    means: 'Encryption is required, and the bucket does not encrypt by default.',
    attention: 'needed',
    waitsFor: 'default encryption of the bucket',
    next: looksEveryMinute,
  },
  DatabaseNotRegistered: {
    brief: 'the data plane does not know it yet',
    means:
      'The data plane has not registered the database yet, so there is nowhere to say where its backups go.',
    attention: 'none',
    waitsFor: 'the data plane to register the database',
    todo: () => [
      { text: 'if it lasts, see whether the data plane runs, and whether globalRoot is right' },
    ],
    next: 'It looks every minute and goes on by itself.',
  },
  BackupsWouldBeOrphaned: {
    brief: 'the move of the repository must be confirmed',
    means:
      'The spec names another place for the backups than the one in use. Those there would be found no more, so a person has to say that this is meant.',
    attention: 'needed',
    waitsFor: 'a person to confirm the move, or to correct the spec',
    next: untilThen,
  },
  RepositoryUnclaimable: {
    brief: 'the repository cannot be claimed',
    means:
      'The object that names the owner of the repository was written several times and is not there.',
    attention: 'needed',
    waitsFor: 'the bucket to keep that object',
    next: 'It is written again every ten minutes.',
  },
  RepositoryClaimed: {
    brief: 'the repository is being claimed',
    means: 'An object is written into the bucket that says whose backups are there.',
    attention: 'none',
    waitsFor: 'that object to be there',
    next: 'It looks every few seconds and goes on by itself.',
  },
  RepositoryAdopted: {
    brief: 'the repository is taken over',
    means:
      'The repository is that of an earlier Database of the same name, whose backups are kept and used.',
    attention: 'none',
    waitsFor: 'the object that says so',
    next: 'It looks every few seconds and goes on by itself.',
  },
  RepositoryApplied: {
    brief: 'the data plane is told the repository',
    means: 'The data plane is told where backups go.',
    attention: 'none',
    waitsFor: 'that to be written',
    next: 'It looks every few seconds and goes on by itself.',
  },
  RepositoryConfigured: {
    brief: 'backups go where they should',
    means:
      'The data plane keeps backups where the spec says, and the place is this Database’s own.',
    attention: 'none',
    next: 'Nothing, until the spec changes.',
  },
  RepositoryWithWarnings: {
    brief: 'backups go where they should, with a warning',
    means:
      'The data plane keeps backups where the spec says. Something about that place could be better.',
    attention: 'advised',
    next: 'Nothing, until the spec changes.',
  },
} as const satisfies Entries;

/** With these there is nothing to do. */
export const settledRepository: ReadonlySet<string> = new Set<keyof typeof repository>([
  'NoRepository',
  'RepositoryConfigured',
  'RepositoryWithWarnings',
]);
