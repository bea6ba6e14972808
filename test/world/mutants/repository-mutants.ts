import type { Mutant } from './mutant.ts';

const bucketChecks = 'functions/backup-config/bucket-checks.ts';
const moves = 'functions/backup-config/moves.ts';
const rows = 'functions/backup-config/decide.ts';
const outside = 'shared/outside/repository.ts';
const record = 'shared/topology/database-record.ts';
const s3 = 'shared/repository/s3-repository.ts';
const topology = 'shared/topology/connect.ts';

/** backup-config: whose a repository is, what must be in order before it is used, and which spec has the last word. */
export const repositoryMutants: readonly Mutant[] = [...ownership(), ...order(), ...fences()];

/** A prefix is one Database's. */
function ownership(): readonly Mutant[] {
  return [
    {
      id: 'repository-claimed-without-condition',
      file: s3,
      find: "{ IfNoneMatch: '*' }",
      replace: '{}',
      breaks: 'Whoever comes second overwrites the owner object of whoever came first.',
      expected: ['C4'],
    },
    {
      id: 'repository-of-others-adopted',
      file: bucketChecks,
      find: 'nameOfOwner(owner) === nameOfOwner(snapshot.database)',
      replace: 'nameOfOwner(owner) !== nameOfOwner({ cluster: "", namespace: "", name: "" })',
      breaks: 'A prefix that belongs to another Database is taken over.',
      expected: ['C4'],
    },
    {
      id: 'repository-adoption-left-out',
      file: rows,
      find: '  adoptRepository,\n  applyRepository,',
      replace: '  applyRepository,',
      breaks:
        'A Database that was made again uses its prefix without saying that it is another one.',
      expected: ['C4', 'X8'],
    },
  ];
}

/** Nothing is used that is not in order, and nothing that is in use is left without a word. */
function order(): readonly Mutant[] {
  return [
    {
      id: 'repository-moved-unasked',
      file: rows,
      find: 'database.confirmed === wanted.hash',
      replace: "database.confirmed !== ''",
      breaks: 'Backups are left behind without anybody having said so.',
      expected: ['C5'],
    },
    {
      id: 'repository-unread-is-in-order',
      file: bucketChecks,
      find: "answersOf(bucket).find((read) => read.kind === 'unknown')",
      replace: 'undefined',
      breaks: 'A bucket that did not answer is used.',
      expected: ['C5', 'C4'],
    },
    {
      id: 'repository-missing-is-in-order',
      file: rows,
      find: '  bucketMissing,\n  bucketElsewhere,\n  accessRefused,',
      replace: '  bucketElsewhere,\n  accessRefused,',
      breaks: 'The data plane is told of a bucket that is not there.',
      expected: ['C4', 'C5'],
    },
    {
      id: 'repository-encryption-not-asked-for',
      file: rows,
      find: '  encryptionMissing,\n  topologyUnknown,',
      replace: '  topologyUnknown,',
      breaks: 'A bucket that does not encrypt is used though encryption is required.',
      expected: ['C5'],
    },
    {
      id: 'repository-keys-in-the-snapshot',
      file: outside,
      find: "present({ missing: signIn.value.kind === 'incomplete' ? signIn.value.missing : [] })",
      replace: 'present({ ...signIn.value, missing: [] })',
      breaks: 'The keys of a bucket are in what a look has seen.',
      expected: ['C3'],
    },
    {
      id: 'repository-unknown-fields-dropped',
      file: record,
      find: 'toBinary(DatabaseSchema, database)',
      replace: 'toBinary(DatabaseSchema, database, { writeUnknownFields: false })',
      breaks: 'What a later version of the data plane wrote is lost when its location is written.',
      expected: ['C6'],
    },
    {
      id: 'repository-location-made-anew',
      file: record,
      find: 'database.backupLocation ?? create(BackupLocationSchema)',
      replace: 'create(BackupLocationSchema)',
      breaks: 'The authoritative generation is lost when the location is written.',
      expected: ['C6'],
    },
  ];
}

/** The newest spec has the last word. */
function fences(): readonly Mutant[] {
  return [
    {
      id: 'repository-earlier-write-unfenced',
      file: rows,
      find: '  fenceEarlierWrite,\n  noRepository,',
      replace: '  noRepository,',
      breaks: 'What an earlier spec wanted is written after a later one was found to be in use.',
      expected: ['C2'],
    },
    {
      id: 'repository-intent-forgotten',
      file: moves,
      find: 'const intent = move.intent ?? openIntent(snapshot);',
      replace: 'const intent = move.intent ?? null;',
      breaks: 'A record that is written for another reason forgets a write that is under way.',
      expected: ['C2'],
    },
    {
      id: 'repository-revision-not-compared',
      file: topology,
      find: '    const { store, key, found } = await readDatabaseForWrite(stores, globalRoot, name, limit);\n    if (found === undefined || found.modRevision !== modRevision) {',
      replace:
        '    const { store, key, found } = await readDatabaseForWrite(stores, globalRoot, name, limit);\n    if (found === undefined) {',
      breaks: "The data plane's record is overwritten whatever it has become since.",
      expected: ['C2'],
      also: [
        {
          file: topology,
          find: 'return swap(store, { key, value: next.value, modRevision }, limit);',
          replace:
            'return swap(store, { key, value: next.value, modRevision: found.modRevision }, limit);',
        },
      ],
    },
  ];
}
