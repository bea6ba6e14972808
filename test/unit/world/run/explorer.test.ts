import { describe, expect, test } from 'vitest';
import { Tally, Violation } from '#test/world/oracles/tally.ts';
import { explorationsOf } from '#test/world/run/explorations.ts';
import { type Exploration, explore, followPath } from '#test/world/run/explorer.ts';
import { HandlerMemory } from '#test/world/run/handler.ts';
import type { Bounds } from '#test/world/run/interleavings.ts';
import { beginningOf } from '#test/world/run/plans.ts';
import { Chronicle } from '#test/world/run/chronicle.ts';
import { runToEnd } from '#test/world/run/run.ts';
import { ofWorld } from '#test/world/run/world-fingerprint.ts';
import type { Workload } from '#test/world/run/workload.ts';
import type { World } from '#test/world/run/world.ts';
import {
  aWorld,
  editDatabase,
  editPod,
  editShard,
  missingMembers,
  pods,
  scale,
} from '#test/world/workloads/cluster.ts';

describe('fingerprints of worlds', () => {
  test('two orders of independent writes meet in one', async () => {
    const one = await aBeginning();
    const other = one.fork();

    labelPod(one);
    annotateShard(one);
    annotateShard(other);
    labelPod(other);

    expect(ofWorld(one).end()).toEqual(ofWorld(other).end());
  });

  test('two orders of the answers to two handlers meet in one', async () => {
    const begun = await aBeginning();
    await begun.deliver('drain-step');
    await begun.deliver('pool-pods');
    const one = begun.fork();
    const other = begun.fork();

    await serveOne(one, 'drain-step');
    await serveOne(one, 'pool-pods');
    await serveOne(other, 'pool-pods');
    await serveOne(other, 'drain-step');

    expect(one.inFlight).toHaveLength(2);
    expect(ofWorld(one).end()).toEqual(ofWorld(other).end());
  });

  test('a copy has the same, and keeps it when the other goes on', async () => {
    const world = await aBeginning();
    const copy = world.fork();
    const before = ofWorld(world).end();

    labelPod(world);

    expect(ofWorld(copy).end()).toEqual(before);
    expect(ofWorld(world).end()).not.toEqual(before);
  });

  test.for<[string, (world: World) => Promise<void> | void]>([
    ['an object that is written', labelPod],
    ['an object that is gone', removeAtOnce],
    ['the time', (world) => world.passTo((world.now + 1) as typeof world.now)],
    ['a key in etcd', (world) => void world.etcd.put('/somewhere', Buffer.from('else'))],
    ['the data plane', (world) => world.fault({ kind: 'noPrimary' })],
    ['what is due', (world) => void world.hints.take('drain-step')],
    ['a relay that is away', (world) => world.hints.goAway(world.now)],
    ['a backup that is asked for', askForBackup],
    ['a message', (world) => world.send('drain-step', '{}')],
    ['a handler in flight', async (world) => void (await world.deliver('drain-step'))],
  ])('%s makes another', async ([, change]) => {
    const world = await aBeginning();
    const before = ofWorld(world).end();

    await change(world);

    expect(ofWorld(world).end()).not.toEqual(before);
  });

  test('what a handler was told makes another, though nothing else differs', async () => {
    const begun = await aBeginning();
    await begun.deliver('drain-step');
    const early = begun.fork();
    const late = begun.fork();

    await serveOne(early, 'drain-step');
    editDatabase(early, { metadata: { labels: { 'example.com/tier': 'gold' } } });
    editDatabase(late, { metadata: { labels: { 'example.com/tier': 'gold' } } });
    await serveOne(late, 'drain-step');
    const before = [ofWorld(early).end(), ofWorld(late).end()];
    await serveOne(early, 'drain-step');
    await serveOne(late, 'drain-step');

    expect(before[0]).toEqual(before[1]);
    expect(ofWorld(early).end()).toEqual(ofWorld(late).end());

    const blind = begun.fork();
    await serveOne(blind, 'drain-step');
    await serveOne(blind, 'drain-step');
    editDatabase(blind, { metadata: { labels: { 'example.com/tier': 'gold' } } });
    expect(ofWorld(blind).end()).not.toEqual(ofWorld(early).end());
  });

  test('a handler whose message was taken over by another delivery differs from one that still holds it', async () => {
    const holds = await aBeginning();
    await holds.deliver('drain-step');
    const lost = holds.fork();
    const kept = holds.fork();
    const [by] = lost.inFlight;
    const receipt = by?.received[0]?.receiptHandle ?? '';

    lost.queues.get('drain-step')?.delete(receipt);

    expect(ofWorld(lost).end()).not.toEqual(ofWorld(kept).end());
  });
});

describe('remembered handlers', () => {
  test('a run with them tells the same story as one without', async () => {
    const stories = [];
    for (const memory of [undefined, new HandlerMemory()]) {
      const workload = aWorkload(memory);
      const world = await beginningOf(workload, new Tally());
      const chronicle = new Chronicle(undefined);
      world.listen(chronicle);
      await runToEnd(world, { workload, strikes: [] });
      stories.push(chronicle.digest());
    }

    expect(stories[0]).toBe(stories[1]);
  });

  test('a handler that goes on in two ways is the same as two handlers that went one way each', async () => {
    const remembering = await aBeginning(new HandlerMemory());
    await remembering.deliver('drain-step');
    const world = remembering.fork();
    await serveOne(world, 'drain-step');
    const [once] = world.inFlight;

    const again = remembering.fork();
    await serveOne(again, 'drain-step');

    expect(again.inFlight[0]?.handler).toBe(once?.handler);
    const changed = remembering.fork();
    editShard(changed, { metadata: { annotations: { 'example.com/a': 'b' } } });
    await serveOne(changed, 'drain-step');
    expect(changed.inFlight[0]?.handler).not.toBe(once?.handler);
  });
});

describe('an exploration', { timeout: 60_000 }, () => {
  test('of one handler at a time sees every state, ends in the goal, and sees the same again', async () => {
    const first = await explore(small({ handlers: 1 }), options());
    const second = await explore(small({ handlers: 1 }), options());

    expect(first).toMatchObject({ isExhausted: true, violations: [], beyondHorizon: 0 });
    expect(first.ends).toBeGreaterThan(0);
    expect(first.states).toBeGreaterThan(50);
    expect(second).toEqual(first);
  });

  test('of two handlers with a crash finds that states which look the same go on the same', async () => {
    const report = await explore(small({ crashes: 1 }), {
      ...options(),
      maxStates: 800,
      isDistrustful: true,
    });

    expect(report.violations).toEqual([]);
    expect(report.states).toBe(800);
  });

  test('is cut where it has seen enough, and says so', async () => {
    const report = await explore(small({ handlers: 2 }), { ...options(), maxStates: 60 });

    expect(report).toMatchObject({ states: 60, isExhausted: false });
  });

  test('reaches what only two handlers side by side can, and its path leads there again', async () => {
    const planted: Bounds['acts'][number] = {
      name: 'two handlers are at work while a pod is to go',
      isPossible: (world) =>
        world.inFlight.length === 2 &&
        pods(world).some(({ metadata }) => metadata.deletionTimestamp !== undefined),
      act: () => {
        throw new Violation('X8', 'planted');
      },
    };
    const alone = await explore(small({ handlers: 1, acts: [planted] }), options());
    const exploration = small({ handlers: 2, acts: [planted] });

    const beside = await explore(exploration, { ...options(), maxViolations: 1 });

    expect(alone.violations).toEqual([]);
    expect(beside.violations).toMatchObject([{ invariant: 'X8', message: 'X8: planted' }]);
    const lines: string[] = [];
    const following = followPath(
      exploration,
      beside.violations[0]?.choices ?? [],
      new Tally(),
      (world) => world.listen(new Chronicle((line) => lines.push(line))),
    );
    await expect(following).rejects.toThrow('X8: planted');
    expect(lines.join('\n')).toContain('two handlers are at work while a pod is to go');
  });

  test('that misses its goal at an end says what is missing', async () => {
    const exploration = small({ handlers: 1 }, () => ['something that never comes']);

    const { violations } = await explore(exploration, { ...options(), maxViolations: 1 });

    expect(violations).toMatchObject([
      { invariant: 'X8', message: expect.stringContaining('something that never comes') as string },
    ]);
  });

  test('has a name of its own in every scale, and more to do in the long one', () => {
    const short = explorationsOf('short');
    const long = explorationsOf('long');

    expect(short.length).toBeGreaterThanOrEqual(4);
    expect(new Set(short.map(({ name }) => name)).size).toBe(short.length);
    expect(long.map(({ name }) => name)).toEqual(short.map(({ name }) => name));
    expect(long.every(({ bounds }, index) => bounds !== short[index]?.bounds)).toBe(true);
  });
});

function options() {
  return { tally: new Tally(), maxStates: 20_000, maxViolations: 3 };
}

function aWorkload(
  memory: HandlerMemory | undefined,
  missing: Workload['missing'] = missingMembers,
): Workload {
  return {
    name: 'a small one',
    steps: ['drain-step'],
    create: (tally) =>
      aWorld(tally, {
        replicas: 3,
        versions: 'object',
        ...(memory === undefined ? {} : { memory }),
      }),
    begin: (world) => scale(world, 2),
    missing,
    bound: { deliveries: 100, perFault: 0 },
  };
}

function small(bounds: Partial<Bounds>, missing?: Workload['missing']): Exploration {
  return {
    name: 'a small one',
    bounds: {
      handlers: 2,
      duplicates: 0,
      crashes: 0,
      lostAnswers: 0,
      pauses: 0,
      acts: [],
      answersIn: 'the order asked',
      horizonSeconds: 400,
      ...bounds,
    },
    workload: (memory) => aWorkload(memory, missing),
  };
}

async function aBeginning(memory = new HandlerMemory()): Promise<World> {
  const world = await beginningOf(aWorkload(memory), new Tally());
  world.activeSteps = new Set(['drain-step', 'pool-pods']);
  return world;
}

async function serveOne(world: World, step: string): Promise<void> {
  const by = world.inFlight.find((other) => other.step === step);
  const [question] = by?.handler.questions ?? [];
  if (by === undefined || question === undefined) {
    throw new Error(`no handler of ${step} asks anything`);
  }
  await world.serve(world.operationOf(by, question));
}

function labelPod(world: World): void {
  editPod(world, pods(world)[0]?.metadata.name ?? '', {
    metadata: { labels: { 'example.com/color': 'blue' } },
  });
}

function annotateShard(world: World): void {
  editShard(world, { metadata: { annotations: { 'example.com/note': 'kept' } } });
}

function askForBackup(world: World): void {
  const body = { ...world.multigres.state.config.shard, type: 'full' };
  world.multigres.ask({ method: 'POST', path: '/api/v1/backups', body }, world, world.now);
}

function removeAtOnce(world: World): void {
  const name = pods(world)[0]?.metadata.name ?? '';
  const path = `/api/v1/namespaces/db/pods/${name}`;
  world.person({ method: 'DELETE', path, body: { gracePeriodSeconds: 0 } });
}
