/** etcd's JSON gateway, whoever stands behind it. */
export interface Gateway {
  /**
   * @param path below `/v3`: `/kv/range`
   * @param body serialised as JSON
   */
  post(path: string, body: object): Promise<{ readonly status: number; readonly body: unknown }>;
  /**
   * Resolves when the end of a lease has deleted the key.
   *
   * @param since the revision it was written at, as the wire has it
   */
  leaseDeletes(key: string, since: string): Promise<void>;
}

/** One answer in a form that two stores can be compared by; see {@link tell}. */
export interface Told {
  readonly status: number;
  readonly body: unknown;
}

export interface EtcdRow {
  /** A fact about etcd. */
  readonly name: string;
  act(etcd: Conversation): Promise<void>;
  /** What etcd 3.6 answered, one entry per request. */
  readonly answers: readonly Told[];
}

/** What a row can do. Revisions count from the one the row begins at: the first write makes `+1`. */
interface Conversation {
  ask(path: string, body: object): Promise<Readonly<Record<string, unknown>>>;
  /** The wire's form of a revision: `at(1)` is that of the row's first write. */
  at(offset: number): string;
  leaseDeletes(key: string, since: string): Promise<void>;
}

/**
 * Runs a row on an emptied store and tells every answer. Revisions are told as offsets from where the row began, ids
 * of leases by the order they are seen in, the time a lease has left as its being positive, and of messages about JSON
 * only that they are that: the rest is verbatim.
 */
export async function tell(row: EtcdRow, gateway: Gateway): Promise<readonly Told[]> {
  const emptied = await gateway.post('/kv/deleterange', { key: 'AA==', range_end: 'AA==' });
  const base = Number((emptied.body as { header: { revision: string } }).header.revision);
  const leases: string[] = [];
  const answers: Told[] = [];
  await row.act({
    async ask(path, body) {
      const { status, body: said } = await gateway.post(path, body);
      answers.push({ status, body: normalise(said, path, base, leases) });
      return (said ?? {}) as Readonly<Record<string, unknown>>;
    },
    at: (offset) => String(base + offset),
    leaseDeletes: (key, since) => gateway.leaseDeletes(key, since),
  });
  return answers;
}

const revisionFields: ReadonlySet<string> = new Set([
  'revision',
  'create_revision',
  'mod_revision',
]);
const decimal = /^-?\d+$/;

function normalise(value: unknown, path: string, base: number, leases: string[]): unknown {
  if (Array.isArray(value)) {
    return value.map((item) => normalise(item, path, base, leases));
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  const told: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(value)) {
    const isNumber = typeof field === 'string' && decimal.test(field);
    if (revisionFields.has(name) && isNumber) {
      told[name] = `+${Number(field) - base}`;
    } else if (['cluster_id', 'member_id', 'raft_term'].includes(name) && isNumber) {
      // Who answers is not the store's own state.
    } else if ((name === 'ID' || name === 'lease') && isNumber) {
      told[name] = leaseName(field, leases);
    } else if (name === 'TTL' && path === '/lease/timetolive' && Number(field) > 0) {
      told[name] = 'more than nothing';
    } else if (name === 'keys' && path === '/lease/timetolive' && Array.isArray(field)) {
      // A lease keeps its keys in a Go map, whose order is another one each time.
      told[name] = field.map(String).toSorted((one, other) => (one < other ? -1 : 1));
    } else if (name === 'message' && typeof field === 'string' && !field.startsWith('etcdserver')) {
      told[name] = 'not JSON of this message';
    } else {
      told[name] = normalise(field, path, base, leases);
    }
  }
  return told;
}

function leaseName(id: string, leases: string[]): string {
  if (!leases.includes(id)) {
    leases.push(id);
  }
  return `lease ${leases.indexOf(id) + 1}`;
}

function b(text: string): string {
  return Buffer.from(text).toString('base64');
}

const fromEveryKey = b('\0');

function put(key: string, value = 'v', more: object = {}): object {
  return { key: b(key), value: b(value), ...more };
}

function range(key: string, end?: string, more: object = {}): object {
  return { key: b(key), ...(end === undefined ? {} : { range_end: b(end) }), ...more };
}

/** A transaction's operations. */
const op = {
  put: (...args: Parameters<typeof put>) => ({ request_put: put(...args) }),
  range: (...args: Parameters<typeof range>) => ({ request_range: range(...args) }),
  delete: (...args: Parameters<typeof range>) => ({ request_delete_range: range(...args) }),
};

function ok(revision: number, fields: object = {}): Told {
  return { status: 200, body: { header: { revision: `+${revision}` }, ...fields } };
}

function refusal(message: string, code = 3, status = 400): Told {
  return { status, body: { code, message: `etcdserver: ${message}` } };
}

const notJson: Told = { status: 400, body: { code: 3, message: 'not JSON of this message' } };
const compacted = refusal('mvcc: required revision has been compacted', 11);
const future = refusal('mvcc: required revision is a future revision', 11);

/** One key in an answer; the numbers are its create revision, mod revision and version. */
function kv(
  key: string,
  value: string,
  [created, modified, version]: readonly [number, number, number],
  more: object = {},
): object {
  return {
    key: b(key),
    create_revision: `+${created}`,
    mod_revision: `+${modified}`,
    version: String(version),
    ...(value === '' ? {} : { value: b(value) }),
    ...more,
  };
}

function found(...kvs: object[]): object {
  return kvs.length === 0 ? {} : { kvs, count: String(kvs.length) };
}

function response(kind: 'put' | 'range' | 'delete_range', revision: number, fields: object = {}) {
  return { [`response_${kind}`]: { header: { revision: `+${revision}` }, ...fields } };
}

function compare(key: string, target: string, result: string, value: object = {}): object {
  return { key: b(key), target, result, ...value };
}

/** Whether each of these comparisons holds, asked in transactions of their own. */
async function askWhether(etcd: Conversation, compares: readonly object[]): Promise<void> {
  for (const one of compares) {
    await etcd.ask('/kv/txn', { compare: [one] });
  }
}

const held = (revision: number) => ok(revision, { succeeded: true });
const failed = (revision: number) => ok(revision);

const keyRows: readonly EtcdRow[] = [
  {
    name: 'a key that was never written is an answer without keys',
    async act(etcd) {
      await etcd.ask('/kv/range', range('a'));
    },
    answers: [ok(0)],
  },
  {
    name: 'every write of a key raises the revision by one and keeps its create revision',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a', '1'));
      await etcd.ask('/kv/put', put('a', '2'));
      await etcd.ask('/kv/range', range('a'));
    },
    answers: [ok(1), ok(2), ok(2, found(kv('a', '2', [1, 2, 2])))],
  },
  {
    name: 'writing the same value again is a write',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a'));
      await etcd.ask('/kv/put', put('a'));
      await etcd.ask('/kv/range', range('a'));
    },
    answers: [ok(1), ok(2), ok(2, found(kv('a', 'v', [1, 2, 2])))],
  },
  {
    name: 'a key written again after its deletion begins with version 1',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a', '1'));
      await etcd.ask('/kv/deleterange', range('a'));
      await etcd.ask('/kv/range', range('a'));
      await etcd.ask('/kv/put', put('a', '2'));
      await etcd.ask('/kv/range', range('a'));
    },
    answers: [ok(1), ok(2, { deleted: '1' }), ok(2), ok(3), ok(3, found(kv('a', '2', [3, 3, 1])))],
  },
  {
    name: 'a delete that finds nothing raises no revision',
    async act(etcd) {
      await etcd.ask('/kv/deleterange', range('a'));
      await etcd.ask('/kv/deleterange', range('a', 'z', { prev_kv: true }));
    },
    answers: [ok(0), ok(0)],
  },
  {
    name: 'a delete of a range gives what was there and raises the revision once',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a', '1'));
      await etcd.ask('/kv/put', put('b', '2'));
      await etcd.ask('/kv/put', put('c', '3'));
      await etcd.ask('/kv/deleterange', range('a', 'c', { prev_kv: true }));
      await etcd.ask('/kv/range', range('a', 'z'));
    },
    answers: [
      ok(1),
      ok(2),
      ok(3),
      ok(4, { deleted: '2', prev_kvs: [kv('a', '1', [1, 1, 1]), kv('b', '2', [2, 2, 1])] }),
      ok(4, found(kv('c', '3', [3, 3, 1]))),
    ],
  },
  {
    name: 'an empty value is left out of the answer',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a', ''));
      await etcd.ask('/kv/range', range('a'));
    },
    answers: [ok(1), ok(1, found(kv('a', '', [1, 1, 1])))],
  },
  {
    name: 'a put gives the key it replaces where it is asked for it',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a', '1', { prev_kv: true }));
      await etcd.ask('/kv/put', put('a', '2', { prev_kv: true }));
    },
    answers: [ok(1), ok(2, { prev_kv: kv('a', '1', [1, 1, 1]) })],
  },
  {
    name: 'a put may keep the value, of a key that is there',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a', '1'));
      await etcd.ask('/kv/put', { key: b('a'), ignore_value: true });
      await etcd.ask('/kv/range', range('a'));
      await etcd.ask('/kv/put', { key: b('none'), ignore_value: true });
      await etcd.ask('/kv/put', put('a', '2', { ignore_value: true }));
    },
    answers: [
      ok(1),
      ok(2),
      ok(2, found(kv('a', '1', [1, 2, 2]))),
      refusal('key not found'),
      refusal('value is provided'),
    ],
  },
  {
    name: 'bytes that are no text are kept and ordered as bytes',
    async act(etcd) {
      await etcd.ask('/kv/put', { key: '/wA=', value: '/v8A' });
      await etcd.ask('/kv/put', { key: 'w6Q=', value: 'gA==' });
      await etcd.ask('/kv/put', { key: 'fw==', value: 'AA==' });
      await etcd.ask('/kv/range', { key: fromEveryKey, range_end: fromEveryKey, keys_only: true });
      await etcd.ask('/kv/range', { key: '_wA' });
    },
    answers: [
      ok(1),
      ok(2),
      ok(3),
      ok(3, {
        kvs: ['fw==', 'w6Q=', '/wA='].map((key, index) => ({
          key,
          create_revision: `+${3 - index}`,
          mod_revision: `+${3 - index}`,
          version: '1',
        })),
        count: '3',
      }),
      ok(3, {
        kvs: [
          { key: '/wA=', create_revision: '+1', mod_revision: '+1', version: '1', value: '/v8A' },
        ],
        count: '1',
      }),
    ],
  },
  {
    name: 'no request without a key is served',
    async act(etcd) {
      await etcd.ask('/kv/range', {});
      await etcd.ask('/kv/put', put(''));
      await etcd.ask('/kv/deleterange', range(''));
      await etcd.ask('/kv/txn', { compare: [compare('', 'MOD', 'EQUAL')] });
      await etcd.ask('/kv/txn', { failure: [op.put('')] });
    },
    answers: Array.from({ length: 5 }, () => refusal('key is not provided')),
  },
];

/** Four keys at the revisions 1 to 4. */
async function writeFour(etcd: Conversation): Promise<void> {
  for (const key of ['a/1', 'a/2', 'a/3', 'b']) {
    await etcd.ask('/kv/put', put(key, ''));
  }
}

const four = [ok(1), ok(2), ok(3), ok(4)];

const rangeRows: readonly EtcdRow[] = [
  {
    name: 'the end of a range is exclusive',
    async act(etcd) {
      await writeFour(etcd);
      await etcd.ask('/kv/range', range('a/1', 'a/3'));
    },
    answers: [...four, ok(4, found(kv('a/1', '', [1, 1, 1]), kv('a/2', '', [2, 2, 1])))],
  },
  {
    name: 'a range whose end is not after its begin is empty',
    async act(etcd) {
      await writeFour(etcd);
      await etcd.ask('/kv/range', range('b', 'a'));
      await etcd.ask('/kv/range', range('b', 'b'));
    },
    answers: [...four, ok(4), ok(4)],
  },
  {
    name: 'a range that ends at the zero byte has every key from its begin on',
    async act(etcd) {
      await writeFour(etcd);
      await etcd.ask('/kv/range', range('a/3', '\0'));
    },
    answers: [...four, ok(4, found(kv('a/3', '', [3, 3, 1]), kv('b', '', [4, 4, 1])))],
  },
  {
    name: 'a limit cuts the keys short, says so, and counts all of them',
    async act(etcd) {
      await writeFour(etcd);
      await etcd.ask('/kv/range', range('a', 'z', { limit: '2' }));
      await etcd.ask('/kv/range', range('a', 'z', { limit: 4 }));
      await etcd.ask('/kv/range', range('a', 'z', { limit: -1, keys_only: true }));
    },
    answers: [
      ...four,
      ok(4, { kvs: [kv('a/1', '', [1, 1, 1]), kv('a/2', '', [2, 2, 1])], more: true, count: '4' }),
      ...Array.from({ length: 2 }, () =>
        ok(
          4,
          found(
            kv('a/1', '', [1, 1, 1]),
            kv('a/2', '', [2, 2, 1]),
            kv('a/3', '', [3, 3, 1]),
            kv('b', '', [4, 4, 1]),
          ),
        ),
      ),
    ],
  },
  {
    name: 'a list is paged at the revision of its first page, whatever is written between',
    async act(etcd) {
      await writeFour(etcd);
      await etcd.ask('/kv/range', range('a', 'z', { limit: 2 }));
      await etcd.ask('/kv/deleterange', range('a/3'));
      await etcd.ask('/kv/put', put('a/4'));
      await etcd.ask('/kv/range', range('a/2\0', 'z', { limit: 2, revision: etcd.at(4) }));
    },
    answers: [
      ...four,
      ok(4, { kvs: [kv('a/1', '', [1, 1, 1]), kv('a/2', '', [2, 2, 1])], more: true, count: '4' }),
      ok(5, { deleted: '1' }),
      ok(6),
      ok(6, found(kv('a/3', '', [3, 3, 1]), kv('b', '', [4, 4, 1]))),
    ],
  },
  {
    name: 'keys alone, or their number alone, come where that is asked for',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a', '1'));
      await etcd.ask('/kv/range', range('a', 'z', { keys_only: true }));
      await etcd.ask('/kv/range', range('a', 'z', { count_only: true }));
      await etcd.ask('/kv/range', range('x', 'z', { count_only: true }));
    },
    answers: [ok(1), ok(1, found(kv('a', '', [1, 1, 1]))), ok(1, { count: '1' }), ok(1)],
  },
  {
    name: 'an old revision is read as it was, under the newest revision',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a', '1'));
      await etcd.ask('/kv/put', put('a', '2'));
      await etcd.ask('/kv/deleterange', range('a'));
      for (const revision of [0, 1, 2, 3]) {
        await etcd.ask('/kv/range', range('a', undefined, { revision: etcd.at(revision) }));
      }
    },
    answers: [
      ok(1),
      ok(2),
      ok(3, { deleted: '1' }),
      ok(3),
      ok(3, found(kv('a', '1', [1, 1, 1]))),
      ok(3, found(kv('a', '2', [1, 2, 2]))),
      ok(3),
    ],
  },
  {
    name: 'a revision below zero is read as the newest',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a', '1'));
      await etcd.ask('/kv/range', range('a', undefined, { revision: '-1' }));
    },
    answers: [ok(1), ok(1, found(kv('a', '1', [1, 1, 1])))],
  },
  {
    name: 'a revision that is still to come is refused',
    async act(etcd) {
      await etcd.ask('/kv/range', range('a', undefined, { revision: etcd.at(1) }));
      await etcd.ask('/kv/txn', {
        success: [op.put('a'), op.range('a', undefined, { revision: etcd.at(1) })],
      });
      await etcd.ask('/kv/range', range('a'));
    },
    answers: [future, future, ok(0)],
  },
];

const compactionRows: readonly EtcdRow[] = [
  {
    name: 'what was compacted is refused, and the revision itself is kept',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a', '1'));
      await etcd.ask('/kv/put', put('a', '2'));
      await etcd.ask('/kv/put', put('a', '3'));
      await etcd.ask('/kv/compaction', { revision: etcd.at(2) });
      for (const revision of [1, 2, 3]) {
        await etcd.ask('/kv/range', range('a', undefined, { revision: etcd.at(revision) }));
      }
    },
    answers: [
      ok(1),
      ok(2),
      ok(3),
      ok(3),
      compacted,
      ok(3, found(kv('a', '2', [1, 2, 2]))),
      ok(3, found(kv('a', '3', [1, 3, 3]))),
    ],
  },
  {
    name: 'compaction goes forward only, and no further than the newest revision',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a'));
      await etcd.ask('/kv/put', put('a'));
      await etcd.ask('/kv/compaction', { revision: etcd.at(1) });
      await etcd.ask('/kv/compaction', { revision: etcd.at(1) });
      await etcd.ask('/kv/compaction', { revision: etcd.at(0) });
      await etcd.ask('/kv/compaction', { revision: etcd.at(3) });
      await etcd.ask('/kv/compaction', { revision: etcd.at(2) });
    },
    answers: [ok(1), ok(2), ok(2), compacted, compacted, future, ok(2)],
  },
  {
    name: 'compaction takes nothing away that is there now',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a', '1'));
      await etcd.ask('/kv/put', put('b', '1'));
      await etcd.ask('/kv/deleterange', range('b'));
      await etcd.ask('/kv/compaction', { revision: etcd.at(3) });
      await etcd.ask('/kv/range', range('a', 'z'));
      await etcd.ask('/kv/put', put('a', '2'));
      await etcd.ask('/kv/put', put('b', '2'));
      await etcd.ask('/kv/range', range('a', 'z'));
    },
    answers: [
      ok(1),
      ok(2),
      ok(3, { deleted: '1' }),
      ok(3),
      ok(3, found(kv('a', '1', [1, 1, 1]))),
      ok(4),
      ok(5),
      ok(5, found(kv('a', '2', [1, 4, 2]), kv('b', '2', [5, 5, 1]))),
    ],
  },
  {
    name: 'the next page of a list whose revision was compacted is refused',
    async act(etcd) {
      await writeFour(etcd);
      await etcd.ask('/kv/range', range('a', 'z', { limit: 3, count_only: true }));
      await etcd.ask('/kv/put', put('b'));
      await etcd.ask('/kv/compaction', { revision: etcd.at(5) });
      await etcd.ask('/kv/range', range('a/3\0', 'z', { limit: 3, revision: etcd.at(4) }));
    },
    answers: [...four, ok(4, { count: '4' }), ok(5), ok(5), compacted],
  },
  {
    name: 'a transaction that reads a compacted revision writes nothing',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a'));
      await etcd.ask('/kv/put', put('a'));
      await etcd.ask('/kv/compaction', { revision: etcd.at(2) });
      await etcd.ask('/kv/txn', {
        success: [op.put('b'), op.range('a', undefined, { revision: etcd.at(1) })],
      });
      await etcd.ask('/kv/range', range('b'));
    },
    answers: [ok(1), ok(2), ok(2), compacted, ok(2)],
  },
];

const compareRows: readonly EtcdRow[] = [
  {
    name: 'a swap writes while the mod revision is the compared one, and once only',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a', '1'));
      const swap = {
        compare: [compare('a', 'MOD', 'EQUAL', { mod_revision: etcd.at(1) })],
        success: [op.put('a', '2')],
        failure: [op.range('a')],
      };
      await etcd.ask('/kv/txn', swap);
      await etcd.ask('/kv/txn', swap);
    },
    answers: [
      ok(1),
      ok(2, { succeeded: true, responses: [response('put', 2)] }),
      ok(2, { responses: [response('range', 2, found(kv('a', '2', [1, 2, 2])))] }),
    ],
  },
  {
    name: 'a key that is not there has mod revision, create revision and version zero',
    async act(etcd) {
      await askWhether(etcd, [
        compare('a', 'MOD', 'EQUAL', { mod_revision: '0' }),
        compare('a', 'CREATE', 'EQUAL', { create_revision: '0' }),
        compare('a', 'VERSION', 'EQUAL', { version: '0' }),
        compare('a', 'VERSION', 'GREATER', { version: '0' }),
        { key: b('a') },
      ]);
    },
    answers: [held(0), held(0), held(0), failed(0), held(0)],
  },
  {
    name: 'a deleted key compares as one that was never there',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a'));
      await etcd.ask('/kv/deleterange', range('a'));
      await askWhether(etcd, [
        compare('a', 'MOD', 'EQUAL', { mod_revision: etcd.at(1) }),
        compare('a', 'MOD', 'EQUAL', { mod_revision: '0' }),
      ]);
    },
    answers: [ok(1), ok(2, { deleted: '1' }), failed(2), held(2)],
  },
  {
    name: 'nothing holds of the value of a key that is not there',
    async act(etcd) {
      await askWhether(etcd, [
        compare('a', 'VALUE', 'EQUAL', { value: '' }),
        compare('a', 'VALUE', 'NOT_EQUAL', { value: b('x') }),
        compare('a', 'VALUE', 'LESS', { value: b('x') }),
      ]);
    },
    answers: [failed(0), failed(0), failed(0)],
  },
  {
    name: 'revisions compare as numbers, in all four ways',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a'));
      await etcd.ask('/kv/put', put('a'));
      await askWhether(etcd, [
        compare('a', 'MOD', 'GREATER', { mod_revision: etcd.at(1) }),
        compare('a', 'MOD', 'GREATER', { mod_revision: etcd.at(2) }),
        compare('a', 'MOD', 'LESS', { mod_revision: etcd.at(2) }),
        compare('a', 'CREATE', 'LESS', { create_revision: etcd.at(2) }),
        compare('a', 'CREATE', 'NOT_EQUAL', { create_revision: etcd.at(2) }),
        compare('a', 'VERSION', 'NOT_EQUAL', { version: '2' }),
        compare('a', 'VERSION', 'LESS', { version: '10' }),
      ]);
    },
    answers: [ok(1), ok(2), held(2), failed(2), failed(2), held(2), held(2), failed(2), held(2)],
  },
  {
    name: 'values compare by their bytes, in all four ways',
    async act(etcd) {
      await etcd.ask('/kv/put', { key: b('a'), value: '/w==' });
      await askWhether(etcd, [
        compare('a', 'VALUE', 'EQUAL', { value: '/w==' }),
        compare('a', 'VALUE', 'GREATER', { value: b('ä') }),
        compare('a', 'VALUE', 'GREATER', { value: '/w==' }),
        compare('a', 'VALUE', 'LESS', { value: '/wA=' }),
        compare('a', 'VALUE', 'NOT_EQUAL', { value: '' }),
        compare('a', 'VALUE', 'LESS'),
      ]);
    },
    answers: [ok(1), held(1), held(1), failed(1), held(1), held(1), failed(1)],
  },
  {
    name: 'a number that is not of the target is not compared',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a'));
      await askWhether(etcd, [
        compare('a', 'CREATE', 'EQUAL', { mod_revision: etcd.at(1) }),
        compare('a', 'CREATE', 'GREATER', { mod_revision: etcd.at(1) }),
      ]);
    },
    answers: [ok(1), failed(1), held(1)],
  },
  {
    name: 'every comparison has to hold',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a'));
      await etcd.ask('/kv/txn', {
        compare: [
          compare('a', 'VERSION', 'EQUAL', { version: '1' }),
          compare('b', 'VERSION', 'EQUAL', { version: '1' }),
        ],
        success: [op.put('c', '1')],
        failure: [op.put('c', '2')],
      });
      await etcd.ask('/kv/range', range('c'));
    },
    answers: [
      ok(1),
      ok(2, { responses: [response('put', 2)] }),
      ok(2, found(kv('c', '2', [2, 2, 1]))),
    ],
  },
  {
    name: 'a comparison with two numbers is refused',
    async act(etcd) {
      await etcd.ask('/kv/txn', {
        compare: [compare('a', 'MOD', 'EQUAL', { mod_revision: '1', version: '1' })],
      });
    },
    answers: [notJson],
  },
];

const transactionRows: readonly EtcdRow[] = [
  {
    name: 'a transaction without anything succeeds and writes nothing',
    async act(etcd) {
      await etcd.ask('/kv/txn', {});
    },
    answers: [held(0)],
  },
  {
    name: 'all writes of a transaction have one revision',
    async act(etcd) {
      await etcd.ask('/kv/put', put('z'));
      await etcd.ask('/kv/txn', {
        success: [op.put('a', '1'), op.put('b', '2'), op.delete('z', undefined, { prev_kv: true })],
      });
      await etcd.ask('/kv/range', range('a', '\0'));
    },
    answers: [
      ok(1),
      ok(2, {
        succeeded: true,
        responses: [
          response('put', 2),
          response('put', 2),
          response('delete_range', 2, { deleted: '1', prev_kvs: [kv('z', 'v', [1, 1, 1])] }),
        ],
      }),
      ok(2, found(kv('a', '1', [2, 2, 1]), kv('b', '2', [2, 2, 1]))),
    ],
  },
  {
    name: 'a read within a transaction sees the writes before it, and their revision',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a', '1'));
      await etcd.ask('/kv/txn', {
        success: [op.range('a'), op.delete('none'), op.put('a', '2'), op.range('a')],
      });
    },
    answers: [
      ok(1),
      ok(2, {
        succeeded: true,
        responses: [
          response('range', 1, found(kv('a', '1', [1, 1, 1]))),
          response('delete_range', 1),
          response('put', 2),
          response('range', 2, found(kv('a', '2', [1, 2, 2]))),
        ],
      }),
    ],
  },
  {
    name: 'a delete that finds nothing has the revision of the write before it',
    async act(etcd) {
      await etcd.ask('/kv/txn', { success: [op.put('a'), op.delete('none')] });
    },
    answers: [
      ok(1, { succeeded: true, responses: [response('put', 1), response('delete_range', 1)] }),
    ],
  },
  {
    name: 'a key is put once in a transaction, and not deleted beside it',
    async act(etcd) {
      await etcd.ask('/kv/txn', { success: [op.put('a', '1'), op.put('a', '2')] });
      await etcd.ask('/kv/txn', { success: [op.put('a'), op.delete('a')] });
      await etcd.ask('/kv/txn', { success: [op.delete('a', 'c'), op.put('b')] });
      await etcd.ask('/kv/txn', { failure: [op.put('a', '1'), op.put('a', '2')] });
      await etcd.ask('/kv/range', range('a'));
    },
    answers: [
      ...Array.from({ length: 4 }, () => refusal('duplicate key given in txn request')),
      ok(0),
    ],
  },
  {
    name: 'a put beside a delete that is open to the end is not noticed, and their order counts',
    async act(etcd) {
      await etcd.ask('/kv/txn', { success: [op.put('b'), op.delete('a', '\0')] });
      await etcd.ask('/kv/range', range('b'));
    },
    answers: [
      ok(1, {
        succeeded: true,
        responses: [response('put', 1), response('delete_range', 1, { deleted: '1' })],
      }),
      ok(1),
    ],
  },
  {
    name: 'a key may be deleted twice in a transaction, and put in both of its lists',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a'));
      await etcd.ask('/kv/txn', { success: [op.delete('a'), op.delete('a', 'c')] });
      await etcd.ask('/kv/txn', { success: [op.put('a', '1')], failure: [op.put('a', '2')] });
    },
    answers: [
      ok(1),
      ok(2, {
        succeeded: true,
        responses: [response('delete_range', 2, { deleted: '1' }), response('delete_range', 2)],
      }),
      ok(3, { succeeded: true, responses: [response('put', 3)] }),
    ],
  },
  {
    name: 'a transaction has at most 128 comparisons, and as many operations in each list',
    async act(etcd) {
      const many = (length: number) => Array.from({ length }, (_, index) => op.range(`k${index}`));
      await etcd.ask('/kv/txn', { failure: many(128) });
      await etcd.ask('/kv/txn', { failure: many(129) });
      await etcd.ask('/kv/txn', {
        compare: Array.from({ length: 129 }, () => compare('a', 'MOD', 'EQUAL')),
      });
    },
    answers: [
      held(0),
      refusal('too many operations in txn request'),
      refusal('too many operations in txn request'),
    ],
  },
  {
    name: 'a refused operation leaves nothing of its transaction',
    async act(etcd) {
      await etcd.ask('/kv/txn', { success: [op.put('a'), op.put('b', 'v', { lease: '77' })] });
      await etcd.ask('/kv/txn', {
        success: [op.put('a'), { request_put: { key: b('b'), ignore_value: true } }],
      });
      await etcd.ask('/kv/range', range('a', 'z'));
    },
    answers: [refusal('requested lease not found', 5, 404), refusal('key not found'), ok(0)],
  },
  {
    name: 'only the list that is carried out is held against the store',
    async act(etcd) {
      await etcd.ask('/kv/txn', {
        success: [op.put('a')],
        failure: [op.range('a', undefined, { revision: etcd.at(99) })],
      });
    },
    answers: [ok(1, { succeeded: true, responses: [response('put', 1)] })],
  },
  {
    name: 'an operation that is none, or two, is refused',
    async act(etcd) {
      await etcd.ask('/kv/txn', { success: [{}] });
      await etcd.ask('/kv/txn', { success: [{ ...op.put('a'), ...op.range('a') }] });
    },
    answers: [refusal('key not found'), notJson],
  },
];

/** Grants a lease and gives its id. */
async function grant(etcd: Conversation, ttlSeconds: number): Promise<string> {
  return String((await etcd.ask('/lease/grant', { TTL: String(ttlSeconds) }))['ID']);
}

const leased = { lease: 'lease 1' };

const leaseRows: readonly EtcdRow[] = [
  {
    name: 'a lease is granted for two seconds at least, and raises no revision',
    async act(etcd) {
      await grant(etcd, 0);
      await grant(etcd, 1);
      await grant(etcd, 9_000_000_000);
      await grant(etcd, 9_000_000_001);
    },
    answers: [
      ok(0, { ID: 'lease 1', TTL: '2' }),
      ok(0, { ID: 'lease 2', TTL: '2' }),
      ok(0, { ID: 'lease 3', TTL: '9000000000' }),
      refusal('too large lease TTL', 11),
    ],
  },
  {
    name: 'a lease of a given id is granted once',
    async act(etcd) {
      await etcd.ask('/lease/grant', { TTL: '60', ID: '4711' });
      await etcd.ask('/lease/grant', { TTL: '60', ID: '4711' });
      await etcd.ask('/lease/revoke', { ID: '4711' });
    },
    answers: [ok(0, { ID: 'lease 1', TTL: '60' }), refusal('lease already exists', 9), ok(0)],
  },
  {
    name: 'revoking a lease deletes its keys at one revision',
    async act(etcd) {
      const lease = await grant(etcd, 60);
      await etcd.ask('/kv/put', put('a', '1', { lease }));
      await etcd.ask('/kv/put', put('b', '2', { lease }));
      await etcd.ask('/kv/put', put('c', '3'));
      await etcd.ask('/lease/timetolive', { ID: lease, keys: true });
      await etcd.ask('/lease/revoke', { ID: lease });
      await etcd.ask('/kv/range', range('a', 'z'));
      await etcd.ask('/lease/revoke', { ID: lease });
    },
    answers: [
      ok(0, { ID: 'lease 1', TTL: '60' }),
      ok(1),
      ok(2),
      ok(3),
      ok(3, {
        ID: 'lease 1',
        TTL: 'more than nothing',
        grantedTTL: '60',
        keys: [b('a'), b('b')],
      }),
      ok(4),
      ok(4, found(kv('c', '3', [3, 3, 1]))),
      refusal('requested lease not found', 5, 404),
    ],
  },
  {
    name: 'a key written again without its lease outlives it, and one that keeps it does not',
    async act(etcd) {
      const lease = await grant(etcd, 60);
      await etcd.ask('/kv/put', put('a', '1', { lease }));
      await etcd.ask('/kv/put', put('b', '1', { lease }));
      await etcd.ask('/kv/put', put('a', '2'));
      await etcd.ask('/kv/put', put('b', '2', { ignore_lease: true }));
      await etcd.ask('/kv/put', put('b', '2', { ignore_lease: true, lease }));
      await etcd.ask('/kv/range', range('a', 'z'));
      await etcd.ask('/lease/revoke', { ID: lease });
      await etcd.ask('/kv/range', range('a', 'z'));
    },
    answers: [
      ok(0, { ID: 'lease 1', TTL: '60' }),
      ok(1),
      ok(2),
      ok(3),
      ok(4),
      refusal('lease is provided'),
      ok(4, found(kv('a', '2', [1, 3, 2]), kv('b', '2', [2, 4, 2], leased))),
      ok(5),
      ok(5, found(kv('a', '2', [1, 3, 2]))),
    ],
  },
  {
    name: 'the end of a lease that nobody keeps alive deletes its keys at one revision',
    async act(etcd) {
      const lease = await grant(etcd, 2);
      await etcd.ask('/kv/txn', {
        success: [op.put('a', '1', { lease }), op.put('b', '2', { lease })],
      });
      await etcd.leaseDeletes('a', etcd.at(1));
      await etcd.ask('/kv/range', range('a', 'z'));
      await etcd.ask('/lease/keepalive', { ID: lease });
      await etcd.ask('/lease/timetolive', { ID: lease });
      await etcd.ask('/kv/put', put('a', '3', { lease }));
    },
    answers: [
      ok(0, { ID: 'lease 1', TTL: '2' }),
      ok(1, { succeeded: true, responses: [response('put', 1), response('put', 1)] }),
      ok(2),
      { status: 200, body: { result: { header: { revision: '+2' }, ID: 'lease 1' } } },
      ok(2, { ID: 'lease 1', TTL: '-1' }),
      refusal('requested lease not found', 5, 404),
    ],
  },
  {
    name: 'a lease that is kept alive says its whole time',
    async act(etcd) {
      const lease = await grant(etcd, 60);
      await etcd.ask('/lease/keepalive', { ID: lease });
      await etcd.ask('/lease/revoke', { ID: lease });
    },
    answers: [
      ok(0, { ID: 'lease 1', TTL: '60' }),
      { status: 200, body: { result: { header: { revision: '+0' }, ID: 'lease 1', TTL: '60' } } },
      ok(0),
    ],
  },
];

const requestRows: readonly EtcdRow[] = [
  {
    name: 'null is as good as absent',
    async act(etcd) {
      await etcd.ask('/kv/put', put('a'));
      await etcd.ask('/kv/range', { key: b('a'), range_end: null, limit: null, keys_only: null });
    },
    answers: [ok(1), ok(1, found(kv('a', 'v', [1, 1, 1])))],
  },
  {
    name: 'what is no value of its field is refused, and nothing is done',
    async act(etcd) {
      await etcd.ask('/kv/put', { key: b('a'), value: '!!' });
      await etcd.ask('/kv/put', { key: b('a'), value: 'Y' });
      await etcd.ask('/kv/put', { key: b('a'), value: 5 });
      await etcd.ask('/kv/put', { key: b('a'), value: b('1'), prev_kv: 'true' });
      await etcd.ask('/kv/range', { key: b('a'), limit: 1.5 });
      await etcd.ask('/kv/range', { key: b('a'), revision: 'new' });
      await etcd.ask('/kv/txn', { compare: {} });
      await etcd.ask('/kv/range', range('a'));
    },
    answers: [...Array.from({ length: 7 }, () => notJson), ok(0)],
  },
];

/** Facts about etcd 3.6 as its JSON gateway shows them, in an order that reads as a description of it. */
export const etcdRows: readonly EtcdRow[] = [
  ...keyRows,
  ...rangeRows,
  ...compactionRows,
  ...compareRows,
  ...transactionRows,
  ...leaseRows,
  ...requestRows,
];
