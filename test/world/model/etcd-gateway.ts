import * as z from 'zod';
import { type Instant, secondsBetween } from '#shared/kernel/instant.ts';
import type {
  Compare,
  Entry,
  Etcd,
  Lease,
  Operation,
  OperationAnswer,
  RangeAnswer,
  RangeRequest,
  Refusal,
  Refused,
} from './etcd.ts';

/** What the gateway says over HTTP: the status, and the JSON body parsed. */
export interface GatewayAnswer {
  readonly status: number;
  readonly body: unknown;
}

/** Proto3 JSON takes either alphabet of base64, padded or not. */
const bytes = z
  .string()
  .regex(/^([\w+/-]{4})*([\w+/-]{2}(==)?|[\w+/-]{3}=?)?$/)
  .transform((text) => Buffer.from(text, 'base64'));

/** Proto3 JSON takes an int64 as a string or as a whole number. */
const int64 = z.union([z.string().regex(/^-?\d+$/), z.int()]).transform(String);
const integer = int64.transform(Number);

const none = Buffer.alloc(0);

/** What is absent or null is zero, empty or false. */
function orNone<T>(schema: z.ZodType<T>, value: T) {
  return schema.nullish().transform((given) => given ?? value);
}

// Strict, so that a field which etcd knows and this model does not is never passed over in silence.
const rangeSchema = z.strictObject({
  key: orNone(bytes, none),
  range_end: orNone(bytes, none),
  limit: orNone(integer, 0),
  revision: orNone(integer, 0),
  serializable: orNone(z.boolean(), false),
  keys_only: orNone(z.boolean(), false),
  count_only: orNone(z.boolean(), false),
});

const putSchema = z.strictObject({
  key: orNone(bytes, none),
  value: orNone(bytes, none),
  lease: orNone(int64, '0'),
  prev_kv: orNone(z.boolean(), false),
  ignore_value: orNone(z.boolean(), false),
  ignore_lease: orNone(z.boolean(), false),
});

const deleteSchema = z.strictObject({
  key: orNone(bytes, none),
  range_end: orNone(bytes, none),
  prev_kv: orNone(z.boolean(), false),
});

const compareSchema = z
  .strictObject({
    key: orNone(bytes, none),
    target: z.enum(['VERSION', 'CREATE', 'MOD', 'VALUE']).default('VERSION'),
    result: z.enum(['EQUAL', 'GREATER', 'LESS', 'NOT_EQUAL']).default('EQUAL'),
    version: integer.optional(),
    create_revision: integer.optional(),
    mod_revision: integer.optional(),
    value: bytes.optional(),
  })
  .refine(
    ({ version, create_revision, mod_revision, value }) =>
      isOne(version, create_revision, mod_revision, value),
    'oneof etcdserverpb.Compare.target_union is already set',
  );

const operationSchema = z
  .strictObject({
    request_range: rangeSchema.optional(),
    request_put: putSchema.optional(),
    request_delete_range: deleteSchema.optional(),
  })
  .refine(
    ({ request_range, request_put, request_delete_range }) =>
      isOne(request_range, request_put, request_delete_range),
    'oneof etcdserverpb.RequestOp.request is already set',
  );

const txnSchema = z.strictObject({
  compare: orNone(z.array(compareSchema), []),
  success: orNone(z.array(operationSchema), []),
  failure: orNone(z.array(operationSchema), []),
});

const compactionSchema = z.strictObject({ revision: orNone(integer, 0) });
const grantSchema = z.strictObject({ TTL: orNone(integer, 0), ID: orNone(int64, '0') });
const leaseSchema = z.strictObject({ ID: orNone(int64, '0') });
const timeToLiveSchema = leaseSchema.extend({ keys: orNone(z.boolean(), false) });

/** At most one member of a oneof may be given. */
function isOne(...members: readonly unknown[]): boolean {
  return members.filter((member) => member !== undefined).length <= 1;
}

/** gRPC's codes as etcd gives them, with the HTTP status the gateway makes of them. */
const refusals: Readonly<Record<Refusal, { status: number; code: number; message: string }>> = {
  compacted: outOfRange('mvcc: required revision has been compacted'),
  futureRevision: outOfRange('mvcc: required revision is a future revision'),
  leaseTooLong: outOfRange('too large lease TTL'),
  duplicateKey: invalidArgument('duplicate key given in txn request'),
  emptyKey: invalidArgument('key is not provided'),
  keyNotFound: invalidArgument('key not found'),
  leaseProvided: invalidArgument('lease is provided'),
  tooManyOperations: invalidArgument('too many operations in txn request'),
  valueProvided: invalidArgument('value is provided'),
  leaseExists: { status: 400, code: 9, message: 'etcdserver: lease already exists' },
  leaseNotFound: { status: 404, code: 5, message: 'etcdserver: requested lease not found' },
};

function invalidArgument(message: string) {
  return { status: 400, code: 3, message: `etcdserver: ${message}` };
}

function outOfRange(message: string) {
  return { status: 400, code: 11, message: `etcdserver: ${message}` };
}

/**
 * Answers one POST to etcd's JSON gateway, in the shapes of etcd 3.6: int64 as strings, bytes in base64, no field that
 * is zero. What the store refuses, and what is no valid request, gets the gateway's own status and body.
 *
 * @param path what follows the host, or the service proxy: `/v3/kv/range`
 * @param body parsed JSON; absent counts as `{}`
 * @throws Error where the request uses a part of etcd that the model does not have
 */
export function askGateway(etcd: Etcd, path: string, body: unknown, now: Instant): GatewayAnswer {
  const endpoint = endpoints[path];
  if (endpoint === undefined) {
    throw new Error(`the model of etcd has no ${path}`);
  }
  etcd.expireLeases(now);
  try {
    const answer = endpoint(etcd, body ?? {}, now);
    if (!isRefused(answer)) {
      return { status: 200, body: answer };
    }
    const { status, ...said } = refusals[answer.why];
    return { status, body: said };
  } catch (error) {
    if (!(error instanceof z.ZodError)) {
      throw error;
    }
    return { status: 400, body: { code: 3, message: whatIsInvalid(error) } };
  }
}

function isRefused(answer: object): answer is Refused {
  return 'kind' in answer && answer.kind === 'refused';
}

/** etcd names the line and column; nobody reads them. Fields and names of an enum that it does not know it passes over. */
function whatIsInvalid(error: z.ZodError): string {
  const foreign = error.issues.find(
    ({ code }) => code === 'unrecognized_keys' || code === 'invalid_value',
  );
  if (foreign !== undefined) {
    throw new Error(`the model of etcd does not know this request: ${foreign.message}`);
  }
  return `proto: ${z.prettifyError(error)}`;
}

type Endpoint = (etcd: Etcd, body: unknown, now: Instant) => object;

const endpoints: Readonly<Record<string, Endpoint>> = {
  '/v3/kv/range': (etcd, body) => carryOut(etcd, { request_range: rangeSchema.parse(body) }),
  '/v3/kv/put': (etcd, body) => carryOut(etcd, { request_put: putSchema.parse(body) }),
  '/v3/kv/deleterange': (etcd, body) =>
    carryOut(etcd, { request_delete_range: deleteSchema.parse(body) }),
  '/v3/kv/txn': (etcd, body) => {
    const { compare, success, failure } = txnSchema.parse(body);
    if ([...success, ...failure].some(isEmptyOperation)) {
      return { kind: 'refused', why: 'keyNotFound' } satisfies Refused;
    }
    const answer = etcd.txn(
      compare.map(compareOf),
      success.map(operationOf),
      failure.map(operationOf),
    );
    if (isRefused(answer)) {
      return answer;
    }
    const wanted = (answer.succeeded ? success : failure).map(wantedOf);
    const responses = answer.answers.map((one, index) => responseOf(one, wanted[index] ?? {}));
    return withHeader(etcd, {
      ...(answer.succeeded ? { succeeded: true } : {}),
      ...list('responses', responses),
    });
  },
  '/v3/kv/compaction': (etcd, body) =>
    etcd.compact(compactionSchema.parse(body).revision) ?? withHeader(etcd, {}),
  '/v3/lease/grant': (etcd, body, now) => {
    const { TTL, ID } = grantSchema.parse(body);
    const lease = etcd.grantLease(TTL, now, ID);
    return isRefused(lease)
      ? lease
      : withHeader(etcd, { ID: lease.id, TTL: String(lease.ttlSeconds) });
  },
  '/v3/lease/revoke': (etcd, body) =>
    etcd.revoke(leaseSchema.parse(body).ID) ?? withHeader(etcd, {}),
  // A stream with one answer, each of which the gateway wraps. A lease that is over has no time to live, and no error.
  '/v3/lease/keepalive': (etcd, body, now) => {
    const { ID } = leaseSchema.parse(body);
    const lease = etcd.keepAlive(ID, now);
    return {
      result: withHeader(etcd, {
        ID,
        ...(isRefused(lease) ? {} : { TTL: String(lease.ttlSeconds) }),
      }),
    };
  },
  '/v3/lease/timetolive': (etcd, body, now) => {
    const { ID, keys } = timeToLiveSchema.parse(body);
    const lease = etcd.lease(ID, now);
    return withHeader(etcd, {
      ID,
      ...(lease === undefined ? { TTL: '-1' } : timeToLive(etcd, lease, now, keys)),
    });
  },
};

function timeToLive(etcd: Etcd, lease: Lease, now: Instant, keys: boolean): object {
  const attached = keys ? etcd.entriesOf(lease.id).map(({ key }) => base64(key)) : [];
  return {
    ...count('TTL', Math.floor(secondsBetween(now, lease.endsAt))),
    ...count('grantedTTL', lease.ttlSeconds),
    ...list('keys', attached),
  };
}

/** The identity of the one member, which no reader of ours looks at. */
const member = {
  cluster_id: '14841639068965178418',
  member_id: '10276657743932975437',
  raft_term: '2',
};

function withHeader(etcd: Etcd, fields: object): object {
  return { header: { ...member, revision: String(etcd.revision) }, ...fields };
}

type OperationBody = z.infer<typeof operationSchema>;

/** One operation outside of a transaction. */
function carryOut(etcd: Etcd, body: OperationBody): object {
  const answer = etcd.apply(operationOf(body));
  return isRefused(answer) ? answer : withHeader(etcd, fieldsOf(answer, wantedOf(body)));
}

function isEmptyOperation(body: OperationBody): boolean {
  return Object.values(body).every((request) => request === undefined);
}

function operationOf({
  request_range: range,
  request_put: put,
  request_delete_range: erase = { key: none, range_end: none, prev_kv: false },
}: OperationBody): Operation {
  if (range !== undefined) {
    return { kind: 'range', ...rangeOf(range) };
  }
  if (put !== undefined) {
    const { key, value, lease, ignore_value: ignoreValue, ignore_lease: ignoreLease } = put;
    return { kind: 'put', key, value, lease, ignoreValue, ignoreLease };
  }
  return { kind: 'delete', key: erase.key, rangeEnd: erase.range_end };
}

function rangeOf(body: z.infer<typeof rangeSchema>): RangeRequest {
  const { key, range_end: rangeEnd, limit, revision } = body;
  return { key, rangeEnd, limit, revision };
}

function compareOf(body: z.infer<typeof compareSchema>): Compare {
  const { key, target, result } = body;
  switch (target) {
    case 'VALUE':
      return { key, result, target, value: body.value ?? none };
    case 'VERSION':
      return { key, result, target, value: body.version ?? 0 };
    case 'CREATE':
      return { key, result, target, value: body.create_revision ?? 0 };
    case 'MOD':
      return { key, result, target, value: body.mod_revision ?? 0 };
  }
}

/** What a request wants to see of its answer. */
interface Wanted {
  readonly prev_kv?: boolean;
  readonly keys_only?: boolean;
  readonly count_only?: boolean;
}

function wantedOf(body: OperationBody): Wanted {
  return body.request_range ?? body.request_put ?? body.request_delete_range ?? {};
}

function responseOf(answer: OperationAnswer, wanted: Wanted): object {
  const fields = { header: { revision: String(answer.revision) }, ...fieldsOf(answer, wanted) };
  switch (answer.kind) {
    case 'range':
      return { response_range: fields };
    case 'put':
      return { response_put: fields };
    case 'delete':
      return { response_delete_range: fields };
  }
}

function fieldsOf(answer: OperationAnswer, wanted: Wanted): object {
  switch (answer.kind) {
    case 'range':
      return rangeFields(answer, wanted);
    case 'put':
      return wanted.prev_kv === true && answer.previous !== undefined
        ? { prev_kv: entryJson(answer.previous) }
        : {};
    case 'delete':
      return {
        ...count('deleted', answer.deleted.length),
        ...(wanted.prev_kv === true ? list('prev_kvs', answer.deleted.map(entryJson)) : {}),
      };
  }
}

function rangeFields({ entries, more, count: total }: RangeAnswer, wanted: Wanted): object {
  if (wanted.count_only === true) {
    return count('count', total);
  }
  const toJson = wanted.keys_only === true ? keyJson : entryJson;
  return {
    ...list('kvs', entries.map(toJson)),
    ...(more ? { more } : {}),
    ...count('count', total),
  };
}

/** A zero is left out. */
function count(name: string, value: number): object {
  return value === 0 ? {} : { [name]: String(value) };
}

/** So is an empty list. */
function list(name: string, values: readonly unknown[]): object {
  return values.length === 0 ? {} : { [name]: values };
}

interface EntryJson {
  readonly key: string;
  readonly create_revision: string;
  readonly mod_revision: string;
  readonly version: string;
  readonly value?: string;
  readonly lease?: string;
}

/** An entry never changes, and most are read far more often than they are written. */
const knownJson = new WeakMap<Entry, EntryJson>();

function entryJson(entry: Entry): EntryJson {
  const known = knownJson.get(entry);
  if (known !== undefined) {
    return known;
  }
  const json: EntryJson = Object.freeze({
    key: base64(entry.key),
    create_revision: String(entry.createRevision),
    mod_revision: String(entry.modRevision),
    version: String(entry.version),
    ...(entry.value.length === 0 ? {} : { value: base64(entry.value) }),
    ...(entry.lease === '0' ? {} : { lease: entry.lease }),
  });
  knownJson.set(entry, json);
  return json;
}

function keyJson(entry: Entry): EntryJson {
  return entryJson({ ...entry, value: none });
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}
