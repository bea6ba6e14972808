import { describe, expect, test } from 'vitest';
import { absent, present } from '#shared/kernel/read.ts';
import type { KubeConnection, KubeRequest, KubeResponse } from '#shared/kube/connection.ts';
import { kubeClient, kubePages } from '#shared/kube/http-kube.ts';

const signal = new AbortController().signal;

/** An API server that gives these answers, one after the other. */
function anApiServer(...answers: readonly (KubeResponse | Error)[]) {
  const requests: KubeRequest[] = [];
  const connection: KubeConnection = {
    async request(request) {
      const answer = answers[requests.length];
      requests.push(request);
      if (answer === undefined || answer instanceof Error) {
        throw answer ?? new Error('asked once too often');
      }
      return answer;
    },
    stream: () => Promise.reject(new Error('nothing is watched')),
    close: () => undefined,
  };
  return { connection, requests };
}

function aPage(names: readonly string[], next?: string): KubeResponse {
  const items = names.map((name) => ({ metadata: { name } }));
  return { status: 200, body: { items, metadata: { continue: next ?? '' } } };
}

function pagesOf(connection: KubeConnection) {
  return Array.fromAsync(kubePages(connection).pages('Shard', { namespace: 'db' }, signal));
}

describe('a list in pages', () => {
  test('asks for 500 at a time, consistently, and for the next by the token of the last', async () => {
    const { connection, requests } = anApiServer(aPage(['a', 'b'], 'more'), aPage(['c']));

    const pages = await pagesOf(connection);

    expect(pages).toMatchObject([
      present([{ metadata: { name: 'a' } }, { metadata: { name: 'b' } }]),
      present([{ metadata: { name: 'c' } }]),
    ]);
    expect(requests.map(({ path, query }) => ({ path, query }))).toEqual([
      { path: '/apis/millrace.dev/v1alpha1/namespaces/db/shards', query: { limit: '500' } },
      {
        path: '/apis/millrace.dev/v1alpha1/namespaces/db/shards',
        query: { limit: '500', continue: 'more' },
      },
    ]);
  });

  test.each([
    ['is refused', { status: 410, body: { reason: 'Expired' } }, 'listing shards: 410 Expired'],
    ['gets no answer', new Error('socket hang up'), 'listing shards: socket hang up'],
  ])(
    'F8: ends with what is unknown where a page %s, and is unknown as a whole',
    async (_, answer, why) => {
      const inPages = anApiServer(aPage(['a'], 'more'), answer);
      const asWhole = anApiServer(aPage(['a'], 'more'), answer);

      const pages = await pagesOf(inPages.connection);
      const whole = await kubeClient(asWhole.connection).list('Shard', {}, signal);

      expect(pages).toMatchObject([{ kind: 'present' }, { kind: 'unknown', why }]);
      expect(whole).toEqual({ kind: 'unknown', why });
    },
  );

  test('of a kind that is not served is absent', async () => {
    const { connection } = anApiServer({ status: 404, body: '404 page not found\n' });

    const pages = await pagesOf(connection);

    expect(pages).toEqual([absent]);
  });
});
