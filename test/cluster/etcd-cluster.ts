import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { obtainProgram } from '#infra/local/control-plane/binaries.ts';
import { type Component, startComponent } from '#infra/local/control-plane/component.ts';
import { findFreePort, startOnFreePort } from '#infra/local/control-plane/port.ts';

export interface EtcdMember extends Component {
  readonly name: string;
  /** `http://127.0.0.1:<port>`, the same over restarts. */
  readonly endpoint: string;
}

export interface EtcdClusterOptions {
  /** Gets data and logs. */
  readonly folder: string;
  readonly count: number;
  /** How clients reach it. */
  readonly scheme: 'http' | 'https';
  /** Appended to each command line. */
  readonly flags?: readonly string[];
  readonly isReady: (endpoint: string) => Promise<boolean>;
}

/**
 * Starts the members of one etcd, each of which can be killed and started again on its data, and resolves when each is
 * ready. They do not sync to disk.
 */
export function startEtcdCluster(options: EtcdClusterOptions): Promise<readonly EtcdMember[]> {
  return startOnFreePort((port) => startMembers(options, port));
}

interface MemberPlan {
  readonly name: string;
  readonly port: number;
  readonly peer: string;
  /** All members and how they reach each other, as each of them is told. */
  readonly cluster: string;
  /** A start that lost the race for a port leaves nothing to the next one. */
  readonly folder: string;
}

/** All of them at once: none is ready before most of them are there. */
async function startMembers(
  options: EtcdClusterOptions,
  firstPort: number,
): Promise<readonly EtcdMember[]> {
  const folder = join(options.folder, String(firstPort));
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const places: { name: string; port: number; peer: string }[] = [];
  for (let place = 0; place < options.count; place += 1) {
    const port = place === 0 ? firstPort : await findFreePort();
    const peer = `http://127.0.0.1:${await findFreePort()}`;
    places.push({ name: `member-${place}`, port, peer });
  }
  const cluster = places.map(({ name, peer }) => `${name}=${peer}`).join(',');
  const started = await Promise.allSettled(
    places.map((place) => startMember(options, { ...place, cluster, folder })),
  );
  const members = started.flatMap((it) => (it.status === 'fulfilled' ? [it.value] : []));
  const failed = started.find((it) => it.status === 'rejected');
  if (failed !== undefined) {
    await Promise.all(members.map((member) => member.stop()));
    throw failed.reason;
  }
  return members;
}

async function startMember(
  { scheme, flags = [], isReady }: EtcdClusterOptions,
  { name, port, peer, cluster, folder }: MemberPlan,
): Promise<EtcdMember> {
  const endpoint = `${scheme}://127.0.0.1:${port}`;
  const component = await startComponent({
    name: `etcd ${name}`,
    command: await obtainProgram('etcd'),
    flags: [
      `--name=${name}`,
      `--data-dir=${join(folder, name)}`,
      `--listen-client-urls=${endpoint}`,
      `--advertise-client-urls=${endpoint}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=${cluster}`,
      '--unsafe-no-fsync',
      ...flags,
    ],
    logPath: join(folder, `${name}.log`),
    isReady: () => isReady(endpoint),
  });
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
}
