import {
  ChangeMessageVisibilityCommand,
  GetQueueAttributesCommand,
  ListQueuesCommand,
  type Message,
  ReceiveMessageCommand,
  SQSClient,
  SendMessageBatchCommand,
} from '@aws-sdk/client-sqs';
import type { Cloud } from '#infra/local/cloud/start.ts';
import { type AccessKey, clientOf } from './deployment.ts';

/** As long as one request may wait for a message. */
const longestWaitSeconds = 20;

/** How long what was received stays in hand: nothing is received twice while more is waited for. */
const heldSeconds = 120;

/** The deployed queues, as whoever holds a key may use them; without one, as the account's administrator. */
export class Queues implements Disposable {
  readonly #cloud: Cloud;
  readonly #urlPrefix: string;
  readonly #clients = new Map<string, SQSClient>();

  constructor(cloud: Cloud, urlPrefix: string) {
    this.#cloud = cloud;
    this.#urlPrefix = urlPrefix;
  }

  /** All in one request, so that they can reach the function in one batch. */
  async send(queue: string, bodies: readonly string[], sender: AccessKey): Promise<void> {
    const { Failed: failed = [] } = await this.#client(sender).send(
      new SendMessageBatchCommand({
        QueueUrl: this.#url(queue),
        Entries: bodies.map((body, place) => ({
          Id: String(place),
          MessageBody: body,
          MessageGroupId: 'test',
        })),
      }),
    );
    if (failed.length > 0) {
      throw new Error(`${queue} refused ${failed.map(({ Message }) => Message).join(', ')}`);
    }
  }

  /** Without TLS, as nobody may. */
  async receiveInPlainText(queue: string, reader: AccessKey): Promise<void> {
    await this.#client(reader).send(new ReceiveMessageCommand({ QueueUrl: this.#url(queue) }));
  }

  /** Resolves with so many messages of a queue as soon as it has them; they stay there, and can be received at once. */
  async look(queue: string, count: number): Promise<readonly string[]> {
    const found = await this.#receive(queue, count);
    for (const { ReceiptHandle } of found) {
      await this.#secureClient().send(
        new ChangeMessageVisibilityCommand({
          QueueUrl: this.#url(queue),
          ReceiptHandle,
          VisibilityTimeout: 0,
        }),
      );
    }
    return found.map(({ Body: body = '' }) => body);
  }

  /** Messages that are there, in hand or waiting. */
  async size(queue: string): Promise<number> {
    const names = [
      'ApproximateNumberOfMessages',
      'ApproximateNumberOfMessagesNotVisible',
      'ApproximateNumberOfMessagesDelayed',
    ] as const;
    const { Attributes: attributes = {} } = await this.#secureClient().send(
      new GetQueueAttributesCommand({ QueueUrl: this.#url(queue), AttributeNames: [...names] }),
    );
    return names.reduce((sum, name) => sum + Number(attributes[name] ?? 0), 0);
  }

  /** The names of all queues there are. */
  async names(): Promise<readonly string[]> {
    const { QueueUrls: urls = [] } = await this.#secureClient().send(new ListQueuesCommand({}));
    return urls.map((url) => url.slice(url.lastIndexOf('/') + 1));
  }

  [Symbol.dispose](): void {
    this.#clients.forEach((client) => client.destroy());
  }

  async #receive(queue: string, count: number): Promise<readonly Message[]> {
    const client = this.#secureClient();
    const found = new Map<string, Message>();
    while (found.size < count) {
      const { Messages: messages = [] } = await client.send(
        new ReceiveMessageCommand({
          QueueUrl: this.#url(queue),
          WaitTimeSeconds: longestWaitSeconds,
          MaxNumberOfMessages: 10,
          VisibilityTimeout: heldSeconds,
        }),
      );
      messages.forEach((message) => found.set(message.MessageId ?? '', message));
    }
    return [...found.values()];
  }

  #url(queue: string): string {
    return `${this.#urlPrefix}${queue}`;
  }

  #client(key?: AccessKey, isSecure = false): SQSClient {
    const id = `${key?.accessKeyId} ${isSecure}`;
    const client =
      this.#clients.get(id) ??
      new SQSClient({ ...clientOf(this.#cloud, key), useQueueUrlAsEndpoint: false });
    if (isSecure && !this.#clients.has(id)) {
      sayTls(client);
    }
    this.#clients.set(id, client);
    return client;
  }

  #secureClient(): SQSClient {
    return this.#client(undefined, true);
  }
}

/** The stand-in takes a request with this header for one whose TLS ended before it. */
function sayTls(client: SQSClient): void {
  client.middlewareStack.add(
    (next) => (given) => {
      if (hasHeaders(given.request)) {
        given.request.headers['x-forwarded-proto'] = 'https';
      }
      return next(given);
    },
    { step: 'build', name: 'sayTls' },
  );
}

function hasHeaders(request: unknown): request is { headers: Record<string, string> } {
  return typeof request === 'object' && request !== null && 'headers' in request;
}
