import { once } from 'node:events';
import { type Server, type Socket, connect, createServer } from 'node:net';
import { findFreePort } from '#infra/local/control-plane/port.ts';
import { type EtcdMember, startEtcdCluster } from './etcd-cluster.ts';

const probeTimeoutMs = 2_000;

/** An etcd of three members, each of which can be killed and started again on its data. */
export interface ThreeEtcd extends AsyncDisposable {
  readonly members: readonly EtcdMember[];
  /** One address that leads each new connection to a member that lives, as a Service before them does. */
  readonly service: string;
}

/** Starts all three and resolves when each of them answers linearizable requests. */
export async function startThreeEtcd(folder: string): Promise<ThreeEtcd> {
  const members = await startEtcdCluster({
    folder,
    count: 3,
    scheme: 'http',
    isReady: isAnswering,
  });
  await using started = new AsyncDisposableStack();
  members.forEach((member) => started.defer(() => member.stop()));
  const service = started.use(await serviceBefore(members));
  const owned = started.move();
  return {
    members,
    service: service.endpoint,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
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
