import type { Mutant } from './mutant.ts';

const accounts = 'functions/backup-trigger/accounts.ts';
const holdUps = 'functions/backup-trigger/hold-ups.ts';
const observe = 'functions/backup-trigger/observe.ts';
const rows = 'functions/backup-trigger/decide.ts';
const watching = 'functions/backup-trigger/watching.ts';

/** backup-trigger: what holds a start up, the books of the slots, and what becomes of a run. */
export const backupMutants: readonly Mutant[] = [
  ...evidence(),
  ...intents(),
  ...books(),
  ...changes(),
  ...outcomes(),
];

/** What a start is judged by. */
function evidence(): readonly Mutant[] {
  return [
    {
      id: 'backup-held-lease-ignored',
      file: holdUps,
      find: "return lease.kind === 'present'\n",
      replace: "return lease.kind === 'present' && lease.value.holder === 'nobody'\n",
      breaks: 'A backup begins while somebody holds the lease, and ends theirs.',
      expected: ['B1', 'B4'],
    },
    {
      id: 'backup-unread-lease-is-free',
      file: holdUps,
      find: "return lease.kind === 'unknown'\n",
      replace: "return lease.kind === 'unknown' && lease.why === ''\n",
      breaks: 'A backup begins although nobody could read whether the lease is held.',
      expected: ['B1'],
    },
    {
      id: 'backup-unread-list-is-empty',
      file: holdUps,
      find: "return backups.kind === 'present'\n",
      replace: "return backups.kind !== 'absent'\n",
      breaks: 'A backup begins although the list of backups got no answer.',
      expected: ['B1'],
    },
    {
      id: 'backup-drain-ignored',
      file: holdUps,
      find: "return drain.kind === 'going'\n",
      replace: "return drain.kind === 'going' && drain.pod === ''\n",
      breaks: 'A backup begins while a member is past the point of no return.',
      expected: ['B7'],
    },
    {
      id: 'backup-unread-drain-is-none',
      file: observe,
      find: "      return { kind: 'unknown', why: record.why };\n",
      replace: "      return { kind: 'clear' };\n",
      breaks: 'A record of drain-step that nobody can read counts as no drain.',
      expected: ['B7'],
    },
  ];
}

/** One start for each intent, and one intent for each slot. */
function intents(): readonly Mutant[] {
  return [
    {
      id: 'backup-books-left-behind',
      file: rows,
      find: '{ ...rest, at: slot, slot }',
      replace: '{ ...rest, slot }',
      breaks: 'The books do not move past the slot in the write of its intent, so it is due again.',
      expected: ['B2', 'B3'],
    },
    {
      id: 'backup-sent-late',
      file: rows,
      find: 'const sendWithinSeconds = 10;',
      replace: 'const sendWithinSeconds = 10_000;',
      breaks: 'A handler that stood still asks for a backup that everybody has given up.',
      expected: ['X9', 'B4'],
    },
    {
      id: 'backup-given-up-at-once',
      file: watching,
      find: 'export const outcomeSeconds = 120;',
      replace: 'export const outcomeSeconds = 0;',
      breaks: 'A run that nothing shows for a moment is unknown, and another begins beside it.',
      expected: ['B3', 'B4', 'X8'],
    },
    {
      id: 'backup-repeated-for-ever',
      file: watching,
      find: 'const mostRepeats = 2;',
      replace: 'const mostRepeats = 200;',
      breaks: 'A slot whose outcome nobody knows is begun again and again.',
      expected: ['B2'],
    },
    {
      id: 'backup-request-obeyed-again',
      file: accounts,
      find: '    status.fields.backupRequest?.request,\n',
      replace: '',
      breaks: 'A request is obeyed once more after its record was reset.',
      expected: ['B2'],
    },
    {
      id: 'backup-frequent-first',
      file: accounts,
      find: '...books.flatMap((book) => book.due).toSorted(byUrgency)',
      replace: '...books.flatMap((book) => book.due)',
      breaks: 'The schedule that stands first begins first, whatever has waited for longer.',
      expected: ['B9'],
    },
  ];
}

/** Every slot ends once, and none late. */
function books(): readonly Mutant[] {
  return [
    {
      id: 'backup-passed-over-in-silence',
      file: rows,
      find: "counts: passedOver.filter(({ result }) => result === 'skipped').map(skipCount),",
      replace: "counts: passedOver.filter(({ result }) => result !== 'skipped').map(skipCount),",
      breaks: 'Slots end without being counted.',
      expected: ['B3'],
    },
    {
      id: 'backup-starting-deadline-ignored',
      file: accounts,
      find: 'const isTooLate = now > startBy(candidate);',
      replace: 'const isTooLate = now > startBy(candidate) && holdUp === null;',
      breaks: 'A slot waits for as long as something holds it up.',
      expected: ['B9'],
    },
    {
      id: 'backup-none-is-made-up-for',
      file: accounts,
      find: "return view.catchUp === 'none' && !isRepeated\n",
      replace: "return view.catchUp === 'none' && isRepeated\n",
      breaks: 'A slot that is not to be made up for is.',
      expected: ['B9', 'X8'],
    },
    {
      id: 'backup-first-sight-fires',
      file: accounts,
      find: 'const entry = { at, from: at, timing,',
      replace: 'const entry = { at: at - 3_600, from: at, timing,',
      breaks: 'What was due before a schedule was there begins.',
      expected: ['B8'],
    },
    {
      id: 'backup-oldest-first',
      file: accounts,
      find: 'const candidate = newest ?? repeated;',
      replace:
        'const candidate = (newest === undefined ? undefined : slots.after(at)) ?? repeated;',
      breaks: 'After an outage the oldest slot begins, and then one after the other.',
      expected: ['B3', 'B9'],
    },
  ];
}

/** Suspensions and other edits of a schedule. */
function changes(): readonly Mutant[] {
  return [
    {
      id: 'backup-suspension-ignored',
      file: observe,
      find: 'isSuspended: schedule.suspend,',
      replace: 'isSuspended: false,',
      breaks: 'A suspended schedule goes on.',
      expected: ['B8'],
    },
    {
      id: 'backup-suspension-made-up-for',
      file: accounts,
      find: 'const at = Math.max(known.at, secondsOf(until));',
      replace: 'const at = known.at;',
      breaks: 'What was due while a schedule was suspended begins afterwards.',
      expected: ['B3', 'B8'],
    },
    {
      id: 'backup-hidden-suspension-ignored',
      file: accounts,
      find: 'shard.generation >= recorded.generation + 2',
      replace: 'shard.generation >= recorded.generation + 2_000',
      breaks: 'What was due in a suspension that nobody saw begins.',
      expected: ['B8'],
    },
    {
      id: 'backup-new-timing-made-up-for',
      file: accounts,
      find: 'const at = Math.max(known.at, changedAt);',
      replace: 'const at = known.at;',
      breaks: 'Slots of a new timing begin that were due before it was in force.',
      expected: ['B8'],
    },
  ];
}

/** What a run came to, and who is told. */
function outcomes(): readonly Mutant[] {
  return [
    {
      id: 'backup-run-deadline-ignored',
      file: watching,
      find: 'return until === undefined || now > until;',
      replace: 'return until === undefined;',
      breaks: 'A run is watched for ever.',
      expected: ['B5'],
    },
    {
      id: 'backup-job-is-believed',
      file: watching,
      find: "const backup = candidates.find(({ status }) => status === 'complete');",
      replace: `const backup =
    candidates.find(({ status }) => status === 'complete') ??
    (made === null ? undefined : { id: made, stoppedAt: null });`,
      breaks: 'A backup counts as good because its job says so, though no list shows it.',
      expected: ['B6'],
    },
    {
      id: 'backup-older-adopted',
      file: watching,
      find: 'return listed.slice(place + 1);',
      replace: 'return listed.slice(place);',
      breaks: 'A backup that was there before is taken for the one that was asked for.',
      expected: ['B6'],
    },
    {
      id: 'backup-newest-forgotten',
      file: rows,
      find: '...(seen === undefined ? {} : { seen }),',
      replace: '',
      breaks: 'Which backups were there before is told by the clock alone.',
      expected: ['B6'],
    },
    {
      id: 'backup-intent-in-the-future-awaited',
      file: watching,
      find: 'const from = asked > now ? lostAt : Math.max(lostAt, asked);',
      replace: 'const from = Math.max(lostAt, asked);',
      breaks: 'An intent by a clock that was an hour ahead is watched closely until then.',
      expected: ['X8'],
      also: [
        {
          file: 'functions/backup-trigger/moves.ts',
          find: 'Math.abs(now - Date.parse(run.at)) < youngForSeconds * 1000',
          replace: 'now - Date.parse(run.at) < youngForSeconds * 1000',
        },
      ],
    },
    {
      id: 'backup-failure-unseen',
      file: watching,
      find: "const hasFailed = job.kind === 'present' && job.value.status === 'failed';",
      replace: "const hasFailed = job.kind === 'present' && job.value.status === 'unknown';",
      breaks: 'A backup that failed is looked for until nobody knows it.',
      expected: ['X8'],
    },
    {
      id: 'backup-condition-unheard',
      file: 'events/routes.ts',
      find: "conditions: ['Drained', 'BackupsOnSchedule'],",
      replace: "conditions: ['Drained'],",
      breaks:
        'What backup-trigger could not go on with is told as a stall long after it was mended.',
      expected: ['X7'],
    },
  ];
}
