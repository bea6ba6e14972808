import type { Mutant } from './mutant.ts';

const books = 'functions/shard-release/books.ts';
const gateway = 'shared/topology/gateway-store.ts';
const plan = 'functions/shard-release/plan.ts';
const rows = 'functions/shard-release/decide.ts';

/** shard-release: what GoVerse's leader must not be left with, what is nobody's to write, and when a node may go. */
export const goverseMutants: readonly Mutant[] = [...holds(), ...writes(), ...times()];

/** GoVerse's leader gets nothing to work on, and nothing is left behind. */
function holds(): readonly Mutant[] {
  return [
    {
      id: 'goverse-moved-alone-pinned',
      file: plan,
      find: 'const writes = [...pinsOf(view, holder, id), ...moves];',
      replace: 'const writes = moves;',
      breaks: 'Only the shards that are moved are pinned, and the leader moves others back.',
      expected: ['H4'],
    },
    {
      id: 'goverse-pins-after-retargets',
      file: plan,
      find: 'const writes = [...pinsOf(view, holder, id), ...moves];',
      replace: 'const writes = [...moves, ...pinsOf(view, holder, id)];',
      breaks: 'Who dies between two transactions leaves retargets that nothing holds.',
      expected: ['H4'],
    },
    {
      id: 'goverse-retargets-unpinned',
      file: plan,
      find: '  ].map((shard) => pinned(shard, id));',
      replace: '  ];',
      breaks: 'What the holder gets is pinned by a later look only.',
      expected: ['H4'],
    },
    {
      id: 'goverse-unpinned-before-level',
      file: plan,
      find: '  if (isUnevenAmong(placed)) {',
      replace: '  if (placed.nodes.length === 0) {',
      breaks: 'The pins go while the shards are uneven, and the leader works on that for minutes.',
      expected: ['H4'],
    },
    {
      id: 'goverse-dead-holder-ignored',
      file: plan,
      find: '  if (orphaned.size > 0) {',
      replace: '  if (orphaned.size > view.shards.length) {',
      breaks: 'Shards that are pinned to a dead node stay with it.',
      expected: ['X8', 'H4'],
    },
    {
      id: 'goverse-forgotten-marks-left',
      file: rows,
      find: '  const isOurs = isMarked(view, mark);',
      replace: "  const isOurs = isMarked(view, mark) && state !== 'resting';",
      breaks: 'Pins of which no record tells stay for ever.',
      expected: ['X8', 'H4'],
    },
  ];
}

/** Every write compares, and is of what is ours to write. */
function writes(): readonly Mutant[] {
  return [
    {
      id: 'goverse-revisions-not-compared',
      file: gateway,
      find: 'const body = { ...swapsOf(requests), failure: looks };',
      replace: 'const body = { ...swapsOf(requests), compare: [], failure: looks };',
      breaks: 'Shards are overwritten whatever they have become since.',
      expected: ['H1'],
    },
    {
      id: 'goverse-current-written',
      file: plan,
      find: '({ ...shard, target: inRuns[place] ?? shard.target })',
      replace: "({ ...shard, current: '', target: inRuns[place] ?? shard.target })",
      breaks: 'A shard is taken from its node while the objects are still there.',
      expected: ['H2'],
    },
    {
      id: 'goverse-foreign-pins-moved',
      file: plan,
      find: "leaving.has(shard.target) && pinOf(shard) !== 'foreign';",
      replace: 'leaving.has(shard.target);',
      breaks: 'Shards that others have pinned get another target.',
      expected: ['H5'],
    },
    {
      id: 'goverse-quick-writes',
      file: books,
      find: "pod.isBeingDeleted && (pod.mode ?? mode) === 'clean'",
      replace: "pod.isBeingDeleted && (pod.mode ?? mode) !== ''",
      breaks: 'Shards are handed over for a node that goes quickly.',
      expected: ['H6'],
    },
    {
      id: 'goverse-pause-ignored',
      file: rows,
      find: '  pausedByUser,\n',
      replace: '',
      breaks: 'Shards are moved while the cluster is paused.',
      expected: ['R6'],
    },
  ];
}

/** Nothing begins too early, and nobody goes too early. */
function times(): readonly Mutant[] {
  return [
    {
      id: 'goverse-stillness-not-awaited',
      file: rows,
      find: '  awaitStillness,\n  awaitOwners,',
      replace: '  awaitOwners,',
      breaks: 'Shards are retargeted while no node hands anything over.',
      expected: ['H3'],
    },
    {
      id: 'goverse-owners-not-awaited',
      file: rows,
      find: '  awaitStillness,\n  awaitOwners,',
      replace: '  awaitStillness,',
      breaks: 'Shards are retargeted while others are between two nodes.',
      expected: ['H3'],
    },
    {
      id: 'goverse-claims-not-awaited',
      file: plan,
      find: "  return count > 0 ? { kind: 'claims', count } : { kind: 'done' };",
      replace: "  return count < 0 ? { kind: 'claims', count } : { kind: 'done' };",
      breaks: 'A node goes while shards of its are with nobody, and its leaving makes them wait.',
      expected: ['H3'],
    },
    {
      id: 'goverse-unwritten-goes-on',
      file: rows,
      find: "return state === 'moving' && !isPinned ? 'awaiting' : state;",
      replace: 'return state;',
      breaks: 'What was only written down goes on as if it had begun, in stillness or not.',
      expected: ['H3'],
    },
    {
      id: 'goverse-released-for-good',
      file: books,
      find: 'const isAnew = isReleased ? shardsLeft(view, leaver.node) > 0 : why !== leaver.why;',
      replace: 'const isAnew = !isReleased && why !== leaver.why;',
      breaks: 'A node that was released once goes with whatever it has been given since.',
      expected: ['H3'],
    },
    {
      id: 'goverse-pins-end-with-release',
      file: rows,
      find: "books.leaving.size > 0 && (state === 'moving' || state === 'released');",
      replace: "books.leaving.size > 0 && state === 'moving';",
      breaks: 'A node that may go gets its share again before it has left.',
      expected: ['X8', 'H3'],
    },
    {
      id: 'goverse-released-at-once',
      file: books,
      find: 'plusSeconds((leaver.since * 1000) as Instant, timeoutSeconds);',
      replace: 'plusSeconds((leaver.since * 1000) as Instant, timeoutSeconds / 60);',
      breaks: 'A node is let go with its shards long before its time is over.',
      expected: ['H3'],
    },
    {
      id: 'goverse-time-to-come-awaited',
      file: books,
      find: 'seconds * 1000 > plusSeconds(now, windowSeconds)',
      replace: 'seconds * 1000 > plusSeconds(now, 86_400)',
      breaks: 'A quiet time that begins in an hour keeps every hand-over until then.',
      expected: ['X8'],
    },
  ];
}
