import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import * as z from 'zod';
import type { KubeConnection, KubeResponse } from '#shared/kube/connection.ts';
import { connectKube } from '#shared/kube/http-connection.ts';
import type { TopologyCredentials } from '#shared/topology/access.ts';
import { type Authority, type Identity, makeAuthority } from './certificates.ts';
import { type EtcdMember, startEtcdCluster } from './etcd-cluster.ts';

/** The administrator of every etcd here; etcd wants the first one to be called so. */
const root = { username: 'root', password: 'root-of-these-tests' };

export interface SecuredEtcdOptions {
  /** Gets certificates, data and logs. */
  readonly folder: string;
  /** 1 or 3. */
  readonly members: number;
  /** Appended to each command line. */
  readonly flags?: readonly string[];
}

/** What a role may do below a prefix, or with one key where it is not given as a prefix. */
export interface Permission {
  readonly type: 'READ' | 'READWRITE';
  readonly prefix: string;
}

const tokenSchema = z.object({ token: z.string() });
const statusSchema = z.object({ header: z.object({ member_id: z.string() }), leader: z.string() });

/** etcd with certificates on both sides, one member or several, and its administrator. */
export class SecuredEtcd implements AsyncDisposable {
  readonly authority: Authority;
  readonly members: readonly EtcdMember[];
  /** Certificates and the administrator's name, for whoever may do everything. */
  readonly credentials: Required<TopologyCredentials>;
  /** The certificates alone. */
  readonly credentialsWithoutUser: TopologyCredentials;
  readonly #connections: readonly KubeConnection[];
  #token: string | undefined;
  #hasUsers = false;

  private constructor(authority: Authority, identity: Identity, members: readonly EtcdMember[]) {
    this.authority = authority;
    this.members = members;
    this.credentialsWithoutUser = { ca: authority.ca, ...identity };
    this.credentials = { ca: authority.ca, ...identity, ...root };
    this.#connections = members.map(({ endpoint }) =>
      connectKube({ server: endpoint, ca: authority.ca, credentials: async () => identity }),
    );
  }

  static async start({ folder, members: count, flags = [] }: SecuredEtcdOptions) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const authority = await makeAuthority(folder);
    await authority.sign('server');
    const identity = await authority.sign('administrator');
    const members = await startEtcdCluster({
      folder,
      count,
      scheme: 'https',
      flags: [
        '--client-cert-auth',
        `--trusted-ca-file=${authority.caPath}`,
        `--cert-file=${join(folder, 'server.crt')}`,
        `--key-file=${join(folder, 'server.key')}`,
        ...flags,
      ],
      isReady: (endpoint) => isReady(endpoint, authority, identity),
    });
    return new SecuredEtcd(authority, identity, members);
  }

  get endpoints(): string[] {
    return this.members.map(({ endpoint }) => endpoint);
  }

  /** A call of etcd's gateway by the administrator, of the first member that answers. */
  async call(path: string, body: object = {}): Promise<unknown> {
    let last: KubeResponse | undefined;
    for (const connection of this.#connections) {
      for (const isAgain of [false, true]) {
        if (isAgain) {
          this.#token = undefined;
        }
        last = await this.#attempt(connection, path, body).catch(() => undefined);
        if (last === undefined || last.status === 200) {
          break;
        }
      }
      if (last?.status === 200) {
        return last.body;
      }
    }
    return expect.unreachable(`${path}: ${JSON.stringify(last?.body ?? 'nobody answers')}`);
  }

  async #attempt(connection: KubeConnection, path: string, body: object): Promise<KubeResponse> {
    const post = (to: string, what: object, headers: Record<string, string> = {}) =>
      connection.request({ method: 'POST', path: `/v3${to}`, body: what, headers });
    if (!this.#hasUsers) {
      return post(path, body);
    }
    const { username: name, password } = root;
    this.#token ??= tokenSchema.parse(
      (await post('/auth/authenticate', { name, password })).body,
    ).token;
    return post(path, body, { 'grpc-metadata-token': this.#token });
  }

  /** The same, whatever comes of it. */
  async attempt(path: string, body: object): Promise<void> {
    for (const connection of this.#connections) {
      await this.#attempt(connection, path, body);
    }
  }

  async put(key: string, value: string | Uint8Array): Promise<void> {
    await this.call('/kv/put', { key: encode(key), value: encode(value) });
  }

  /** Turns sign-in on. */
  async requireUsers(): Promise<void> {
    const { username: name, password } = root;
    await this.call('/auth/user/add', { name, password });
    await this.call('/auth/role/add', { name: 'root' });
    await this.call('/auth/user/grant', { user: name, role: 'root' });
    await this.call('/auth/enable');
    this.#hasUsers = true;
  }

  /** As `etcdctl user add`, `role add`, `role grant-permission --prefix` and `user grant-role` would. */
  async addUser(name: string, password: string, permissions: readonly Permission[]): Promise<void> {
    await this.call('/auth/user/add', { name, password });
    await this.call('/auth/role/add', { name });
    await this.call('/auth/user/grant', { user: name, role: name });
    for (const permission of permissions) {
      await this.permit(name, permission);
    }
  }

  async permit(role: string, { type, prefix }: Permission): Promise<void> {
    const end = Buffer.from(prefix);
    end[end.length - 1] = (end[end.length - 1] ?? 0) + 1;
    await this.call('/auth/role/grant', {
      name: role,
      perm: { permType: type, key: encode(prefix), range_end: encode(end) },
    });
  }

  async setPassword(name: string, password: string): Promise<void> {
    await this.call('/auth/user/changepw', { name, password });
  }

  /** The member that leads, by its own word. */
  async leader(): Promise<EtcdMember> {
    for (const [place, connection] of this.#connections.entries()) {
      const answer = await this.#attempt(connection, '/maintenance/status', {}).catch(
        () => undefined,
      );
      const status = statusSchema.safeParse(answer?.body).data;
      if (status !== undefined && status.leader === status.header.member_id) {
        return this.members[place] ?? expect.unreachable();
      }
    }
    return expect.unreachable('no member says that it leads');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#connections.forEach((connection) => connection.close());
    await Promise.all(this.members.map((member) => member.stop()));
  }
}

export function encode(value: string | Uint8Array): string {
  return Buffer.from(value).toString('base64');
}

async function isReady(endpoint: string, { ca }: Authority, identity: Identity): Promise<boolean> {
  const probe = connectKube({ server: endpoint, ca, credentials: async () => identity });
  try {
    return (await probe.request({ method: 'GET', path: '/readyz' })).status === 200;
  } finally {
    probe.close();
  }
}
