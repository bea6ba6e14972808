import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import * as z from 'zod';
import { obtainProgram } from './binaries.ts';
import { type Component, startComponent } from './component.ts';
import type { BinarySettings } from './config.ts';
import { startOnFreePort } from './port.ts';
import type { OnProgress } from './progress.ts';

const probeTimeoutMs = 2_000;

export interface EtcdOptions {
  /** Made when it is missing; keeps the data over stop and start. Holds `etcd.log` as well. */
  readonly dataDir: string;
  readonly onProgress?: OnProgress | undefined;
  /** Told in one message when etcd ends though nobody killed or stopped it. */
  readonly onUnexpectedExit?: ((message: string) => void) | undefined;
  /** Appended to the command line: `--auth-token=simple`. */
  readonly flags?: readonly string[];
  readonly binaries?: BinarySettings | undefined;
}

export interface Etcd extends Component, AsyncDisposable {
  /** `http://127.0.0.1:<port>`: no TLS, no sign-in, reachable from this machine only. */
  readonly endpoint: string;
}

/**
 * Starts a single etcd on a free port and resolves when it answers linearizable requests.
 *
 * It does not sync to disk: its data survives its own death, not that of the machine.
 */
export async function startEtcd(options: EtcdOptions): Promise<Etcd> {
  const command = await obtainProgram('etcd', options.onProgress, options.binaries);
  const dataDir = resolve(options.dataDir);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  return startOnFreePort(async (port) => {
    const endpoint = `http://127.0.0.1:${port}`;
    // Tells our own etcd from one of somebody else that took the port first and answers in its place.
    const name = `millrace-${randomUUID()}`;
    const etcd = await startComponent({
      name: 'etcd',
      command,
      flags: [
        `--name=${name}`,
        `--data-dir=${join(dataDir, 'etcd')}`,
        `--listen-client-urls=${endpoint}`,
        `--advertise-client-urls=${endpoint}`,
        // A single member never talks to a peer, so any port will do.
        '--listen-peer-urls=http://127.0.0.1:0',
        '--unsafe-no-fsync',
        ...(options.flags ?? []),
      ],
      logPath: join(dataDir, 'etcd.log'),
      isReady: () => isMember(endpoint, name),
      onProgress: options.onProgress,
      onUnexpectedExit: options.onUnexpectedExit,
    });
    return {
      endpoint,
      get pid() {
        return etcd.pid;
      },
      kill: () => etcd.kill(),
      restart: () => etcd.restart(),
      stop: () => etcd.stop(),
      [Symbol.asyncDispose]: () => etcd.stop(),
    };
  });
}

const memberList = z.object({ members: z.array(z.object({ name: z.string().optional() })) });

/** Asks etcd's JSON gateway for the members, a linearizable read: it needs an elected leader. */
async function isMember(endpoint: string, name: string): Promise<boolean> {
  const response = await fetch(`${endpoint}/v3/cluster/member/list`, {
    method: 'POST',
    body: '{}',
    signal: AbortSignal.timeout(probeTimeoutMs),
  });
  const list = memberList.parse(await response.json());
  return list.members.some((member) => member.name === name);
}
