import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What a question is about: the owner object, the probe, versioning or encryption. */
export type Question = 'owner' | 'probe' | 'versioning' | 'encryption' | 'put';

/** How a question is treated, whatever it asks. */
export type Fault =
  | {
      readonly status: number;
      readonly code?: string;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    }
  /** The request is taken, and never answered. */
  | 'hang'
  /** The head of an answer, and no body. */
  | 'half'
  /** The request is taken, and the connection ends. */
  | 'drop'
  /** A body that never ends. */
  | 'endless';

export interface FakeBucket extends AsyncDisposable {
  readonly url: string;
  /** `GET /backups/db/main/millrace-owner.json`, in the order in which they came, with the conditions they carried. */
  readonly requests: string[];
  /** Everything that was ever received: heads and bodies. */
  readonly received: string[];
  answer(question: Question, fault: Fault): void;
  owner: { readonly text: string; readonly etag: string } | null;
}

/**
 * A small server of S3's protocol on loopback with one bucket, `backups`, that keeps conditions, versions and encrypts, but
 * for what it is told to do instead.
 */
export async function startFakeBucket(): Promise<FakeBucket> {
  const faults = new Map<Question, Fault>();
  const requests: string[] = [];
  const received: string[] = [];
  const state: { owner: FakeBucket['owner'] } = { owner: null };

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request);
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://bucket');
    const question = questionOf(request.method ?? '', pathname, searchParams);
    const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = request.headers;
    requests.push(
      [
        request.method,
        request.url,
        ...(ifMatch === undefined ? [] : [`if-match ${ifMatch}`]),
        ...(ifNoneMatch === undefined ? [] : [`if-none-match ${ifNoneMatch}`]),
      ].join(' '),
    );
    received.push(JSON.stringify(request.headers), body);
    const fault = faults.get(question);
    if (fault !== undefined) {
      misbehave(response, fault);
      return;
    }
    if (question === 'owner') {
      if (state.owner === null) {
        refuse(response, 404, 'NoSuchKey');
      } else {
        response.writeHead(200, { etag: state.owner.etag }).end(state.owner.text);
      }
    } else if (question === 'versioning') {
      response.end('<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>');
    } else if (question === 'encryption') {
      response.end(encryption);
    } else if (question === 'probe') {
      refuse(response, 412, 'PreconditionFailed');
    } else {
      const holds = ifMatch === undefined ? state.owner === null : state.owner?.etag === ifMatch;
      if (holds) {
        state.owner = { text: body, etag: `"${requests.length}"` };
        response.writeHead(200, { etag: state.owner.etag }).end();
      } else {
        refuse(response, 412, 'PreconditionFailed');
      }
    }
  }

  const server = createServer((request, response) => {
    respond(request, response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    received,
    answer: (question, fault) => void faults.set(question, fault),
    get owner() {
      return state.owner;
    },
    set owner(owner) {
      state.owner = owner;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const encryption =
  '<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>';

function questionOf(method: string, path: string, query: URLSearchParams): Question {
  if (query.has('versioning')) {
    return 'versioning';
  }
  if (query.has('encryption')) {
    return 'encryption';
  }
  return method === 'GET' ? 'owner' : path.endsWith('/millrace-probe') ? 'probe' : 'put';
}

function misbehave(response: ServerResponse, fault: Fault): void {
  if (fault === 'drop') {
    response.destroy();
  } else if (fault === 'half') {
    response.writeHead(200, { etag: '"1"', 'content-length': '100' });
    response.flushHeaders();
  } else if (fault === 'endless') {
    response.writeHead(200, { etag: '"1"' });
    const more = (): void => void response.write('x'.repeat(1024), () => setImmediate(more));
    response.on('error', () => undefined);
    more();
  } else if (fault !== 'hang') {
    const { status, code = '', headers = {}, body } = fault;
    response.writeHead(status, headers);
    response.end(body ?? (code === '' ? '' : errorBody(code)));
  }
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status).end(errorBody(code));
}

function errorBody(code: string): string {
  return `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>words of the server</Message></Error>`;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
