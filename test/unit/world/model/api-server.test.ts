import { describe, expect, test } from 'vitest';
import { recordAnnotation } from '#shared/api/annotations.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { KubeConnection, KubeRequest } from '#shared/kube/connection.ts';
import { kubeClient } from '#shared/kube/http-kube.ts';
import type { JsonObject } from '#shared/kube/json.ts';
import { aClaim, aPod, aShard, mounting, ownedBy } from '#test/world/conformance/manifests.ts';
import { ApiServer, type ApiServerOptions } from '#test/world/model/api-server.ts';

const now = Date.parse('2026-01-01T00:00:00Z') as Instant;
const shards = '/apis/millrace.dev/v1alpha1/namespaces/db/shards';
const pods = '/api/v1/namespaces/db/pods';
const claims = '/api/v1/namespaces/db/persistentvolumeclaims';
const mergePatch = 'application/merge-patch+json';

function aServer(options: ApiServerOptions = {}): ApiServer {
  return new ApiServer({ namespaces: ['db'], ...options });
}

function create(api: ApiServer, path: string, body: JsonObject): JsonObject {
  const { response } = api.handle({ method: 'POST', path, body }, now);
  expect(response.status, JSON.stringify(response.body)).toBe(201);
  return response.body as JsonObject;
}

function pause(api: ApiServer, paused: boolean) {
  const body = { spec: { paused } };
  return api.handle({ method: 'PATCH', path: `${shards}/a`, contentType: mergePatch, body }, now);
}

function bind(api: ApiServer, name: string): void {
  const body = { metadata: { name }, target: { kind: 'Node', name: 'node-1' } };
  api.handle({ method: 'POST', path: `${pods}/${name}/binding`, body }, now);
}

function connectionTo(api: ApiServer): KubeConnection {
  return {
    request: async (request: KubeRequest) => api.handle(request, now).response,
    stream: () => Promise.reject(new Error('nothing is watched here')),
    close: () => undefined,
  };
}

describe('the model of the API server', () => {
  test('hands every write back as a commit, with what was there and what is', () => {
    const api = aServer();
    const made = api.handle({ method: 'POST', path: shards, body: aShard('a') }, now);
    const before = api.get('Shard', 'db', 'a');

    const changed = pause(api, true);
    const repeated = pause(api, true);
    const removed = api.handle({ method: 'DELETE', path: `${shards}/a` }, now);

    const after = changed.commits[0]?.after;
    expect(made.commits).toEqual([
      { kind: 'Shard', namespace: 'db', name: 'a', before: null, after: before },
    ]);
    expect(changed.commits).toMatchObject([{ before, after: { spec: { paused: true } } }]);
    expect(repeated.commits, 'nothing changed').toEqual([]);
    expect(removed.commits).toEqual([
      { kind: 'Shard', namespace: 'db', name: 'a', before: after, after: null },
    ]);
  });

  test('commits nothing for a read and for a write that is refused', () => {
    const api = aServer();
    create(api, shards, aShard('a'));
    const writes = api.writesOf('Shard');

    const read = api.handle({ method: 'GET', path: shards }, now);
    const refused = api.handle(
      {
        method: 'DELETE',
        path: `${shards}/a`,
        body: { preconditions: { uid: 'another' } },
      },
      now,
    );

    expect(read.commits).toEqual([]);
    expect(refused.response.status).toBe(409);
    expect(refused.commits).toEqual([]);
    expect(api.writesOf('Shard')).toBe(writes);
  });

  test('removes a pod without time in two commits, as watchers are told', () => {
    const api = aServer();
    create(api, pods, aPod('a'));
    bind(api, 'a');

    const { commits } = api.handle(
      { method: 'DELETE', path: `${pods}/a`, body: { gracePeriodSeconds: 0 } },
      now,
    );

    expect(commits.map(({ after }) => after?.metadata.deletionGracePeriodSeconds)).toEqual([
      0,
      undefined,
    ]);
    expect(commits.at(-1)?.after).toBeNull();
  });

  test('says when the time of a pod is over, and never a moment later for a second deletion', () => {
    const api = aServer();
    create(api, pods, aPod('a'));
    bind(api, 'a');
    const ask = (gracePeriodSeconds: number, afterMs: number) => {
      api.handle(
        { method: 'DELETE', path: `${pods}/a`, body: { gracePeriodSeconds } },
        (now + afterMs) as Instant,
      );
      return api.get('Pod', 'db', 'a')?.metadata.deletionTimestamp;
    };

    const ends = [ask(30, 0), ask(60, 1_000), ask(20, 2_000), ask(5, 15_000)];

    expect(ends).toEqual([
      '2026-01-01T00:00:30Z',
      '2026-01-01T00:00:30Z',
      '2026-01-01T00:00:20Z',
      '2026-01-01T00:00:15Z',
    ]);
  });

  test('has a fork that goes its own way, and so does the one it was taken from', () => {
    const api = aServer();
    create(api, shards, aShard('a'));
    const fork = api.fork();

    pause(fork, true);
    create(api, shards, aShard('b'));
    const second = fork.fork();
    second.handle({ method: 'DELETE', path: `${shards}/a` }, now);

    expect(api.list('Shard').map(({ metadata }) => metadata.name)).toEqual(['a', 'b']);
    expect(api.get('Shard', 'db', 'a')?.spec.paused).toBe(false);
    expect(fork.get('Shard', 'db', 'a')?.spec.paused).toBe(true);
    expect(fork.get('Shard', 'db', 'b')).toBeUndefined();
    expect(second.list('Shard')).toEqual([]);
  });

  test('says the same after a fork as it would have said without', () => {
    const play = (api: ApiServer) => {
      create(api, shards, aShard('b'));
      pause(api, true);
      return [api.list('Shard'), api.handle({ method: 'GET', path: shards }, now).response];
    };
    const api = aServer();
    create(api, shards, aShard('a'));
    const fork = api.fork();

    const said = play(api);

    expect(play(fork)).toEqual(said);
  });

  test('keeps objects that nobody can change, whoever holds them', () => {
    const api = aServer();
    const labels = { x: '1' };
    create(api, shards, aShard('a', { metadata: { labels } }));
    const shard = api.get('Shard', 'db', 'a') as
      | { metadata: { labels: { x: string } } }
      | undefined;

    labels.x = '2';

    expect(shard?.metadata.labels).toEqual({ x: '1' });
    expect(() => {
      shard!.metadata.labels.x = '3';
    }).toThrow(TypeError);
  });

  test('shares what a write did not change', () => {
    const api = aServer();
    create(api, shards, aShard('a'));
    const before = api.get('Shard', 'db', 'a');

    api.handle(
      {
        method: 'PATCH',
        path: `${shards}/a`,
        contentType: mergePatch,
        body: { metadata: { labels: { x: '1' } } },
      },
      now,
    );

    expect(api.get('Shard', 'db', 'a')?.spec).toBe(before?.spec);
  });

  test('hands out the same list until an object of the kind changes', () => {
    const api = aServer();
    create(api, shards, aShard('a'));
    const list = api.list('Shard');

    create(api, pods, aPod('a'));

    expect(api.list('Shard')).toBe(list);
    pause(api, true);
    expect(api.list('Shard')).not.toBe(list);
  });

  test('throws for what it does not reproduce, so that no run is green by accident', () => {
    const api = aServer();
    create(api, pods, aPod('a'));

    for (const request of [
      { method: 'DELETE', path: pods },
      { method: 'GET', path: pods, query: { fieldSelector: 'spec.nodeName=a' } },
      {
        method: 'PATCH',
        path: `${pods}/a`,
        contentType: 'application/apply-patch+yaml',
        query: { fieldManager: 'x' },
        body: {},
      },
    ] as const) {
      expect(() => api.handle(request, now)).toThrow('the model');
    }
  });

  test('answers any path and any body, and throws for none that is only bad', () => {
    const api = aServer();
    const paths = ['', '/', '/api/v1/%', '/api/v1/namespaces/db/pods/a/b/c', `${shards}/%zz`, '/x'];

    const answers = [
      ...paths.map((path) => api.handle({ method: 'GET', path }, now)),
      ...[undefined, null, 7, 'text', [], {}].map((body) =>
        api.handle({ method: 'POST', path: shards, body }, now),
      ),
    ];

    expect(answers.map(({ response }) => response.status)).toEqual([
      ...paths.map(() => 404),
      ...Array.from({ length: 6 }, () => 400),
    ]);
  });
});

describe('versions by object', () => {
  test('show no trace of the order of writes to different objects', () => {
    const play = (order: readonly string[]) => {
      const api = aServer({ versions: 'object' });
      for (const name of order) {
        create(api, shards, aShard(name));
      }
      return [api.list('Shard'), api.handle({ method: 'GET', path: shards }, now).response];
    };

    expect(play(['a', 'b'])).toEqual(play(['b', 'a']));
  });

  test('never come back, nor do uids, when a name does', () => {
    const api = aServer({ versions: 'object' });
    const seen = new Set<string>();

    for (let round = 0; round < 3; round += 1) {
      create(api, shards, aShard('a'));
      pause(api, true);
      const { uid, resourceVersion } = api.get('Shard', 'db', 'a')!.metadata;
      seen.add(uid).add(resourceVersion);
      api.handle({ method: 'DELETE', path: `${shards}/a` }, now);
    }

    expect(seen.size).toBe(6);
  });

  test('have no watches', () => {
    const api = aServer({ versions: 'object' });

    expect(() => api.openWatch({ method: 'GET', path: shards }, now)).toThrow('no watch');
  });
});

describe('a watch', () => {
  test('that is up to date outlives a compaction, one that lags ends with a 410', () => {
    const api = aServer();
    const query = { resourceVersion: '2' };
    const quick = api.openWatch({ method: 'GET', path: shards, query }, now).watch!;
    const slow = api.openWatch({ method: 'GET', path: shards, query }, now).watch!;
    create(api, shards, aShard('a'));
    expect(quick.take(now)).toHaveLength(1);

    api.compact();
    create(api, shards, aShard('b'));

    expect(quick.take(now).map((line) => JSON.parse(line).type)).toEqual(['ADDED']);
    expect(slow.take(now).map((line) => JSON.parse(line).object.code)).toEqual([410]);
    expect(slow.take(now), 'it has ended').toEqual([]);
  });

  test('has a bookmark with the version up to which its lines were taken', () => {
    const api = aServer();
    const query = { resourceVersion: '2' };
    const watch = api.openWatch({ method: 'GET', path: shards, query }, now).watch!;
    create(api, pods, aPod('a'));
    const versionIn = (line: string): string => JSON.parse(line).object.metadata.resourceVersion;

    const early = versionIn(watch.bookmark());
    watch.take(now);

    expect([early, versionIn(watch.bookmark())]).toEqual(['2', '3']);
  });

  test('stays with the server it was opened on when that is forked', () => {
    const api = aServer();
    const query = { resourceVersion: '2' };
    const watch = api.openWatch({ method: 'GET', path: shards, query }, now).watch!;
    const fork = api.fork();

    create(fork, shards, aShard('a'));
    expect(watch.take(now)).toEqual([]);
    create(api, shards, aShard('b'));

    expect(watch.take(now).map((line) => JSON.parse(line).object.metadata.name)).toEqual(['b']);
  });
});

describe('a pass of the controllers', () => {
  test('commits what it does, and nothing once there is nothing to do', () => {
    const api = aServer();
    const shard = create(api, shards, aShard('a'));
    const ownerReferences = [ownedBy(shard, { controller: true })];
    create(api, pods, aPod('a-0', { metadata: { ownerReferences } }));
    expect(api.control(now)).toEqual([]);

    api.handle({ method: 'DELETE', path: `${shards}/a` }, now);
    const commits = api.control(now);

    expect(commits.at(-1)).toMatchObject({ kind: 'Pod', name: 'a-0', after: null });
    expect(api.control(now)).toEqual([]);
  });

  test('leaves a claim alone that a pod with a node mounts (S3)', () => {
    const api = aServer();
    create(api, claims, aClaim('data'));
    create(api, pods, aPod('a', { spec: mounting('data') }));
    bind(api, 'a');
    api.handle({ method: 'DELETE', path: `${claims}/data` }, now);

    const early = api.control(now);
    api.handle({ method: 'DELETE', path: `${pods}/a`, body: { gracePeriodSeconds: 0 } }, now);
    const late = api.control(now);

    expect(early).toEqual([]);
    expect(late).toMatchObject([{ kind: 'PersistentVolumeClaim', name: 'data', after: null }]);
  });

  test('empties a namespace that is to go, and takes it away', () => {
    const api = aServer();
    create(api, shards, aShard('a'));
    create(api, claims, aClaim('data'));
    api.handle({ method: 'DELETE', path: '/api/v1/namespaces/db' }, now);

    for (let pass = 0; pass < 4; pass += 1) {
      api.control(now);
    }

    expect(api.list('Shard')).toEqual([]);
    expect(api.get('Namespace', undefined, 'db')).toBeUndefined();
  });
});

describe('the client that ships, on the model', () => {
  const key = recordAnnotation('drain-step');

  test('moves a record only while uid, generation and record are as read (X2)', async () => {
    const api = aServer();
    create(api, shards, aShard('a', { metadata: { annotations: { other: 'x' } } }));
    const kube = kubeClient(connectionTo(api));
    const { uid, resourceVersion } = api.get('Shard', 'db', 'a')!.metadata;
    const swap = (change: { previous: string | null; uid?: string; generation?: number }) =>
      kube.swapAnnotation(
        { kind: 'Shard', namespace: 'db', name: 'a' },
        { key, next: '1', uid, generation: 1, ...change },
        { resourceVersion, hasAnnotations: true },
      );

    const results = [
      await swap({ previous: null, uid: 'another' }),
      await swap({ previous: null, generation: 2 }),
      await swap({ previous: 'old' }),
      await swap({ previous: null }),
      await swap({ previous: null }),
    ];

    expect(results.map(({ kind }) => kind)).toEqual([
      'lostRace',
      'lostRace',
      'lostRace',
      'written',
      'lostRace',
    ]);
  });

  test('deletes only the uid and version it has seen (X3)', async () => {
    const api = aServer();
    create(api, shards, aShard('a'));
    const kube = kubeClient(connectionTo(api));
    const ref = { kind: 'Shard', namespace: 'db', name: 'a' } as const;
    const { uid, resourceVersion } = api.get('Shard', 'db', 'a')!.metadata;
    pause(api, true);

    const old = await kube.delete(ref, { uid, resourceVersion });
    const other = await kube.delete(ref, {
      uid: 'another',
      resourceVersion: api.get('Shard', 'db', 'a')!.metadata.resourceVersion,
    });

    expect([old.kind, other.kind]).toEqual(['lostRace', 'lostRace']);
    expect(api.get('Shard', 'db', 'a')).toBeDefined();
  });
});
