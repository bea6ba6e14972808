import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import * as z from 'zod';
import { GoverseObserver } from '#infra/local/goverse/observer.ts';
import { type GoverseMemberProcess, startGoverseNode } from '#infra/local/goverse/start.ts';
import { createObjects, prepare, untilAsked } from '#infra/local/show/acts.ts';
import type { Condition } from '#shared/api/condition.ts';
import type { ResourceKind } from '#shared/kube/resources.ts';
import {
  ComponentType,
  IDSchema,
  MultipoolerSchema,
} from '#shared/topology/proto/clustermetadata_pb.ts';
import type { PoolerRecord } from '#shared/topology/topology.ts';
import { useStage } from './a-stage.ts';
import { objectsOf } from './stage-objects.ts';
import { missingControlPlane } from './local-control-plane.ts';
import { cleanupRole, releaseRole } from './roles.ts';
import type { EtcdMember } from './etcd-cluster.ts';
import { SecuredEtcd, encode } from './secured-etcd.ts';

/** How much faster than measured GoVerse runs. Millrace's own waits stay. */
const speed = 4;
const shardCount = 256;
/** Three ticks: a leader that had anything left to do would have done it. */
const quietMs = 15_000 / speed;
const timeoutMs = 120_000;

/** Part of every password, so that none is read anywhere. */
const canary = 'canary-1147';
const tlsSecret = 'etcd-tls';

let etcd: SecuredEtcd | undefined;
/** What `millrace dev` wrote to stderr. */
const remarks: string[] = [];
let millraceKey = '';

const stageUnderTest = useStage({
  async startTopology(folder) {
    const started = await SecuredEtcd.start({ folder: join(folder, 'secured'), members: 3 });
    etcd = started;
    await started.requireUsers();
    const [first = expect.unreachable(), ...others] = started.members;
    return {
      etcd: { ...first, [Symbol.asyncDispose]: () => first.stop() },
      access: {
        ...started.credentials,
        otherEndpoints: others.map(({ endpoint }) => endpoint),
      },
      [Symbol.asyncDispose]: () => started[Symbol.asyncDispose](),
    };
  },
  onRemark: (line) => remarks.push(line),
});

const { ask, create: make } = objectsOf(stageUnderTest);

function theEtcd(): SecuredEtcd {
  return etcd ?? expect.unreachable('it runs only during tests');
}

async function change(kind: ResourceKind, name: string, patch: object): Promise<void> {
  const answer = await ask('PATCH', kind, name, patch);
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
}

/** kill -9 of these, and all again when the work is done. */
async function withoutMembers(
  members: readonly EtcdMember[],
  work: () => Promise<void>,
): Promise<void> {
  await Promise.all(members.map((member) => member.kill()));
  try {
    await work();
  } finally {
    await Promise.all(members.map((member) => member.restart()));
  }
}

let looks = 0;

/** What the step would do by itself sooner or later, asked for now. */
async function lookNow(kind: 'Shard' | 'GoverseCluster', name: string): Promise<void> {
  looks += 1;
  await change(kind, name, {
    metadata: { annotations: { 'millrace.dev/reconcile': `now-${looks}` } },
  });
}

function dataOf(texts: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, encode(text)]));
}

/** A user of etcd, and the Secret that has its password. */
async function aUser(
  username: string,
  permissions: Parameters<SecuredEtcd['addUser']>[2],
): Promise<void> {
  const password = `${canary}-${username}`;
  await theEtcd().addUser(username, password, permissions);
  await make('Secret', {
    metadata: { name: username },
    type: 'kubernetes.io/basic-auth',
    data: dataOf({ username, password }),
  });
}

const conditionsSchema = z.object({
  status: z.object({ conditions: z.array(z.custom<Condition>()) }).optional(),
});

async function conditionOf(
  kind: 'Shard' | 'GoverseCluster',
  name: string,
  type: string,
): Promise<Condition | undefined> {
  const { status } = conditionsSchema.parse((await ask('GET', kind, name)).body);
  return status?.conditions.find((condition) => condition.type === type);
}

/** Waits for the condition's reason, and answers with its message. */
async function told(
  kind: 'Shard' | 'GoverseCluster',
  name: string,
  { type, reason, message }: { type: string; reason: string; message: RegExp },
): Promise<void> {
  await expect
    .poll(() => conditionOf(kind, name, type), { timeout: timeoutMs, interval: 100 })
    .toMatchObject({ reason, message: expect.stringMatching(message) });
}

describe('on an etcd of three members, with certificates and users', { timeout: 300_000 }, () => {
  beforeAll(async () => {
    if (missingControlPlane !== undefined) {
      return;
    }
    const { stage } = stageUnderTest();
    const { authority, endpoints } = theEtcd();
    const { certificate, key } = await authority.sign('millrace');
    millraceKey = key;
    await make('Secret', {
      metadata: { name: tlsSecret },
      type: 'kubernetes.io/tls',
      data: dataOf({ 'ca.crt': authority.ca, 'tls.crt': certificate, 'tls.key': key }),
    });
    await aUser(
      'cleaner',
      cleanupRole({ globalRoot: '/multigres/global', cellRoot: '/multigres/zone-a' }),
    );
    await createObjects(stage, { endpoints, tlsSecret, authSecret: 'cleaner' });
    await prepare(stage);
    await stageUnderTest().patchShard({
      spec: { cleanup: { quietFor: '5s', deleteAfter: '6s', maxPerPass: 2 } },
    });
  });

  describe('etcd-cleanup', () => {
    const recordSchema = z.object({ kvs: z.tuple([z.object({ value: z.base64() })]) });

    /** What poolers of these names would leave if they were killed. */
    async function leaveRecords(names: readonly string[]): Promise<void> {
      const live = (await stageUnderTest().stage.poolers()).find(({ role }) => role === 'replica');
      const { key, id } = live ?? expect.unreachable();
      const { kvs } = recordSchema.parse(await theEtcd().call('/kv/range', { key: encode(key) }));
      for (const name of names) {
        const record = fromBinary(MultipoolerSchema, Buffer.from(kvs[0].value, 'base64'));
        const { cell } = id;
        record.id = create(IDSchema, { component: ComponentType.MULTIPOOLER, cell, name });
        record.hostname = `${name}.elsewhere`;
        const bytes = toBinary(MultipoolerSchema, record);
        await theEtcd().put(key.replace(`-${id.name}/Pooler`, `-${name}/Pooler`), bytes);
      }
      await lookNow('Shard', stageUnderTest().stage.shard);
    }

    async function records(): Promise<ReadonlyMap<string, PoolerRecord>> {
      const poolers = await stageUnderTest().stage.poolers();
      return new Map(poolers.map((pooler) => [pooler.id.name, pooler]));
    }

    async function revisions(): Promise<readonly string[]> {
      return [...(await records()).values()].map(
        ({ id, modRevision }) => `${id.name} ${modRevision}`,
      );
    }

    async function untilGone(names: readonly string[]): Promise<void> {
      await untilAsked(`${names.join(' and ')} are gone`, async () => {
        const found = await records().catch(() => undefined);
        return found !== undefined && names.every((name) => !found.has(name));
      });
    }

    test('cleans as a user with no more than its role', async () => {
      const before = await revisions();

      await leaveRecords(['gone-1']);
      await untilGone(['gone-1']);

      expect(await revisions()).toEqual(before);
    });

    test('goes on by another member when the one that leads is killed between two changes', async () => {
      const before = await revisions();
      await leaveRecords(['gone-2', 'gone-3']);
      await untilAsked('one is marked', async () =>
        [...(await records()).values()].some(({ lifecycle }) => lifecycle === 'shutdown'),
      );

      await withoutMembers([await theEtcd().leader()], () => untilGone(['gone-2', 'gone-3']));

      expect(await revisions()).toEqual(before);
    });

    test('changes nothing while two members are down, says so, and goes on when they are back', async () => {
      const { stage } = stageUnderTest();
      const before = await revisions();
      await leaveRecords(['gone-4']);
      const left = (await records()).get('gone-4');

      await withoutMembers(theEtcd().members.slice(0, 2), async () => {
        await lookNow('Shard', stage.shard);
        await told('Shard', stage.shard, {
          type: 'TopologyClean',
          reason: 'TopologyUnknown',
          message: /the pooler records cannot be read: .*etcd at 127\.0\.0\.1:\d+/,
        });
      });
      const back = (await records()).get('gone-4');
      await lookNow('Shard', stage.shard);
      await untilGone(['gone-4']);

      expect(back?.modRevision).toBe(left?.modRevision);
      expect(await revisions()).toEqual(before);
    });
  });

  describe('shard-release', () => {
    /** A cluster of processes, a pod for each, and its GoverseCluster with a user of its own. */
    async function aCluster(name: string, permissions = releaseRole(`/${name}`)) {
      const { endpoints, credentials } = theEtcd();
      const [endpoint = '', ...otherEndpoints] = endpoints;
      const access = { ...credentials, otherEndpoints };
      const prefix = `/${name}`;
      const observer = await GoverseObserver.open({ endpoint, access, prefix, shardCount });
      onTestFinished(() => observer[Symbol.asyncDispose]());
      const nodes = new Map<string, GoverseMemberProcess>();
      const releasePod = (pod: string) => ask('DELETE', 'Pod', pod, { gracePeriodSeconds: 0 });
      for (const number of [0, 1, 2]) {
        const pod = `${name}-${number}`;
        const address = `${pod}.nodes.show.svc:48000`;
        const node = await startGoverseNode({
          endpoint,
          access,
          prefix,
          address,
          shardCount,
          speed,
        });
        nodes.set(pod, node);
        await make('Pod', {
          metadata: { name: pod, labels: { 'millrace.dev/goverse': name } },
          spec: {
            // So that a deleted pod stays until its kubelet, which is this test, has stopped it.
            nodeName: 'somewhere',
            terminationGracePeriodSeconds: 600,
            containers: [{ name: 'goverse', image: 'goverse' }],
          },
        });
        onTestFinished(async () => {
          await node.stop();
          await releasePod(pod);
        });
      }
      await aUser(`${name}-user`, permissions);
      await make('GoverseCluster', {
        apiVersion: 'millrace.dev/v1alpha1',
        kind: 'GoverseCluster',
        metadata: { name },
        spec: {
          topology: { endpoints, prefix, tlsSecret, authSecret: `${name}-user` },
          shards: shardCount,
          shutdown: { mode: 'clean', timeout: '5m' },
        },
      });
      onTestFinished(async () => {
        await ask('DELETE', 'GoverseCluster', name);
      });
      await observer.settled(quietMs, timeoutMs);
      const follower = observer.nodes.find((node) => node !== observer.leader) ?? '';
      const leaving = follower.split('.')[0] ?? '';
      return {
        observer,
        leaving,
        remove: () => ask('DELETE', 'Pod', leaving),
        /** Waits until the pod may go, lets it go, and waits until nothing of the hand-over is left. */
        untilReleased: async () => {
          await untilMirror(leaving, 'released');
          await nodes.get(leaving)?.stop();
          await releasePod(leaving);
          await observer.until((seen) => seen.marked().length === 0, timeoutMs);
          await told('GoverseCluster', name, {
            type: 'Released',
            reason: 'ShardsInPlace',
            message: /nobody waits for a hand-over/,
          });
        },
      };
    }

    const mirrorSchema = z.object({ state: z.string().nullable() });

    async function untilMirror(pod: string, state: string): Promise<void> {
      const { stage } = stageUnderTest();
      const url = `${stage.millrace.relayUrl}/v1/pods/${stage.namespace}/${pod}`;
      await expect
        .poll(
          async () => {
            const answer = await fetch(url);
            return answer.ok ? mirrorSchema.parse(await answer.json()).state : answer.status;
          },
          { timeout: timeoutMs, interval: 100 },
        )
        .toBe(state);
    }

    test('hands over as a user with no more than its role', async () => {
      const { observer, leaving, remove, untilReleased } = await aCluster('whole');

      await remove();
      await untilReleased();

      expect(observer.nodes).toHaveLength(2);
      expect([...observer.loads().keys()].some((node) => node.startsWith(leaving))).toBe(false);
    });

    test('goes on by another member when the one that leads is killed in the middle', async () => {
      const { observer, remove, untilReleased } = await aCluster('member');
      observer.begin();

      await remove();
      await observer.until((seen) => seen.marked().length > 0, timeoutMs);
      await withoutMembers([await theEtcd().leader()], untilReleased);

      expect(observer.marked()).toEqual([]);
      expect(observer.nodes).toHaveLength(2);
    });

    test('guesses nothing while two members are down, and goes on when they are back', async () => {
      const { observer, remove, untilReleased } = await aCluster('quorum');

      await withoutMembers(theEtcd().members.slice(0, 2), async () => {
        observer.begin();
        await remove();
        await told('GoverseCluster', 'quorum', {
          type: 'Released',
          reason: 'KeysUnknown',
          message: /the keys of GoVerse cannot be read: etcd at/,
        });
      });
      await untilReleased();

      expect(observer.marked()).toEqual([]);
    });

    test('says that a password was changed, and what is wrong with each Secret, and goes on once all is right', async () => {
      const { remove, untilReleased } = await aCluster('secrets');
      const { authority } = theEtcd();
      const user = { username: 'secrets-user', password: `${canary}-changed` };
      const { certificate, key } = await authority.sign('right');
      const expired = await authority.sign('expired', -1);
      const right = { 'ca.crt': authority.ca, 'tls.crt': certificate, 'tls.key': key };
      const keysUnknown = async (message: RegExp) => {
        await lookNow('GoverseCluster', 'secrets');
        await told('GoverseCluster', 'secrets', {
          type: 'Released',
          reason: 'KeysUnknown',
          message,
        });
      };
      /** With exactly these keys, whatever it had before. */
      const put = async (name: string, texts: Readonly<Record<string, string>>) => {
        await ask('DELETE', 'Secret', name);
        await make('Secret', { metadata: { name }, data: dataOf(texts) });
      };

      await theEtcd().setPassword(user.username, user.password);
      await keysUnknown(/authentication failed.*correct username and password in the authSecret/);
      await change('GoverseCluster', 'secrets', {
        spec: { topology: { tlsSecret: 'own-tls', authSecret: 'own-user' } },
      });
      await keysUnknown(/the Secret own-tls, which topology\.tlsSecret names, does not exist/);
      await put('own-tls', { 'tls.crt': certificate, 'tls.key': key });
      await keysUnknown(/own-tls.* has no ca\.crt/);
      await put('own-tls', { ...right, 'tls.key': canary });
      await keysUnknown(/own-tls.* are no certificate and its key/);
      await put('own-tls', right);
      await keysUnknown(/the Secret own-user, which topology\.authSecret names, does not exist/);
      await put('own-user', { username: user.username });
      await keysUnknown(/own-user.* has no password/);
      await put('own-user', { ...user, password: `${canary}-wrong` });
      await keysUnknown(/authentication failed.*correct username and password in the authSecret/);
      await put('own-tls', { ...right, 'tls.crt': expired.certificate, 'tls.key': expired.key });
      await keysUnknown(/refuses the client certificate as expired.*renew tls\.crt/);
      await put('own-tls', { 'ca.crt': authority.ca });
      await keysUnknown(/asks for a client certificate, and there is none/);
      await put('own-user', user);
      await put('own-tls', right);
      await remove();
      await untilReleased();
    });

    test('says that its role may not write, changes nothing, and goes on once it may', async () => {
      const { observer, remove, untilReleased } = await aCluster('viewer', [
        { type: 'READ', prefix: '/viewer/' },
      ]);
      observer.begin();
      const heard = remarks.length;

      await remove();
      await expect
        .poll(() => remarks.slice(heard).join('\n'), { timeout: timeoutMs, interval: 100 })
        .toMatch(/GoverseForbidden/);
      const history = [...observer.history()];
      await theEtcd().permit('viewer-user', { type: 'READWRITE', prefix: '/viewer/shard/' });
      await lookNow('GoverseCluster', 'viewer');
      await untilReleased();

      expect(history).toEqual([]);
    });
  });

  test('nothing that was said or written anywhere has a password or a key in it', async () => {
    const { decisions, stage, folder } = stageUnderTest();
    const kinds: ResourceKind[] = ['Database', 'Shard', 'GoverseCluster', 'Pod', 'Event'];
    const lists = await Promise.all(kinds.map((kind) => ask('GET', kind)));
    const written = await textsBelow(join(folder, 'millrace'));

    const everything = [
      ...remarks,
      ...decisions.map((decision) => JSON.stringify(decision)),
      ...lists.map(({ body }) => JSON.stringify(body)),
      ...written,
    ].join('\n');

    expect(decisions.some(({ reason }) => reason === 'KeysUnknown')).toBe(true);
    expect(lists.map(({ status }) => status)).toEqual(kinds.map(() => 200));
    expect(stage.millrace.relayUrl).not.toBe('');
    expect(everything).not.toContain(canary);
    expect(everything).not.toContain(encode(canary).slice(0, 12));
    expect(everything).not.toContain('PRIVATE KEY');
    expect(everything).not.toContain(millraceKey.split('\n')[1]);
  });
});

/** Every file of a folder and of those in it, as text. */
async function textsBelow(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  expect(files.length).toBeGreaterThan(0);
  return Promise.all(files.map((file) => readFile(join(file.parentPath, file.name), 'latin1')));
}
