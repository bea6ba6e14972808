import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connectGoverse } from '#shared/goverse/connect.ts';
import type { GoverseStore, ShardWrite } from '#shared/goverse/goverse.ts';
import { parseInstant } from '#shared/kernel/instant.ts';
import type { Read } from '#shared/kernel/read.ts';
import type { TopologyCredentials } from '#shared/topology/access.ts';
import { parseEndpoint } from '#shared/topology/address.ts';
import { connectTopology } from '#shared/topology/connect.ts';
import { type EtcdStore, readPrefixAt, within } from '#shared/topology/etcd-store.ts';
import { etcd3Store } from '#shared/topology/etcd3-store.ts';
import {
  CellSchema,
  ComponentType,
  IDSchema,
  MultipoolerSchema,
  PoolerLifecycleSchema,
  PoolerLifecycleStatus,
  ShardKeySchema,
} from '#shared/topology/proto/clustermetadata_pb.ts';
import type { PoolerRecord, Topology } from '#shared/topology/topology.ts';
import * as z from 'zod';
import { makeAuthority } from './certificates.ts';
import { missingControlPlane } from './local-control-plane.ts';
import { cleanupRole, releaseRole } from './roles.ts';
import { SecuredEtcd, encode } from './secured-etcd.ts';

const transports = ['grpc', 'gateway'] as const;
type Transport = (typeof transports)[number];

const globalRoot = '/multigres/global';
const cellRoot = '/multigres/zone-a';
const shard = { database: 'postgres', tableGroup: 'default', shard: '0-inf' };
const now = parseInstant('2026-01-01T00:00:00Z') ?? expect.unreachable();
const shards = 4;

/** What must be read nowhere. */
const canary = 'canary-0815';

function keyOf(name: string): string {
  return `${cellRoot}/poolers/multipooler-zone-a-${name}/Pooler`;
}

async function putPooler(etcd: SecuredEtcd, name: string): Promise<void> {
  const record = create(MultipoolerSchema, { hostname: `${name}.pods.db.svc` });
  record.id = create(IDSchema, { component: ComponentType.MULTIPOOLER, cell: 'zone-a', name });
  record.shardKey = create(ShardKeySchema, shard);
  record.lifecycleStatus = create(PoolerLifecycleSchema, { status: PoolerLifecycleStatus.ACTIVE });
  await etcd.put(keyOf(name), toBinary(MultipoolerSchema, record));
}

async function putCell(etcd: SecuredEtcd): Promise<void> {
  const serverAddresses = etcd.endpoints.map((endpoint) => new URL(endpoint).host);
  const record = create(CellSchema, { name: 'zone-a', root: cellRoot, serverAddresses });
  await etcd.put(`${globalRoot}/cells/zone-a/Cell`, toBinary(CellSchema, record));
}

interface Way {
  readonly transport: Transport;
  readonly credentials: TopologyCredentials;
}

function openTopology(etcd: SecuredEtcd, way: Way): Topology {
  const topology = connectTopology(
    { endpoints: etcd.endpoints, globalRoot },
    { namespace: 'db', clock: () => now, ...way },
  );
  onTestFinished(() => topology.close());
  return topology;
}

function openGoverse(etcd: SecuredEtcd, prefix: string, way: Way): GoverseStore {
  const store = connectGoverse(
    { endpoints: etcd.endpoints, prefix, shards },
    { namespace: 'db', ...way },
  );
  onTestFinished(() => store.close());
  return store;
}

async function recordOf(topology: Topology, name: string): Promise<PoolerRecord> {
  const { poolers } = valueOf(await topology.poolers(shard, ['zone-a']));
  return poolers.find(({ id }) => id.name === name) ?? expect.unreachable(name);
}

function valueOf<T>(read: Read<T>): T {
  return read.kind === 'present' ? read.value : expect.unreachable(JSON.stringify(read));
}

function whyOf(read: Read<unknown>): string {
  return read.kind === 'unknown' ? read.why : expect.unreachable(read.kind);
}

function aShard(number: number, modRevision = '0'): ShardWrite {
  return { shard: number, target: 'a:1', current: 'a:1', flags: [], modRevision };
}

async function start(flags: readonly string[] = []) {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-secured-'));
  const etcd = await SecuredEtcd.start({ folder, members: 1, flags });
  return {
    etcd,
    folder,
    async [Symbol.asyncDispose]() {
      await etcd[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

describe.skipIf(missingControlPlane !== undefined)('an etcd with certificates and users', () => {
  let started: Awaited<ReturnType<typeof start>>;
  let etcd: SecuredEtcd;
  let member: SecuredEtcd['members'][number];

  beforeAll(async () => {
    started = await start();
    etcd = started.etcd;
    member = etcd.members[0] ?? expect.unreachable();
    await putCell(etcd);
    await etcd.requireUsers();
    await etcd.addUser('cleaner', `${canary}-cleaner`, cleanupRole({ globalRoot, cellRoot }));
    await etcd.addUser('releaser', `${canary}-releaser`, releaseRole('/goverse'));
    await etcd.addUser('reader', `${canary}-reader`, [
      { type: 'READ', prefix: '/multigres/' },
      { type: 'READ', prefix: '/goverse/' },
    ]);
  });

  afterAll(() => started?.[Symbol.asyncDispose]());

  function as(username: string, password = `${canary}-${username}`): TopologyCredentials {
    return { ...etcd.credentials, username, password };
  }

  describe.each(transports)('over %s', (transport) => {
    test('the roles of the READMEs are enough, and lead to nothing else', async () => {
      const name = `role-${transport}`;
      const key = keyOf(name);
      await putPooler(etcd, name);
      const cleaner = openTopology(etcd, { transport, credentials: as('cleaner') });
      const releaser = openGoverse(etcd, '/goverse', { transport, credentials: as('releaser') });
      const crossed = openGoverse(etcd, '/goverse', { transport, credentials: as('cleaner') });
      const number = transport === 'grpc' ? 0 : 1;

      const { modRevision } = await recordOf(cleaner, name);
      const retired = await cleaner.retire({ cell: 'zone-a', key }, modRevision);
      const again = await recordOf(cleaner, name);
      const removed = await cleaner.remove({ cell: 'zone-a', key }, again.modRevision);
      const written = await releaser.writeShards([aShard(number)]);
      const view = valueOf(await releaser.view());
      const beyond = await crossed.view();

      expect([retired.kind, removed.kind, written.kind]).toEqual(['written', 'written', 'written']);
      expect(view.shards.map((found) => found.shard)).toContain(number);
      expect(whyOf(beyond)).toContain('permission denied (grant the role of the user what');
    });

    test('a role that may only read reads, and each write says that it may not', async () => {
      const name = `reader-${transport}`;
      await putPooler(etcd, name);
      const topology = openTopology(etcd, { transport, credentials: as('reader') });
      const goverse = openGoverse(etcd, '/goverse', { transport, credentials: as('reader') });
      const { modRevision } = await recordOf(topology, name);
      valueOf(await goverse.view());

      const endings = await Promise.allSettled([
        topology.retire({ cell: 'zone-a', key: keyOf(name) }, modRevision),
        goverse.writeShards([aShard(2)]),
      ]);

      expect(endings).toMatchObject(
        ['TopologyForbidden', 'GoverseForbidden'].map((reason) => ({
          reason: {
            reason,
            afterSeconds: 300,
            message: expect.stringContaining('(grant the role of the user'),
          },
        })),
      );
      expect((await recordOf(topology, name)).modRevision).toBe(modRevision);
    });

    test('a sign-in that a restart of etcd has ended is renewed unseen, by a read and by a write', async () => {
      const prefix = `/goverse/restarts-${transport}`;
      await etcd.permit('releaser', { type: 'READWRITE', prefix: `${prefix}/` });
      const goverse = openGoverse(etcd, prefix, { transport, credentials: as('releaser') });
      valueOf(await goverse.view());

      await member.restart();
      const read = await goverse.view();
      await member.restart();
      const written = await goverse.writeShards([aShard(0)]);

      expect(read.kind).toBe('present');
      expect(written.kind).toBe('written');
      expect(valueOf(await goverse.view()).shards).toMatchObject([{ shard: 0, target: 'a:1' }]);
    });

    test('a password that was changed is told, and the new one is taken', async () => {
      const user = `rotated-${transport}`;
      await etcd.addUser(user, `${canary}-${user}`, releaseRole('/goverse'));
      const before = openGoverse(etcd, '/goverse', { transport, credentials: as(user) });
      valueOf(await before.view());

      await etcd.setPassword(user, `${canary}-new`);
      const old = await before.view();
      const renewed = openGoverse(etcd, '/goverse', {
        transport,
        credentials: as(user, `${canary}-new`),
      });

      expect(whyOf(old)).toContain('(correct username and password in the authSecret)');
      expect((await renewed.view()).kind).toBe('present');
    });

    test.each<[string, (right: TopologyCredentials) => Promise<TopologyCredentials>, RegExp]>([
      [
        'an authority that is not its own',
        async (right) => ({ ...right, ca: (await strangers()).ca }),
        /its certificate is not of the authority in ca\.crt \(put the authority/,
      ],
      [
        'no authority',
        async (right) => ({ ...right, ca: undefined }),
        /its certificate is not of the authority in ca\.crt \(put the authority/,
      ],
      [
        'no client certificate',
        async (right) => ({ ...right, certificate: undefined, key: undefined }),
        /it asks for a client certificate, and there is none \(put tls\.crt and tls\.key/,
      ],
      [
        'an expired client certificate',
        async (right) => ({ ...right, ...(await etcd.authority.sign('expired', -1)) }),
        /it refuses the client certificate as expired or revoked \(renew tls\.crt/,
      ],
      [
        'the client certificate of somebody else’s authority',
        async (right) => ({ ...right, ...(await (await strangers()).sign('stranger')) }),
        /it refuses the client certificate \(sign tls\.crt of the tlsSecret/,
      ],
      [
        'a wrong password',
        async (right) => ({ ...right, password: canary }),
        /authentication failed.*\(correct username and password in the authSecret\)/,
      ],
      [
        'no user',
        async (right) => ({ ...right, username: undefined, password: undefined }),
        /\((name an authSecret|grant the role of the user)/,
      ],
    ])('with %s it is told what to do, twice in the same words', async (_, change, words) => {
      const credentials = await change(as('reader'));
      const topology = openTopology(etcd, { transport, credentials });
      const goverse = openGoverse(etcd, '/goverse', { transport, credentials });

      const first = whyOf(await topology.poolers(shard, ['zone-a']));
      const second = whyOf(await topology.poolers(shard, ['zone-a']));
      const keys = whyOf(await goverse.view());
      const failure: unknown = await goverse
        .writeShards([aShard(3)])
        .catch((error: unknown) => error);

      expect(first).toMatch(words);
      expect(second).toBe(first);
      expect(keys).toMatch(words);
      expect(String(failure)).toMatch(words);
      expect([first, keys, String(failure)].join('\n')).not.toMatch(/canary|PRIVATE|:error:/);
    });
  });

  async function strangers() {
    const folder = await mkdtemp(join(started.folder, 'strangers-'));
    return makeAuthority(folder);
  }
});

describe.skipIf(missingControlPlane !== undefined)('an etcd that is looked after', () => {
  /** So many keys that they are several pages of two. */
  const keys = Array.from({ length: 7 }, (_, place) => `/paged/key-${place}`);

  test('that is compacted between two pages gives no part of a list, and then the whole one', async () => {
    await using started = await start();
    const { etcd } = started;
    for (const key of keys) {
      await etcd.put(key, 'old');
    }
    const store = etcd3Store(parseEndpoint(etcd.endpoints[0] ?? ''), etcd.credentialsWithoutUser);
    onTestFinished(() => store.close());
    let pages = 0;
    const compactedAfterOnePage: EtcdStore = {
      ...store,
      async range(request, limits) {
        const page = await store.range(request, limits);
        pages += 1;
        if (pages === 1) {
          await etcd.put(keys.at(-1) ?? '', 'new');
          await etcd.call('/kv/compaction', { revision: await revisionOf(etcd), physical: true });
        }
        return page;
      },
    };

    const interrupted = readPrefixAt(compactedAfterOnePage, '/paged/', within(5_000, undefined), 2);
    await expect(interrupted).rejects.toThrow(
      /required revision has been compacted \(nothing: it was compacted between two pages/,
    );
    const whole = await readPrefixAt(compactedAfterOnePage, '/paged/', within(5_000, undefined), 2);

    expect(whole.entries.map(({ key }) => key)).toEqual(keys);
    expect(Buffer.from(whole.entries.at(-1)?.value ?? []).toString()).toBe('new');
  });

  test('that is defragmented meanwhile answers whole or not at all', async () => {
    await using started = await start();
    const { etcd } = started;
    for (const key of keys) {
      await etcd.put(key, 'old');
    }
    const stores = transports.map((transport) => {
      const store = openGoverse(etcd, '/paged', {
        transport,
        credentials: etcd.credentialsWithoutUser,
      });
      return store;
    });

    const [, ...views] = await Promise.all([
      etcd.call('/maintenance/defragment'),
      ...stores.map((store) => store.view()),
    ]);
    const after = await Promise.all(stores.map((store) => store.view()));

    for (const view of views.filter(({ kind }) => kind === 'present')) {
      expect(valueOf(view).revision).toBe(valueOf(after[0] ?? expect.unreachable()).revision);
    }
    expect(after.map(({ kind }) => kind)).toEqual(['present', 'present']);
  });

  test('whose space is used up says so; reads and deletions go on, and writes once there is space', async () => {
    await using started = await start([`--quota-backend-bytes=${4 * 1024 * 1024}`]);
    const { etcd } = started;
    await putCell(etcd);
    await putPooler(etcd, 'full');
    await putPooler(etcd, 'gone');
    const credentials = etcd.credentialsWithoutUser;
    const topologies = transports.map((transport) =>
      openTopology(etcd, { transport, credentials }),
    );
    const [topology = expect.unreachable()] = topologies;
    const gone = { cell: 'zone-a', key: keyOf('gone') };
    await topology.retire(gone, (await recordOf(topology, 'gone')).modRevision);
    await fillUp(etcd);

    const full = { cell: 'zone-a', key: keyOf('full') };
    const { modRevision } = await recordOf(topology, 'full');
    const retiring = await Promise.allSettled(
      topologies.map((open) => open.retire(full, modRevision)),
    );
    const writing = await Promise.allSettled(
      transports.map((transport) =>
        openGoverse(etcd, '/goverse', { transport, credentials }).writeShards([aShard(0)]),
      ),
    );
    const removed = await topology.remove(gone, (await recordOf(topology, 'gone')).modRevision);
    await makeSpace(etcd);
    const retired = await topology.retire(full, modRevision);

    const words = /database space exceeded \(compact and defragment this etcd/;
    expect(retiring.map(reasonOf)).toEqual([
      ['TopologyUnreachable', expect.stringMatching(words)],
      ['TopologyUnreachable', expect.stringMatching(words)],
    ]);
    expect(writing.map(reasonOf)).toEqual([
      ['GoverseUnreachable', expect.stringMatching(words)],
      ['GoverseUnreachable', expect.stringMatching(words)],
    ]);
    expect(removed.kind).toBe('written');
    expect(retired.kind).toBe('written');
  });
});

function reasonOf(ending: PromiseSettledResult<unknown>): readonly unknown[] {
  return ending.status === 'rejected' && ending.reason instanceof Error
    ? [Reflect.get(ending.reason, 'reason'), ending.reason.message]
    : ['done'];
}

const revisionSchema = z.object({ header: z.object({ revision: z.string() }) });

async function revisionOf(etcd: SecuredEtcd): Promise<string> {
  const answer = await etcd.call('/kv/range', { key: encode('none') });
  return revisionSchema.parse(answer).header.revision;
}

const alarmsSchema = z.object({
  alarms: z.array(z.object({ memberID: z.string(), alarm: z.string() })).default([]),
});

async function alarmsOf(etcd: SecuredEtcd) {
  return alarmsSchema.parse(await etcd.call('/maintenance/alarm', { action: 'GET' })).alarms;
}

/** Writes until etcd refuses to. */
async function fillUp(etcd: SecuredEtcd): Promise<void> {
  const value = encode(Buffer.alloc(1024 * 1024, 'x'));
  while ((await alarmsOf(etcd)).length === 0) {
    await etcd.attempt('/kv/put', { key: encode('/big'), value });
  }
}

/** What etcd's own documentation tells to do: compact, defragment, disarm. */
async function makeSpace(etcd: SecuredEtcd): Promise<void> {
  await etcd.call('/kv/deleterange', { key: encode('/big') });
  await etcd.call('/kv/compaction', { revision: await revisionOf(etcd), physical: true });
  await etcd.call('/maintenance/defragment');
  for (const alarm of await alarmsOf(etcd)) {
    await etcd.call('/maintenance/alarm', { action: 'DEACTIVATE', ...alarm });
  }
}
