import type { Mutant } from './mutant.ts';

const topology = 'shared/topology/connect.ts';
const poolerRecord = 'shared/topology/pooler-record.ts';
const gateway = 'shared/topology/gateway-store.ts';
const etcd = 'shared/topology/etcd-store.ts';
const status = 'shared/admin/pooler-status.ts';
const admin = 'shared/admin/connect.ts';

/** The pooler records in etcd, and what poolers say of themselves. */
export const dataPlaneMutants: readonly Mutant[] = [
  {
    id: 'topology-compares-what-it-just-read',
    file: topology,
    find: 'if (found?.modRevision !== modRevision) {',
    replace: 'if (found === undefined) {',
    breaks: 'A record is retired although it moved after the evidence against it was read.',
    expected: ['G5', 'X6'],
    also: [
      {
        file: topology,
        find: '{ key: pooler.key, value: next.value, modRevision }',
        replace: '{ key: pooler.key, value: next.value, modRevision: found.modRevision }',
      },
    ],
  },
  {
    id: 'topology-put-without-compare',
    file: gateway,
    find: 'compare: keyed.map(',
    replace: 'compare: keyed.slice(keyed.length).map(',
    breaks: 'A record is written whatever it holds by now.',
    expected: ['G5', 'X6'],
  },
  {
    id: 'topology-unreadable-is-empty',
    file: topology,
    find: 'return unknownOf(error);',
    replace:
      'return signal?.aborted === true ? unknownOf(error) : present({ poolers: [], undecodable: [] });',
    breaks: 'A topology that cannot be read counts as one without poolers.',
    expected: ['D4', 'D11', 'X8'],
  },
  {
    id: 'topology-unreachable-cell-skipped',
    file: topology,
    find: `  return endings.map((ending) => {
    if (ending.status === 'rejected') {
      throw ending.reason;
    }
    return ending.value;
  });`,
    replace: `  return endings.flatMap((ending) => (ending.status === 'rejected' ? [] : [ending.value]));`,
    breaks: 'The records of a cell that does not answer are left out.',
    expected: ['D4', 'D5', 'D11'],
  },
  {
    id: 'topology-undecodable-skipped',
    file: topology,
    find: 'undecodable.push({ key: entry.key, why: decoded.why });',
    replace: '// One broken record must not stop the others.',
    breaks: 'A record that cannot be decoded is left out of the listing.',
    expected: ['D4', 'D12'],
  },
  {
    id: 'topology-first-page-is-all',
    file: etcd,
    find: 'if (!page.more || last === undefined) {',
    replace: 'if (!page.more || last === undefined || found.length > 0) {',
    breaks: 'Of the records under a prefix the first page is read.',
    expected: ['D4', 'D5', 'D11'],
    also: [{ file: etcd, find: 'const pageSize = 1_000;', replace: 'const pageSize = 2;' }],
  },
  {
    id: 'topology-neighbours-counted',
    file: topology,
    find: '    shard.tableGroup === wanted.tableGroup &&\n    shard.shard === wanted.shard\n',
    replace: '    shard.tableGroup === wanted.tableGroup\n',
    breaks: 'The poolers of a neighbouring shard count as those of this one.',
    expected: ['D4', 'D5', 'G3', 'X8'],
  },
  {
    id: 'topology-retired-record-rewritten',
    file: poolerRecord,
    find: "return { kind: 'retired', value: toBinary(MultipoolerSchema, message) };",
    replace: `return {
    kind: 'retired',
    value: toBinary(MultipoolerSchema, message, { writeUnknownFields: false }),
  };`,
    breaks: 'Retiring a record drops the fields that this version does not know.',
    expected: ['G5'],
  },
  {
    id: 'admin-proposal-not-read',
    file: status,
    find: 'proposal: position?.proposal ?? null,',
    replace: 'proposal: null,',
    breaks: 'Nobody learns that a rule is proposed and not decided.',
    expected: ['D4'],
  },
  {
    id: 'admin-switch-retried',
    file: admin,
    find: "return { kind: 'unknown', why: `asking for a switchover: ${describeError(error)}` };",
    replace: `answer = await route({
      method: 'POST',
      path: \`/api/v1/shards/\${segments.join('/')}/switch-primary\`,
      body: { reason },
      ...limits,
    });`,
    breaks: 'The transport asks for a switchover once more when its answer is lost.',
    expected: ['X9'],
  },
];
