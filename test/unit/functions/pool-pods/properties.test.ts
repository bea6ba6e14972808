import fc from 'fast-check';
import { expect, test } from 'vitest';
import { claimName, podBaseName, podName, sharedBackupClaimName } from '#shared/api/names.ts';
import type { Decision } from '#shared/kernel/decision.ts';
import type { Effect } from '#shared/kernel/effect.ts';
import { execute } from '#shared/kernel/execute.ts';
import { createLogger } from '#shared/kernel/logger.ts';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { present, unknown } from '#shared/kernel/read.ts';
import { decide } from '#functions/pool-pods/decide.ts';
import { managedGroupsOf } from '#functions/pool-pods/manifests.ts';
import { membersOf } from '#functions/pool-pods/plan.ts';
import { poolPods } from '#functions/pool-pods/step.ts';
import { refuse } from './a-run.ts';
import { KubeModel } from '#test/builders/kube-model.ts';
import { aShard } from '#test/builders/shard.ts';
import { now } from './a-snapshot.ts';
import { anySnapshot } from './any-snapshot.ts';
import { noGoverse } from '#test/builders/no-goverse.ts';

const runs = 500;
function creationsOf({ effects }: Decision): readonly Effect<'createObject'>[] {
  const all: readonly Effect[] = effects;
  return all.filter((effect) => effect.kind === 'createObject');
}

function namesMade(decision: Decision, kind: string): readonly string[] {
  return creationsOf(decision)
    .filter(({ object }) => object.kind === kind)
    .map(({ object }) => object.name);
}

test('decide is total and deterministic', () => {
  fc.assert(
    fc.property(anySnapshot, (snapshot) => {
      expect(decide(structuredClone(snapshot), now)).toEqual(decide(snapshot, now));
    }),
    { numRuns: runs },
  );
});

test('nothing is made while anything that must be known is not, or somebody holds the shard', () => {
  let held = 0;
  fc.assert(
    fc.property(anySnapshot, (snapshot) => {
      const { shard, record, drain, pods, database, claims } = snapshot;
      const isHeld =
        shard.isPaused ||
        shard.isBeingDeleted ||
        record.kind === 'foreign' ||
        record.kind === 'unreadable' ||
        drain.kind === 'unreadable' ||
        pods.kind !== 'present' ||
        database.kind !== 'present' ||
        database.value.isPaused;
      const decision = decide(snapshot, now);

      if (isHeld) {
        held += 1;
        expect(creationsOf(decision)).toEqual([]);
      }
      if (claims.kind !== 'present') {
        expect(namesMade(decision, 'Pod')).toEqual([]);
      }
    }),
    { numRuns: runs },
  );
  expect(held).toBeGreaterThan(runs / 10);
});

test('members that are there and members that are made are never more than wanted', () => {
  let made = 0;
  fc.assert(
    fc.property(anySnapshot, (snapshot) => {
      const pods = namesMade(decide(snapshot, now), 'Pod');
      made += pods.length;

      for (const group of managedGroupsOf(snapshot.shard)) {
        const inGroup = pods.filter((name) => name.startsWith(`${group.base}-`)).length;
        if (inGroup > 0) {
          expect(membersOf(snapshot, group).length + inGroup).toBeLessThanOrEqual(
            group.pool.replicasPerCell,
          );
        }
      }
    }),
    { numRuns: runs },
  );
  expect(made).toBeGreaterThan(runs / 2);
});

test('nothing is made at the index of an open drain, under a name that stands, or on a claim that is not its own', () => {
  const base = podBaseName('orders', 'main', 'zone-a');
  fc.assert(
    fc.property(anySnapshot, (snapshot) => {
      const decision = decide(snapshot, now);
      const made = namesMade(decision, 'Pod');
      const { drain, pods, claims } = snapshot;
      const standing = pods.kind === 'present' ? pods.value.map(({ name }) => name) : [];
      const unusable =
        claims.kind === 'present'
          ? claims.value.filter(
              (candidate) =>
                candidate.isBeingDeleted ||
                candidate.hasController ||
                Object.keys(candidate.labels).length === 0,
            )
          : [];

      expect(new Set(made).size).toBe(made.length);
      expect(made.filter((name) => standing.includes(name))).toEqual([]);
      expect(
        made.filter((name) => unusable.some((candidate) => candidate.name === claimName(name))),
      ).toEqual([]);
      if (drain.kind === 'ours' && drain.record.state !== 'choosing') {
        const { index } = drain.record.data;
        expect(made).not.toContain(podName(base, index));
        expect(namesMade(decision, 'PersistentVolumeClaim')).not.toContain(
          claimName(podName(base, index)),
        );
      }
    }),
    { numRuns: runs },
  );
});

test('every pod is made behind its claim, with a name that is a DNS label', () => {
  fc.assert(
    fc.property(anySnapshot, (snapshot) => {
      const decision = decide(snapshot, now);
      const known = snapshot.claims.kind === 'present' ? snapshot.claims.value : [];
      const order = creationsOf(decision).map(({ object }) => object.name);

      for (const name of namesMade(decision, 'Pod')) {
        const data = claimName(name);
        const isThere = known.some((candidate) => candidate.name === data);
        expect(isThere || order.indexOf(data) === order.indexOf(name) - 1).toBe(true);
        expect(name).toMatch(/^[a-z]([-a-z0-9]{0,61}[a-z0-9])$/);
      }
    }),
    { numRuns: runs },
  );
});

test('no member is made that mounts a claim of the backups which is not there, is going, or is not the shard’s', () => {
  const name = sharedBackupClaimName('orders');
  let made = 0;
  fc.assert(
    fc.property(anySnapshot, (snapshot) => {
      const decision = decide(snapshot, now);
      const { claims } = snapshot;
      const known = claims.kind === 'present' ? claims.value : [];
      const claim = known.find((candidate) => candidate.name === name);
      const isUsable =
        claim !== undefined &&
        !claim.isBeingDeleted &&
        !claim.hasController &&
        Object.keys(claim.labels).length > 0;
      const order = creationsOf(decision).map(({ object }) => object.name);
      const users = creationsOf(decision)
        .filter(({ manifest }) => JSON.stringify(manifest).includes(`"claimName":"${name}"`))
        .map(({ object }) => object.name);
      made += users.length;

      for (const pod of users) {
        expect(isUsable || (order.includes(name) && order.indexOf(name) < order.indexOf(pod))).toBe(
          true,
        );
      }
      expect(claim === undefined || !order.includes(name)).toBe(true);
    }),
    { numRuns: runs },
  );
  expect(made).toBeGreaterThan(runs / 100);
});

test('the claim of the backups is never changed, and no member stands in for it', () => {
  const name = sharedBackupClaimName('orders');
  fc.assert(
    fc.property(anySnapshot, (snapshot) => {
      const effects: readonly Effect[] = decide(snapshot, now).effects;
      const patched = effects.flatMap((effect) =>
        effect.kind === 'patchObject' ? [effect.object.name] : [],
      );

      expect(patched).not.toContain(name);
    }),
    { numRuns: runs },
  );
});

test('a backup that is missing changes what is said, and nothing of what is made', () => {
  let warned = 0;
  fc.assert(
    fc.property(anySnapshot, (snapshot) => {
      const without = { ...snapshot, backups: present({ isOneComplete: false }) };
      const unreadable = { ...snapshot, backups: unknown('nobody can be asked') };
      const [warns, silent] = [decide(without, now), decide(unreadable, now)];
      const all: readonly Effect[] = warns.effects;
      const events = all.filter(({ kind }) => kind === 'emitEvent');
      warned += events.length;

      expect(creationsOf(warns)).toEqual(creationsOf(silent));
      expect(warns.outcome).toBe(silent.outcome);
      expect(events.length).toBe(namesMade(warns, 'Pod').length > 0 ? 1 : 0);
    }),
    { numRuns: runs },
  );
  expect(warned).toBeGreaterThan(runs / 100);
});

test('the executor accepts every decision: guards, declared effects, and a wake wherever it waits', async () => {
  const logger = createLogger('silent', {});
  await fc.assert(
    fc.asyncProperty(anySnapshot, async (snapshot) => {
      const { shard, record } = snapshot;
      const decision = decide(snapshot, now);
      const target = aShard().withUid(shard.uid);
      const built = (
        record.text === null
          ? target
          : target.withAnnotation(recordAnnotation('pool-pods'), record.text)
      ).build();
      const kube = new KubeModel().put('Shard', built);

      const execution = await execute(
        poolPods,
        built,
        decision,
        { kube, topology: refuse, goverse: noGoverse, admin: refuse, repository: refuse },
        {
          clock: () => now,
          logger,
          signal: new AbortController().signal,
          remainingMs: () => 30_000,
        },
      );

      // A patch of an object that the model does not have loses its race; the rest is written.
      expect(['done', 'lostRace']).toContain(execution.kind);
      expect(decision.effects.filter(({ kind }) => kind === 'advance').length).toBeLessThan(2);
    }),
    { numRuns: 200 },
  );
});
