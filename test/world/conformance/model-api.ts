import type { Instant } from '#shared/kernel/instant.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { ApiServer, type Watch } from '#test/world/model/api-server.ts';
import type { ServedApi } from './script.ts';

/** What a pass of controllers may lead to, in passes: a chain of owners is never longer in a row. */
const maxPasses = 20;

/** The model as a server like any other: each request takes a second of its time. */
export function serveModel(namespaces: readonly string[]): ServedApi & { readonly api: ApiServer } {
  const api = new ApiServer({ namespaces });
  let now = Date.parse('2026-01-01T00:00:00Z') as Instant;
  let changed = Promise.withResolvers<void>();
  const move = () => {
    now = (now + 1000) as Instant;
    changed.resolve();
    changed = Promise.withResolvers();
  };

  async function* linesOf(watch: Watch) {
    for (;;) {
      // Asked for before the lines are: a change while they are read must not be missed.
      const next = changed.promise;
      for (const line of watch.take(now)) {
        yield line;
        if ((JSON.parse(line) as { type: string }).type === 'ERROR') {
          return;
        }
      }
      await next;
    }
  }

  const connection: KubeConnection = {
    async request(request) {
      const { response } = api.handle(request, now);
      move();
      return response;
    },
    async stream(request) {
      const { response, watch } = api.openWatch(request, now);
      return { ...response, lines: watch === undefined ? noLines() : linesOf(watch) };
    },
    close: () => undefined,
  };
  return {
    api,
    connection,
    async control(_kind, isDone) {
      for (let pass = 0; pass < maxPasses; pass += 1) {
        if (await isDone()) {
          return;
        }
        api.control(now);
      }
      throw new Error('the controllers of the model never do what is waited for');
    },
    async compact() {
      api.compact();
    },
  };
}

async function* noLines(): AsyncGenerator<string> {
  // A refused watch has no lines.
}
