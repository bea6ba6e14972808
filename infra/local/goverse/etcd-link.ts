import { noop } from 'cockatiel';
import { CompareResult, CompareTarget, Etcd3, type IKeyValue, type Watcher } from 'etcd3';
import pLimit from 'p-limit';
import type { EtcdAccess } from '#infra/local/control-plane/etcd-access.ts';
import { type GoverseKeys, shardKey } from '#shared/goverse/keys.ts';
import { formatShard } from '#shared/goverse/shard-value.ts';
import type { KeyChange, LiveView } from './cluster-view.ts';
import type { Rewrite } from './rules.ts';
import type { TickLink } from './tick.ts';

/** What is told of a watch besides the changes themselves. */
interface WatchEvents {
  onChanges(changes: readonly KeyChange[], revision: number): void;
  /** It was broken and goes on where it was. */
  onReconnected(): void;
  /** It is over, and what happened since its last change is unknown. */
  onLost(): void;
}

/** How long a member waits for an answer. One that is killed with the connection open would hold a tick up for ever. */
const requestTimeoutMs = 5_000;

/** @param endpoint `http(s)://host:port` */
export function connectEtcd(
  endpoint: string,
  { otherEndpoints, ca, certificate, key, username, password = '' }: EtcdAccess = {
    otherEndpoints: [],
  },
): Etcd3 {
  return new Etcd3({
    hosts: [endpoint, ...otherEndpoints],
    faultHandling: { global: noop, host: () => noop },
    ...(ca === undefined
      ? {}
      : {
          credentials: {
            rootCertificate: Buffer.from(ca),
            ...(key === undefined ? {} : { privateKey: Buffer.from(key) }),
            ...(certificate === undefined ? {} : { certChain: Buffer.from(certificate) }),
          },
        }),
    ...(username === undefined ? {} : { auth: { username, password } }),
    // A watch and the signs of life of a lease are streams: they last.
    defaultCallOptions: ({ isStream }) =>
      isStream ? {} : { deadline: new Date(Date.now() + requestTimeoutMs) },
  });
}

/** All keys of a cluster, and the revision they were read at. */
export async function readAll(
  client: Etcd3,
  keys: GoverseKeys,
): Promise<{ readonly revision: number; readonly entries: readonly KeyChange[] }> {
  const answer = await client.kv.range({
    key: Buffer.from(keys.all),
    // The character after the slash that every prefix ends with.
    range_end: Buffer.from(`${keys.all.slice(0, -1)}0`),
  });
  return {
    revision: Number(answer.header.revision),
    entries: answer.kvs.map((entry) => changeOf(entry, false)),
  };
}

/** Watches all keys of a cluster from after the revision on. */
export async function watchAll(
  client: Etcd3,
  keys: GoverseKeys,
  revision: number,
  events: WatchEvents,
): Promise<Watcher> {
  const watcher = await client
    .watch()
    .prefix(keys.all)
    .startRevision(String(revision + 1))
    .create();
  watcher.on('data', (answer) => {
    events.onChanges(
      answer.events.map(({ kv, type }) => changeOf(kv, type === 'Delete')),
      Number(answer.header.revision),
    );
  });
  watcher.on('connected', () => events.onReconnected());
  watcher.on('error', () => events.onLost());
  return watcher;
}

function changeOf(
  { key, value, mod_revision: modRevision }: IKeyValue,
  isDeleted: boolean,
): KeyChange {
  return {
    key: key.toString('utf8'),
    value: isDeleted ? null : value.toString('utf8'),
    modRevision: Number(modRevision),
  };
}

interface NodeLinkOptions {
  readonly client: Etcd3;
  readonly keys: GoverseKeys;
  readonly self: string;
  readonly shardCount: number;
  readonly view: LiveView;
  /** Told the revision of each write of this node, in no order. */
  readonly onWritten: (revision: number) => void;
}

/** A node's writes: one transaction per key, several at a time, each only while the key is as the view has it. */
export class NodeLink implements TickLink {
  readonly #options: NodeLinkOptions;
  readonly #limit: <T>(work: () => Promise<T>) => Promise<T>;
  #isStopped = false;

  constructor(options: NodeLinkOptions) {
    this.#options = options;
    // As many workers as GoVerse has.
    this.#limit = pLimit(Math.max(1, Math.floor(options.shardCount / 512)));
  }

  /** Who stops writes no more, also where a tick is under way. */
  stop(): void {
    this.#isStopped = true;
  }

  async campaign(leaderRevision: number): Promise<void> {
    const { keys, self } = this.#options;
    await this.#swap(keys.leader, self, leaderRevision);
  }

  async write(writes: readonly Rewrite[]): Promise<readonly Rewrite[]> {
    const written = await Promise.all(
      writes.map((write) => this.#limit(() => this.#writeShard(write))),
    );
    return writes.filter((_, place) => written[place]);
  }

  async #writeShard({ shard, modRevision, ...value }: Rewrite): Promise<boolean> {
    const { keys, view } = this.#options;
    const revision = await this.#swap(shardKey(keys, shard), formatShard(value), modRevision);
    if (revision === undefined) {
      return false;
    }
    view.wrote(shard, value, revision);
    return true;
  }

  /** The new revision; `undefined` where the key was written by others meanwhile, or etcd cannot be reached. */
  async #swap(key: string, value: string, modRevision: number): Promise<number | undefined> {
    if (this.#isStopped) {
      return undefined;
    }
    const bytes = Buffer.from(key);
    try {
      const answer = await this.#options.client.kv.txn({
        compare: [
          {
            key: bytes,
            target: CompareTarget.Mod,
            result: CompareResult.Equal,
            mod_revision: String(modRevision),
          },
        ],
        success: [{ request_put: { key: bytes, value: Buffer.from(value) } }],
      });
      if (!answer.succeeded) {
        return undefined;
      }
      this.#options.onWritten(Number(answer.header.revision));
      return Number(answer.header.revision);
    } catch {
      return undefined;
    }
  }
}
