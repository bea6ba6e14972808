import { expect, test } from 'vitest';
import { type Instant, plusSeconds } from '#shared/kernel/instant.ts';
import { seeded } from '#test/unit/events/relay/seeded.ts';
import { SimulatedShard, type Strike, desired, names } from './simulated-shard.ts';

const start = Date.parse('2026-01-01T00:00:00Z') as Instant;

test.each(Array.from({ length: 12 }, (_, seed) => seed))(
  'no live pooler’s record is changed, whatever strikes, and every dead one goes in the end, seed %i (G1, G4, G5)',
  async (seed) => {
    const random = seeded(seed);
    const shard = new SimulatedShard(start, 1 + (seed % 3));

    for (let turn = 0; turn < 400; turn += 1) {
      disturb(shard, random);
      shard.now = plusSeconds(shard.now, Math.floor(random() * 400));
      const write = await shard.prepare(strikeOf(random));
      if (random() < 0.3) {
        // Another handler looks and writes meanwhile, and the world goes on.
        disturb(shard, random);
        shard.now = plusSeconds(shard.now, Math.floor(random() * 30));
        await shard.look();
        disturb(shard, random);
      }
      await write();
    }
    await heal(shard);
    const before = shard.writes;
    await shard.look();
    await shard.look();

    expect(shard.violations).toEqual([]);
    expect(shard.changes.length).toBeGreaterThan(5);
    expect(shard.dead.map(({ id }) => id.name)).toEqual([]);
    expect(shard.records.map(({ id }) => id.name).toSorted()).toEqual(
      [...shard.live.keys()].toSorted(),
    );
    expect(shard.writes, 'a converged shard costs no write (X7)').toBe(before);
  },
);

/** One thing that people, nodes or the data plane may do. */
function disturb(shard: SimulatedShard, random: () => number): void {
  const name = names[Math.floor(random() * names.length)] ?? '';
  const dice = random();
  const pod = dice < 0.05 ? 'elsewhere' : dice < 0.1 ? 'unlabelled' : 'labelled';
  switch (Math.floor(random() * 12)) {
    case 0:
    case 1:
      return shard.kill(name);
    case 2:
      return shard.stop(name);
    case 3:
    case 4:
      return shard.start(name, pod);
    case 5:
      return shard.live.has(name) ? undefined : shard.makePod(name, pod);
    case 6:
      return shard.touch(name);
    case 7:
      return shard.lead(name);
    case 8:
      return shard.relabel(name);
    default:
      return undefined;
  }
}

function strikeOf(random: () => number): Strike {
  const write = 1 + Math.floor(random() * 3);
  const strikes: readonly Strike[] = [
    { kind: 'lostReply' },
    { kind: 'lostRequest' },
    { kind: 'crashBefore', write },
    { kind: 'crashAfter', write },
    { kind: 'unanswered', what: 'topology' },
    { kind: 'unanswered', what: 'pods' },
    { kind: 'unanswered', what: 'admin' },
  ];
  return strikes[Math.floor(random() * 14)] ?? { kind: 'none' };
}

/** Enough members with their labels, one of which leads; then only looks. */
async function heal(shard: SimulatedShard): Promise<void> {
  for (const name of names) {
    if (!shard.live.has(name)) {
      shard.kill(name);
    }
  }
  for (const name of names.slice(0, desired)) {
    shard.kill(name);
    shard.start(name, 'labelled');
  }
  shard.lead(names[0] ?? '');
  for (let look = 0; look < 400; look += 1) {
    shard.now = plusSeconds(shard.now, 300);
    await shard.look();
  }
}
