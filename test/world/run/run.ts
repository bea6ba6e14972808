import { drainRequest, forceDrain, recordAnnotations } from '#shared/api/annotations.ts';
import { readDrainRecord } from '#shared/api/drain-record.ts';
import type { ObjectMetadata } from '#shared/api/metadata.ts';
import { plusSeconds } from '#shared/kernel/instant.ts';
import type { ObjectRef, TargetKind } from '#shared/kube/resources.ts';
import { Violation } from '#test/world/oracles/tally.ts';
import { type Blow, type Fault, moveLead } from './faults.ts';
import { edit } from './person.ts';
import type { Workload } from './workload.ts';
import type { Operation, World } from './world.ts';

/** A fault and the question it strikes, counted from the run's first. */
export interface Strike {
  readonly at: number;
  readonly fault: Fault;
}

export interface RunOptions {
  readonly workload: Workload;
  readonly strikes: readonly Strike[];
  /** Told of each question before it is served, and before anything strikes it. */
  readonly onOperation?: (operation: Operation, world: World) => void;
  /** Nothing goes wrong, and nothing has: then nobody waits for a resync. */
  readonly isUndisturbed?: boolean;
  /** Asked once after each delivery, when nobody is at work: the run ends here where all that follows is known. */
  readonly isKnown?: (world: World, stage: string) => boolean;
}

/** Times a quiet world whose goal is not reached is looked at anew, as the relay's resync does every half hour. */
const maxResyncs = 2;
const resyncSeconds = 1_800;

/** When everything that was ever sent is delivered once more (P2). */
const redriveSeconds = 14 * 86_400;

/**
 * Runs a world until nothing moves any more and the goal is reached, and then shows that it stays so: every message
 * that was ever sent, delivered again after two weeks, writes nothing.
 *
 * @throws Violation
 */
export async function runToEnd(world: World, options: RunOptions): Promise<void> {
  const { workload, strikes } = options;
  const limit = workload.bound.deliveries + workload.bound.perFault * strikes.length;
  const stop = world.deliveries + limit;
  if ((await runToQuiet(world, options, stop)) === 'known') {
    return;
  }
  if (showsByItself(options)) {
    const missing = workload.missing(world);
    world.tally.check(
      'X8',
      missing.length === 0,
      () => `only a resync would show that ${missing.join('; ')}`,
    );
  }
  // What moved in the data plane alone is heard of at the resync at the latest, so one is part of converging.
  for (
    let resyncs = 0;
    resyncs === 0 || (workload.missing(world).length > 0 && resyncs < maxResyncs);
    resyncs += 1
  ) {
    world.jump(plusSeconds(world.now, resyncSeconds));
    world.hints.resync(world.api);
    if ((await runToQuiet(world, options, stop, `resync ${resyncs}`)) === 'known') {
      return;
    }
  }
  const missing = workload.missing(world);
  world.tally.check(
    'X8',
    missing.length === 0,
    () => `nothing moves any more, but ${missing.join('; ')}`,
  );
  world.witnesses.forEach((witness) => witness.atRest?.(world));
  await showQuiescence(world, workload);
  world.witnesses.forEach((witness) => witness.atEnd?.(world));
}

/**
 * Whether everything that is to be done comes to be known without a resync: one thing that goes wrong with us hides nothing.
 * Several may bring a message into its dead-letter queue.
 */
function showsByItself({ workload, strikes, isUndisturbed = false }: RunOptions): boolean {
  const [strike] = strikes;
  const isHarmless =
    strike === undefined
      ? isUndisturbed
      : strikes.length === 1 && strike.fault.isOnlyOurs && strike.fault.needsResync !== true;
  return isHarmless && workload.needsResync !== true;
}

/** X7, P2. */
async function showQuiescence(world: World, workload: Workload): Promise<void> {
  const before = world.oursWritten;
  world.jump(plusSeconds(world.now, redriveSeconds));
  for (const { step, body } of world.sentOnce()) {
    world.send(step, body);
  }
  world.hints.resync(world.api);
  await runToQuiet(world, { workload, strikes: [] }, world.deliveries + workload.bound.deliveries);
  const writes = world.oursWritten - before;
  world.tally.check(
    'X7',
    writes === 0,
    () => `converged, and further looks still write ${writes} times`,
  );
  world.tally.count('P2');
}

/** `known`: an earlier run has shown how it goes on. */
export async function runToQuiet(
  world: World,
  options: RunOptions,
  stop: number,
  stage = 'faults',
): Promise<'quiet' | 'known'> {
  const lastStrike = options.strikes.at(-1)?.at ?? -1;
  const isPrompt = showsByItself(options);
  let resyncAt = plusSeconds(world.now, resyncSeconds);
  let asked = world.deliveries;
  for (;;) {
    const operation = world.nextOperation();
    if (operation !== undefined) {
      options.onOperation?.(operation, world);
      await strikeAndServe(operation, world, options.strikes);
      continue;
    }
    world.settle();
    const isHeard = await world.hearReplies();
    if (!isHeard && world.inFlight.length === 0 && asked < world.deliveries) {
      asked = world.deliveries;
      if (world.operations > lastStrike && options.isKnown?.(world, stage) === true) {
        return 'known';
      }
    }
    if (isHeard || (await world.deliverNext())) {
      if (world.deliveries > stop) {
        throw new Violation(
          'X8',
          `more than ${stop} deliveries, and ${options.workload.missing(world).join('; ')}`,
        );
      }
      continue;
    }
    attend(world, options.workload);
    if (world.isAtRest) {
      return 'quiet';
    }
    const next = world.nextInstant();
    if (isPrompt || next < resyncAt) {
      world.passTo(next);
      continue;
    }
    // Who waits for long is looked at anew like everybody else.
    world.passTo(resyncAt);
    world.hints.resync(world.api);
    resyncAt = plusSeconds(resyncAt, resyncSeconds);
  }
}

/** How long a condition may ask a person for something until somebody does it. */
const attentionSeconds = 60;

/**
 * The person on duty: does what the `Drained` condition asks for, a while after it does. A request that cannot be met is
 * taken back; a member is forced out where it does not run any more, or where the workload is about just that.
 */
function attend(world: World, { givesUpQuorum }: Workload): void {
  for (const { metadata, status } of world.api.list('Database')) {
    resetRecords(world, 'Database', metadata, status?.conditions ?? []);
  }
  for (const { metadata, status } of world.api.list('GoverseCluster')) {
    resetRecords(world, 'GoverseCluster', metadata, status?.conditions ?? []);
  }
  for (const { metadata, status } of world.api.list('Shard')) {
    resetRecords(world, 'Shard', metadata, status?.conditions ?? []);
    const drained = status?.conditions?.find(({ type }) => type === 'Drained');
    const read = readDrainRecord(metadata);
    if (drained?.status !== 'False' || read.kind !== 'ours' || read.record.state === 'choosing') {
      continue;
    }
    const { podUid, pod, claimUid, cause } = read.record.data;
    const place = { namespace: metadata.namespace ?? '', name: metadata.name };
    if (cause === 'requested' && drained.message.includes('take the request back')) {
      doOnce(world, `a person takes the request for ${pod} back`, (at) =>
        annotate(at, { kind: 'Pod', namespace: place.namespace, name: pod }, drainRequest, null),
      );
    } else if (
      drained.message.includes(`${forceDrain}=${podUid}`) &&
      metadata.annotations?.[forceDrain] !== podUid &&
      (givesUpQuorum === true || world.multigres.state.members[podUid]?.process !== 'running') &&
      podUid !== claimUid
    ) {
      doOnce(world, `a person forces ${pod} (${podUid}) out, as the condition says`, (at) =>
        annotate(at, { kind: 'Shard', ...place }, forceDrain, podUid),
      );
    } else if (drained.message.includes('hand the lead')) {
      doOnce(world, 'a person hands the lead to a member with a vote', moveLead);
    }
  }
}

/** `millrace reset`, where a condition says that a record cannot be read. */
function resetRecords(
  world: World,
  kind: TargetKind,
  { namespace = '', name, annotations = {} }: ObjectMetadata,
  conditions: readonly { readonly reason: string; readonly message: string }[],
): void {
  for (const key of recordAnnotations) {
    const isAsked = ({ reason, message }: (typeof conditions)[number]): boolean =>
      reason === 'RecordUnreadable' && message.includes(key);
    // Who sees that it is gone already has nothing to do but wait for a look.
    if (annotations[key] !== undefined && conditions.some(isAsked)) {
      doOnce(world, `a person resets ${key}, as the condition says`, (at) =>
        annotate(at, { kind, namespace, name }, key, null),
      );
    }
  }
}

function doOnce(world: World, name: string, act: (at: World) => void): void {
  if (world.planned.some((planned) => planned.name === name)) {
    return;
  }
  world.later(name, attentionSeconds, (at) => {
    at.duties = [...at.duties, name];
    const times = at.duties.filter((done) => done === name).length;
    at.tally.check('X8', times <= mostTimes, () => `${name}, for the ${times}th time`);
    act(at);
  });
}

/** Who is asked for the same thing more often is asked for something that does not help, or was done. */
const mostTimes = 10;

function annotate(world: World, ref: ObjectRef, key: string, value: string | null): void {
  edit(world, ref, { metadata: { annotations: { [key]: value } } });
}

async function strikeAndServe(
  operation: Operation,
  world: World,
  strikes: readonly Strike[],
): Promise<void> {
  let blow: Blow = 'served';
  for (const { at, fault } of strikes) {
    if (at === operation.index) {
      world.tell(() => `— ${fault.name} —`);
      blow = await fault.strike(operation, world);
    }
  }
  if (blow === 'not served') {
    world.skip();
    return;
  }
  await world.serve(operation, blow === 'served' ? undefined : blow);
}
