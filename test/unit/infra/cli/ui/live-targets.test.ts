import { describe, expect, onTestFinished, test } from 'vitest';
import { LiveTargets } from '#infra/cli/ui/live-targets.ts';
import type { ListNews } from '#infra/cli/ui/ports.ts';
import type { KubeConnection, KubeRequest } from '#shared/kube/connection.ts';
import { ModelApiServer } from '../../../events/relay/model-api-server.ts';

/** The three kinds of targets, each served by a model of its own. */
function world() {
  const kinds = {
    databases: new ModelApiServer(),
    shards: new ModelApiServer(),
    goverseclusters: new ModelApiServer(),
  };
  const serverOf = ({ path }: KubeRequest): ModelApiServer => {
    const found = Object.entries(kinds).find(([plural]) => path.endsWith(`/${plural}`));
    if (found === undefined) {
      throw new Error(`nobody serves ${path}`);
    }
    return found[1];
  };
  const connection: KubeConnection = {
    request: (request) => serverOf(request).request(request),
    stream: (request) => serverOf(request).stream(request),
    close: () => undefined,
  };
  return { ...kinds, connection };
}

/** Follows the world until the test ends; `until` resolves with the first news, from now on or before, that fits. */
function follow(connection: KubeConnection) {
  const targets = new LiveTargets([]);
  const all: ListNews[] = [];
  let heard = Promise.withResolvers<void>();
  targets.follow((news) => {
    all.push(news);
    heard.resolve();
    heard = Promise.withResolvers();
  });
  const stopping = new AbortController();
  const running = targets.run(connection, stopping.signal);
  onTestFinished(async () => {
    stopping.abort();
    await running;
  });
  const until = async (fits: (news: ListNews) => boolean): Promise<ListNews> => {
    for (;;) {
      const found = all.find(fits);
      if (found !== undefined) {
        return found;
      }
      await heard.promise;
    }
  };
  return { targets, all, until };
}

const isTargets = ({ kind }: ListNews): boolean => kind === 'targets';

describe('the list of targets that is followed', () => {
  test('is told as a whole once every kind was listed', async () => {
    const { connection, shards, databases } = world();
    shards.write('orders');
    databases.write('main');

    const { targets, until } = follow(connection);
    await until(isTargets);

    expect(targets.rows.map(({ id }) => id).toSorted()).toEqual(['mdb/db/main', 'shd/db/orders']);
    expect(targets.health).toEqual({ kind: 'live' });
  });

  test('a target that comes or changes is told with its new version', async () => {
    const { connection, shards } = world();
    const { until } = follow(connection);
    await until(isTargets);

    shards.write('orders');
    await until(
      (news) => news.kind === 'changes' && news.changed.some(({ id }) => id === 'shd/db/orders'),
    );
    shards.write('orders');
    const version = shards.objects.get('orders')?.metadata['resourceVersion'];

    await until(
      (news) => news.kind === 'changes' && news.changed.some((row) => row.version === version),
    );
  });

  test('a target that goes is told to be gone', async () => {
    const { connection, shards } = world();
    shards.write('orders');
    const { targets, until } = follow(connection);
    await until(isTargets);

    shards.remove('orders');
    await until((news) => news.kind === 'changes' && news.gone.includes('shd/db/orders'));

    expect(targets.rows).toEqual([]);
  });

  test('an API server that refuses is said, and said to be back', async () => {
    const { connection, shards } = world();
    shards.refusals.push(500);

    const { until, targets } = follow(connection);
    await until((news) => news.kind === 'health' && news.health.kind === 'lost');
    await until((news) => news.kind === 'health' && news.health.kind === 'live');

    expect(targets.health).toEqual({ kind: 'live' });
  });
});
