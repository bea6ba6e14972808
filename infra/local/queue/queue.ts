import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { startFauxqs } from 'fauxqs';
import { deadLetterQueueName, queueName } from '#events/hint.ts';
import { stepNames } from '#shared/api/steps.ts';

/** How often a message is received before it goes to the dead-letter queue. */
const maxReceiveCount = 5;

/** A standard dead-letter queue keeps a message's first timestamp, so it must keep longer than its source. */
const sourceRetentionSeconds = 4 * 24 * 3600;
const deadLetterRetentionSeconds = 14 * 24 * 3600;

/** The account in every URL and ARN of the emulator. */
const accountId = '000000000000';

export interface QueueOptions {
  /** Holds the messages. They survive a kill of the process and a restart. */
  readonly dataDir: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly stage: string;
  /** The AWS region in ARNs and URLs. */
  readonly region: string;
  /** How long a received message stays hidden; at least six times the functions' timeout, as for Lambda. */
  readonly visibilitySeconds: number;
}

export interface EmbeddedQueue {
  /** `http://127.0.0.1:<port>`, the endpoint for an SQS client with `useQueueUrlAsEndpoint: false`. */
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Opens the embedded queue in this process: an SQS API on the loopback interface with one standard queue and one
 * dead-letter queue per step. What it has acknowledged is in SQLite, so it survives any end of the process.
 *
 * Throws when another process has the same data folder open.
 */
export async function openQueue(options: QueueOptions): Promise<EmbeddedQueue> {
  mkdirSync(options.dataDir, { recursive: true, mode: 0o700 });
  const lock = lockFolder(options.dataDir);
  try {
    const { application, server } = await startEmulator(options);
    keepReceiveCounts(options.dataDir);
    await declareQueues(application, server, options);
    return {
      url: `http://127.0.0.1:${server.port}`,
      port: server.port,
      async close() {
        await server.stop();
        lock.close();
      },
    };
  } catch (error) {
    lock.close();
    throw error;
  }
}

/** The URL under which a client of {@link EmbeddedQueue.url} names a queue. */
export function queueUrl(endpoint: string, name: string): string {
  return `${endpoint}/${accountId}/${name}`;
}

export function queueArn(region: string, name: string): string {
  return `arn:aws:sqs:${region}:${accountId}:${name}`;
}

/** Two servers on one store would hand out the same message twice. SQLite's lock goes with its process, however it ends. */
function lockFolder(dataDir: string): DatabaseSync {
  const lock = new DatabaseSync(join(dataDir, 'lock.db'));
  try {
    lock.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock.close();
    throw new Error(`another process uses the queue in ${dataDir}`, { cause: error });
  }
}

type Emulator = Awaited<ReturnType<typeof startFauxqs>>;

/** What is used of the HTTP server inside the emulator, which announces it on a diagnostics channel. */
interface Application {
  listen(options: { port: number; host: string }): Promise<string>;
  addHook(
    name: 'onSend',
    hook: (request: EmulatorRequest, reply: EmulatorReply, payload: unknown) => Promise<unknown>,
  ): unknown;
  inject(request: {
    method: 'POST';
    url: string;
    headers: Record<string, string>;
    payload: string;
  }): Promise<{ statusCode: number; body: string }>;
}

interface EmulatorRequest {
  readonly headers: { readonly [name: string]: string | string[] | undefined };
  readonly body: unknown;
}

interface EmulatorReply {
  readonly raw: { readonly socket: { readonly destroyed: boolean } | null };
}

async function startEmulator(
  options: QueueOptions,
): Promise<{ application: Application; server: Emulator }> {
  let application: Application | undefined;
  const adapt = (message: unknown): void => {
    application = (message as { fastify: Application }).fastify;
    listenOnLoopback(application);
    giveBackUndelivered(application);
  };
  subscribe('fastify.initialization', adapt);
  const starting = startFauxqs({
    port: options.port,
    logger: false,
    dataDir: options.dataDir,
    defaultRegion: options.region,
  });
  unsubscribe('fastify.initialization', adapt);
  const server = await starting;
  if (application === undefined) {
    await server.stop();
    throw new Error('the embedded queue did not announce its HTTP server');
  }
  return { application, server };
}

/** The emulator asks no one for credentials and listens on every interface by default. */
function listenOnLoopback(application: Application): void {
  const listen = application.listen.bind(application);
  application.listen = ({ port }) => listen({ port, host: '127.0.0.1' });
}

/**
 * A receive that waits does not notice that its caller died, and would take the next messages into the void, hidden
 * for the whole visibility timeout. Such messages become visible again at once.
 */
function giveBackUndelivered(application: Application): void {
  application.addHook('onSend', async (request, reply, payload) => {
    const isReceive = request.headers['x-amz-target'] === 'AmazonSQS.ReceiveMessage';
    if (isReceive && reply.raw.socket?.destroyed === true && typeof payload === 'string') {
      const { QueueUrl } = request.body as { QueueUrl: string };
      const { Messages } = JSON.parse(payload) as { Messages?: { ReceiptHandle: string }[] };
      for (const { ReceiptHandle } of Messages ?? []) {
        await call(application, 'ChangeMessageVisibility', {
          QueueUrl,
          ReceiptHandle,
          VisibilityTimeout: 0,
        });
      }
    }
    return payload;
  });
}

/**
 * Making a message visible again writes NULL over its receive count, which the store's own schema forbids: the call
 * fails and the message is lost to everybody until the next restart. Measured with fauxqs 2.4.1. The trigger does what
 * was meant and keeps the count; where the emulator writes a count it never fires.
 */
function keepReceiveCounts(dataDir: string): void {
  const store = new DatabaseSync(join(dataDir, 'fauxqs.db'));
  try {
    store.exec(`
      CREATE TRIGGER IF NOT EXISTS keep_receive_count BEFORE UPDATE ON sqs_messages
      WHEN NEW.approximate_receive_count IS NULL
      BEGIN
        UPDATE sqs_messages SET receipt_handle = NULL, visibility_deadline = NULL
        WHERE message_id = OLD.message_id;
        SELECT RAISE(IGNORE);
      END`);
  } finally {
    store.close();
  }
}

/** Creates what is missing and brings the attributes of what is there up to date. Messages stay. */
async function declareQueues(
  application: Application,
  server: Emulator,
  options: QueueOptions,
): Promise<void> {
  for (const step of stepNames) {
    const name = queueName(options.stage, step);
    const deadLetterName = deadLetterQueueName(options.stage, step);
    await declareQueue(application, server, deadLetterName, {
      MessageRetentionPeriod: String(deadLetterRetentionSeconds),
    });
    await declareQueue(application, server, name, {
      MessageRetentionPeriod: String(sourceRetentionSeconds),
      VisibilityTimeout: String(options.visibilitySeconds),
      RedrivePolicy: JSON.stringify({
        deadLetterTargetArn: queueArn(options.region, deadLetterName),
        maxReceiveCount,
      }),
    });
  }
}

async function declareQueue(
  application: Application,
  server: Emulator,
  name: string,
  attributes: Record<string, string>,
): Promise<void> {
  // Creating a queue that exists would drop its messages, so only a missing one is created.
  if (server.inspectQueue(name) === undefined) {
    server.createQueue(name, { attributes });
    return;
  }
  await call(application, 'SetQueueAttributes', {
    QueueUrl: queueUrl('http://127.0.0.1', name),
    Attributes: attributes,
  });
}

async function call(application: Application, action: string, body: unknown): Promise<void> {
  const answer = await application.inject({
    method: 'POST',
    url: '/',
    headers: {
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-target': `AmazonSQS.${action}`,
    },
    payload: JSON.stringify(body),
  });
  if (answer.statusCode !== 200) {
    throw new Error(`the embedded queue refused ${action} with ${answer.statusCode}`);
  }
}
