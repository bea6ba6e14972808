import type { PoolerStatus } from '#shared/admin/admin.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { type Instant, plusSeconds, toText } from '#shared/kernel/instant.ts';
import { present, unknown } from '#shared/kernel/read.ts';
import { recordText } from '#shared/kernel/record.ts';
import type { PoolerId, PoolerRecord, RuleNumber } from '#shared/topology/topology.ts';
import { decide } from '#functions/etcd-cleanup/decide.ts';
import {
  type CleanupData,
  type CleanupRecord,
  type SeenEntry,
  readCleanupRecord,
} from '#functions/etcd-cleanup/record.ts';
import type { CleanupSnapshot } from '#functions/etcd-cleanup/snapshot.ts';
import { hashOf } from '#functions/etcd-cleanup/stale.ts';
import { shardUid } from '#test/builders/shard.ts';

/** The instant at which every test looks; quiet times are ten minutes, and a day. */
export const now = Date.parse('2026-01-02T12:00:00Z') as Instant;

export const quietSeconds = 600;
export const deleteAfterSeconds = 86_400;

export const rule: RuleNumber = { term: '3', subterm: '1' };

export function idOf(name: string): PoolerId {
  return { cell: 'zone-a', name };
}

/** The record of a live replica whose hostname is its name. */
export function aPooler(name: string, changes: Partial<PoolerRecord> = {}): PoolerRecord {
  return {
    key: `/multigres/zone-a/poolers/multipooler-zone-a-${name}/Pooler`,
    storeCell: 'zone-a',
    modRevision: '40',
    id: idOf(name),
    shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
    hostname: name,
    lifecycle: 'active',
    serving: 'serving',
    role: 'replica',
    rule: null,
    generation: 'current',
    ...changes,
  };
}

export const stopped: Partial<PoolerRecord> = {
  lifecycle: 'shutdown',
  serving: 'disabled',
  role: 'none',
};

export function aStatus(name: string, changes: Partial<PoolerStatus> = {}): PoolerStatus {
  return {
    id: idOf(name),
    role: 'replica',
    isReady: true,
    isStreaming: true,
    decision: null,
    proposal: null,
    ...changes,
  };
}

/** The words of `orders-0`, which leads by a rule that counts on these. */
export function leading(...cohort: readonly string[]): PoolerStatus {
  return aStatus('orders-0', {
    role: 'primary',
    decision: {
      rule,
      leader: idOf('orders-0'),
      cohort: cohort.map(idOf),
      policy: { kind: 'at-least-n', requiredCount: 2 },
    },
  });
}

/** The entry that our record has of one that was first seen so long ago. */
export function seenFor(record: PoolerRecord, seconds: number): SeenEntry {
  return [hashOf(record), record.modRevision, now / 1000 - seconds];
}

/** Members `orders-0` (which leads) to `orders-2` with their pods and records, and nothing else. */
export function aShardOfThree(): SnapshotBuilder {
  const pods = ['orders-0', 'orders-1', 'orders-2'];
  return new SnapshotBuilder({
    shard: {
      namespace: 'db',
      name: 'orders',
      uid: shardUid,
      generation: 1,
      resourceVersion: '10',
      isPaused: false,
      isBeingDeleted: false,
      databaseName: 'main',
      isEnabled: true,
      quietSeconds,
      deleteAfterSeconds,
      maxPerPass: 1,
      groups: [{ base: 'orders', replicas: 3 }],
      condition: null,
      cleanup: null,
    },
    record: { kind: 'none', text: null },
    drain: { kind: 'none' },
    readAt: now,
    database: present({
      shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
      ref: { namespace: 'db', name: 'main', uid: 'database-uid' },
      isPaused: false,
    }),
    topology: present({
      poolers: [
        aPooler('orders-0', { role: 'primary', rule }),
        aPooler('orders-1'),
        aPooler('orders-2'),
      ],
      undecodable: [],
    }),
    members: present(pods),
    pods: present(pods),
    statuses: [{ id: idOf('orders-0'), status: present(leading(...pods)) }],
  });
}

export class SnapshotBuilder {
  readonly #snapshot: CleanupSnapshot;

  constructor(snapshot: CleanupSnapshot) {
    this.#snapshot = snapshot;
  }

  with(changes: Partial<CleanupSnapshot>): SnapshotBuilder {
    return new SnapshotBuilder({ ...this.#snapshot, ...changes });
  }

  shard(changes: Partial<CleanupSnapshot['shard']>): SnapshotBuilder {
    return this.with({ shard: { ...this.#snapshot.shard, ...changes } });
  }

  /** Records besides those of the members; who is asked of them does not answer. */
  records(...records: readonly PoolerRecord[]): SnapshotBuilder {
    const { topology, statuses } = this.#snapshot;
    const listing = topology.kind === 'present' ? topology.value : { poolers: [], undecodable: [] };
    return this.with({
      topology: present({ ...listing, poolers: [...listing.poolers, ...records] }),
      statuses: [
        ...statuses,
        ...records.map(({ id }) => ({ id, status: unknown('no route to host') })),
      ],
    });
  }

  undecodable(key: string): SnapshotBuilder {
    const { topology } = this.#snapshot;
    const poolers = topology.kind === 'present' ? topology.value.poolers : [];
    return this.with({ topology: present({ poolers, undecodable: [{ key, why: 'broken' }] }) });
  }

  answering(status: PoolerStatus): SnapshotBuilder {
    const others = this.#snapshot.statuses.filter(({ id }) => id.name !== status.id.name);
    return this.with({ statuses: [...others, { id: status.id, status: present(status) }] });
  }

  withPod(name: string): SnapshotBuilder {
    const { pods } = this.#snapshot;
    return this.with({ pods: present([...(pods.kind === 'present' ? pods.value : []), name]) });
  }

  recorded(data: Partial<CleanupData>, changes: Partial<CleanupRecord> = {}): SnapshotBuilder {
    const { uid, generation } = this.#snapshot.shard;
    const record: CleanupRecord = {
      v: 1,
      uid,
      key: `etcd-cleanup/${uid}/${generation}`,
      state: 'watching',
      generation,
      attempt: 0,
      since: toText(plusSeconds(now, -quietSeconds)),
      reason: 'StaleRecords',
      wake: { at: toText(now) },
      data: { seen: [], ...data },
      ...changes,
    };
    return this.with({
      record: readCleanupRecord({
        uid,
        annotations: { [recordAnnotation('etcd-cleanup')]: recordText(record) },
      }),
    });
  }

  /** Watched for so many seconds, each of these. */
  seen(seconds: number, ...records: readonly PoolerRecord[]): SnapshotBuilder {
    return this.records(...records).recorded({
      seen: records.map((record) => seenFor(record, seconds)),
    });
  }

  /** Our record authorises the change of this one, in the revision it has here. */
  acting(state: 'retiring' | 'deleting', record: PoolerRecord): SnapshotBuilder {
    const seconds = state === 'retiring' ? quietSeconds : deleteAfterSeconds;
    return this.recorded(
      {
        seen: [seenFor(record, seconds)],
        pass: [now / 1000, 1],
        act: { pooler: `${record.id.cell}/${record.id.name}`, rev: record.modRevision },
      },
      {
        state,
        key: `etcd-cleanup/${shardUid}/${hashOf(record)}/${record.modRevision}`,
        wake: { every: 15 },
      },
    );
  }

  build(): CleanupSnapshot {
    return this.#snapshot;
  }

  decide(seconds = 0) {
    const at = plusSeconds(now, seconds);
    return decide({ ...this.#snapshot, readAt: at }, at);
  }

  /** Decides this long after reading began. */
  decideAfterReading(seconds: number) {
    return decide(this.#snapshot, plusSeconds(now, seconds));
  }
}

type Decided = ReturnType<typeof decide>;

export function kindsOf({ effects }: Decided): string[] {
  return effects.map(({ kind }) => kind);
}

export function changeIn({ effects }: Decided) {
  return effects.find((effect) => effect.kind === 'topologyTxn');
}

/** Our record as the decision leaves it; `undefined` where it writes none. */
export function recordAfter({ effects }: Decided): CleanupRecord | null | undefined {
  const advance = effects.find((effect) => effect.kind === 'advance');
  return advance?.kind === 'advance' ? (advance.record as CleanupRecord | null) : undefined;
}

export function statusAfter({ effects }: Decided) {
  const apply = effects.find((effect) => effect.kind === 'applyStatus');
  return apply?.kind === 'applyStatus' ? apply.status : undefined;
}
