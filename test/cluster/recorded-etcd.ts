import { once } from 'node:events';
import {
  type ClientHttp2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  connect,
  createServer,
} from 'node:http2';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { findFreePort } from '#infra/local/control-plane/port.ts';

/** One transaction that a client asked an etcd member for, read off the wire. */
export interface RecordedTxn {
  /** When it was there as a whole, before the member got it. */
  readonly atMs: number;
  readonly member: string;
  /** By key: the mod revision that it must have, as asked for. Comparisons of any other kind are `unguarded`. */
  readonly compares: ReadonlyMap<string, string>;
  readonly unguarded: readonly string[];
  /** By key: what is written where all comparisons hold; `null` deletes. */
  readonly writes: ReadonlyMap<string, Buffer | null>;
  /** What is written where they do not hold. */
  readonly writesElse: readonly string[];
  /** What the member answered; absent where no answer came back from it. */
  answer?: { readonly succeeded: boolean; readonly revision: number };
  /** Whether the answer went on to the client. */
  isTold: boolean;
}

/** `asked`: it is about to go to its member. `answered`: the member has answered, and its client does not know yet. */
export type TxnMoment = 'asked' | 'answered';

/** Whether the client's connection goes on, or breaks at this moment. */
export type TxnFate = 'goesOn' | 'breaks';

interface RecordedOptions {
  readonly name: string;
  /** `http://host:port` of the member. */
  readonly target: string;
  readonly onTxn: (txn: RecordedTxn, moment: TxnMoment) => TxnFate;
  /** A call that is neither a range nor a transaction. */
  readonly onOtherCall: (path: string) => void;
}

/** The way of one client to one etcd member, on which every transaction is written down. Only gRPC, only unary calls. */
export interface RecordedEtcd extends AsyncDisposable {
  /** `http://127.0.0.1:<port>` */
  readonly endpoint: string;
}

interface Answer {
  readonly head: IncomingHttpHeaders;
  readonly isHeadOnly: boolean;
  readonly body: Buffer;
  readonly trailers: IncomingHttpHeaders;
}

/** A connection lives and dies with the one behind it, as if there were none between. */
export async function recordEtcd(options: RecordedOptions): Promise<RecordedEtcd> {
  const sessions = new Set<ServerHttp2Session>();
  const server = createServer();
  server.on('session', (session) => {
    sessions.add(session);
    const behind = connect(options.target);
    behind.on('error', () => undefined);
    behind.once('close', () => session.destroy());
    session.on('error', () => undefined);
    session.once('close', () => {
      sessions.delete(session);
      behind.destroy();
    });
    session.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      stream.on('error', () => undefined);
      carry(stream, headers, behind, options).catch(() => session.destroy());
    });
  });
  const port = await findFreePort();
  server.listen({ port, host: '127.0.0.1' });
  await once(server, 'listening');
  return {
    endpoint: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      sessions.forEach((session) => session.destroy());
      await closed;
    },
  };
}

async function carry(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  behind: ClientHttp2Session,
  options: RecordedOptions,
): Promise<void> {
  const path = String(headers[':path']);
  const body = await wholeOf(stream);
  const txn = path === '/etcdserverpb.KV/Txn' ? readTxn(options.name, body) : undefined;
  if (txn === undefined && path !== '/etcdserverpb.KV/Range') {
    options.onOtherCall(path);
  }
  const isCutBefore = txn !== undefined && options.onTxn(txn, 'asked') === 'breaks';
  const answer = await ask(behind, headers, body);
  if (txn !== undefined) {
    const read = readTxnAnswer(answer.body);
    if (read !== undefined) {
      txn.answer = read;
    }
    if (isCutBefore || options.onTxn(txn, 'answered') === 'breaks') {
      throw new Error('cut');
    }
    txn.isTold = true;
  }
  if (answer.isHeadOnly) {
    stream.respond(answer.head, { endStream: true });
    return;
  }
  stream.respond(answer.head, { waitForTrailers: true });
  stream.once('wantTrailers', () => stream.sendTrailers(answer.trailers));
  stream.end(answer.body);
}

async function ask(
  behind: ClientHttp2Session,
  headers: IncomingHttpHeaders,
  body: Buffer,
): Promise<Answer> {
  const asked = behind.request(headers, { endStream: false });
  const { promise, resolve, reject } = Promise.withResolvers<Omit<Answer, 'body' | 'trailers'>>();
  let trailers: IncomingHttpHeaders = {};
  asked.once('response', (head, flags) => resolve({ head, isHeadOnly: (flags & endStream) !== 0 }));
  asked.on('trailers', (received) => (trailers = received));
  asked.once('error', reject);
  asked.once('close', () => reject(new Error('there is no answer')));
  asked.end(body);
  const whole = wholeOf(asked);
  const [head, answer] = await Promise.all([promise, whole]);
  return { ...head, body: answer, trailers };
}

const endStream = 0x1;

async function wholeOf(stream: NodeJS.ReadableStream): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of stream) {
    parts.push(Buffer.from(part));
  }
  return Buffer.concat(parts);
}

/** The one message of a unary call behind its five bytes of flag and length. */
function messageOf(body: Buffer): Buffer {
  if (body.length < 5 || body[0] !== 0 || body.readUInt32BE(1) !== body.length - 5) {
    throw new Error('that is not one uncompressed gRPC message');
  }
  return body.subarray(5);
}

/** Field numbers here and below: etcd's rpc.proto. */
function readTxn(member: string, body: Buffer): RecordedTxn {
  const fields = fieldsOf(messageOf(body));
  const compares = new Map<string, string>();
  const unguarded: string[] = [];
  for (const compare of messagesIn(fields, 1)) {
    const isEqualMod = numberIn(compare, 1) === 0n && numberIn(compare, 2) === 2n;
    const key = textIn(compare, 3);
    if (isEqualMod && bytesIn(compare, 64) === undefined) {
      compares.set(key, String(numberIn(compare, 6)));
    } else {
      unguarded.push(key);
    }
  }
  return {
    atMs: Date.now(),
    member,
    isTold: false,
    compares,
    unguarded,
    writes: new Map(messagesIn(fields, 2).flatMap(writeOf)),
    writesElse: messagesIn(fields, 3)
      .flatMap(writeOf)
      .map(([key]) => key),
  };
}

function writeOf(operation: Fields): [string, Buffer | null][] {
  const [put] = messagesIn(operation, 2);
  const [removed] = messagesIn(operation, 3);
  if (messagesIn(operation, 4).length > 0) {
    throw new Error('transactions in transactions are not read');
  }
  if (put !== undefined) {
    return [[textIn(put, 1), bytesIn(put, 2) ?? Buffer.alloc(0)]];
  }
  if (removed === undefined) {
    return [];
  }
  const isRange = bytesIn(removed, 2) !== undefined;
  return [[isRange ? `${textIn(removed, 1)} and more` : textIn(removed, 1), null]];
}

/** `undefined` where the member answered with an error: then there is no message. */
function readTxnAnswer(body: Buffer): RecordedTxn['answer'] {
  if (body.length === 0) {
    return undefined;
  }
  const fields = fieldsOf(messageOf(body));
  const [header] = messagesIn(fields, 1);
  return {
    succeeded: numberIn(fields, 2) === 1n,
    revision: header === undefined ? 0 : Number(numberIn(header, 3)),
  };
}

type Fields = ReadonlyMap<number, readonly (bigint | Buffer)[]>;

function fieldsOf(bytes: Uint8Array): Fields {
  const reader = new BinaryReader(bytes);
  const fields = new Map<number, (bigint | Buffer)[]>();
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    const values = fields.get(number) ?? [];
    fields.set(number, values);
    if (type === WireType.LengthDelimited) {
      values.push(Buffer.from(reader.bytes()));
    } else if (type === WireType.Varint) {
      values.push(BigInt(reader.int64()));
    } else {
      reader.skip(type, number);
    }
  }
  return fields;
}

function messagesIn(fields: Fields, number: number): Fields[] {
  return (fields.get(number) ?? []).flatMap((value) =>
    typeof value === 'bigint' ? [] : [fieldsOf(value)],
  );
}

function bytesIn(fields: Fields, number: number): Buffer | undefined {
  const value = fields.get(number)?.at(-1);
  return typeof value === 'bigint' ? undefined : value;
}

function textIn(fields: Fields, number: number): string {
  return bytesIn(fields, number)?.toString('utf8') ?? '';
}

/** What is not on the wire is zero. */
function numberIn(fields: Fields, number: number): bigint {
  const value = fields.get(number)?.at(-1);
  return typeof value === 'bigint' ? value : 0n;
}
