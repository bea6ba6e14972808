import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Instant, plusSeconds } from '#shared/kernel/instant.ts';
import { etcdCleanup } from '#functions/etcd-cleanup/step.ts';
import { archivedSoundly } from '#test/unit/shared/archive/an-archive.ts';
import { SimulatedShard, type Strike, names } from './simulated-shard.ts';

const strike = fc.constantFrom<Strike>(
  { kind: 'none' },
  { kind: 'none' },
  { kind: 'crashAfter', write: 1 },
  { kind: 'unanswered', what: 'topology' },
  { kind: 'unanswered', what: 'pods' },
  { kind: 'unanswered', what: 'admin' },
);

/** What becomes of a member, and how a look goes so many seconds later. */
const turn = fc.record({
  name: fc.constantFrom(...names.slice(1)),
  what: fc.constantFrom('kill', 'stop', 'touch', 'relabel'),
  seconds: fc.integer({ min: 1, max: 2_000 }),
  strike,
});

test('the decision over an archived snapshot is that over the snapshot', async () => {
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(fc.array(turn, { maxLength: 24 }), async (turns) => {
      const shard = new SimulatedShard(Date.parse('2026-01-01T00:00:00Z') as Instant, 2);
      for (const name of names) {
        shard.start(name, 'labelled');
      }
      for (const each of turns) {
        shard[each.what](each.name);
        shard.now = plusSeconds(shard.now, each.seconds);
        await shard.look(each.strike);
      }

      for (const { snapshot, now } of shard.looks) {
        seen.add((await archivedSoundly(etcdCleanup, snapshot, now)).decision.reason);
      }
    }),
    { numRuns: 60 },
  );

  expect([...seen]).toEqual(
    expect.arrayContaining(['TopologyClean', 'StaleRecords', 'PoolerRetired']),
  );
});
