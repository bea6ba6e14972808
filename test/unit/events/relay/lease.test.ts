import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { LeaseUnavailable } from '#events/relay/lease-store.ts';
import { leaseLimitsOf } from '#events/relay/lease.ts';
import { type Contender, LeaseWorld, limits } from './lease-world.ts';
import { seeded } from './seeded.ts';

/** In words, without the failures. */
function said({ news }: Contender): string[] {
  return news.flatMap((item) => {
    switch (item.kind) {
      case 'leading':
        return ['leading'];
      case 'standby':
        return [
          `${item.hasLed ? 'no longer leading' : 'standing by'} for ${item.holder ?? 'nobody'}`,
        ];
      case 'failed':
        return [];
    }
  });
}

describe('a candidate', () => {
  test('that is alone leads at once, and on and on', async () => {
    const world = new LeaseWorld();
    const only = world.enter();

    await world.pass(3_600_000);

    expect(only.candidate.isLeading).toBe(true);
    expect(said(only)).toEqual(['leading']);
    expect(world.lease?.spec).toMatchObject({
      holderIdentity: 'relay-0',
      leaseDurationSeconds: 15,
      leaseTransitions: 0,
      acquireTime: '2026-01-01T00:00:00.006000Z',
    });
    expect(only.requests).toBeLessThan(3_600 / 4);
  });

  test('stands by for the holder, and says for whom', async () => {
    const world = new LeaseWorld();
    const first = world.enter();
    await world.pass(1_000);
    const second = world.enter();

    await world.pass(600_000);

    expect(world.leaders).toEqual([first]);
    expect(said(second)).toEqual(['standing by for relay-0']);
  });

  test('takes over from a holder that was killed, once the holder’s time is over and not before', async () => {
    const world = new LeaseWorld();
    const first = world.enter();
    await world.pass(1_000);
    const second = world.enter();
    await world.pass(60_000);

    first.kill();
    await world.pass(limits.durationMs - limits.renewEveryMs - 1_000);
    const early = world.leaders.includes(second);
    await world.pass(limits.renewEveryMs + 1_000 + limits.lookEveryMs);

    expect(early).toBe(false);
    expect(world.leaders).toEqual([second]);
    expect(said(second)).toEqual(['standing by for relay-0', 'leading']);
    expect(world.lease?.spec).toMatchObject({ holderIdentity: 'relay-1', leaseTransitions: 1 });
  });

  test('takes over within two seconds from a holder that ends', async () => {
    const world = new LeaseWorld();
    const first = world.enter();
    await world.pass(1_000);
    const second = world.enter();
    await world.pass(60_000);

    void first.stop();
    await world.pass(2_000);

    expect(world.leaders).toEqual([second]);
    expect(said(first)).toEqual(['leading', 'no longer leading for nobody']);
  });

  test('that ends gives the lease back although somebody has written to it meanwhile', async () => {
    const world = new LeaseWorld();
    const only = world.enter();
    await world.pass(1_000);
    if (world.lease !== undefined) {
      world.lease = { ...world.lease, metadata: { resourceVersion: '77', labels: { a: 'b' } } };
    }

    void only.stop();
    await world.pass(1_000);

    expect(world.lease).toMatchObject({
      metadata: { labels: { a: 'b' } },
      spec: { holderIdentity: '', leaseDurationSeconds: 1 },
    });
  });

  test('that was stopped for longer than its lease knows the moment it goes on that it does not lead', async () => {
    const world = new LeaseWorld();
    const first = world.enter();
    await world.pass(1_000);
    const second = world.enter();
    await world.pass(60_000);
    first.timers.freeze();
    await world.pass(30_000);

    const beforeAnythingRan = first.candidate.isLeading;
    await first.timers.thaw();
    await world.pass(60_000);

    expect(beforeAnythingRan).toBe(false);
    expect(world.leaders).toEqual([second]);
    expect(said(first)).toEqual([
      'leading',
      'no longer leading for nobody',
      'standing by for relay-1',
    ]);
  });

  test('that was stopped while its claim was on the way counts the claim from when it was sent', async () => {
    const world = new LeaseWorld();
    const first = world.enter();
    await world.pass(1_000);
    const second = world.enter();
    await world.pass(1_000);
    first.isFrozenByAnswer = true;
    await world.pass(30_000);

    first.isFrozenByAnswer = false;
    await first.timers.thaw();
    await world.pass(1_000);

    expect(world.leaders).toEqual([second]);
  });

  test('whose renewal is answered after its time ran out says that it stopped leading, although it leads again', async () => {
    const world = new LeaseWorld();
    const only = world.enter();
    await world.pass(1_000);
    only.isFrozenByAnswer = true;
    await world.pass(limits.renewDeadlineMs + 1_000);
    const meanwhile = only.candidate.isLeading;

    await only.timers.thaw();

    expect([meanwhile, only.candidate.isLeading]).toEqual([false, true]);
    expect(said(only)).toEqual(['leading', 'no longer leading for nobody', 'leading']);
  });

  test('stops leading when it sees another one’s name in the lease, however that came there', async () => {
    const world = new LeaseWorld();
    const only = world.enter();
    await world.pass(1_000);
    if (world.lease !== undefined) {
      const metadata = { resourceVersion: 'x' };
      world.lease = { metadata, spec: { ...world.lease.spec, holderIdentity: 'somebody' } };
    }

    await world.pass(limits.renewEveryMs);

    expect(said(only)).toEqual(['leading', 'no longer leading for somebody']);
  });

  test('that cannot renew stops by itself before anybody else may begin', async () => {
    const world = new LeaseWorld();
    const first = world.enter();
    await world.pass(1_000);
    const second = world.enter();
    await world.pass(60_000);
    first.isCut = true;

    let leaderless = 0;
    while (world.leaders[0] !== second) {
      await world.pass(50);
      leaderless += world.leaders.length === 0 ? 1 : 0;
    }

    expect(leaderless * 50).toBeGreaterThan(limits.durationMs - limits.renewDeadlineMs - 1_000);
    expect(said(first)).toEqual(['leading', 'no longer leading for nobody']);
    expect(first.news.filter(({ kind }) => kind === 'failed').length).toBeGreaterThan(2);
  });

  test('whose time ran out and whom nobody replaced leads again, and says both', async () => {
    const world = new LeaseWorld();
    const only = world.enter();
    await world.pass(1_000);
    only.isCut = true;
    await world.pass(60_000);

    only.isCut = false;
    await world.pass(10_000);

    expect(said(only)).toEqual(['leading', 'no longer leading for nobody', 'leading']);
    expect(world.lease?.spec.leaseTransitions).toBe(0);
  });

  test('that was stopped and goes on between its deadline and the end of its lease says that it stopped leading', async () => {
    const world = new LeaseWorld();
    const only = world.enter();
    await world.pass(1_000);
    only.timers.freeze();
    await world.pass(30_000);

    await only.timers.thaw();
    await world.pass(10_000);

    expect(said(only)).toEqual(['leading', 'no longer leading for nobody', 'leading']);
  });

  test('whose claim was answered by nobody knows that it was granted when it looks again', async () => {
    const world = new LeaseWorld();
    const only = world.enter();
    only.losesAnswers = true;
    await world.pass(10_000);
    const meanwhile = only.candidate.isLeading;

    only.losesAnswers = false;
    await world.pass(10_000);

    expect([meanwhile, only.candidate.isLeading]).toEqual([false, true]);
  });

  test('that may not use the Lease says so again and again, and never leads', async () => {
    const world = new LeaseWorld();
    const only = world.enter();
    only.refusal = new LeaseUnavailable('leases is forbidden', 0);

    await world.pass(120_000);

    expect(world.leaders).toEqual([]);
    expect(said(only)).toEqual(['standing by for nobody']);
    const failures = only.news.filter(({ kind }) => kind === 'failed').length;
    expect(failures).toBeGreaterThan(20);
    expect(failures).toBeLessThan(60);
  });

  test('waits as long as a busy API server asks', async () => {
    const world = new LeaseWorld();
    const only = world.enter();
    only.refusal = new LeaseUnavailable('too many requests', 20_000);

    await world.pass(59_000);

    expect(only.requests).toBe(3);
  });

  test('counts the other’s time by its own clock: a wall clock that is set changes nothing', async () => {
    const world = new LeaseWorld();
    const first = world.enter();
    await world.pass(1_000);
    const second = world.enter();
    for (const byMs of [3_600_000, -86_400_000, 86_400_000]) {
      world.timers.setClock(byMs);
      await world.pass(60_000);
    }

    expect([said(first), said(second)]).toEqual([['leading'], ['standing by for relay-0']]);
  });

  test('respects the time that the holder was promised, not its own', async () => {
    const world = new LeaseWorld();
    const patient = world.enter();
    await world.pass(1_000);
    patient.kill();
    if (world.lease !== undefined) {
      world.lease = { ...world.lease, spec: { ...world.lease.spec, leaseDurationSeconds: 60 } };
    }
    const second = world.enter();

    await world.pass(59_000);
    const early = second.candidate.isLeading;
    await world.pass(5_000);

    expect([early, second.candidate.isLeading]).toEqual([false, true]);
  });

  test('keeps the lease although others write to it without taking it', async () => {
    const world = new LeaseWorld();
    const only = world.enter();
    for (let version = 1_000; version < 1_030; version += 1) {
      await world.pass(2_000);
      if (world.lease !== undefined) {
        world.lease = { ...world.lease, metadata: { resourceVersion: String(version) } };
      }
    }

    expect(said(only)).toEqual(['leading']);
  });

  test('creates the Lease again when somebody deletes it', async () => {
    const world = new LeaseWorld();
    const only = world.enter();
    await world.pass(1_000);
    world.lease = undefined;

    await world.pass(limits.renewEveryMs + 1_000);

    expect(only.candidate.isLeading).toBe(true);
    expect(world.lease).toMatchObject({ spec: { holderIdentity: 'relay-0' } });
  });
});

test('the limits leave room for a renewal that hangs and another one, and for a holder that is late', () => {
  for (const seconds of [3, 10, 15, 299]) {
    const { durationMs, renewDeadlineMs, renewEveryMs, requestTimeoutMs, lookEveryMs } =
      leaseLimitsOf(seconds);

    expect(renewEveryMs + requestTimeoutMs + lookEveryMs).toBeLessThan(renewDeadlineMs);
    expect(renewDeadlineMs).toBeLessThan(durationMs);
    expect(Object.values(leaseLimitsOf(seconds)).every(Number.isInteger)).toBe(true);
  }
});

describe('over any history of stopped, killed, cut off and slow processes', () => {
  const who = fc.nat({ max: 2 });
  const operation = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constantFrom(
          'freeze' as const,
          'thaw' as const,
          'cut' as const,
          'mend' as const,
          'loseAnswers' as const,
          'kill' as const,
          'stop' as const,
        ),
        who,
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('clock' as const), who }) },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('pass' as const),
        who,
        ms: fc.constantFrom(100, 1_000, 4_000, 9_000, 14_000, 20_000),
      }),
    },
  );
  type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

  async function apply(world: LeaseWorld, alive: Contender[], operation: Operation): Promise<void> {
    const contender = alive[operation.who];
    if (contender === undefined) {
      return;
    }
    switch (operation.do) {
      case 'freeze':
        return contender.timers.freeze();
      case 'thaw':
        return contender.timers.thaw();
      case 'cut':
        contender.isCut = true;
        return;
      case 'loseAnswers':
        contender.losesAnswers = true;
        return;
      case 'mend':
        return heal(contender);
      case 'clock':
        return world.timers.setClock(operation.who === 0 ? 3_600_000 : -3_600_000);
      case 'kill':
        contender.kill();
        alive[operation.who] = world.enter();
        return;
      case 'stop':
        void contender.stop();
        alive[operation.who] = world.enter();
        return;
      case 'pass':
        return world.pass(operation.ms);
    }
  }

  async function heal(contender: Contender): Promise<void> {
    contender.isCut = false;
    contender.losesAnswers = false;
    await contender.timers.thaw();
  }

  test('never two lead at a time, and one does soon after all is well', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(operation, { maxLength: 40 }),
        fc.nat(),
        async (operations, seed) => {
          const world = new LeaseWorld(seeded(seed));
          const alive = [world.enter(), world.enter(), world.enter()];

          for (const operation of operations) {
            await apply(world, alive, operation);
          }
          await Promise.all(alive.map(heal));
          await world.pass(limits.durationMs + limits.renewEveryMs + 2 * limits.requestTimeoutMs);

          expect(world.leaders).toHaveLength(1);
          expect(alive).toContain(world.leaders[0]);
        },
      ),
      { numRuns: 150 },
    );
  });
});
