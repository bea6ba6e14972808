import type { Mutant } from './mutant.ts';

const moves = 'functions/etcd-cleanup/moves.ts';
const observe = 'functions/etcd-cleanup/observe.ts';
const rows = 'functions/etcd-cleanup/decide.ts';
const stale = 'functions/etcd-cleanup/stale.ts';
const identity = 'shared/topology/identity.ts';
const topology = 'shared/topology/connect.ts';
const records = 'shared/topology/topology.ts';

/** etcd-cleanup: whose record it is, how long nobody's, what a pass may do, and under which guard it is written. */
export const cleanupMutants: readonly Mutant[] = [
  ...owners(),
  ...waits(),
  ...passes(),
  ...writes(),
];

/** A record is somebody's by any of four identities, whoever lists, leaves or is to be made. */
function owners(): readonly Mutant[] {
  return [
    {
      id: 'cleanup-known-by-name-alone',
      file: identity,
      find: `    namesBefore(hostname).some((name) => names.has(name)) ||
    derivedIn(id.cell).has(id.name);`,
      replace: '    (hostname === derivedIn && false);',
      breaks: 'A record is a pod’s only where the pooler has the name of the pod.',
      expected: ['G1', 'X8'],
    },
    {
      id: 'cleanup-known-by-beginning',
      file: identity,
      find: 'names.has(id.name) ||',
      replace: '[...names].some((name) => id.name.startsWith(name)) ||',
      breaks: 'The record of pod-10 counts as that of pod-1.',
      expected: ['X8'],
    },
    {
      id: 'cleanup-labelled-pods-alone',
      file: observe,
      find: 'pods: await podNames(ports, { namespace }, signal) };',
      replace: 'pods: members };',
      breaks: 'A pod that has lost its label counts as gone.',
      expected: ['G2', 'G1'],
    },
    {
      id: 'cleanup-no-member-to-be',
      file: stale,
      find: '[...pods, ...membersToBe(shard, members.value)]',
      replace: '[...pods, ...membersToBe({ ...shard, groups: [] }, members.value)]',
      breaks: 'The record of a member that is to be made again goes.',
      expected: ['G1', 'X8'],
    },
    {
      id: 'cleanup-no-pods-is-none',
      file: rows,
      find: '  membersUnknown,\n  noMembers,\n  podsUnknown,',
      replace: '  podsUnknown,',
      breaks: 'A shard whose pods have all lost their labels, or cannot be listed, has no members.',
      expected: ['G2', 'X8'],
      also: [
        {
          file: stale,
          find: `  return members.kind === 'present' && members.value.length > 0
    ? unexplained(snapshot, members.value)
    : [];`,
          replace: `  return members.kind === 'present' ? unexplained(snapshot, members.value) : [];`,
        },
      ],
    },
    {
      id: 'cleanup-silence-not-asked-for',
      file: stale,
      find: `  if (answers(snapshot, record.id)) {`,
      replace: `  if (answers(snapshot, record.id) && record.role === 'unknown') {`,
      breaks: 'A pooler that answers is dead because it has no pod.',
      expected: ['G5'],
    },
    {
      id: 'cleanup-nobody-vouches',
      file: moves,
      find: `  if (witness.kind === 'none') {
    return passing('NoAgreedPrimary', \`\${name} stays as long as nobody leads: \${witness.why}\`);
  }`,
      replace: `  if (witness.kind === 'none') {
    return null;
  }`,
      breaks: 'Where nobody can be asked, everybody is silent.',
      expected: ['G5'],
    },
    {
      id: 'cleanup-unread-topology-is-empty',
      file: observe,
      find: '    .poolers(view.value.shard, cells, signal);',
      replace: `    .poolers(view.value.shard, cells, signal)
    .then((read) =>
      read.kind === 'present'
        ? read
        : { kind: 'present', value: { poolers: [], undecodable: [] } },
    );`,
      breaks: 'A shard of which a cell cannot be read has no records, and is clean.',
      expected: ['X8', 'X6'],
    },
    {
      id: 'cleanup-set-aside-of-old-goes',
      file: records,
      find: "(record.generation === 'legacy' && record.role === 'none')",
      replace: "(record.generation === 'legacy' && record.key === '')",
      breaks: 'What the older generation calls DRAINED is not known as put aside.',
      expected: ['G5'],
    },
  ];
}

/** Two looks, and the whole of the time between them. */
function waits(): readonly Mutant[] {
  return [
    {
      id: 'cleanup-quiet-time-zero',
      file: moves,
      find: 'isMarked ? Math.max(quietSeconds, deleteAfterSeconds) : quietSeconds',
      replace: 'isMarked ? Math.max(quietSeconds, deleteAfterSeconds) : 0 * quietSeconds',
      breaks: 'The second look is enough, however soon it comes.',
      expected: ['G1'],
    },
    {
      id: 'cleanup-deleted-when-marked',
      file: moves,
      find: 'isMarked ? Math.max(quietSeconds, deleteAfterSeconds) : quietSeconds',
      replace: 'isMarked ? 0 * deleteAfterSeconds : quietSeconds',
      breaks: 'A record is deleted as soon as it is seen with the mark.',
      expected: ['G1', 'G5'],
    },
    {
      id: 'cleanup-quiet-since-last-sight',
      file: moves,
      find: '      seen?.[2] ?? wholeSeconds(now),\n    ]),',
      replace: '      wholeSeconds(now) + (seen?.[2] ?? 0) * 0,\n    ]),',
      breaks: 'Each look begins the wait anew.',
      expected: ['X8'],
    },
    {
      id: 'cleanup-waits-while-it-reads',
      file: rows,
      find: 'candidate.seen !== null && dueAt(snapshot, candidate, now) <= snapshot.readAt,',
      replace: 'candidate.seen !== null && dueAt(snapshot, candidate, now) <= now,',
      breaks: 'The time that a look takes to read counts as quiet.',
      expected: ['G1'],
    },
    {
      id: 'cleanup-any-revision-is-quiet',
      file: stale,
      find: 'known === hash && rev === record.modRevision) ?? null',
      replace: "known === hash && rev !== '') ?? null",
      breaks: 'A record that was written meanwhile goes on to wait.',
      expected: ['G1'],
    },
    {
      id: 'cleanup-longer-wait-ignored',
      file: rows,
      find: '  explainedNow,\n  notDueAnyMore,',
      replace: '  explainedNow,',
      breaks: 'A change that was authorised is made, whatever patience people want by now.',
      expected: ['G1'],
    },
    {
      id: 'cleanup-off-is-on',
      file: moves,
      find: '  if (!snapshot.shard.isEnabled) {',
      replace: "  if (!snapshot.shard.isEnabled && witness.kind === 'none') {",
      breaks: 'Records are changed though cleanup is off.',
      expected: ['G1'],
    },
  ];
}

/** However wrong a look may be, few records are changed. */
function passes(): readonly Mutant[] {
  return [
    {
      id: 'cleanup-pass-without-end',
      file: moves,
      find: 'hasRoom: done < most',
      replace: 'hasRoom: done < most + 9',
      breaks: 'A pass changes as many records as there are.',
      expected: ['G4'],
    },
    {
      id: 'cleanup-pass-without-share',
      file: moves,
      find: 'Math.min(shard.maxPerPass, Math.ceil(records / 3))',
      replace: 'Math.min(shard.maxPerPass, records)',
      breaks: 'A pass may change more than a third of the records.',
      expected: ['G4'],
    },
    {
      id: 'cleanup-pass-after-pass',
      file: moves,
      find: 'now >= endsAt ?',
      replace: 'now >= startOf(known) ?',
      also: [
        {
          file: moves,
          find: 'function wholeSeconds(',
          replace: `function startOf([seconds]: readonly [number, number]): Instant {
  return ((seconds + 1) * 1000) as Instant;
}

function wholeSeconds(`,
        },
      ],
      breaks: 'The next pass begins a second after the last one.',
      expected: ['G4'],
    },
  ];
}

/** What is written is what was looked at. */
function writes(): readonly Mutant[] {
  return [
    {
      id: 'cleanup-deletes-what-it-just-read',
      file: topology,
      find: `    if (found.modRevision !== modRevision) {
      return lostRace(pooler.key, found);
    }
    refuseLive(found);
    return swap(store, { key: pooler.key, value: null, modRevision }, limit);`,
      replace: `    refuseLive(found);
    return swap(store, { key: pooler.key, value: null, modRevision: found.modRevision }, limit);`,
      breaks: 'A record is deleted in whatever revision it is in by then.',
      expected: ['G5', 'G4'],
    },
    {
      id: 'cleanup-deleted-without-mark',
      file: moves,
      find: "return isRetired(record) ? 'deleting' : 'retiring';",
      replace: "return isRetired(record) || record.key !== '' ? 'deleting' : 'retiring';",
      breaks: 'A record is deleted that was never marked.',
      expected: ['G5'],
      also: [
        {
          file: topology,
          find: '  if (!isRetired(decoded.record)) {',
          replace: "  if (!isRetired(decoded.record) && key === '') {",
        },
      ],
    },
    {
      id: 'cleanup-voter-deleted',
      file: moves,
      find: "return moveOf(stale) === 'deleting' && needed.toVote",
      replace: "return moveOf(stale) === 'retiring' && needed.toVote && needed.toLead",
      breaks: 'A record goes on which the cohort still counts.',
      expected: ['G5'],
    },
    {
      id: 'cleanup-changes-before-it-authorises',
      file: rows,
      find: "[{ kind: 'advance', record, guard: { uid, generation, previous: before.text } }],",
      replace:
        "[{ kind: 'advance', record: { ...record, data: { ...record.data, act: { ...record.data.act, rev: '0' } } }, guard: { uid, generation, previous: before.text } }] as [],",
      breaks: 'What is written down is another revision than the one that is changed.',
      expected: ['G4', 'X8'],
    },
  ];
}
