import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { installDefinitions } from '#infra/cli/install.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import { kubeClient } from '#shared/kube/http-kube.ts';
import type { KubeReader, KubeWriter } from '#shared/kube/kube.ts';
import type { KubeObject, ObjectRef } from '#shared/kube/resources.ts';
import { useControlPlane } from './local-control-plane.ts';

const controlPlane = useControlPlane({ users: [{ name: 'nobody', groups: [] }] });
let connection: KubeConnection;
let kube: KubeReader & KubeWriter;

beforeAll(async () => {
  connection = connectKube(controlPlane().access());
  kube = kubeClient(connection);
  await installDefinitions(connection);
});

const key = 'step.millrace.dev/drain-step';
let count = 0;

async function aShard(annotations?: Record<string, string>): Promise<KubeObject<'Shard'>> {
  count += 1;
  const ref: ObjectRef<'Shard'> = { kind: 'Shard', namespace: 'default', name: `shard-${count}` };
  await kube.create(ref, {
    metadata: { name: ref.name, ...(annotations === undefined ? {} : { annotations }) },
    spec: {
      databaseRef: { name: 'main' },
      pools: [
        {
          name: 'main',
          cells: ['zone-a'],
          storage: { size: '1Gi' },
          podTemplate: { spec: { containers: [{ name: 'a', image: 'a' }] } },
        },
      ],
    },
  });
  return read(ref);
}

async function read(ref: ObjectRef<'Shard'>): Promise<KubeObject<'Shard'>> {
  const found = await kube.get(ref);
  if (found.kind !== 'present') {
    throw new Error(`${ref.name} is ${found.kind}`);
  }
  return found.value;
}

function refOf({ metadata }: KubeObject<'Shard'>): ObjectRef<'Shard'> {
  return { kind: 'Shard', namespace: 'default', name: metadata.name };
}

function swap(
  shard: KubeObject<'Shard'>,
  previous: string | null,
  next: string | null,
  uid = shard.metadata.uid,
) {
  const { generation = 0, resourceVersion, annotations = {} } = shard.metadata;
  return kube.swapAnnotation(
    refOf(shard),
    { key, previous, next, uid, generation },
    { resourceVersion, hasAnnotations: Object.keys(annotations).length > 0 },
  );
}

describe('the compare-and-swap of a record (X2)', () => {
  test.each([
    ['on an object without annotations', undefined],
    ['beside other annotations', { other: 'x' }],
  ])('writes the first record %s', async (_where, annotations) => {
    const shard = await aShard(annotations);

    const result = await swap(shard, null, '{"a":1}');

    expect(result.kind).toBe('written');
    expect((await read(refOf(shard))).metadata.annotations).toEqual({
      ...annotations,
      [key]: '{"a":1}',
    });
  });

  test('of two handlers with the same view one wins, whether or not there were annotations', async () => {
    for (const annotations of [undefined, { other: 'x' }]) {
      const shard = await aShard(annotations);

      const results = await Promise.all([swap(shard, null, '1'), swap(shard, null, '2')]);

      expect(results.map(({ kind }) => kind).toSorted()).toEqual(['lostRace', 'written']);
    }
  });

  test('loses when the record, the generation or the uid has moved', async () => {
    const shard = await aShard({ [key]: 'old' });

    const [otherUid, otherRecord] = await Promise.all([
      swap(shard, 'old', 'new', 'another-uid'),
      swap(shard, 'older', 'new'),
    ]);

    expect(otherUid.kind).toBe('lostRace');
    expect(otherRecord.kind).toBe('lostRace');

    await kube.mergePatch(refOf(shard), { spec: { paused: true } }, shard.metadata);
    expect((await swap(shard, 'old', 'new')).kind).toBe('lostRace');
  });

  test('does not lose to writes of others that leave record and generation alone', async () => {
    const shard = await aShard({ [key]: 'old' });
    await kube.mergePatch(
      refOf(shard),
      { metadata: { labels: { other: 'step' } } },
      shard.metadata,
    );

    expect((await swap(shard, 'old', null)).kind).toBe('written');
    expect((await read(refOf(shard))).metadata.annotations ?? {}).not.toHaveProperty(key);
  });

  test('loses when the object was deleted, or deleted and made again', async () => {
    const shard = await aShard({ [key]: 'old' });
    await kube.delete(refOf(shard), shard.metadata);
    expect((await swap(shard, 'old', 'new')).kind).toBe('lostRace');
  });
});

describe('guarded writes', () => {
  test('a merge patch loses under an old version', async () => {
    const shard = await aShard();
    await kube.mergePatch(refOf(shard), { metadata: { labels: { a: '1' } } }, shard.metadata);

    const late = await kube.mergePatch(
      refOf(shard),
      { metadata: { labels: { a: '2' } } },
      shard.metadata,
    );

    expect(late.kind).toBe('lostRace');
    expect((await read(refOf(shard))).metadata.labels).toEqual({ a: '1' });
  });

  test('a status is applied by its owner, beside another owner’s, and loses under an old version', async () => {
    const shard = await aShard();
    const condition = (type: string) => ({
      type,
      status: 'True',
      reason: 'Test',
      message: '',
      observedGeneration: 1,
      lastTransitionTime: '2026-01-01T00:00:00Z',
    });

    const first = await kube.applyStatus(
      refOf(shard),
      { conditions: [condition('Drained')] },
      'drain-step',
      shard.metadata,
    );
    const late = await kube.applyStatus(
      refOf(shard),
      { conditions: [condition('Ready')] },
      'pool-pods',
      shard.metadata,
    );
    const fresh = await read(refOf(shard));
    const second = await kube.applyStatus(
      refOf(shard),
      { conditions: [condition('Ready')] },
      'pool-pods',
      fresh.metadata,
    );

    expect([first.kind, late.kind, second.kind]).toEqual(['written', 'lostRace', 'written']);
    expect(
      (await read(refOf(shard))).status?.conditions?.map(({ type }) => type).toSorted(),
    ).toEqual(['Drained', 'Ready']);
  });

  test('a delete needs uid and version; what is gone already counts as deleted', async () => {
    const before = await aShard();
    await kube.mergePatch(refOf(before), { metadata: { labels: { a: '1' } } }, before.metadata);
    const shard = await read(refOf(before));

    const another = { uid: 'another', resourceVersion: shard.metadata.resourceVersion };
    expect((await kube.delete(refOf(shard), another)).kind).toBe('lostRace');
    expect((await kube.delete(refOf(shard), before.metadata)).kind).toBe('lostRace');
    expect((await kube.get(refOf(shard))).kind).toBe('present');
    expect((await kube.delete(refOf(shard), shard.metadata)).kind).toBe('written');
    expect((await kube.delete(refOf(shard), shard.metadata)).kind).toBe('written');
  });

  test('a create of what exists hands back what is in the way', async () => {
    const shard = await aShard();

    const again = await kube.create(refOf(shard), {
      metadata: { name: shard.metadata.name },
      spec: shard.spec,
    });

    expect(again).toMatchObject({
      kind: 'exists',
      object: { kind: 'present', value: { metadata: { uid: shard.metadata.uid } } },
    });
  });

  test('an object the API refuses ends for good, a verb it forbids comes back slowly', async () => {
    const forbidden = kubeClient(connectKube(controlPlane().access('nobody')));
    const shard = await aShard({ [key]: 'old' });

    await expect(
      kube.create(
        { kind: 'Shard', namespace: 'default', name: 'bad' },
        { metadata: { name: 'bad' }, spec: {} },
      ),
    ).rejects.toMatchObject({ name: 'TerminalError', reason: 'WriteInvalid' });
    await expect(forbidden.delete(refOf(shard), shard.metadata)).rejects.toMatchObject({
      name: 'RetryableError',
      reason: 'WriteForbidden',
      afterSeconds: 300,
    });
    expect((await kube.get(refOf(shard))).kind).toBe('present');
  });

  test('a name that is none never becomes a path', async () => {
    await expect(kube.get({ kind: 'Shard', namespace: '../..', name: 'a' })).rejects.toMatchObject({
      reason: 'NameInvalid',
    });
  });
});

describe('reads are three-valued', () => {
  test('what is not there is absent, what may not be read is unknown', async () => {
    const forbidden = kubeClient(connectKube(controlPlane().access('nobody')));

    expect(await kube.get({ kind: 'Pod', namespace: 'default', name: 'nobody' })).toEqual({
      kind: 'absent',
    });
    expect(await forbidden.get({ kind: 'Pod', namespace: 'default', name: 'nobody' })).toEqual({
      kind: 'unknown',
      why: 'reading Pod default/nobody: 403 Forbidden',
    });
    expect(await forbidden.list('Pod', { namespace: 'default' })).toMatchObject({
      kind: 'unknown',
    });
  });

  test('a list is whole over all its pages', async () => {
    const names = Array.from({ length: 601 }, (_, index) => `budget-${index}`);
    for (let start = 0; start < names.length; start += 50) {
      await Promise.all(
        names.slice(start, start + 50).map((name) =>
          kube.create(
            { kind: 'PodDisruptionBudget', namespace: 'default', name },
            {
              metadata: { name, labels: { page: 'many' } },
              spec: { maxUnavailable: 1, selector: { matchLabels: { a: name } } },
            },
          ),
        ),
      );
    }

    const list = await kube.list('PodDisruptionBudget', {
      namespace: 'default',
      labels: { page: 'many' },
    });

    expect(list.kind === 'present' && list.value.length).toBe(601);
  });

  test('a server that breaks off on the second page leaves nothing but unknown', async () => {
    let pages = 0;
    const server = createServer((_request, response) => {
      pages += 1;
      response.writeHead(pages === 1 ? 200 : 410, { 'content-type': 'application/json' });
      response.end(
        JSON.stringify(
          pages === 1
            ? { items: [{ metadata: { name: 'a' } }], metadata: { continue: 'x' } }
            : { reason: 'Expired' },
        ),
      );
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const broken = kubeClient(
      connectKube({ server: `http://127.0.0.1:${port}`, credentials: async () => ({}) }),
    );

    const list = await broken.list('Pod', { namespace: 'default' });

    expect(list).toEqual({ kind: 'unknown', why: 'listing pods: 410 Expired' });
    server.close();
  });

  test('a server that is away is unknown, not absent', async () => {
    const away = kubeClient(
      connectKube({ server: 'http://127.0.0.1:1', credentials: async () => ({}) }),
    );

    expect((await away.get({ kind: 'Pod', namespace: 'default', name: 'a' })).kind).toBe('unknown');
  });
});
