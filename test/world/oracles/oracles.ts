import {
  drainMirror,
  forceDrain,
  recordAnnotation,
  releasedClaim,
} from '#shared/api/annotations.ts';
import { type LeavingRecord, readDrainRecord } from '#shared/api/drain-record.ts';
import { cellLabel, goverseLabel, poolLabel, shardLabel } from '#shared/api/labels.ts';
import { stepNames } from '#shared/api/steps.ts';
import { type Instant, parseInstant, secondsBetween } from '#shared/kernel/instant.ts';
import { isReady } from '#shared/kube/readiness.ts';
import type { KubeRequest } from '#shared/kube/connection.ts';
import type { KubeObject, ResourceKind } from '#shared/kube/resources.ts';
import { isSamePooler } from '#shared/topology/topology.ts';
import type { Commit, StoredObject } from '#test/world/model/api-server.ts';
import { fieldOfTheFuture, garbledValue } from '#test/world/run/pooler-records.ts';
import { worldClusterId, worldNamespace } from '#test/world/run/handler.ts';
import type { Truth } from '#test/world/run/truth.ts';
import {
  type InFlight,
  type Operation,
  type Seen,
  type Witness,
  type World,
  type Write,
  nameOf,
} from '#test/world/run/world.ts';
import type { Tally } from './tally.ts';

/** Writes of ours to one object name over a run. */
export interface ObjectWrites {
  readonly creates: number;
  readonly updates: number;
  readonly deletes: number;
}

interface Switchover {
  readonly record: string;
  readonly rule: string;
  readonly at: Instant;
}

/**
 * Checks the invariants of one world at every write and at the end of every handler, against what is really so in the
 * models. It throws a Violation at the first that does not hold.
 */
export class Oracles implements Witness {
  readonly #tally: Tally;
  #writes = new Map<string, ObjectWrites>();
  /** Replicas wanted per pool, by the generation of the spec that says so. */
  #desired = new Map<string, number>();
  #switchovers: readonly Switchover[] = [];
  /** Somebody beside us removed a pod or a claim: what counted members before may be wrong now. */
  #isMeddledWith = false;
  /** The version in which somebody without any right to left a record: what it remembered of switchovers may be lost. */
  #tamperedAt: number | undefined;
  /** The last that was written for: a delete may mark an object and then remove it. */
  #request: KubeRequest | undefined;
  /** The API server's own clock was off: waits that it measures may be short. */
  #isSkewed = false;
  #givenBack = 0;

  constructor(tally: Tally) {
    this.#tally = tally;
  }

  fork(): Oracles {
    const copy = new Oracles(this.#tally);
    copy.#writes = new Map(this.#writes);
    copy.#desired = new Map(this.#desired);
    copy.#switchovers = this.#switchovers;
    copy.#isMeddledWith = this.#isMeddledWith;
    copy.#isSkewed = this.#isSkewed;
    copy.#tamperedAt = this.#tamperedAt;
    copy.#givenBack = this.#givenBack;
    return copy;
  }

  startCounting(): void {
    this.#writes.clear();
    this.#givenBack = 0;
  }

  /** Messages that handlers reported as failed. */
  get givenBack(): number {
    return this.#givenBack;
  }

  /** Writes of ours by object: `Pod orders-0`. */
  get writes(): ReadonlyMap<string, ObjectWrites> {
    return this.#writes;
  }

  /** Everything of the past that a later verdict depends on, for telling states apart. */
  get remembered(): {
    readonly switchovers: readonly object[];
    readonly isLenient: boolean;
    readonly isTampered: boolean;
    readonly isSkewed: boolean;
    readonly desired: ReadonlyMap<string, number>;
  } {
    return {
      desired: this.#desired,
      switchovers: this.#switchovers,
      isLenient: this.#isMeddledWith,
      isTampered: this.#tamperedAt !== undefined,
      isSkewed: this.#isSkewed,
    };
  }

  /** It read the record before somebody without any right to changed it: what it does now nothing fences. */
  isMisled(by: InFlight): boolean {
    const read = lookOf(by).findLast(({ call }) => call.name === 'get Shard')?.body as
      | Partial<StoredObject>
      | undefined;
    return (
      this.#tamperedAt !== undefined && Number(read?.metadata?.resourceVersion) < this.#tamperedAt
    );
  }

  told(): void {
    // Nothing here is decided by words.
  }

  wrote(write: Write, world: World): void {
    const { actor, commit, request } = write;
    this.#isSkewed ||= world.clocks.apiServerMs !== 0;
    this.#rememberDesired(commit);
    if (actor.kind !== 'handler') {
      const isRemoval = commit.after === null || isGoing(commit);
      this.#isMeddledWith ||=
        actor.kind === 'person' &&
        isRemoval &&
        (commit.kind === 'Pod' || commit.kind === 'PersistentVolumeClaim');
      if (actor.kind === 'person' && recordsIn(commit.before) !== recordsIn(commit.after)) {
        this.#tamperedAt = Number((commit.after ?? commit.before)?.metadata.resourceVersion);
      }
      return;
    }
    const by = actor.handler;
    this.#count(commit);
    this.#checkTimeLeft(by);
    this.#checkNothingLost(by);
    this.#checkPause(by, commit);
    if (request === undefined || request !== this.#request) {
      this.#request = request;
      this.#checkIdentity(by, write);
    }
    this.#checkOneDestructive(by);
    if (commit.kind === 'Shard') {
      this.#checkRecordMove(by, commit, world);
    }
    if (isGoing(commit) || (commit.before !== null && commit.after === null)) {
      this.#checkRemoval(by, write, world);
    }
    if (commit.before === null && commit.after !== null && commit.kind !== 'Event') {
      this.#checkNewObject(by, commit);
      if (commit.kind === 'Pod') {
        this.#checkNewPod(by, commit.after, world);
      }
    }
  }

  sent(operation: Operation, world: World): void {
    const { by, call } = operation;
    const current = world.inFlight.find(({ id }) => id === by.id) ?? by;
    this.#checkOneDestructive(current);
    if (!begunByReading.has(call.name)) {
      // These began with the read before them.
      this.#checkTimeLeft(current);
    }
    this.#checkNothingLost(current);
    this.#checkPause(current, undefined);
    if (notOfMembers.has(call.name) || by.step === 'etcd-cleanup') {
      return;
    }
    const look = lookOf(current);
    const record = drainRecordIn(world, by);
    if (this.isMisled(by)) {
      return;
    }
    this.#tally.check(
      'D12',
      record !== 'unreadable',
      () => `${nameOf(by)} sends ${call.name} under a record that cannot be read`,
    );
    if (call.name === 'retire') {
      const range = look.findIndex(({ call: seen }) => seen.name === 'range');
      const pods = look.findIndex(({ call: seen }) => seen.name === 'list Pod');
      this.#tally.check(
        'X6',
        range !== -1 && pods > range,
        () => `${nameOf(by)} compares a token that it read after the pods`,
      );
      this.#checkRetired(operation, look, world);
      const listed = look.find(({ call: seen }) => seen.name === 'list Pod');
      const leaver = record === 'unreadable' ? undefined : record?.data;
      this.#tally.check(
        'G5',
        listed?.status === 200 &&
          membersRead(by).every(({ metadata }) => metadata.name !== leaver?.pod) &&
          (leaver === undefined || (isStopProven(by, leaver) && hasStopped(leaver, world))),
        () => `${nameOf(by)} retires the record of a member that may still run`,
      );
      return;
    }
    this.#checkSwitchover(operation, record, world);
  }

  /** G5: a pooler record is retired as it was when the look began, and keeps what nobody here understands. */
  #checkRetired({ by, question }: Operation, look: readonly Seen[], { etcd }: World): void {
    const body = JSON.stringify(question.to === 'cluster' ? question.request.body : '');
    const written = etcd
      .list('')
      .find(
        ({ key, modRevision }) =>
          modRevision === etcd.revision && body.includes(Buffer.from(key).toString('base64')),
      );
    if (written === undefined) {
      return;
    }
    const key = Buffer.from(written.key);
    const before = etcd.range({ key, revision: etcd.revision - 1 });
    if (before.kind !== 'range') {
      return;
    }
    const [old] = before.entries;
    const name = key.toString('base64');
    const read = look
      .filter(({ call }) => call.name === 'range')
      .flatMap(({ body: answer }) => (answer as { kvs?: readonly Kv[] }).kvs ?? [])
      .find((kv) => kv.key === name);
    this.#tally.check(
      'G5',
      old !== undefined && read?.mod_revision === String(old.modRevision),
      () => `${nameOf(by)} retires ${key.toString()}, which has moved since the look began`,
    );
    const isKept = (value: Uint8Array): boolean => Buffer.from(value).includes(fieldOfTheFuture);
    this.#tally.check(
      'G5',
      old === undefined || !isKept(old.value) || isKept(written.value),
      () => `${nameOf(by)} drops a field of ${key.toString()} that it does not know`,
    );
  }

  ended(by: InFlight): void {
    const { ending, questions } = by.handler;
    this.#tally.check(
      'P6',
      questions.length === 0,
      () => `${nameOf(by)} ended and left ${questions.length} requests open`,
    );
    const known = new Set(by.received.map(({ messageId }) => messageId));
    this.#tally.check(
      'X6',
      by.seen.every(({ call }) => !call.isCached),
      () => `${nameOf(by)} is content with reads from a cache`,
    );
    // P5: all a handler can ask for is the cluster and the visibility of the messages it was given.
    this.#tally.count('P5');
    if (ending?.kind !== 'returned') {
      this.#tally.check('P4', false, () => `${nameOf(by)} threw ${String(ending?.error)}`);
      return;
    }
    const failed = new Set(
      ending.response.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier),
    );
    this.#givenBack += failed.size;
    this.#tally.check(
      'P4',
      [...failed].every((id) => known.has(id)),
      () => `${nameOf(by)} reports failures of messages it was not given`,
    );
    const read = by.seen.findLast(
      ({ call }) => call.name === 'get Shard' || call.name === 'get GoverseCluster',
    );
    this.#tally.check(
      'P4',
      read === undefined || answersIt.has(read.status) || failed.size === by.received.length,
      () => `${nameOf(by)} is done although its target could not be read (${read?.status})`,
    );
    const undone = lookOf(by).find(isUndone);
    this.#tally.check(
      'P4',
      undone === undefined || failed.size === by.received.length,
      () => `${nameOf(by)} is done although ${undone?.call.name} was not (${undone?.status})`,
    );
    for (const { messageId, body } of by.received) {
      const subject = subjectOf(body);
      const fellows = by.received.filter((other) => subjectOf(other.body) === subject);
      this.#tally.check(
        'P4',
        subject === undefined
          ? failed.has(messageId)
          : fellows.every((other) => failed.has(other.messageId) === failed.has(messageId)),
        () => `${nameOf(by)} reports ${[...failed].join(', ')} of ${by.received.length} as failed`,
      );
    }
  }

  /** P3: what nobody may act on is in a dead-letter queue when all is at rest, and nothing else is so judged. */
  atRest(world: World): void {
    const letters = [...world.queues.values()]
      .flatMap((queue) => queue.deadLetters(world.now))
      .map(({ body }) => body)
      .filter((body) => subjectOf(body) === undefined);
    this.#tally.check(
      'P3',
      new Set(letters).symmetricDifference(new Set(world.poison)).size === 0,
      () =>
        `nobody may act on ${world.poison.join(', ') || 'nothing'}; in dead-letter queues are ${letters.join(', ') || 'none'}`,
    );
  }

  /** D7, D8, D11, S4, S6: nothing of ours is left half done, however the run went. */
  atEnd(world: World): void {
    const pods = world.api.list('Pod');
    for (const { metadata } of pods) {
      this.#tally.check(
        'D11',
        metadata.deletionTimestamp === undefined,
        () => `${metadata.name} is still going when all is at rest`,
      );
      const mirror = metadata.annotations?.[drainMirror];
      this.#tally.check(
        'D7',
        mirror === undefined || this.#tamperedAt !== undefined,
        () => `${metadata.name} stays and is still marked as ${mirror}`,
      );
    }
    for (const shard of world.api.list('Shard')) {
      this.#checkClaimsAtEnd(shard, world);
    }
    if (this.#tamperedAt !== undefined) {
      this.#tally.count('D8');
    }
  }

  #checkClaimsAtEnd({ metadata, spec }: KubeObject<'Shard'>, world: World): void {
    const claims = world.api
      .list('PersistentVolumeClaim')
      .filter(({ metadata: { labels } }) => labels?.[shardLabel] === metadata.name);
    const mounted = new Set(world.api.list('Pod').flatMap((pod) => claimsOf(pod)));
    for (const name of mounted) {
      this.#tally.check(
        'S6',
        claims.some((claim) => claim.metadata.name === name),
        () => `the claim ${name} of a member that stays is gone`,
      );
      this.#tally.check(
        'S4',
        // Whoever takes a record away takes the fence away from who is about to mark its claim.
        this.#tamperedAt !== undefined ||
          !claims.some(
            ({ metadata }) =>
              metadata.name === name && metadata.annotations?.[releasedClaim] !== undefined,
          ),
        () => `the claim ${name} of a member that stays is marked as kept from one that left`,
      );
    }
    for (const pool of spec.pools.filter(({ pvcPolicy }) => pvcPolicy.whenScaled === 'Delete')) {
      const left = claims.filter(
        ({ metadata: { name, labels, annotations } }) =>
          labels?.[poolLabel] === pool.name &&
          !mounted.has(name) &&
          // Kept on purpose: under another policy, or because its member was forced out.
          annotations?.[releasedClaim] === undefined,
      );
      this.#tally.check(
        'S4',
        left.length === 0,
        () => `surplus claims are left: ${left.map(({ metadata: { name } }) => name).join(', ')}`,
      );
    }
  }

  #count({ kind, name, before, after }: Commit): void {
    const key = `${kind} ${name}`;
    const { creates, updates, deletes } = this.#writes.get(key) ?? noWrites;
    const isDelete = after === null || (before !== null && isGoingFrom(before, after));
    this.#writes.set(key, {
      creates: creates + (before === null ? 1 : 0),
      deletes: deletes + (isDelete ? 1 : 0),
      updates: updates + (before !== null && !isDelete ? 1 : 0),
    });
  }

  #rememberDesired({ kind, after }: Commit): void {
    if (kind === 'Shard' && after !== null) {
      const shard = after as object as KubeObject<'Shard'>;
      for (const pool of shard.spec.pools) {
        const key = `${shard.metadata.uid}/${shard.metadata.generation ?? 0}/${pool.name}`;
        this.#desired.set(key, pool.replicasPerCell);
      }
    }
  }

  /**
   * X1, X2: nobody writes an object of another uid than it was told of, or of another version than it was told of last. The
   * move of a record tests what it stands on by itself.
   */
  #checkIdentity(by: InFlight, { commit: { kind, name, before, after }, request }: Write): void {
    if (before === null) {
      return;
    }
    const { uid, resourceVersion } = before.metadata;
    this.#tally.check(
      'X1',
      !isOfStrangers(kind, before) || isOwnMarkTakenOff(before, after),
      () => `${nameOf(by)} writes ${kind} ${name}, which is in somebody else's hands`,
    );
    const told = by.seen.flatMap(({ body }) => objectsIn(body).filter((each) => each.uid === uid));
    this.#tally.check(
      'X1',
      told.length > 0,
      () => `${nameOf(by)} writes ${kind} ${name} of uid ${uid}, which it has never read`,
    );
    this.#tally.check(
      'X2',
      request?.contentType === 'application/json-patch+json' ||
        told.at(-1)?.resourceVersion === resourceVersion,
      () => `${nameOf(by)} writes ${kind} ${name}, which has changed since it was told of it`,
    );
  }

  #checkOneDestructive(by: InFlight): void {
    this.#tally.check(
      'X4',
      by.destructive <= 1,
      () => `${nameOf(by)} did ${by.destructive} things that cannot be taken back`,
    );
  }

  /** P6: what cannot end in time is not begun. A request that was long on its way was begun when it was asked for. */
  #checkTimeLeft(by: InFlight): void {
    const { startedAt, budgetMs } = by.handler.start;
    const leftMs = startedAt + budgetMs - by.askedAt;
    this.#tally.check(
      'P6',
      leftMs >= leastTimeMs,
      () => `${nameOf(by)} begins to write with ${leftMs} ms left`,
    );
  }

  /** X2: a write that was refused for an old view was the last of its look. */
  #checkNothingLost(by: InFlight): void {
    const lost = lookOf(by).find(
      ({ call, status }) =>
        call.isEffect && lostRace.has(status) && !call.name.startsWith('create '),
    );
    this.#tally.check(
      'X2',
      lost === undefined,
      () => `${nameOf(by)} writes on after ${lost?.call.name} was refused with ${lost?.status}`,
    );
  }

  /** R6: who has read that the shard or its database is paused changes neither members nor claims, nor goes on with a drain. */
  #checkPause(by: InFlight, commit: Commit | undefined): void {
    const isOnlyTold =
      commit?.kind === 'Event' ||
      ((commit?.kind === 'Database' || commit?.kind === 'GoverseCluster') &&
        recordsIn(commit.before) === recordsIn(commit.after)) ||
      (commit?.kind === 'Shard' &&
        (by.step !== 'drain-step' || recordsIn(commit.before) === recordsIn(commit.after)));
    const look = lookOf(by);
    const isPaused = (kind: string): boolean => {
      const read = look.find(({ call }) => call.name === `get ${kind}`);
      return (read?.body as { spec?: { paused?: boolean } } | undefined)?.spec?.paused === true;
    };
    this.#tally.check(
      'R6',
      isOnlyTold || !['Shard', 'Database', 'GoverseCluster'].some(isPaused),
      () => `${nameOf(by)} acts although it has read that there is a pause`,
    );
  }

  #checkRecordMove(by: InFlight, { before, after }: Commit, world: World): void {
    const key = recordAnnotation(by.step);
    const old = before?.metadata.annotations?.[key];
    const next = after?.metadata.annotations?.[key];
    if (old === next || before === null || after === null) {
      return;
    }
    const read = lastTarget(by);
    this.#tally.check(
      'X2',
      read?.uid === before.metadata.uid &&
        read.generation === before.metadata.generation &&
        read.annotations?.[key] === old,
      () => `${nameOf(by)} moves a record that is not as it read it`,
    );
    const look = lookOf(by);
    this.#tally.check(
      'X6',
      look[0]?.call.name === 'get Shard',
      () => `${nameOf(by)} read its evidence before the record it compares`,
    );
    if (isOfAnother(old, before.metadata.uid)) {
      this.#tally.check(
        'D9',
        next === undefined,
        () => `${nameOf(by)} makes something of a record of another object`,
      );
    } else if (by.step === 'drain-step') {
      this.#checkDrainMove(by, before, after, world);
    }
  }

  #checkDrainMove(by: InFlight, before: StoredObject, after: StoredObject, world: World): void {
    const from = readDrainRecord(before.metadata);
    const to = readDrainRecord(after.metadata);
    this.#tally.check(
      'D12',
      from.kind !== 'unreadable',
      () => `${nameOf(by)} overwrites a record it cannot read`,
    );
    const old = from.kind === 'ours' && from.record.state !== 'choosing' ? from.record : null;
    const next = to.kind === 'ours' && to.record.state !== 'choosing' ? to.record : null;
    this.#tally.check(
      'D2',
      old === null || next === null || sameLeaver(old, next),
      () => `${nameOf(by)} turns from ${old?.data.pod} to ${next?.data.pod} without an end between`,
    );
    const step = `${old?.state ?? 'none'} → ${next?.state ?? 'none'}`;
    this.#tally.check('D1', drainPaths.has(step), () => `${nameOf(by)} moves ${step}`);
    if (old === null && next !== null) {
      this.#tally.check(
        'S1',
        from.kind === 'none' || from.kind === 'ours',
        () => `${nameOf(by)} picks ${next.data.pod} beside another record`,
      );
      this.#checkClaimKnown(by, next, world);
      this.#checkFailureSeen(by, next);
    }
    if (next?.data.forced === true && old?.data.forced !== true) {
      this.#tally.check(
        'D8',
        targetRead(by)?.annotations?.[forceDrain] === next.data.podUid,
        () => `${nameOf(by)} forces ${next.data.pod} out, which nobody has asked for`,
      );
    }
    if (next !== null && goesForward.has(next.state) && old?.state !== next.state) {
      this.#checkEvidence(by, next, 'D4');
    }
    if (next === null && old?.state === 'finished') {
      this.#checkEvidence(by, old, 'D11');
    }
    if (old?.state === 'draining' && next?.state === 'acknowledged' && !this.#isSkewed) {
      const since = parseInstant(old.since) ?? world.now;
      this.#tally.check(
        'D4',
        old.data.forced || secondsBetween(since, world.now) >= 5,
        () => `${nameOf(by)} acknowledges ${old.data.pod} before its settle time`,
      );
    }
    if (next?.state === 'finished' && old?.state !== 'finished') {
      this.#checkGates(by, next, world);
    }
    if (old?.state === 'finished' && next === null) {
      const pod = world.api.list('Pod').find(({ metadata }) => metadata.uid === old.data.podUid);
      this.#tally.check(
        'D11',
        pod === undefined,
        () => `${nameOf(by)} ends the drain of ${old.data.pod}, whose pod is still there`,
      );
    }
  }

  /** D7: who is replaced as failed has been seen to have ended, or to have lost its node. */
  #checkFailureSeen(by: InFlight, { data }: LeavingRecord): void {
    const pod = membersRead(by).find(({ metadata }) => metadata.uid === data.podUid);
    const { status, spec } = (pod ?? {}) as Partial<KubeObject<'Pod'>>;
    const node = lookOf(by).find(
      ({ call }) => call.name === 'get Node' && call.object === spec?.nodeName,
    );
    this.#tally.check(
      'D7',
      data.cause !== 'failed' ||
        status?.phase === 'Failed' ||
        status?.phase === 'Succeeded' ||
        node?.status === 404,
      () => `${nameOf(by)} replaces ${data.pod}, which it has not seen to fail`,
    );
  }

  /** S4: whose claim may have to be deleted later is written down together with its member. */
  #checkClaimKnown(by: InFlight, { data }: LeavingRecord, world: World): void {
    const pod = world.api.list('Pod').find(({ metadata }) => metadata.uid === data.podUid);
    const claims = world.api
      .list('PersistentVolumeClaim')
      .filter(({ metadata }) => pod !== undefined && claimsOf(pod).includes(metadata.name));
    this.#tally.check(
      'S4',
      data.cause !== 'surplus' ||
        claims.length === 0 ||
        claims.some(({ metadata }) => metadata.uid === data.claimUid),
      () => `${nameOf(by)} picks ${data.pod} and forgets its claim`,
    );
  }

  /** D4, D11: a drain goes on only where all pods and all pooler records were read, and every one was understood. */
  #checkEvidence(by: InFlight, { data }: LeavingRecord, id: 'D4' | 'D11'): void {
    const gap = gapInReads(by) ?? (id === 'D11' ? gapInLeaving(by, data) : undefined);
    this.#tally.check(
      id,
      gap === undefined || data.forced,
      () => `${nameOf(by)} goes on with the drain of ${data.pod}, though ${gap}`,
    );
  }

  /** D4, D5, D6: what made the point of no return safe was true at an instant within the look that passed it. */
  #checkGates(by: InFlight, { data }: LeavingRecord, world: World): void {
    if (data.forced) {
      this.#tally.count('D4');
      return;
    }
    const truths = truthsOf(by);
    const holds = (gate: (truth: Truth) => boolean): boolean => truths.some(gate);
    const { pooler, pod } = data;
    // Those that are about to go, or that others are draining, are not among those that stay.
    const going = membersRead(by)
      .filter(
        (other) => other.metadata.deletionTimestamp !== undefined || isOfStrangers('Pod', other),
      )
      .flatMap(({ metadata }) => world.multigres.state.members[metadata.uid]?.id ?? []);
    this.#tally.check(
      'D4',
      holds(
        ({ leader, isProposalOpen }) =>
          leader !== null && !isSamePooler(leader, pooler) && !isProposalOpen,
      ),
      () =>
        `${nameOf(by)} lets ${pod} go, which leads or may come to lead: ${JSON.stringify(truths)}`,
    );
    this.#tally.check(
      'D5',
      holds(
        ({ healthy, requiredCount }) =>
          healthy.filter((id) => ![pooler, ...going].some((other) => isSamePooler(id, other)))
            .length >= requiredCount,
      ),
      () => `${nameOf(by)} lets ${pod} go, and the others are no quorum: ${JSON.stringify(truths)}`,
    );
    const asked = this.#switchovers.filter(({ record }) => record.endsWith(`/${data.podUid}`));
    for (const { rule } of asked) {
      this.#tally.check(
        'D6',
        holds((truth) => ruleText(truth) !== rule),
        () => `${nameOf(by)} lets ${pod} go under the rule ${rule} it was asked to give up`,
      );
    }
  }

  #checkRemoval(by: InFlight, { commit, request }: Write, world: World): void {
    const { kind, name, before } = commit;
    const record = drainRecordIn(world, by);
    if (before === null || this.isMisled(by)) {
      return;
    }
    const { uid } = before.metadata;
    const preconditions = (request?.body as { preconditions?: { uid?: string } } | undefined)
      ?.preconditions;
    const text = shardOf(world, before)?.metadata.annotations?.[recordAnnotation(by.step)] ?? '';
    this.#tally.check(
      'X3',
      preconditions?.uid === uid && text.includes(uid),
      () =>
        `${nameOf(by)} deletes ${kind} ${name} under no precondition or no record that names ${uid}`,
    );
    this.#tally.check(
      'D12',
      record !== 'unreadable',
      () => `${nameOf(by)} deletes ${kind} ${name} under a record that cannot be read`,
    );
    if (record === 'unreadable' || record === undefined) {
      return;
    }
    if (kind === 'Pod') {
      this.#tally.check(
        'D3',
        record.state === 'finished' && record.data.podUid === uid,
        () =>
          `${nameOf(by)} deletes ${name} while its record is ${record.state} for ${record.data.pod}`,
      );
      const truths = truthsOf(by);
      this.#tally.check(
        'D6',
        record.data.forced ||
          truths.some(({ leader }) => leader !== null && !isSamePooler(leader, record.data.pooler)),
        () => `${nameOf(by)} deletes ${name}, which leads`,
      );
      this.#checkCount(by, record, before, world);
    }
    if (kind === 'PersistentVolumeClaim') {
      this.#checkClaimRemoval(by, record, before, world);
    }
  }

  #checkCount(by: InFlight, record: LeavingRecord, pod: StoredObject, world: World): void {
    if (record.data.cause !== 'surplus' || this.#isMeddledWith) {
      return;
    }
    const { labels = {} } = pod.metadata;
    const staying = world.api
      .list('Pod')
      .filter(
        ({ metadata }) =>
          metadata.uid !== pod.metadata.uid &&
          metadata.deletionTimestamp === undefined &&
          metadata.labels?.[shardLabel] === labels[shardLabel] &&
          metadata.labels?.[poolLabel] === labels[poolLabel] &&
          metadata.labels?.[cellLabel] === labels[cellLabel],
      );
    const wanted = this.#desired.get(`${record.uid}/${record.generation}/${record.data.pool}`) ?? 0;
    this.#tally.check(
      'S2',
      staying.length >= wanted,
      () =>
        `${nameOf(by)} deletes ${pod.metadata.name} as surplus and leaves ${staying.length} of ${wanted}`,
    );
  }

  #checkClaimRemoval(
    by: InFlight,
    record: LeavingRecord,
    { metadata }: StoredObject,
    world: World,
  ): void {
    this.#tally.check(
      'D13',
      record.data.cause === 'surplus',
      () => `${nameOf(by)} deletes a claim although the member leaves for ${record.data.cause}`,
    );
    const users = world.api
      .list('Pod')
      .filter((pod) =>
        pod.spec?.volumes?.some(
          ({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName === metadata.name,
        ),
      );
    const pool = shardOf(world, { metadata })?.spec.pools.find(
      ({ name }) => name === record.data.pool,
    );
    this.#tally.check(
      'S3',
      !record.data.forced &&
        record.data.claimUid === metadata.uid &&
        users.length === 0 &&
        metadata.annotations?.[releasedClaim] === undefined &&
        pool?.pvcPolicy.whenScaled === 'Delete',
      () =>
        `${nameOf(by)} deletes the claim ${metadata.name}: policy ${pool?.pvcPolicy.whenScaled}, mounted by ${users.length} pods`,
    );
  }

  /** X2, X6, S5: made by a look whose view was shown to be current, under a name that was seen to be free. */
  #checkNewObject(by: InFlight, { kind, name }: Commit): void {
    const look = lookOf(by);
    this.#tally.check(
      'X2',
      look.some(({ call, status }) => call.name === 'applyStatus' && status === 200),
      () => `${nameOf(by)} makes ${kind} ${name} before any write has shown its view to be current`,
    );
    this.#tally.check(
      'S5',
      look.some(
        ({ call, status }) =>
          call.kind === kind && call.object === name && !call.isEffect && status === 404,
      ),
      () => `${nameOf(by)} makes ${kind} ${name} and does not know whether the name is free`,
    );
    const claims = look.findLastIndex(({ call }) => call.name === 'list PersistentVolumeClaim');
    this.#tally.check(
      'X6',
      (kind !== 'Pod' && kind !== 'PersistentVolumeClaim') ||
        claims === -1 ||
        look.findLastIndex(({ call }) => call.name === 'list Pod') > claims,
      () => `${nameOf(by)} makes ${kind} ${name} by pods that it read before the claims they use`,
    );
  }

  /** D13, S5: no pod at the index of an open drain, none on a claim that goes. */
  #checkNewPod(by: InFlight, pod: StoredObject, world: World): void {
    const shard = shardOf(world, pod);
    const drain = shard === undefined ? undefined : readDrainRecord(shard.metadata);
    const open =
      drain?.kind === 'ours' && drain.record.state !== 'choosing' ? drain.record.data : undefined;
    this.#tally.check(
      'D12',
      drain?.kind !== 'unreadable' || this.isMisled(by),
      () => `${nameOf(by)} makes ${pod.metadata.name} while a drain's record cannot be read`,
    );
    this.#tally.check(
      'D13',
      open?.pod !== pod.metadata.name,
      () => `${nameOf(by)} makes ${pod.metadata.name}, whose drain is open`,
    );
    const { spec } = pod as object as KubeObject<'Pod'>;
    for (const { persistentVolumeClaim } of spec?.volumes ?? []) {
      const claim =
        persistentVolumeClaim === undefined
          ? undefined
          : world.api.get(
              'PersistentVolumeClaim',
              pod.metadata.namespace,
              persistentVolumeClaim.claimName,
            );
      const read = listed(by, 'PersistentVolumeClaim').find(
        ({ metadata }) => metadata.name === persistentVolumeClaim?.claimName,
      );
      this.#tally.check(
        'S5',
        read === undefined ||
          (read.metadata.deletionTimestamp === undefined &&
            read.metadata.labels?.[shardLabel] === pod.metadata.labels?.[shardLabel]),
        () => `${nameOf(by)} makes ${pod.metadata.name} on a claim that it has read is not for it`,
      );
      if (persistentVolumeClaim !== undefined && !this.#isMeddledWith) {
        this.#tally.check(
          'S5',
          claim !== undefined && claim.metadata.deletionTimestamp === undefined,
          () => `${nameOf(by)} makes ${pod.metadata.name} on a claim that is gone or going`,
        );
      }
    }
  }

  /** X9: once per intent and window, and only under a record that holds the intent. */
  #checkSwitchover(
    { by }: Operation,
    record: LeavingRecord | 'unreadable' | undefined,
    world: World,
  ): void {
    const intent = record === 'unreadable' ? undefined : record?.data.intent;
    this.#tally.check(
      'X9',
      record !== undefined && intent !== undefined,
      () => `${nameOf(by)} asks for a switchover that no record intends`,
    );
    if (record === undefined || record === 'unreadable' || intent === undefined) {
      return;
    }
    const asked: Switchover = {
      record: record.key,
      rule: `${intent.rule.term}/${intent.rule.subterm}`,
      at: world.now,
    };
    const again = this.#switchovers.find(
      (before) =>
        before.record === asked.record &&
        before.rule === asked.rule &&
        secondsBetween(before.at, asked.at) < switchoverWindowSeconds,
    );
    this.#tally.check(
      'X9',
      again === undefined || this.#isSkewed || this.#tamperedAt !== undefined,
      () => `${nameOf(by)} asks for the same switchover again within its window`,
    );
    const intended = parseInstant(intent.at);
    this.#tally.check(
      'X9',
      this.#isSkewed ||
        (intended !== undefined && secondsBetween(intended, world.now) <= sendWithinSeconds),
      () => `${nameOf(by)} asks for a switchover after its send-by instant`,
    );
    this.#switchovers = [...this.#switchovers, asked];
  }
}

/** The windows drain-step promises in its README. */
const switchoverWindowSeconds = 75;
const sendWithinSeconds = 10;

/** Writes that read what they compare once more. */
const begunByReading: ReadonlySet<string> = new Set([
  'retire',
  'remove',
  'rewrite',
  'put owner',
  'write shards',
]);

/** Effects that have oracles of their own, as all of etcd-cleanup's have. */
const notOfMembers: ReadonlySet<string> = new Set([
  'start backup',
  'rewrite',
  'put owner',
  'write shards',
]);

/** The target is there, or it is not; anything else is not known. */
const answersIt: ReadonlySet<number> = new Set([200, 404]);

/** How the API server refuses a write whose precondition does not hold. */
const lostRace: ReadonlySet<number> = new Set([404, 409, 412, 422]);

/** The shortest write may take so long: an Event. */
const leastTimeMs = 2_000;

const noWrites: ObjectWrites = { creates: 0, updates: 0, deletes: 0 };

/** The declared graph of drain-step, the record of one leaver at a time. */
const drainPaths: ReadonlySet<string> = new Set([
  'none → none',
  'none → requested',
  'requested → requested',
  'requested → draining',
  'requested → none',
  'draining → draining',
  'draining → acknowledged',
  'draining → none',
  'acknowledged → acknowledged',
  'acknowledged → finished',
  'acknowledged → none',
  'finished → finished',
  'finished → requested',
  'finished → none',
]);

/** States that a drain comes to by evidence. */
const goesForward: ReadonlySet<string> = new Set(['draining', 'acknowledged', 'finished']);

function sameLeaver(one: LeavingRecord, other: LeavingRecord): boolean {
  return one.data.podUid === other.data.podUid;
}

/** The target of a hint that a handler may act on; none of any other message. */
function subjectOf(body: string): string | undefined {
  const isOurs =
    body.includes(`"source":"${worldClusterId}"`) &&
    body.includes(`"namespace":"${worldNamespace}"`);
  return isOurs ? /"subject":"([^"]+)"/.exec(body)?.[1] : undefined;
}

/** A write that was refused, or never answered. One that is invalid is not tried again; Events are best effort. */
function isUndone({ call: { via, name, isEffect }, status }: Seen): boolean {
  const isAsWanted =
    (name.startsWith('create ') && status === 409) ||
    (name.startsWith('delete ') && status === 404);
  return (
    isEffect &&
    via === 'api' &&
    name !== 'create Event' &&
    (status === 0 || status >= 400) &&
    status !== 422 &&
    !isAsWanted
  );
}

function isGoing({ before, after }: Commit): boolean {
  return before !== null && after !== null && isGoingFrom(before, after);
}

function isGoingFrom(before: StoredObject, after: StoredObject): boolean {
  return (
    before.metadata.deletionTimestamp === undefined &&
    after.metadata.deletionTimestamp !== undefined
  );
}

/** Everything that steps have written down on an object, as one text. */
function recordsIn(object: StoredObject | null): string {
  return stepNames
    .map((step) => object?.metadata.annotations?.[recordAnnotation(step)] ?? '')
    .join('\n');
}

/** What a handler was told since it last read its target. */
export function lookOf({ seen, step }: InFlight): readonly Seen[] {
  if (step === 'backup-config') {
    return seen.slice(beginOfConfigLook(seen));
  }
  if (step === 'shard-release') {
    return seen.slice(beginOfReleaseLook(seen));
  }
  const begin = seen.findLastIndex(({ call }) => call.name === 'get Shard');
  return seen.slice(Math.max(0, begin));
}

/**
 * Where the last look of backup-config begins. Its writers read the Database and the data plane's record once more, so only
 * a write that came too late tells that it looks again, and a record that has moved before one. What is read to learn how
 * such a write ended is no part of either look.
 */
function beginOfConfigLook(seen: readonly Seen[]): number {
  let begin = 0;
  let revision: string | undefined;
  seen.forEach((each, place) => {
    const read = each.call.name === 'database' && each.status === 200;
    const found = read ? revisionIn(each.body) : revision;
    if (isLost(each) || (revision !== undefined && found !== revision)) {
      begin = place + 1;
      revision = undefined;
    } else {
      revision = found;
    }
  });
  const target = seen.findIndex(
    ({ call }, place) => place >= begin && call.name === 'get Database',
  );
  return target === -1 ? seen.length : target;
}

/** Where the last look of shard-release begins. Before it writes shards it reads its target once more, so only a write that came too late tells that it looks again. */
function beginOfReleaseLook(seen: readonly Seen[]): number {
  const begin = seen.findLastIndex(({ call }, place) => {
    const before = seen[place - 1];
    return call.name === 'get GoverseCluster' && (before === undefined || isLost(before));
  });
  return Math.max(0, begin);
}

/** Of the one key that was read; empty where it is not there. */
export function revisionIn(body: unknown): string {
  const [kv] = (body as { readonly kvs?: readonly Kv[] } | undefined)?.kvs ?? [];
  return kv?.mod_revision ?? '';
}

/** A write of backup-config or shard-release that was refused for an old view. */
function isLost({ call, status, body }: Seen): boolean {
  const isTransaction = call.name === 'rewrite' || call.name === 'write shards';
  const hasFailed = isTransaction && status === 200 && !hasSucceeded(body);
  return call.isEffect && call.name !== 'create Event' && (lostRace.has(status) || hasFailed);
}

/** Of a transaction in etcd, by its answer. */
function hasSucceeded(body: unknown): boolean {
  return (body as { readonly succeeded?: boolean } | undefined)?.succeeded === true;
}

/** What was true in the data plane at each instant at which the look read something. */
function truthsOf(by: InFlight): readonly Truth[] {
  return lookOf(by).flatMap(({ truth }) => truth ?? []);
}

/** The objects of a kind as the handler was last told of them in this look, by a list or one by one. */
function listed(by: InFlight, kind: ResourceKind): readonly StoredObject[] {
  const reads = lookOf(by).filter(({ call, status }) => call.kind === kind && status === 200);
  const list = reads.findLast(({ call }) => call.name.startsWith('list '))?.body as
    | { readonly items: readonly StoredObject[] }
    | undefined;
  const single = reads.filter(({ call }) => call.name.startsWith('get '));
  return [...(list?.items ?? []), ...single.map(({ body }) => body as StoredObject)];
}

/** The pods of the shard: the first that a look of drain-step lists; behind the claims it lists who mounts them. */
function membersRead(by: InFlight): readonly StoredObject[] {
  const read = lookOf(by).find(({ call }) => call.name === 'list Pod');
  return read?.status === 200 ? (read.body as { items: StoredObject[] }).items : [];
}

/** A record that was copied from another object. */
function isOfAnother(text: string | undefined, uid: string): boolean {
  try {
    const record = JSON.parse(text ?? 'null') as { v?: unknown; uid?: unknown } | null;
    return record?.v === 1 && typeof record.uid === 'string' && record.uid !== uid;
  } catch {
    return false;
  }
}

/** What a look of drain-step could not read, or not understand. */
function gapInReads(by: InFlight): string | undefined {
  const look = lookOf(by);
  const ranges = look.filter(({ call }) => call.name === 'range');
  if (look.find(({ call }) => call.name === 'list Pod')?.status !== 200) {
    return 'the pods could not be listed';
  }
  if (ranges.length === 0 || ranges.some(({ status }) => status !== 200)) {
    return 'the topology could not be read';
  }
  return ranges.some(({ body }) => JSON.stringify(body).includes(garbledValue))
    ? 'a pooler record could not be decoded'
    : undefined;
}

/** What a look has not seen of a member that is to have left. */
function gapInLeaving(by: InFlight, leaver: LeavingRecord['data']): string | undefined {
  if (!isStopProven(by, leaver)) {
    return 'its node does not show that it has stopped';
  }
  return hasLeftCohort(by, leaver) ? undefined : 'it is still in the cohort';
}

/** Whether the node that a member ran on was read, and is gone or hears what it is told; without one nothing ran. */
function isStopProven(by: InFlight, { node, forced }: LeavingRecord['data']): boolean {
  const read = lookOf(by).find(({ call }) => call.name === 'get Node' && call.object === node);
  return (
    forced ||
    node === '' ||
    read?.status === 404 ||
    (read?.status === 200 && isReady(read.body as KubeObject<'Node'>))
  );
}

/** Whether nothing of a member runs, as the data plane itself knows. */
function hasStopped({ pooler, forced }: LeavingRecord['data'], { multigres }: World): boolean {
  const members = Object.values(multigres.state.members);
  return (
    forced || !members.some(({ id, process }) => process === 'running' && isSamePooler(id, pooler))
  );
}

/** Whether a member had no vote any more at an instant within the look; a newcomer of its name has the vote now. */
function hasLeftCohort(by: InFlight, { pooler, pod }: LeavingRecord['data']): boolean {
  const truths = truthsOf(by);
  return (
    membersRead(by).some(({ metadata }) => metadata.name === pod) ||
    truths.some(
      ({ leader, cohort }) => leader !== null && !cohort.some((id) => isSamePooler(id, pooler)),
    )
  );
}

/** Whether another controller has it, or another operator drains it. Claims have no owner and are known by their labels. */
function isOfStrangers(kind: string, { metadata }: StoredObject): boolean {
  if (kind === 'PersistentVolumeClaim') {
    return metadata.labels?.[shardLabel] === undefined;
  }
  const isOwned = metadata.ownerReferences?.some(({ kind: owner }) => owner === 'Shard') === true;
  const isMarked = Object.keys(metadata.annotations ?? {}).some((key) =>
    key.startsWith('drain.multigres.com/'),
  );
  const isTarget = kind === 'Shard' || kind === 'Database' || kind === 'GoverseCluster';
  const isOfGoverse = metadata.labels?.[goverseLabel] !== undefined;
  return !isTarget && !isOfGoverse && (!isOwned || isMarked);
}

/** What we wrote on it ourselves we take off whoever has it now. */
function isOwnMarkTakenOff(before: StoredObject, after: StoredObject | null): boolean {
  return (
    after?.metadata.deletionTimestamp === before.metadata.deletionTimestamp &&
    before.metadata.annotations?.[drainMirror] !== undefined &&
    after?.metadata.annotations?.[drainMirror] === undefined
  );
}

/** The target as the look began with it. */
function targetRead(by: InFlight): StoredObject['metadata'] | undefined {
  const [first] = lookOf(by);
  return (first?.body as StoredObject | undefined)?.metadata;
}

/** The target as the handler knows it: as it read it, or as its own last write left it. */
function lastTarget({ seen }: InFlight): StoredObject['metadata'] | undefined {
  const last = seen.findLast(({ call, status }) => call.kind === 'Shard' && status === 200);
  return (last?.body as StoredObject | undefined)?.metadata;
}

/** As etcd's gateway answers. */
interface Kv {
  readonly key: string;
  readonly mod_revision: string;
}

interface Told {
  readonly uid: string;
  readonly resourceVersion?: string;
}

/** Of the objects in an answer, which they are and as of when. */
function objectsIn(body: unknown): readonly Told[] {
  const { metadata, items } = (body ?? {}) as {
    metadata?: Partial<Told>;
    items?: { metadata: Told }[];
  };
  return [
    ...(metadata?.uid === undefined ? [] : [{ ...metadata, uid: metadata.uid }]),
    ...(items ?? []).map((item) => item.metadata),
  ];
}

/** The record of drain-step that is in force on the shard a handler is about. */
function drainRecordIn(world: World, by: InFlight): LeavingRecord | 'unreadable' | undefined {
  const name = by.seen.find(({ call }) => call.name === 'get Shard')?.call;
  const shard = world.api.get('Shard', name?.namespace, name?.object ?? '');
  const read = shard === undefined ? undefined : readDrainRecord(shard.metadata);
  if (read?.kind === 'unreadable') {
    return 'unreadable';
  }
  return read?.kind === 'ours' && read.record.state !== 'choosing' ? read.record : undefined;
}

function shardOf(
  world: World,
  { metadata }: Pick<StoredObject, 'metadata'>,
): KubeObject<'Shard'> | undefined {
  return world.api.get('Shard', metadata.namespace, metadata.labels?.[shardLabel] ?? '');
}

function claimsOf(pod: KubeObject<'Pod'>): readonly string[] {
  return (pod.spec?.volumes ?? []).flatMap(
    ({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? [],
  );
}

function ruleText({ rule }: Truth): string {
  return rule === null ? '' : `${rule.term}/${rule.subterm}`;
}
