import http from 'node:http';
import * as z from 'zod';
import { readBody } from './admin-server.ts';
import { refuseFault, viewOf } from './core.ts';
import type { Engine } from './engine.ts';
import { faultKinds, faultSchema } from './fault.ts';

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

const liftSchema = z.strictObject({
  kind: z.enum(faultKinds).optional(),
  pod: z.string().optional(),
});

/**
 * What a person, a test or the live display asks of the data plane itself: its state, and faults on demand. On the
 * loopback interface only, and without a sign-in: whoever runs it may break it.
 */
export function createControlServer(engine: Engine): http.Server {
  return http.createServer((request, response) => {
    void respond(engine, request, response);
  });
}

async function respond(
  engine: Engine,
  request: http.IncomingMessage,
  response: http.ServerResponse,
): Promise<void> {
  const { status, body } = await answer(engine, request).catch((error: unknown): Answer => ({
    status: 400,
    body: { error: messageOf(error) },
  }));
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function answer(engine: Engine, request: http.IncomingMessage): Promise<Answer> {
  const url = new URL(request.url ?? '/', 'http://control');
  switch (`${request.method} ${url.pathname}`) {
    case 'GET /state':
      return { status: 200, body: viewOf(engine.state) };
    case 'GET /faults':
      return { status: 200, body: engine.state.faults };
    case 'POST /faults': {
      const fault = faultSchema.parse(JSON.parse(await readBody(request)));
      const refusal = refuseFault(engine.state, fault);
      if (refusal !== undefined) {
        return { status: 409, body: { error: refusal } };
      }
      engine.take({ kind: 'faultInjected', fault });
      return { status: 200, body: engine.state.faults };
    }
    case 'DELETE /faults': {
      const { kind, pod } = liftSchema.parse(Object.fromEntries(url.searchParams));
      engine.take({
        kind: 'faultLifted',
        ...(kind === undefined ? {} : { fault: kind }),
        ...(pod === undefined ? {} : { pod }),
      });
      return { status: 200, body: engine.state.faults };
    }
    default:
      return {
        status: 404,
        body: { error: 'there are GET /state and GET, POST and DELETE /faults' },
      };
  }
}

function messageOf(error: unknown): string {
  if (error instanceof z.ZodError) {
    return z.prettifyError(error);
  }
  return error instanceof Error ? error.message : String(error);
}
