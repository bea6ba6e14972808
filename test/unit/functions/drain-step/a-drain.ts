import type { PoolerStatus, ShardRule } from '#shared/admin/admin.ts';
import type { DrainCause, DrainRecord, DrainState, Leaver } from '#shared/api/drain-record.ts';
import { type Instant, plusSeconds, toText } from '#shared/kernel/instant.ts';
import { present, unknown } from '#shared/kernel/read.ts';
import { recordText } from '#shared/kernel/record.ts';
import type { PoolerId, PoolerRecord, RuleNumber } from '#shared/topology/topology.ts';
import type { ClaimView, DrainSnapshot, Member } from '#functions/drain-step/snapshot.ts';

/** The instant at which every test looks. */
export const now = Date.parse('2026-01-01T00:10:00Z') as Instant;

export const shardUid = 'a3c1f0de-0000-4000-8000-000000000001';

const rule: RuleNumber = { term: '3', subterm: '1' };

/** `orders-2` → the uid of its pod. */
export function uidOf(pod: string): string {
  return `uid-${pod}`;
}

/** A shard of ready members `orders-0…`, the first of them primary, and nobody leaving; changed step by step. */
export class DrainBuilder {
  #snapshot: DrainSnapshot;

  constructor(count: number) {
    const pods = Array.from({ length: count }, (_, index) => `orders-${index}`);
    const shardRule: ShardRule = {
      rule,
      leader: poolerOf('orders-0'),
      cohort: pods.map(poolerOf),
      policy: { kind: 'at-least-n', requiredCount: 2 },
    };
    this.#snapshot = {
      shard: {
        namespace: 'db',
        name: 'orders',
        uid: shardUid,
        generation: 4,
        resourceVersion: '900',
        isPaused: false,
        isBeingDeleted: false,
        forcedPodUid: null,
        databaseName: 'main',
        deadlineSeconds: 300,
        pools: [
          {
            name: 'main',
            cells: ['zone-a'],
            replicasPerCell: count,
            isAttached: false,
            whenScaled: 'Retain',
          },
        ],
        drained: null,
        primary: null,
        drain: null,
      },
      record: { kind: 'none', text: null },
      database: present({
        shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
        ref: { namespace: 'db', name: 'main', uid: 'database-uid' },
        isPaused: false,
      }),
      topology: present({
        poolers: pods.map((pod) => poolerRecord(pod, pod === 'orders-0')),
        undecodable: [],
      }),
      members: present(pods.map(aMember)),
      statuses: pods.map((pod) => ({
        id: poolerOf(pod),
        status: present(poolerStatus(pod, shardRule)),
      })),
      nodes: {},
      claims: present(pods.map((pod) => aClaim(pod))),
      claimsInUse: present([]),
    };
  }

  build(): DrainSnapshot {
    return this.#snapshot;
  }

  with(change: Partial<DrainSnapshot>): this {
    this.#snapshot = { ...this.#snapshot, ...change };
    return this;
  }

  withShard(change: Partial<DrainSnapshot['shard']>): this {
    return this.with({ shard: { ...this.#snapshot.shard, ...change } });
  }

  wanting(replicasPerCell: number): this {
    return this.withPool({ replicasPerCell });
  }

  withPool(change: Partial<DrainSnapshot['shard']['pools'][number]>): this {
    return this.withShard({
      pools: this.#snapshot.shard.pools.map((pool) => ({ ...pool, ...change })),
    });
  }

  withMember(pod: string, change: Partial<Member>): this {
    const { members } = this.#snapshot;
    return members.kind === 'present'
      ? this.with({
          members: present(
            members.value.map((member) => (member.pod === pod ? { ...member, ...change } : member)),
          ),
        })
      : this;
  }

  requested(pod: string, why = 'node maintenance'): this {
    return this.withMember(pod, { request: why });
  }

  withoutPod(pod: string): this {
    const { members } = this.#snapshot;
    return members.kind === 'present'
      ? this.with({ members: present(members.value.filter((member) => member.pod !== pod)) })
      : this;
  }

  withPooler(pod: string, change: Partial<PoolerRecord>): this {
    const { topology } = this.#snapshot;
    return topology.kind === 'present'
      ? this.with({
          topology: present({
            ...topology.value,
            poolers: topology.value.poolers.map((pooler) =>
              pooler.id.name === pod ? { ...pooler, ...change } : pooler,
            ),
          }),
        })
      : this;
  }

  withStatus(pod: string, change: Partial<PoolerStatus> | null): this {
    return this.with({
      statuses: this.#snapshot.statuses.map((entry) =>
        entry.id.name !== pod
          ? entry
          : change === null
            ? { id: entry.id, status: unknown('unreachable') }
            : {
                id: entry.id,
                status:
                  entry.status.kind === 'present'
                    ? present({ ...entry.status.value, ...change })
                    : entry.status,
              },
      ),
    });
  }

  /** Changes the decided rule of every pooler. */
  withRule(change: Partial<ShardRule>): this {
    return this.with({
      statuses: this.#snapshot.statuses.map(({ id, status }) => ({
        id,
        status:
          status.kind === 'present' && status.value.decision !== null
            ? present({ ...status.value, decision: { ...status.value.decision, ...change } })
            : status,
      })),
    });
  }

  /** The lead has gone over to this pod under a newer rule. */
  ledBy(pod: string, under: RuleNumber = { term: '4', subterm: '1' }): this {
    const { topology } = this.#snapshot;
    const pods = topology.kind === 'present' ? topology.value.poolers.map(({ id }) => id.name) : [];
    for (const other of pods) {
      const isPrimary = other === pod;
      this.withPooler(other, {
        role: isPrimary ? 'primary' : 'replica',
        rule: isPrimary ? under : null,
      });
      this.withStatus(other, { role: isPrimary ? 'primary' : 'replica', isStreaming: !isPrimary });
    }
    return this.withRule({ rule: under, leader: poolerOf(pod) });
  }

  /** A drain of this pod is under way, in this state for so many seconds. */
  draining(
    pod: string,
    state: Exclude<DrainState, 'choosing'>,
    secondsAgo = 6,
    leaver: Partial<Leaver> = {},
  ): this {
    const since = toText(plusSeconds(now, -secondsAgo));
    const cause: DrainCause = leaver.cause ?? 'surplus';
    const record: DrainRecord = {
      v: 1,
      uid: shardUid,
      key: `drain-step/${shardUid}/${leaver.podUid ?? uidOf(pod)}`,
      state,
      generation: 4,
      attempt: 0,
      since,
      reason: 'GatesHold',
      wake: { every: 5 },
      data: {
        pod,
        podUid: uidOf(pod),
        node: 'node-1',
        claimUid: `claim-uid-${pod}`,
        pool: 'main',
        cell: 'zone-a',
        index: Number(pod.split('-').at(-1)),
        pooler: poolerOf(pod),
        startedAt: since,
        forced: false,
        ...leaver,
        cause,
      },
    };
    if (state === 'finished') {
      this.withMember(pod, { mirror: 'finished' });
    }
    return this.with({ record: { kind: 'ours', text: recordText(record), record } });
  }

  /** The pod has gone from a node that is Ready, and said so in the topology. */
  gone(pod: string): this {
    this.withoutPod(pod);
    this.with({ nodes: { 'node-1': present({ isReady: true }) } });
    return this.withPooler(pod, { lifecycle: 'shutdown', serving: 'disabled', role: 'none' });
  }

  /** The pod has gone without a drain; its claim is left, in a pool that deletes those of surplus members. */
  goneUnseen(pod: string): this {
    return this.withoutPod(pod).withStatus(pod, null).withPool({ whenScaled: 'Delete' });
  }

  /** The claim of a pod that went unseen is leaving. */
  drainingClaim(pod: string, state: Exclude<DrainState, 'choosing'>, secondsAgo = 6): this {
    const claimUid = `claim-uid-${pod}`;
    return this.draining(pod, state, secondsAgo, { podUid: claimUid, claimUid, node: '' });
  }

  withClaim(pod: string, change: Partial<ClaimView>): this {
    const { claims } = this.#snapshot;
    return claims.kind === 'present'
      ? this.with({
          claims: present(
            claims.value.map((claim) =>
              claim.name === `data-${pod}` ? { ...claim, ...change } : claim,
            ),
          ),
        })
      : this;
  }

  outOfCohort(pod: string): this {
    return this.with({
      statuses: this.#snapshot.statuses.map(({ id, status }) => ({
        id,
        status:
          status.kind === 'present' && status.value.decision !== null
            ? present({
                ...status.value,
                decision: {
                  ...status.value.decision,
                  cohort: status.value.decision.cohort.filter((member) => member.name !== pod),
                },
              })
            : status,
      })),
    });
  }
}

export function aShardOf(count: number): DrainBuilder {
  return new DrainBuilder(count);
}

export function poolerOf(pod: string): PoolerId {
  return { cell: 'zone-a', name: pod };
}

export function aMember(pod: string): Member {
  return {
    pod,
    uid: uidOf(pod),
    resourceVersion: '100',
    pool: 'main',
    cell: 'zone-a',
    index: Number(pod.split('-').at(-1)),
    node: 'node-1',
    hasEnded: false,
    isReady: true,
    isBeingDeleted: false,
    control: 'ours',
    isMarkedByOthers: false,
    request: null,
    mirror: null,
    claim: `data-${pod}`,
  };
}

export function aClaim(pod: string): ClaimView {
  return {
    name: `data-${pod}`,
    uid: `claim-uid-${pod}`,
    resourceVersion: '50',
    isBeingDeleted: false,
    released: null,
    member: { pod, pool: 'main', cell: 'zone-a', index: Number(pod.split('-').at(-1)) },
  };
}

function poolerRecord(pod: string, isPrimary: boolean): PoolerRecord {
  return {
    key: `/multigres/zone-a/poolers/multipooler-zone-a-${pod}/Pooler`,
    storeCell: 'zone-a',
    modRevision: '42',
    id: poolerOf(pod),
    shard: { database: 'postgres', tableGroup: 'default', shard: '0-inf' },
    hostname: `${pod}.orders.db.svc.cluster.local`,
    lifecycle: 'active',
    serving: 'serving',
    role: isPrimary ? 'primary' : 'replica',
    rule: isPrimary ? rule : null,
    generation: 'current',
  };
}

function poolerStatus(pod: string, decision: ShardRule): PoolerStatus {
  const isPrimary = pod === 'orders-0';
  return {
    id: poolerOf(pod),
    role: isPrimary ? 'primary' : 'replica',
    isReady: true,
    isStreaming: !isPrimary,
    decision,
    proposal: null,
  };
}
