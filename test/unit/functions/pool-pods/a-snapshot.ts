import { templateHash } from '#shared/api/annotations.ts';
import {
  budgetName,
  claimName,
  podName,
  serviceName,
  sharedBackupClaimName,
} from '#shared/api/names.ts';
import type { LeavingRecord } from '#shared/api/drain-record.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { absent, present, unknown } from '#shared/kernel/read.ts';
import { recordText } from '#shared/kernel/record.ts';
import type { Decision } from '#shared/kernel/decision.ts';
import type { Effect, EffectKind } from '#shared/kernel/effect.ts';
import type { KubeObject } from '#shared/kube/resources.ts';
import {
  managedGroupsOf,
  memberLabels,
  minAvailable,
  podHash,
  podMetadata,
  selectorOf,
} from '#functions/pool-pods/manifests.ts';
import type { PoolPodsRecord } from '#functions/pool-pods/record.ts';
import type { RepositoryWiring } from '#functions/pool-pods/repository-wiring.ts';
import type {
  ClaimView,
  PodView,
  PoolPodsSnapshot,
  ShardView,
} from '#functions/pool-pods/snapshot.ts';
import { aDrainOf } from '#test/builders/drain-record.ts';
import { type ShardBuilder, aShard } from '#test/builders/shard.ts';

export const now = Date.parse('2026-01-01T00:00:00Z') as Instant;

/** Backups in a file system that all members share. */
export const onSharedClaim: RepositoryWiring = {
  kind: 'sharedClaim',
  path: '/backups',
  storage: { size: '50Gi', accessModes: ['ReadWriteMany'] },
};

/** A converged shard of so many ready members, each on its claim; modifiers take it away from there. */
export function aSnapshotOf(count: number, shard = aShard().withPool(count)): SnapshotBuilder {
  return new SnapshotBuilder(snapshotOf(shard)).withMembers(...Array(count).keys());
}

export class SnapshotBuilder {
  readonly snapshot: PoolPodsSnapshot;

  constructor(snapshot: PoolPodsSnapshot) {
    this.snapshot = snapshot;
  }

  with(changes: Partial<PoolPodsSnapshot>): SnapshotBuilder {
    return new SnapshotBuilder({ ...this.snapshot, ...changes });
  }

  withShard(changes: Partial<ShardView>): SnapshotBuilder {
    return this.with({ shard: { ...this.snapshot.shard, ...changes } });
  }

  /** So many are wanted in each cell of the first pool. */
  wanting(replicasPerCell: number): SnapshotBuilder {
    const [first, ...others] = this.snapshot.shard.pools;
    return first === undefined
      ? this
      : this.withShard({ pools: [{ ...first, replicasPerCell }, ...others] });
  }

  /** Ready members at these indices, in the first pool and cell, each with its claim. */
  withMembers(...indices: readonly number[]): SnapshotBuilder {
    return indices.reduce<SnapshotBuilder>(
      (builder, index) => builder.withPod(index).withClaim(index),
      this,
    );
  }

  withPod(index: number, changes: Partial<PodView> = {}): SnapshotBuilder {
    const pods = this.snapshot.pods.kind === 'present' ? this.snapshot.pods.value : [];
    const pod = { ...podViewOf(this.snapshot.shard, index), ...changes };
    return this.with({ pods: present([...pods.filter(({ name }) => name !== pod.name), pod]) });
  }

  withoutPod(index: number): SnapshotBuilder {
    const pods = this.snapshot.pods.kind === 'present' ? this.snapshot.pods.value : [];
    return this.with({ pods: present(pods.filter(({ name }) => name !== this.pod(index))) });
  }

  withClaim(index: number, changes: Partial<ClaimView> = {}): SnapshotBuilder {
    const claims = this.snapshot.claims.kind === 'present' ? this.snapshot.claims.value : [];
    const claim = { ...claimViewOf(this.snapshot.shard, index), ...changes };
    return this.with({
      claims: present([...claims.filter(({ name }) => name !== claim.name), claim]),
    });
  }

  withoutClaim(index: number): SnapshotBuilder {
    const claims = this.snapshot.claims.kind === 'present' ? this.snapshot.claims.value : [];
    return this.with({
      claims: present(claims.filter(({ name }) => name !== claimName(this.pod(index)))),
    });
  }

  /** drain-step has a drain open about the pod at this index. */
  draining(
    index: number,
    state: LeavingRecord['state'],
    cause: LeavingRecord['data']['cause'],
  ): SnapshotBuilder {
    const { name, uid, generation } = this.snapshot.shard;
    const shard = { metadata: { name, uid, generation } } as KubeObject<'Shard'>;
    const record = aDrainOf(shard, index, state, { cause });
    return this.with({ drain: { kind: 'ours', text: recordText(record), record } });
  }

  /** The Database says that this is needed; pods that are there were made with what they carry. */
  withWiring(wiring: RepositoryWiring): SnapshotBuilder {
    return this.with({ database: present({ isPaused: false, wiring }) });
  }

  withPausedDatabase(): SnapshotBuilder {
    return this.with({ database: present({ isPaused: true, wiring: { kind: 'none' } }) });
  }

  /** The data plane was asked whether it has a complete backup. */
  withBackups(isOneComplete: boolean): SnapshotBuilder {
    return this.with({ backups: present({ isOneComplete }) });
  }

  /** The claim that the shard's backups are on. */
  withSharedClaim(changes: Partial<ClaimView> = {}): SnapshotBuilder {
    const { shard } = this.snapshot;
    const claims = this.snapshot.claims.kind === 'present' ? this.snapshot.claims.value : [];
    const name = sharedBackupClaimName(shard.name);
    const claim: ClaimView = {
      name,
      uid: `uid-of-${name}`,
      resourceVersion: '30',
      owner: 'foreign',
      isBeingDeleted: false,
      labels: selectorOf(shard.name),
      hasController: false,
      released: null,
      ...changes,
    };
    return this.with({ claims: present([...claims, claim]) });
  }

  withRecord(changes: Partial<PoolPodsRecord> = {}): SnapshotBuilder {
    const { uid, generation } = this.snapshot.shard;
    const record: PoolPodsRecord = {
      v: 1,
      uid,
      key: `pool-pods/${uid}/${generation}`,
      state: 'waiting',
      generation,
      attempt: 0,
      since: '2026-01-01T00:00:00Z',
      reason: 'MembersUnknown',
      wake: { every: 60 },
      data: {},
      ...changes,
    };
    return this.with({ record: { kind: 'ours', text: recordText(record), record } });
  }

  /** The name of the pod at an index of the first pool and cell. */
  pod(index: number): string {
    return podName(groupOf(this.snapshot.shard).base, index);
  }
}

function snapshotOf(builder: ShardBuilder): PoolPodsSnapshot {
  const { metadata, spec, status } = builder.build();
  const shard: ShardView = {
    namespace: 'db',
    name: metadata.name,
    uid: metadata.uid,
    generation: metadata.generation ?? 0,
    resourceVersion: metadata.resourceVersion,
    isPaused: spec.paused,
    isBeingDeleted: metadata.deletionTimestamp !== undefined,
    databaseName: spec.databaseRef.name,
    pools: spec.pools,
    conditions: status?.conditions ?? [],
    observedGeneration: status?.observedGeneration ?? null,
    poolStatuses: status?.pools ?? [],
  };
  const owned = { uid: 'uid', resourceVersion: '5', owner: 'ours', isBeingDeleted: false } as const;
  return {
    shard,
    record: { kind: 'none', text: null },
    drain: { kind: 'none', text: null },
    pods: present([]),
    service: present({ ...owned, name: serviceName(shard.name), selector: selectorOf(shard.name) }),
    budgets: present(
      managedGroupsOf(shard).map((group) => ({
        ...owned,
        name: budgetName(group.base),
        minAvailable: minAvailable(group),
        selector: selectorOf(shard.name, group),
      })),
    ),
    claims: present([]),
    database: present({ isPaused: false, wiring: { kind: 'none' } }),
    backups: unknown('it was not asked'),
  };
}

function podViewOf(shard: ShardView, index: number): PodView {
  const group = groupOf(shard);
  const { labels, annotations } = podMetadata(shard.name, group, index);
  const name = podName(group.base, index);
  return {
    name,
    uid: `uid-of-${name}`,
    resourceVersion: '10',
    owner: 'ours',
    isBeingDeleted: false,
    labels,
    annotations: { ...annotations, [templateHash]: podHash(shard, group, index, { kind: 'none' }) },
    isReady: true,
    hasStarted: true,
  };
}

function claimViewOf(shard: ShardView, index: number): ClaimView {
  const group = groupOf(shard);
  const name = claimName(podName(group.base, index));
  return {
    name,
    uid: `uid-of-${name}`,
    resourceVersion: '20',
    owner: 'foreign',
    isBeingDeleted: false,
    labels: memberLabels(shard.name, group, index),
    hasController: false,
    released: null,
  };
}

function groupOf(shard: ShardView) {
  const [group] = managedGroupsOf(shard);
  if (group === undefined) {
    throw new Error('the shard has no pool whose pods Millrace makes');
  }
  return group;
}

export const notRead = unknown('listing pods: 403 Forbidden');
export const notThere = absent;

/** What a decision writes, in order, without the status: `create Pod <name>`, `patch Service <name>`, `advance`. */
export function writesOf({ effects }: Decision): readonly string[] {
  const all: readonly Effect[] = effects;
  return all
    .filter(({ kind }) => kind !== 'applyStatus')
    .map((effect) => {
      const { object } = 'object' in effect ? effect : {};
      const verb = effect.kind.replace('Object', '');
      return object === undefined ? verb : `${verb} ${object.kind} ${object.name}`;
    });
}

export function effectOf<K extends EffectKind>(
  decision: Decision,
  kind: K,
): Extract<Effect, { readonly kind: K }> {
  const all: readonly Effect[] = decision.effects;
  const found = all.find(
    (effect): effect is Extract<Effect, { readonly kind: K }> => effect.kind === kind,
  );
  if (found === undefined) {
    throw new Error(`the decision has no ${kind}`);
  }
  return found;
}

/** `True MembersReady`: a condition as the decision applies it. */
export function conditionIn(decision: Decision, type: string): string {
  const { status } = effectOf(decision, 'applyStatus');
  const conditions = status['conditions'] as readonly {
    readonly type: string;
    readonly status: string;
    readonly reason: string;
  }[];
  const found = conditions.find((condition) => condition.type === type);
  return found === undefined ? 'none' : `${found.status} ${found.reason}`;
}
