import type { Mutant } from './mutant.ts';

const rows = 'functions/drain-step/decide.ts';
const before = 'functions/drain-step/before-return.ts';
const after = 'functions/drain-step/after-return.ts';
const gates = 'functions/drain-step/gates.ts';
const leaving = 'functions/drain-step/leaving.ts';
const moves = 'functions/drain-step/moves.ts';
const observe = 'functions/drain-step/observe.ts';

/** drain-step: who leaves, the gates, the point of no return, and what comes after it. */
export const drainMutants: readonly Mutant[] = [
  ...choosing(),
  ...beforeNoReturn(),
  ...switchover(),
  ...gatesOff(),
  ...afterNoReturn(),
  ...claims(),
  ...reading(),
];

/** People and the unknown come first; then one member is picked. */
function choosing(): readonly Mutant[] {
  return [
    {
      id: 'drain-pause-ignored',
      file: rows,
      find: "return database.kind === 'present' && database.value.isPaused\n",
      replace: "return database.kind === 'present' && database.value.isPaused && false\n",
      breaks: 'Members leave while the database is paused.',
      expected: ['X7', 'D7'],
    },
    {
      id: 'drain-unreadable-record-overwritten',
      file: rows,
      find: "if (record.kind !== 'unreadable') {",
      replace: "if (record.kind !== 'unreadable' || record.text !== '') {",
      breaks: 'A record that cannot be read is replaced by one of our own.',
      expected: ['D12', 'X8'],
    },
    {
      id: 'drain-unknown-members-are-none',
      file: rows,
      find: "return snapshot.members.kind === 'present'\n",
      replace: "return snapshot.members.kind !== 'absent'\n",
      breaks: 'A list of pods that failed counts as one without pods.',
      expected: ['D7', 'D11', 'D13', 'X8'],
    },
    {
      id: 'drain-unknown-topology-passes',
      file: rows,
      find: 'if (isForced(snapshot) || mayForce(snapshot)) {',
      replace: 'if (isForced(snapshot) || isFinished(snapshot) || mayForce(snapshot)) {',
      breaks: 'A drain past the point of no return ends although the topology cannot be read.',
      expected: ['D11', 'X8', 'D4'],
    },
    {
      id: 'drain-undecodable-record-passes',
      file: rows,
      find: 'return undecodable === undefined\n',
      replace: "return undecodable?.key !== ''\n",
      breaks: 'A member leaves although a record that nobody can decode may be the primary.',
      expected: ['D4', 'D6', 'D12'],
      also: [
        {
          file: gates,
          find: 'if (topology.value.undecodable.length > 0) {',
          replace: 'if (topology.value.undecodable.length > 1_000) {',
        },
      ],
    },
    {
      id: 'drain-second-leaver-picked',
      file: rows,
      find: 'if (leavingRecord(snapshot) !== null) {',
      replace: 'if (isFinished(snapshot)) {',
      breaks: 'Another member is picked while one is leaving.',
      expected: ['D1', 'D2', 'X8'],
    },
    {
      id: 'drain-unknown-claims-are-none',
      file: rows,
      find: "if (snapshot.claims.kind === 'unknown') {",
      replace: "if (snapshot.claims.kind === 'unknown' && chosen.cause === 'failed') {",
      breaks: 'A member is picked while its claims cannot be listed, and its claim is forgotten.',
      expected: ['S4', 'X8'],
    },
    {
      id: 'drain-left-claims-ignored',
      file: rows,
      find: '  chooseClaim,\n',
      replace: '',
      breaks: 'The claim of a surplus member that nobody saw go stays for ever.',
      expected: ['S4', 'X8'],
    },
    {
      id: 'drain-settle-in-the-future-awaited',
      file: before,
      find: 'if (since !== undefined && secondsBetween(now, since) > settleSeconds) {',
      replace: 'if (since !== undefined && secondsBetween(now, since) > 86_400) {',
      breaks: 'A settle time that begins in an hour holds the drain up until then.',
      expected: ['X8'],
    },
    {
      id: 'drain-one-too-many-surplus',
      file: leaving,
      find: 'Math.max(0, members.length - pool.replicasPerCell)',
      replace: 'Math.max(0, members.length - pool.replicasPerCell + 1)',
      breaks: 'One member more than the surplus is picked.',
      expected: ['S2', 'X7', 'X8'],
    },
    {
      id: 'drain-terminating-counts-as-member',
      file: leaving,
      find: '      !isOfOthers(member) &&\n      !member.isBeingDeleted,\n',
      replace: '      !isOfOthers(member),\n',
      breaks: 'A pod that is going already counts as one of too many.',
      expected: ['S2', 'S6', 'X8'],
    },
    {
      id: 'drain-foreign-counts-as-member',
      file: leaving,
      find: '      !isOfOthers(member) &&\n      !member.isBeingDeleted,\n',
      replace: '      !member.isBeingDeleted,\n',
      breaks: "Somebody else's pod with our labels is counted, and may be picked.",
      expected: ['X1', 'D7', 'X8'],
    },
    {
      id: 'drain-unready-is-failed',
      file: leaving,
      find: 'return member.hasEnded ||',
      replace: 'return !member.isReady ||',
      breaks: 'A member that is not ready for a moment is replaced.',
      expected: ['D7', 'X7', 'X8'],
    },
    {
      id: 'drain-unknown-node-is-gone',
      file: leaving,
      find: "nodes[member.node]?.kind === 'absent'",
      replace: "['absent', 'unknown'].includes(nodes[member.node]?.kind ?? '')",
      breaks: 'A member whose node cannot be read counts as failed.',
      expected: ['D7', 'X7', 'X8'],
    },
  ];
}

/** Cancelling, force, the order of states and the settle time. */
function beforeNoReturn(): readonly Mutant[] {
  return [
    {
      id: 'drain-spec-revert-ignored',
      file: moves,
      find: "surplusWith(snapshot, leaver) <= 0 ? 'the shard wants it again'",
      replace: "surplusWith(snapshot, leaver) < 0 ? 'the shard wants it again'",
      breaks: 'The drain of a surplus member goes on after the spec was reverted.',
      expected: ['D7', 'S2'],
    },
    {
      id: 'drain-request-withdrawal-ignored',
      file: moves,
      find: "member?.request === null ? 'the request was taken back' : undefined",
      replace: "member === undefined ? 'the request was taken back' : undefined",
      breaks: 'The drain of a requested member goes on after the request was taken back.',
      expected: ['D7'],
    },
    {
      id: 'drain-cancelled-after-no-return',
      file: rows,
      find: '  forcedByPerson,\n  keepOffOthers,\n',
      replace: '  cancelled,\n  forcedByPerson,\n  keepOffOthers,\n',
      breaks:
        'A drain is cancelled past the point of no return, when its pod may be going already.',
      expected: ['D1', 'D7'],
    },
    {
      id: 'drain-member-of-others-deleted',
      file: before,
      find: 'return isOfOthers(memberOf(snapshot, leaver))\n',
      replace: "return isOfOthers(memberOf(snapshot, { ...leaver, podUid: '' }))\n",
      breaks: 'A pod that came into the hands of somebody else is drained and deleted.',
      expected: ['Z2', 'D7'],
      also: [
        {
          file: after,
          find: 'return member?.isBeingDeleted === false && isOfOthers(member)\n',
          replace: 'return member?.isBeingDeleted === false && isOfOthers(undefined)\n',
        },
      ],
    },
    {
      id: 'drain-any-force-is-meant',
      file: before,
      find: 'snapshot.shard.forcedPodUid !== leaver.podUid',
      replace: 'snapshot.shard.forcedPodUid === null',
      breaks: "A person's force for one pod passes the gates for another.",
      expected: ['D4', 'D5', 'Z2'],
    },
    {
      id: 'drain-settle-zero',
      file: before,
      find: 'export const settleSeconds = 5;',
      replace: 'export const settleSeconds = 0;',
      breaks: 'The gates need not hold over any time.',
      expected: ['D4'],
    },
    {
      id: 'drain-settle-from-the-start',
      file: before,
      find: 'const since = parseInstant(record.since);',
      replace: 'const since = parseInstant(leaver.startedAt);',
      breaks: 'The time since the member was picked counts as time over which the gates held.',
      expected: ['D4'],
    },
    {
      id: 'drain-acknowledged-skipped',
      file: before,
      find: "        'acknowledged',\n        'GatesHeld',",
      replace: "        'finished',\n        'GatesHeld',",
      breaks: 'The third look before the point of no return is left out.',
      expected: ['D1', 'D4'],
    },
    {
      id: 'drain-deleted-when-acknowledged',
      file: rows,
      find: '  acknowledge,\n  authoriseDeletion,\n];',
      replace: '  acknowledge,\n  deleteMember,\n  authoriseDeletion,\n];',
      breaks: 'A member is deleted before its record says that it may go.',
      expected: ['D3'],
    },
    {
      id: 'drain-others-kept-off-late',
      file: rows,
      find: '  keepOffOthers,\n  becamePrimary,\n  sayFinished,\n',
      replace: '  becamePrimary,\n  keepOffOthers,\n  sayFinished,\n',
      breaks: 'A pod in the hands of others is marked because it came to lead.',
      expected: ['X1'],
    },
    {
      id: 'drain-pause-of-database-late',
      file: rows,
      find: '  pausedByDatabase,\n  recordUnreadable,\n  foreignRecord,\n  membersUnknown,\n',
      replace: '  recordUnreadable,\n  foreignRecord,\n  membersUnknown,\n  pausedByDatabase,\n',
      breaks: 'What cannot be read is written down although the database is paused.',
      expected: ['R6'],
    },
    {
      id: 'drain-taken-over-past-return',
      file: rows,
      find: '  keepOffOthers,\n  becamePrimary,\n',
      replace: '  becamePrimary,\n',
      breaks: 'A member is deleted that came into the hands of others after it was let go.',
      expected: ['X1'],
    },
    {
      id: 'drain-deadline-is-safe',
      file: before,
      find: 'if (needed !== null && healthy >= needed) {',
      replace: `const isOverdue =
    secondsBetween(parseInstant(leaver.startedAt) ?? now, now) > snapshot.shard.deadlineSeconds;
  if (isOverdue || (needed !== null && healthy >= needed)) {`,
      breaks: 'A gate that is unmet until the deadline counts as met.',
      expected: ['D5', 'D4'],
    },
    {
      id: 'drain-voteless-leader-unsaid',
      file: before,
      find: 'return hasVote(primary.rule, primary.status.id)\n    ? hold',
      replace: 'return true\n    ? hold',
      breaks: 'Nobody is told that it is the leader that holds a drain up.',
      expected: ['X8'],
    },
    {
      id: 'drain-failed-member-waits',
      file: before,
      find: '    healthy >= needed ||\n    failed === undefined ||\n',
      replace: '    healthy >= 0 ||\n    failed === undefined ||\n',
      breaks: 'A failed member waits behind one that waits for it.',
      expected: ['X8'],
    },
  ];
}

/** The leader hands over first; the other side takes no precondition. */
function switchover(): readonly Mutant[] {
  return [
    {
      id: 'drain-intent-not-recorded',
      file: before,
      find: 'data: { ...leaver, intent },',
      replace: 'data: { ...leaver, ...(leaver.forced ? { intent } : {}) },',
      breaks: 'A switchover is asked for and the record does not say so.',
      expected: ['X9'],
    },
    {
      id: 'drain-asked-again-at-once',
      file: before,
      find: 'const askAgainSeconds = 75;',
      replace: 'const askAgainSeconds = 0;',
      breaks: 'A switchover is asked for at each look until somebody else leads.',
      expected: ['X9'],
    },
    {
      id: 'drain-sent-late',
      file: before,
      find: 'const sendWithinSeconds = 10;',
      replace: 'const sendWithinSeconds = 600;',
      breaks: 'A handler that was held up asks after another one was allowed to ask again.',
      expected: ['X9'],
    },
    {
      id: 'drain-leader-not-asked',
      file: before,
      find: "if (primary.kind !== 'agreed' || !isLeader(primary, leaver)) {\n    return undefined;\n  }\n  const standby",
      replace:
        "if (primary.kind !== 'agreed' || !isLeader(primary, leaver) || !leaver.forced) {\n    return undefined;\n  }\n  const standby",
      breaks: 'A primary is drained without handing over.',
      expected: ['D4', 'D6'],
    },
    {
      id: 'drain-new-leader-deleted',
      file: after,
      find: "if (primary.kind === 'agreed' && isLeader(primary, leaver)) {",
      replace: "if (primary.kind === 'agreed' && isLeader(primary, leaver) && leaver.forced) {",
      breaks: 'A member that came to lead after the point of no return is deleted as leader.',
      expected: ['D6'],
    },
    {
      id: 'drain-new-leader-not-fenced',
      file: after,
      find: "      ...mirror(snapshot, leaver, member.mirror === null ? 'draining' : null),\n",
      replace: "      ...mirror(snapshot, leaver, member.mirror === null ? null : 'finished'),\n",
      breaks: 'A handler with an older view deletes the pod after its record went back.',
      expected: ['D3', 'D6'],
    },
    {
      id: 'drain-deleted-without-known-leader',
      file: after,
      find: "return primary.kind === 'agreed' || leaver.forced\n",
      replace: "return primary.kind !== 'disputed' || leaver.forced\n",
      breaks: 'A member is deleted while nobody knows who leads.',
      expected: ['D6', 'D4'],
    },
  ];
}

/** Who leads, whether anything is undecided, and whether enough remain. */
function gatesOff(): readonly Mutant[] {
  return [
    {
      id: 'drain-no-leader-passes',
      file: before,
      find: "return leaver.forced || primary.kind === 'agreed'\n",
      replace: "return leaver.forced || primary.kind === 'agreed' || primary.kind === 'none'\n",
      breaks: 'The gates hold while nobody leads.',
      expected: ['D4', 'D6'],
    },
    {
      id: 'drain-proposal-ignored',
      file: gates,
      find: 'if (proposal !== null && compareRules(proposal.rule, rule.rule) > 0) {',
      replace: 'if (proposal !== null && compareRules(proposal.rule, rule.rule) < 0) {',
      breaks: 'The gates hold while a rule is proposed and not decided.',
      expected: ['D4'],
    },
    {
      id: 'drain-rival-ignored',
      file: gates,
      find: 'isRecordOfPod(claim, member.pod) && !hasFailed(member, snapshot.nodes),',
      replace: 'isRecordOfPod(claim, member.pod) && hasFailed(member, snapshot.nodes),',
      breaks: 'Two living members claim to lead, and the higher rule is believed.',
      expected: ['D4', 'D6'],
    },
    {
      id: 'drain-dead-rival-counts',
      file: gates,
      find: 'isRecordOfPod(claim, member.pod) && !hasFailed(member, snapshot.nodes),',
      replace: 'isRecordOfPod(claim, member.pod) && hasFailed !== undefined,',
      breaks: 'A primary that was killed disputes its successor for ever.',
      expected: ['X8', 'D11'],
    },
    {
      id: 'drain-claim-to-lead-unconfirmed',
      file: gates,
      find: "if (status.role !== 'primary' || decision === null || decision.leader === null) {",
      replace: 'if (decision === null || decision.leader === null) {',
      breaks: 'A record that says PRIMARY is believed although its pooler denies it.',
      expected: ['D4', 'D6'],
      also: [
        {
          file: gates,
          find: 'if (!isSamePooler(decision.leader, claim.id)) {',
          replace: 'if (!isSamePooler(claim.id, claim.id)) {',
        },
      ],
    },
    {
      id: 'drain-quorum-one-short',
      file: before,
      find: 'if (needed !== null && healthy >= needed) {',
      replace: 'if (needed !== null && healthy + 1 >= needed) {',
      breaks: 'A member leaves although one too few remain to commit.',
      expected: ['D5'],
    },
    {
      id: 'drain-quorum-counts-the-leaver',
      file: gates,
      find: 'const healthy = healthyVoters(snapshot, rule).filter((id) => !isSamePooler(id, leaver));',
      replace:
        "const healthy = healthyVoters(snapshot, rule).filter((id) => !isSamePooler(id, { ...leaver, name: '' }));",
      breaks: 'The leaver counts among those that remain.',
      expected: ['D5'],
    },
    {
      id: 'drain-not-streaming-counts',
      file: gates,
      find: "(status.role === 'primary' || (status.role === 'replica' && status.isStreaming)) &&",
      replace: "(status.role === 'primary' || status.role === 'replica') &&",
      breaks: 'A replica that does not replicate counts as one that can acknowledge a commit.',
      expected: ['D5'],
    },
    {
      id: 'drain-terminating-pod-counts',
      file: gates,
      find: "record?.lifecycle === 'active' &&",
      replace: "record !== undefined && record.lifecycle !== 'shutdown' &&",
      breaks: 'A member that is stopping counts as healthy.',
      expected: ['D5'],
      also: [{ file: gates, find: '      !pod.isBeingDeleted &&\n', replace: '' }],
    },
    {
      id: 'drain-member-of-others-counts',
      file: gates,
      find: '      !pod.hasEnded &&\n      !isOfOthers(pod)\n',
      replace: '      !pod.hasEnded\n',
      breaks: 'A member that somebody else has in hand counts as one that stays.',
      expected: ['D5'],
    },
  ];
}

/** The pod goes, its node is proven, its record is silent, its cohort lets go. */
function afterNoReturn(): readonly Mutant[] {
  return [
    {
      id: 'drain-newcomer-is-the-leaver',
      file: moves,
      find: 'members.value.find((member) => member.uid === leaver.podUid)',
      replace: 'members.value.find((member) => member.pod === leaver.pod)',
      breaks: "A new pod of the leaver's name is taken for the leaver.",
      expected: ['X1', 'D3', 'D7', 'X8'],
    },
    {
      id: 'drain-pod-gone-not-awaited',
      file: after,
      find: 'return memberOf(snapshot, leaver) === undefined\n',
      replace: 'return memberOf(snapshot, leaver)?.isBeingDeleted !== false\n',
      breaks: 'A pod that is Terminating, and may run for ever, counts as gone.',
      expected: ['D2', 'D11', 'D13'],
    },
    {
      id: 'drain-unknown-node-is-proof',
      file: after,
      find: "node?.kind === 'absent' ||",
      replace: "node?.kind !== 'present' ||",
      breaks: 'A node that cannot be read counts as gone.',
      expected: ['G5', 'D11', 'D2'],
    },
    {
      id: 'drain-unready-node-is-proof',
      file: after,
      find: "(node?.kind === 'present' && node.value.isReady)",
      replace: "(node?.kind === 'present' && leaver.pod !== '')",
      breaks: 'A node nobody hears from counts as proof that the member has stopped.',
      expected: ['G5', 'D11', 'D2'],
    },
    {
      id: 'drain-silent-record-left',
      file: after,
      find: 'hasStopped(pooler) || isReplaced(snapshot, pooler)) {',
      replace:
        "hasStopped(pooler) || pooler.serving === 'serving' || isReplaced(snapshot, pooler)) {",
      breaks: 'The record of a member that died without a word stays as it is.',
      expected: ['D11', 'X8'],
    },
    {
      id: 'drain-newcomer-retired',
      file: after,
      find: 'hasStopped(pooler) || isReplaced(snapshot, pooler)) {',
      replace: 'hasStopped(pooler)) {',
      breaks: "The record of a new pod of the same name is retired in the leaver's place.",
      expected: ['G5'],
    },
    {
      id: 'drain-cohort-exit-not-awaited',
      file: after,
      find: 'return hasVote(primary.rule, leaver.pooler)',
      replace: 'return primary.rule.cohort.every((id) => isSamePooler(id, leaver.pooler))',
      breaks: 'A drain ends while its member still has a vote.',
      expected: ['D2', 'D4', 'D5'],
    },
    {
      id: 'drain-unknown-leader-ends-drain',
      file: after,
      find: 'if (leaver.forced || pooler === undefined || isReplaced(snapshot, pooler)) {',
      replace:
        "if (leaver.forced || pooler === undefined || isReplaced(snapshot, pooler) || primaryOf(snapshot).kind !== 'agreed') {",
      breaks: 'A drain ends while nobody can say who has a vote.',
      expected: ['D2', 'D4', 'D5'],
    },
    {
      id: 'drain-cleared-before-released',
      file: after,
      find: '[advance(snapshot, record), ...mark, advance(snapshot, null, recordText(record))]',
      replace: '[advance(snapshot, null), ...mark]',
      breaks: 'A crash between the last two writes of a drain leaves its claim unmarked for good.',
      expected: ['D10', 'S6'],
    },
    {
      id: 'drain-released-under-old-view',
      file: after,
      find: '[advance(snapshot, record), ...mark, advance(snapshot, null, recordText(record))]',
      replace: '[...mark, advance(snapshot, null)]',
      breaks: 'A handler that is late marks a claim as kept on which a pod lives again.',
      expected: ['S4', 'X2'],
    },
    {
      id: 'drain-never-cleared',
      file: after,
      find: '...mark, advance(snapshot, null, recordText(record))]',
      replace: '...mark]',
      breaks: 'The place of the leaver is never given back.',
      expected: ['X8', 'X7', 'S6'],
    },
  ];
}

/** A claim goes by policy, only of a surplus member, and only when nobody uses it. */
function claims(): readonly Mutant[] {
  return [
    {
      id: 'drain-claim-in-use-ignored',
      file: after,
      find: 'if (snapshot.claimsInUse.value.includes(claim.name)) {',
      replace: 'if (snapshot.claimsInUse.value.includes(leaver.claimUid)) {',
      breaks: 'A claim is deleted while a pod mounts it.',
      expected: ['S3'],
    },
    {
      id: 'drain-only-running-pods-use-claims',
      file: observe,
      find: '(pod.spec?.volumes ?? []).flatMap(',
      replace: "(pod.status?.phase === 'Running' ? (pod.spec?.volumes ?? []) : []).flatMap(",
      breaks: 'A pod that is not running yet does not count as a user of its claim.',
      expected: ['S3'],
    },
    {
      id: 'drain-claim-deleted-for-any-cause',
      file: after,
      find: "if (leaver.cause !== 'surplus' || leaver.claimUid === '') {",
      replace: "if (leaver.claimUid === '') {",
      breaks: 'The claim of a member that is to come back is deleted.',
      expected: ['D13', 'S6'],
    },
    {
      id: 'drain-policy-inverted',
      file: after,
      find: "policyOf(snapshot, leaver) === 'Retain'",
      replace: "policyOf(snapshot, leaver) === 'Delete'",
      breaks: 'Claims that are to be kept are deleted, and the others are kept.',
      expected: ['S3', 'S4'],
    },
    {
      id: 'drain-claim-kept-for-ever',
      file: after,
      find: 'if (claim === undefined || claim.isBeingDeleted || isKept) {',
      replace:
        'if (claim === undefined || claim.isBeingDeleted || isKept || claim.released === null) {',
      breaks: 'A surplus claim is deleted only once it was marked, which comes after it.',
      expected: ['S4'],
    },
    {
      id: 'drain-forced-claim-deleted',
      file: after,
      find: "const isKept = leaver.forced || policyOf(snapshot, leaver) === 'Retain';",
      replace: "const isKept = policyOf(snapshot, leaver) === 'Retain';",
      breaks:
        'The data of a member that a person forced out is deleted, though no gate showed another copy.',
      expected: ['S3', 'D13'],
    },
    {
      id: 'drain-claim-of-missing-member-picked',
      file: leaving,
      find: 'membersOf(pods, pool, cell).length >= pool.replicasPerCell',
      replace: 'membersOf(pods, pool, cell).length >= 0 * pool.replicasPerCell',
      breaks: 'The claim on which the next member would be made is deleted.',
      expected: ['S6', 'D13', 'S3'],
    },
    {
      id: 'drain-kept-claim-picked',
      file: leaving,
      find: '          claim.released === null &&\n',
      replace: '',
      breaks: 'A claim that was kept on purpose is deleted when the policy changes.',
      expected: ['S3', 'D13'],
    },
    {
      id: 'drain-claim-of-living-member-deleted',
      file: moves,
      find: 'return pooler !== undefined && isAnswering(snapshot, pooler.id);',
      replace: 'return pooler !== undefined && isAnswering(snapshot, pooler.id) && leaver.forced;',
      breaks: 'The claim of a member that still answers is deleted.',
      expected: ['G5', 'S3'],
    },
  ];
}

/** What is read, in which order, and of whom. */
function reading(): readonly Mutant[] {
  return [
    {
      id: 'drain-evidence-before-token',
      file: observe,
      find: `  const topology: Read<PoolerListing> =
    database.kind === 'present' && view.kind === 'present'
      ? await ports.topology(database.value).poolers(view.value.shard, cells, signal)
      : unknown('the Database that says where it is cannot be read');
  const pods = await ports.kube.list(
    'Pod',
    { namespace, labels: { [shardLabel]: metadata.name } },
    signal,
  );`,
      replace: `  const pods = await ports.kube.list(
    'Pod',
    { namespace, labels: { [shardLabel]: metadata.name } },
    signal,
  );
  const topology: Read<PoolerListing> =
    database.kind === 'present' && view.kind === 'present'
      ? await ports.topology(database.value).poolers(view.value.shard, cells, signal)
      : unknown('the Database that says where it is cannot be read');`,
      breaks: 'Pods are listed before the record that is written because of them.',
      expected: ['X6', 'G5'],
    },
    {
      id: 'drain-first-cell-only',
      file: observe,
      find: 'const cells = [...new Set(spec.pools.flatMap((pool) => pool.cells))];',
      replace: 'const cells = spec.pools.flatMap((pool) => pool.cells).slice(0, 1);',
      breaks: 'Of a shard in several cells the records of the first are read.',
      expected: ['D4', 'D5', 'X8'],
    },
    {
      id: 'drain-primary-asked-only',
      file: observe,
      find: 'topology.value.poolers.filter((pooler) => !hasStopped(pooler));',
      replace:
        "topology.value.poolers.filter((pooler) => !hasStopped(pooler) && pooler.role === 'primary');",
      breaks: 'Only the primary is asked what it knows.',
      expected: ['D4', 'X8'],
    },
  ];
}
