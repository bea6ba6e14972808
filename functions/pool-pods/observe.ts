import { isReady } from '#shared/kube/readiness.ts';
import pLimit from 'p-limit';
import type { Backup } from '#shared/admin/admin.ts';
import { recordAnnotation, releasedClaim } from '#shared/api/annotations.ts';
import { isOfStep } from '#shared/api/condition.ts';
import type { Database } from '#shared/api/database.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import { serviceName } from '#shared/api/names.ts';
import type { Ports } from '#shared/kernel/ports.ts';
import { type Present, type Read, mapRead, present, unknown } from '#shared/kernel/read.ts';
import { readRecord } from '#shared/kernel/record.ts';
import { targetView } from '#shared/kernel/target-view.ts';
import type { KubeObject, ObjectRef, ResourceKind } from '#shared/kube/resources.ts';
import { managedGroupsOf, selectorOf } from './manifests.ts';
import { mayLackClaims, needsClaims, planOf, wantsChange, worksOfOneLook } from './plan.ts';
import { poolPodsRecordSchema } from './record.ts';
import { wiringOf } from './repository-wiring.ts';
import { isGrowing } from './status.ts';
import type {
  BackupsView,
  BudgetView,
  ClaimView,
  DatabaseView,
  OwnedView,
  Owner,
  PodView,
  PoolPodsSnapshot,
  ServiceView,
  ShardView,
} from './snapshot.ts';

/** Names asked for at the same time. */
const questionsAtOnce = 5;

/**
 * Reads what pool-pods decides from.
 *
 * A converged shard costs four reads: its pods, its Service, its budgets, and its Database, which has a part in what a pod
 * is to be. Only where something is to be made or changed the claims, and then the pods once more are read: a claim's
 * version may be compared by a write, so the pods, which say whether the claim is in use, are read after it. Names about
 * to be used are looked up one by one, because whoever else stands there need not carry our labels. Only while a member is
 * to join those that are ready the data plane is asked for their backups.
 */
export async function observe(
  target: Present<KubeObject<'Shard'>>,
  ports: Ports,
  signal: AbortSignal,
): Promise<PoolPodsSnapshot> {
  const { metadata } = target.value;
  const shard = shardView(target.value);
  const record = readRecord(
    metadata.annotations?.[recordAnnotation('pool-pods')],
    metadata.uid,
    poolPodsRecordSchema,
  );
  const quiet = { shard, record, drain: readDrainRecord(metadata), ...nothingAsked };
  if (shard.isBeingDeleted || record.kind === 'foreign') {
    return quiet;
  }
  const reader = shardReader(target.value, shard, ports, signal);
  if (managedGroupsOf(shard).length === 0) {
    return { ...quiet, pods: await reader.pods() };
  }
  if (shard.isPaused || record.kind === 'unreadable') {
    const [pods, database] = await Promise.all([reader.pods(), reader.database()]);
    return { ...quiet, pods, database: mapRead(database, databaseView) };
  }
  const [pods, service, budgets, database] = await Promise.all([
    reader.pods(),
    reader.service(),
    reader.budgets(),
    reader.database(),
  ]);
  const known = { ...quiet, pods, service, budgets, database: mapRead(database, databaseView) };
  return database.kind === 'present' ? withNeeds(known, database.value, reader) : known;
}

/** Adds what has to be known of a shard that lacks something; of one that lacks nothing there is nothing more to ask. */
async function withNeeds(
  known: PoolPodsSnapshot,
  database: Database,
  reader: Reader,
): Promise<PoolPodsSnapshot> {
  const [starting, backups] = await Promise.all([
    mayLackClaims(known) ? reader.claims() : notAsked,
    isGrowing(known) && !database.spec.paused ? reader.backups(database) : notAsked,
  ]);
  const seen = { ...known, claims: starting, backups };
  if (!wantsChange(seen)) {
    return seen;
  }
  if (!needsClaims(seen)) {
    return withStanding(seen, reader);
  }
  const claims = starting === notAsked ? await reader.claims() : starting;
  return withStanding({ ...seen, claims, pods: await reader.pods() }, reader);
}

type Reader = ReturnType<typeof shardReader>;

const notAsked = unknown('it was not asked');

const nothingAsked = {
  pods: notAsked,
  service: notAsked,
  budgets: notAsked,
  claims: notAsked,
  database: notAsked,
  backups: notAsked,
} as const;

/**
 * Adds whatever stands under a name that would be used now: a write must not find out what a read can. What is found may
 * leave room for further works in the same look, whose names are asked for then.
 */
async function withStanding(snapshot: PoolPodsSnapshot, reader: Reader): Promise<PoolPodsSnapshot> {
  let seen = snapshot;
  const asked = new Set<string>();
  for (;;) {
    const names = namesToUse(seen).filter(({ kind, name }) => !asked.has(`${kind} ${name}`));
    if (names.length === 0) {
      return seen;
    }
    names.forEach(({ kind, name }) => asked.add(`${kind} ${name}`));
    const namesOf = (kind: ResourceKind) =>
      names.filter((object) => object.kind === kind).map(({ name }) => name);
    const [pods, claims, budgets] = await Promise.all([
      reader.podsNamed(namesOf('Pod')),
      reader.claimsNamed(namesOf('PersistentVolumeClaim')),
      reader.budgetsNamed(namesOf('PodDisruptionBudget')),
    ]);
    seen = {
      ...seen,
      pods: joined(seen.pods, pods),
      claims: joined(seen.claims, claims),
      budgets: joined(seen.budgets, budgets),
    };
  }
}

/** The names under which this look would make something, as far as is known. */
function namesToUse(snapshot: PoolPodsSnapshot): readonly ObjectRef[] {
  return worksOfOneLook(planOf(snapshot)).flatMap(({ effects }) =>
    effects.flatMap((effect) => (effect.kind === 'createObject' ? [effect.object] : [])),
  );
}

/** The reads of one shard, each as the view that `decide` knows. */
function shardReader(
  { spec }: KubeObject<'Shard'>,
  shard: ShardView,
  ports: Ports,
  signal: AbortSignal,
) {
  const { kube } = ports;
  const { namespace } = shard;
  const options = { namespace, labels: selectorOf(shard.name) };
  const limit = pLimit(questionsAtOnce);

  async function list<K extends ResourceKind, V>(
    kind: K,
    view: (object: KubeObject<K>, shard: ShardView) => V,
  ): Promise<Read<readonly V[]>> {
    const read = await kube.list(kind, options, signal);
    return mapRead(read, (objects) => objects.map((object) => view(object, shard)));
  }

  async function named<K extends ResourceKind, V>(
    kind: K,
    names: readonly string[],
    view: (object: KubeObject<K>, shard: ShardView) => V,
  ): Promise<readonly Read<V>[]> {
    const refs = names.map((name): ObjectRef<K> => ({ kind, namespace, name }));
    const reads = await Promise.all(refs.map((ref) => limit(() => kube.get(ref, signal))));
    return reads.map((read) => mapRead(read, (object) => view(object, shard)));
  }

  return {
    pods: () => list('Pod', podView),
    claims: () => list('PersistentVolumeClaim', claimView),
    budgets: () => list('PodDisruptionBudget', budgetView),
    podsNamed: (names: readonly string[]) => named('Pod', names, podView),
    claimsNamed: (names: readonly string[]) => named('PersistentVolumeClaim', names, claimView),
    budgetsNamed: (names: readonly string[]) => named('PodDisruptionBudget', names, budgetView),
    async service(): Promise<Read<ServiceView>> {
      const ref = { kind: 'Service', namespace, name: serviceName(shard.name) } as const;
      return mapRead(await kube.get(ref, signal), (object) => serviceView(object, shard));
    },
    database: () =>
      kube.get({ kind: 'Database', namespace, name: shard.databaseName } as const, signal),
    async backups(database: Database): Promise<Read<BackupsView>> {
      const { tableGroup, shard: name } = spec;
      const key = { database: database.spec.name, tableGroup, shard: name };
      return mapRead(await ports.admin(database).backups(key, signal), backupsView);
    },
  };
}

function shardView(shard: KubeObject<'Shard'>): ShardView {
  const { spec, status } = shard;
  return {
    ...targetView(shard),
    databaseName: spec.databaseRef.name,
    pools: spec.pools,
    conditions: (status?.conditions ?? []).filter(isOfStep),
    observedGeneration: status?.observedGeneration ?? null,
    poolStatuses: status?.pools ?? [],
  };
}

function databaseView({ spec }: Database): DatabaseView {
  return { isPaused: spec.paused, wiring: wiringOf(spec) };
}

function backupsView(backups: readonly Backup[]): BackupsView {
  return {
    isOneComplete: backups.some(({ status }) => status === 'complete' || status === 'unknown'),
  };
}

function podView(pod: KubeObject<'Pod'>, shard: ShardView): PodView {
  const { labels = {}, annotations = {} } = pod.metadata;
  return {
    ...ownedView(pod, shard),
    labels,
    annotations,
    isReady: isReady(pod),
    hasStarted: (pod.status?.phase ?? 'Pending') !== 'Pending',
  };
}

function claimView(claim: KubeObject<'PersistentVolumeClaim'>, shard: ShardView): ClaimView {
  const { labels = {}, annotations = {} } = claim.metadata;
  return {
    ...ownedView(claim, shard),
    labels,
    hasController: controllerOf(claim) !== undefined,
    released: annotations[releasedClaim] ?? null,
  };
}

function serviceView(service: KubeObject<'Service'>, shard: ShardView): ServiceView {
  return { ...ownedView(service, shard), selector: service.spec?.selector ?? {} };
}

function budgetView(budget: KubeObject<'PodDisruptionBudget'>, shard: ShardView): BudgetView {
  const { minAvailable, selector } = budget.spec ?? {};
  return {
    ...ownedView(budget, shard),
    minAvailable: typeof minAvailable === 'number' ? minAvailable : null,
    selector: selector?.matchLabels ?? {},
  };
}

type Owned = KubeObject<'Pod' | 'PersistentVolumeClaim' | 'PodDisruptionBudget' | 'Service'>;

function ownedView(object: Owned, shard: ShardView): OwnedView {
  const { name, uid, resourceVersion, deletionTimestamp } = object.metadata;
  return {
    name,
    uid,
    resourceVersion,
    owner: ownerOf(object, shard),
    isBeingDeleted: deletionTimestamp !== undefined,
  };
}

function ownerOf(object: Owned, shard: ShardView): Owner {
  const controller = controllerOf(object);
  if (controller?.uid === shard.uid) {
    return 'ours';
  }
  const isOfSameName = controller?.kind === 'Shard' && controller.name === shard.name;
  return isOfSameName ? 'former' : 'foreign';
}

function controllerOf({ metadata }: Owned) {
  return metadata.ownerReferences?.find((owner) => owner.controller === true);
}

/** A list and what was found by name besides. A name that could not be asked makes the whole unknown. */
function joined<V extends { readonly name: string }>(
  list: Read<readonly V[]>,
  found: readonly Read<V>[],
): Read<readonly V[]> {
  const doubt = found.find((read) => read.kind === 'unknown');
  if (list.kind !== 'present' || doubt?.kind === 'unknown') {
    return doubt?.kind === 'unknown' ? doubt : list;
  }
  const further = found.flatMap((read) => (read.kind === 'present' ? [read.value] : []));
  return present([
    ...list.value.filter(({ name }) => !further.some((other) => other.name === name)),
    ...further,
  ]);
}
