import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { type Server, type Socket, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { obtainProgram } from '#infra/local/control-plane/binaries.ts';
import { type Component, startComponent } from '#infra/local/control-plane/component.ts';
import { findFreePort } from '#infra/local/control-plane/port.ts';

const probeTimeoutMs = 2_000;

export interface EtcdMember extends Component {
  readonly name: string;
  /** `http://127.0.0.1:<port>`, the same over restarts. */
  readonly endpoint: string;
}

/** An etcd of three members, each of which can be killed and started again on its data. */
export interface ThreeEtcd extends AsyncDisposable {
  readonly members: readonly EtcdMember[];
  /** One address that leads each new connection to a member that lives, as a Service before them does. */
  readonly service: string;
}

/** Starts all three and resolves when each of them answers linearizable requests. They do not sync to disk. */
export async function startThreeEtcd(folder: string): Promise<ThreeEtcd> {
  const command = await obtainProgram('etcd');
  const plans = await Promise.all(['a', 'b', 'c'].map(async (name) => planOf(name)));
  const cluster = plans.map(({ name, peer }) => `${name}=${peer}`).join(',');
  await using started = new AsyncDisposableStack();
  const members = await Promise.all(
    plans.map(async ({ name, endpoint, peer }): Promise<EtcdMember> => {
      const dataDir = join(folder, name);
      await mkdir(dataDir, { recursive: true, mode: 0o700 });
      const component = await startComponent({
        name: `etcd member ${name}`,
        command,
        flags: [
          `--name=${name}`,
          `--data-dir=${join(dataDir, 'etcd')}`,
          `--listen-client-urls=${endpoint}`,
          `--advertise-client-urls=${endpoint}`,
          `--listen-peer-urls=${peer}`,
          `--initial-advertise-peer-urls=${peer}`,
          `--initial-cluster=${cluster}`,
          '--unsafe-no-fsync',
        ],
        logPath: join(dataDir, 'etcd.log'),
        isReady: () => isAnswering(endpoint),
      });
      started.defer(() => component.stop());
      return {
        name,
        endpoint,
        get pid() {
          return component.pid;
        },
        kill: () => component.kill(),
        restart: () => component.restart(),
        stop: () => component.stop(),
      };
    }),
  );
  const service = started.use(await serviceBefore(members));
  const owned = started.move();
  return {
    members,
    service: service.endpoint,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function planOf(name: string) {
  const url = async () => `http://127.0.0.1:${await findFreePort()}`;
  return { name, endpoint: await url(), peer: await url() };
}

/** The list of members is a linearizable read: it needs a leader and a quorum. */
async function isAnswering(endpoint: string): Promise<boolean> {
  const response = await fetch(`${endpoint}/v3/cluster/member/list`, {
    method: 'POST',
    body: '{}',
    signal: AbortSignal.timeout(probeTimeoutMs),
  });
  await response.arrayBuffer();
  return response.ok;
}

/** Connections go to the members in turn, and on to the next one where nobody listens. */
async function serviceBefore(members: readonly EtcdMember[]) {
  const sockets = new Set<Socket>();
  let turn = 0;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => sockets.delete(socket));
    turn += 1;
    lead(socket, [
      ...members.slice(turn % members.length),
      ...members.slice(0, turn % members.length),
    ]);
  });
  const port = await listen(server);
  return {
    endpoint: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      sockets.forEach((socket) => socket.destroy());
      await closed;
    },
  };
}

function lead(socket: Socket, [member, ...others]: readonly EtcdMember[]): void {
  if (member === undefined || socket.destroyed) {
    socket.destroy();
    return;
  }
  const behind = connect({ host: '127.0.0.1', port: Number(new URL(member.endpoint).port) });
  const next = () => lead(socket, others);
  behind.once('error', next);
  behind.once('connect', () => {
    behind.off('error', next);
    behind.on('error', () => undefined);
    behind.once('close', () => socket.destroy());
    socket.once('close', () => behind.destroy());
    socket.pipe(behind);
    behind.pipe(socket);
  });
}

async function listen(server: Server): Promise<number> {
  const port = await findFreePort();
  server.listen({ port, host: '127.0.0.1' });
  await once(server, 'listening');
  return port;
}
