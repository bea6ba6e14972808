import type { Backups, DataPlaneState, TimerTask } from '#infra/local/data-plane/state.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import { type ResourceKind, resourceTypes } from '#shared/kube/resources.ts';
import { Oracles } from '#test/world/oracles/oracles.ts';
import type { ApiServer } from '#test/world/model/api-server.ts';
import type { Etcd } from '#test/world/model/etcd.ts';
import type { Multigres } from '#test/world/model/multigres.ts';
import type { Queue } from '#test/world/model/queue.ts';
import { type Fingerprint, Mixer, ofConstant, ofMany, ofValue } from './fingerprint.ts';
import type { InFlight, World } from './world.ts';

/**
 * Stands for everything that what happens next, and what the oracles will say of it, depends on. Left out is what is
 * only a name or only a count: numbers of handlers and messages, what messages say (X5), how often a request was asked,
 * versions and uids of objects that are gone (those that come are new in any case), Events (nobody reads them, and a
 * handler goes on the same way whether one is there or not), how long ago a hidden message was sent, when anybody last did
 * anything, and what earlier generations of a spec said: with one act that edits it, its generation says which there were.
 *
 * @param versions of the world's API server must be counted by `object`
 */
export function ofWorld(world: World): Mixer {
  const mixer = new Mixer().number(world.now);
  mixer.fingerprint(ofApi(world.api)).fingerprint(ofEtcd(world.etcd));
  mixer.fingerprint(ofConstant(world.buckets.all)).number(world.buckets.writes);
  mixer.fingerprint(ofDataPlane(world.multigres));
  mixer.fingerprint(ofValue(world.goverse?.remembered ?? null));
  const handlers = world.inFlight.map((by) => ofInFlight(by, world));
  mixer.fingerprint(ofMany(handlers));
  for (const [step, queue] of world.queues) {
    mixer.fingerprint(
      ofQueue(queue, world.now, (receipt) => holdersOf(receipt, step, handlers, world)),
    );
  }
  const { due, alarms, awayUntil } = world.hints.remembered;
  mixer.fingerprint(ofMany(due.map(ofConstant))).fingerprint(ofMany(alarms.map(ofConstant)));
  mixer.number(awayUntil ?? 0);
  const { witness } = world;
  if (witness instanceof Oracles) {
    const { switchovers, isLenient } = witness.remembered;
    mixer.fingerprint(ofConstant(switchovers)).number(Number(isLenient));
  }
  for (const { remembered } of world.companions) {
    mixer.fingerprint(ofValue(remembered));
  }
  return mixer;
}

const storedKinds = (Object.keys(resourceTypes) as ResourceKind[]).filter(
  (kind) => kind !== 'Event',
);

function ofApi(api: ApiServer): Fingerprint {
  const mixer = new Mixer();
  for (const kind of storedKinds) {
    mixer.fingerprint(ofValue(api.list(kind)));
  }
  for (const kind of ['Shard', 'Database', 'GoverseCluster'] as const) {
    for (const { metadata } of api.list(kind)) {
      const { namespace, name } = metadata;
      mixer.fingerprint(ofConstant(api.managersOf(kind, namespace, name)));
      mixer.number(api.specChangedAt(kind, namespace, name) ?? 0);
    }
  }
  return mixer.end();
}

/** Fingerprints of what changes in place, each with the count at which it was so. */
const counted = new WeakMap<object, { readonly count: number; readonly print: Fingerprint }>();

function ofCounted(object: object, count: number, print: () => Fingerprint): Fingerprint {
  const known = counted.get(object);
  if (known?.count === count) {
    return known.print;
  }
  const made = print();
  counted.set(object, { count, print: made });
  return made;
}

function ofEtcd(etcd: Etcd): Fingerprint {
  const { identity, revision } = etcd;
  return ofCounted(identity, revision, () =>
    ofMany([new Mixer().number(revision).end(), ...etcd.list('').map(ofConstant)]),
  );
}

function ofDataPlane({ state, changes }: Multigres): Fingerprint {
  return ofCounted(state, changes, () => ofDataPlaneState(state));
}

/** Of all that the data plane answers from. */
export function ofTopology({ etcd, multigres }: World): Fingerprint {
  return new Mixer().fingerprint(ofEtcd(etcd)).fingerprint(ofDataPlane(multigres)).end();
}

/** Numbers of timers, writes and questions only say in which order they came. */
function ofDataPlaneState(state: DataPlaneState): Fingerprint {
  const { timers, members, volumes, consensus, topology, outbox, parked, switchover, faults } =
    state;
  const { backups } = state;
  const due = timers
    .toSorted((one, other) => one.atMs - other.atMs || one.order - other.order)
    .map(({ atMs, task }) => [atMs, unnumbered(task)]);
  const waiting = [
    outbox.map(({ id: _id, ...write }) => write),
    parked.map(({ request: { id: _id, ...request } }) => request),
    switchover === null ? null : [switchover.podUid, switchover.requestIds.length],
    state.isCycleWaiting,
    state.random,
  ];
  // By JSON, which is quicker here than by part: members never come in different orders within one exploration's bounds.
  const text = JSON.stringify([due, members, volumes, consensus, waiting, faults]);
  return new Mixer()
    .text(text)
    .fingerprint(ofBackups(backups))
    .fingerprint(topology === null ? ofValue(null) : ofConstant(topology))
    .end();
}

const knownBackups = new WeakMap<Backups, Fingerprint>();

/** Replaced as a whole whenever anything of it changes. */
function ofBackups(backups: Backups): Fingerprint {
  const known = knownBackups.get(backups);
  if (known !== undefined) {
    return known;
  }
  const line = backups.line.map((turn) => ('requestId' in turn ? { ...turn, requestId: 0 } : turn));
  const print = ofValue({ ...backups, line });
  knownBackups.set(backups, print);
  return print;
}

function unnumbered(task: TimerTask): object {
  return 'requestId' in task ? { ...task, requestId: 0 } : task;
}

/** A handler, with what the oracles know of it and what it was sent for. */
function ofInFlight(by: InFlight, world: World): Fingerprint {
  const { handler, step, destructive, seen, received, hangsUntil, waits } = by;
  if (handler.history === undefined) {
    throw new Error('a handler that nobody remembers has no fingerprint');
  }
  const mixer = new Mixer().fingerprint(handler.history).number(destructive);
  mixer
    .number(hangsUntil ?? 0)
    .text(waits === undefined ? '' : whereItWaits(waits, world.multigres));
  for (const { truth } of seen) {
    if (truth !== undefined) {
      mixer.fingerprint(ofValue(truth));
    }
  }
  const held = new Set(
    world.queues
      .get(step)
      ?.messages()
      .map(({ receiptHandle }) => receiptHandle),
  );
  for (const { receiptHandle } of received) {
    mixer.number(Number(held.has(receiptHandle)));
  }
  const { witness } = world;
  const isMisled = witness instanceof Oracles && witness.isMisled(by);
  return mixer.number(Number(isMisled)).end();
}

/** What the data plane still has to do for a question, by which two that wait differ. */
function whereItWaits(
  { question, reply, until }: NonNullable<InFlight['waits']>,
  { state }: Multigres,
): string {
  const isResigning = state.switchover?.requestIds.includes(reply) === true;
  const timer = state.timers.find(({ task }) => 'requestId' in task && task.requestId === reply);
  const place = state.backups.line.findIndex(
    (turn) => 'requestId' in turn && turn.requestId === reply,
  );
  return `${question.id} ${isResigning} ${timer?.atMs} ${timer?.task.kind} ${place} ${until}`;
}

function ofQueue(
  queue: Queue,
  now: Instant,
  holdersOf: (receipt: string) => Fingerprint,
): Fingerprint {
  return ofMany(
    queue.messages().map(({ receiptHandle, visibleAt, receiveCount }) =>
      new Mixer()
        .number(Math.max(0, visibleAt - now))
        .number(receiveCount)
        .fingerprint(holdersOf(receiptHandle))
        .end(),
    ),
  );
}

/** The handlers that can still delete a message, or change when it comes again. */
function holdersOf(
  receipt: string,
  step: string,
  handlers: readonly Fingerprint[],
  { inFlight }: World,
): Fingerprint {
  return ofMany(
    handlers.filter((_print, index) => {
      const by = inFlight[index];
      return (
        by?.step === step && by.received.some(({ receiptHandle }) => receiptHandle === receipt)
      );
    }),
  );
}
