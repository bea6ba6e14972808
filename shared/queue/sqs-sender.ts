import type { defaultProvider as DefaultProvider } from '@aws-sdk/credential-provider-node';
import aws4 from 'aws4';
import * as z from 'zod';
import { connectHttp, readText } from '#shared/http/connection.ts';
import { QueueRefusal, type Sent, explainRefusal, explainSilence } from './explain.ts';
import type { QueueEntry, QueueSender, SendOutcome } from './queue.ts';

export interface SqsSenderAccess {
  readonly region: string;
  /** Another server than the one in the queues' URLs, such as an embedded queue. */
  readonly endpoint?: string;
  /** How long one request may take, in milliseconds; then it counts as not answered. Default 10 000. */
  readonly requestTimeoutMs?: number;
  /** Who sends; found by the SDK's usual chain when absent. An embedded queue takes any. */
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

export interface SqsSender extends QueueSender {
  /** Closes the connections. */
  close(): void;
}

type CredentialChain = ReturnType<typeof DefaultProvider>;

/** A hanging queue must not look like a slow one for long. */
const defaultRequestTimeoutMs = 10_000;

/** The account in the queue URLs of an embedded queue. */
const embeddedAccount = '000000000000';

/** Ten results take a few kilobytes. */
const maxAnswerBytes = 256 * 1024;

const outcomeSchema = z.looseObject({
  Successful: z.array(z.looseObject({ Id: z.string() })).default([]),
  Failed: z
    .array(z.looseObject({ Id: z.string(), Code: z.string().default('unknown') }))
    .default([]),
});

const refusalSchema = z.looseObject({
  __type: z.string().default(''),
  message: z.string().optional(),
  Message: z.string().optional(),
});

/** Where queues are that the environment names by their server alone: `<endpoint>/000000000000/`. */
export function embeddedQueueUrlPrefix(endpoint: string): string {
  return `${endpoint.replace(/\/+$/, '')}/${embeddedAccount}/`;
}

/**
 * Sends batches to Amazon SQS, or to a server that speaks its protocol (AWS JSON 1.0, action SendMessageBatch), each once:
 * trying again is the caller's.
 *
 * It speaks the protocol by itself because the relay does hardly anything else. With the SDK's client each batch costs
 * four times the processor time, and half of the memory that a relay may have is gone before the first. Signing and
 * credentials stay with libraries.
 *
 * @param queueUrlPrefix put before a queue's name for its URL, `https://sqs.<region>.amazonaws.com/<account>/`
 */
export function connectSqsSender(access: SqsSenderAccess, queueUrlPrefix: string): SqsSender {
  const { region, requestTimeoutMs = defaultRequestTimeoutMs } = access;
  const server = new URL(access.endpoint ?? queueUrlPrefix);
  const connection = connectHttp(server);
  let credentials: CredentialChain | undefined;

  async function send(
    queue: string,
    entries: readonly QueueEntry[],
    signal?: AbortSignal,
  ): Promise<SendOutcome> {
    credentials ??= await credentialChain(access);
    const sent = { queueUrl: `${queueUrlPrefix}${queue}`, host: server.host, region };
    const body = JSON.stringify({
      QueueUrl: sent.queueUrl,
      Entries: entries.map(({ id, body: MessageBody, group }) => ({
        Id: id,
        MessageBody,
        MessageGroupId: group,
      })),
    });
    const signed = aws4.sign(
      {
        method: 'POST',
        host: server.host,
        path: '/',
        service: 'sqs',
        region,
        headers: {
          'content-type': 'application/x-amz-json-1.0',
          'x-amz-target': 'AmazonSQS.SendMessageBatch',
        },
        body,
      },
      await credentials(),
    );
    const timeout = AbortSignal.timeout(requestTimeoutMs);
    try {
      const response = await connection.send({
        method: 'POST',
        path: '/',
        headers: signed.headers ?? {},
        body,
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
      });
      return outcomeOf(response.statusCode ?? 0, await readText(response, maxAnswerBytes), sent);
    } catch (error) {
      throw timeout.aborted
        ? new Error(`the queue did not answer within ${requestTimeoutMs / 1000} s`, {
            cause: error,
          })
        : explainSilence(error, sent);
    }
  }

  return { send, close: () => connection.close() };
}

/** The SDK's usual chain: environment, container, web identity, files. It renews what expires. */
async function credentialChain({ region, credentials }: SqsSenderAccess): Promise<CredentialChain> {
  if (credentials !== undefined) {
    return async () => credentials;
  }
  const { defaultProvider } = await import('@aws-sdk/credential-provider-node');
  return defaultProvider({ clientConfig: { region } });
}

/** @throws QueueRefusal with the server's own words where it took nothing */
function outcomeOf(status: number, text: string, sent: Sent): SendOutcome {
  if (status !== 200) {
    throw refusalOf(status, text, sent);
  }
  const { Successful, Failed } = outcomeSchema.parse(JSON.parse(text));
  return {
    acknowledged: Successful.map(({ Id }) => Id),
    failed: Failed.map(({ Id, Code }) => ({ id: Id, why: Code })),
  };
}

function refusalOf(status: number, text: string, sent: Sent): QueueRefusal {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // Something on the way answered, a proxy or a load balancer.
  }
  const refusal = refusalSchema.safeParse(json);
  const {
    __type: type,
    message,
    Message = message,
  } = refusal.success ? refusal.data : { __type: '' };
  const word = type.split('#').at(-1) ?? '';
  const words = [word, Message].filter((each) => each !== undefined && each !== '');
  const told = `the queue answered ${status}${words.length === 0 ? '' : `: ${words.join(': ')}`}`;
  const explained = explainRefusal(word, sent);
  return new QueueRefusal(explained === undefined ? told : `${explained} (${told})`, word, status);
}
