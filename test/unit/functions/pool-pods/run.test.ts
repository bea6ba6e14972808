import { describe, expect, test } from 'vitest';
import { recordAnnotation, releasedClaim } from '#shared/api/annotations.ts';
import { claimName, serviceName } from '#shared/api/names.ts';
import { present } from '#shared/kernel/read.ts';
import { poolPods } from '#functions/pool-pods/step.ts';
import { aPod } from '#test/builders/pod.ts';
import { aShard, aTemplate } from '#test/builders/shard.ts';
import { Run } from './a-run.ts';
import { now } from './a-snapshot.ts';

const signal = new AbortController().signal;

async function aRunOf(count: number): Promise<Run> {
  const run = new Run(aShard().withPool(count));
  await run.settle();
  return run;
}

describe('growing', () => {
  test('0 → 3: three members, each on its claim, with a Service and a budget', async () => {
    const run = await aRunOf(3);

    expect(run.indices).toEqual([0, 1, 2]);
    expect(run.kube.all('PersistentVolumeClaim').map(({ metadata }) => metadata.name)).toEqual(
      [0, 1, 2].map((index) => claimName(run.pod(index))),
    );
    expect(run.kube.all('Service')).toHaveLength(1);
    expect(run.kube.all('PodDisruptionBudget')).toHaveLength(1);
    expect(run.shard.status).toMatchObject({
      pools: [{ name: 'main', cell: 'zone-a', desired: 3, ready: 3 }],
    });
  });

  test('3 → 5 keeps the three and adds two', async () => {
    const run = await aRunOf(3);
    const before = run.kube.all('Pod').map(({ metadata }) => metadata.uid);
    run.scaleTo(5);

    await run.settle();

    expect(run.indices).toEqual([0, 1, 2, 3, 4]);
    expect(run.kube.all('Pod').map(({ metadata }) => metadata.uid)).toEqual(
      expect.arrayContaining(before),
    );
  });

  test('0 → 32 in two cells takes several looks and leaves no record behind', async () => {
    const run = new Run(aShard().withPool(32, { cells: ['zone-a', 'zone-b'] }));

    await run.settle();

    expect(run.kube.all('Pod')).toHaveLength(64);
    expect(run.shard.metadata.annotations?.[recordAnnotation('pool-pods')]).toBeUndefined();
  });
});

describe('losing', () => {
  test('a lost pod is waited for while it stops, and comes back at its index on its claim', async () => {
    const run = await aRunOf(3);
    const claim = run.kube.the('PersistentVolumeClaim', claimName(run.pod(1))).metadata.uid;
    run.terminate(1);

    await run.settle();
    const whileItStops = run.indices;
    run.stop(1);
    await run.settle();

    expect(whileItStops).toEqual([0, 1, 2]);
    expect(run.indices).toEqual([0, 1, 2]);
    expect(run.kube.the('PersistentVolumeClaim', claimName(run.pod(1))).metadata.uid).toBe(claim);
  });

  test('a pod lost with its claim comes back on a new claim, once the old one is gone', async () => {
    const run = await aRunOf(3);
    const claim = run.kube.the('PersistentVolumeClaim', claimName(run.pod(1))).metadata.uid;
    run.terminateClaim(1);
    run.stop(1);

    const decision = await run.settle();
    const whileItGoes = run.indices;
    run.stopClaim(1);
    await run.settle();

    expect(decision).toMatchObject({ outcome: 'waiting', reason: 'NameBeingFreed' });
    expect(whileItGoes).toEqual([0, 2]);
    expect(run.indices).toEqual([0, 1, 2]);
    expect(run.kube.the('PersistentVolumeClaim', claimName(run.pod(1))).metadata.uid).not.toBe(
      claim,
    );
  });

  test('everything lost but the claims comes back on them', async () => {
    const run = await aRunOf(3);
    [0, 1, 2].forEach((index) => run.stop(index));

    await run.settle();

    expect(run.indices).toEqual([0, 1, 2]);
    expect(run.kube.all('PersistentVolumeClaim')).toHaveLength(3);
  });
});

describe('beside drain-step', () => {
  test('D13: nothing is made at the index of an open drain; afterwards the member comes back there', async () => {
    const run = await aRunOf(3);
    run.openDrain(1, 'finished', 'requested');
    run.stop(1);

    await run.settle();
    const whileOpen = run.indices;
    run.closeDrain();
    await run.settle();

    expect(whileOpen).toEqual([0, 2]);
    expect(run.indices).toEqual([0, 1, 2]);
  });

  test('S6: 3 → 2 → 3 uses the freed index again and takes the mark off its claim', async () => {
    const run = await aRunOf(3);
    run.scaleTo(2);
    run.openDrain(2, 'finished', 'surplus');
    run.stop(2);
    await run.settle();
    run.closeDrain(2);
    await run.settle();
    const inBetween = run.indices;

    run.scaleTo(3);
    await run.settle();

    const claim = run.kube.the('PersistentVolumeClaim', claimName(run.pod(2)));
    expect(inBetween).toEqual([0, 1]);
    expect(run.indices).toEqual([0, 1, 2]);
    expect(claim.metadata.annotations?.[releasedClaim]).toBeUndefined();
  });

  test('S6: 3 → 2 → 3 while the surplus member still leaves ends with three, none of them at its index', async () => {
    const run = await aRunOf(3);
    run.scaleTo(2);
    run.openDrain(2, 'finished', 'surplus');
    run.terminate(2);
    run.scaleTo(3);

    await run.settle();
    const whileItStops = run.indices;
    run.stop(2);
    await run.settle();
    run.closeDrain(2);
    await run.settle();

    expect(whileItStops).toEqual([0, 1, 2]);
    expect(run.indices).toEqual([0, 1, 3]);
  });

  test('a drain taken back before the point of no return changes nothing', async () => {
    const run = await aRunOf(3);
    const before = run.kube.all('Pod');
    run.openDrain(1, 'draining', 'requested');
    await run.settle();
    run.closeDrain();

    await run.settle();

    expect(run.kube.all('Pod')).toEqual(before);
  });
});

describe('twice, late, or with an old view', () => {
  test('D10: a look that was killed before any of its writes is made good by the next', async () => {
    const reference = await aRunOf(3);
    const writesOfTheFirstLook = 9;

    for (let killedBefore = 0; killedBefore < writesOfTheFirstLook; killedBefore += 1) {
      const run = new Run(aShard().withPool(3));
      let writes = 0;
      run.kube.beforeWrite = () => {
        if (writes === killedBefore) {
          throw new Error('the sandbox is killed here');
        }
        writes += 1;
      };

      await expect(run.look()).rejects.toThrow('the sandbox is killed here');
      run.kube.beforeWrite = () => undefined;
      await run.settle();

      expect(run.indices).toEqual(reference.indices);
      expect(run.kube.all('PersistentVolumeClaim')).toHaveLength(3);
      expect(run.kube.all('Service')).toHaveLength(1);
      expect(run.kube.all('PodDisruptionBudget')).toHaveLength(1);
    }
  });

  test('P1: two handlers with the same view make each object once', async () => {
    const run = new Run(aShard().withPool(3));
    const shard = run.shard;
    const snapshot = await poolPods.observe(present(shard), run.ports, signal, () => now);
    const decision = poolPods.decide(snapshot, now);

    const first = await run.perform(shard, decision);
    const uids = run.kube.all('Pod').map(({ metadata }) => metadata.uid);
    const second = await run.perform(shard, decision);

    expect(first.kind).toBe('done');
    expect(second.kind).toBe('lostRace');
    expect(run.kube.all('Pod').map(({ metadata }) => metadata.uid)).toEqual(uids);
  });

  test('D13: a handler that has not heard of a drain makes nothing at its index', async () => {
    const run = await aRunOf(3);
    run.stop(1);
    const shard = run.shard;
    const decision = poolPods.decide(
      await poolPods.observe(present(shard), run.ports, signal, () => now),
      now,
    );
    run.openDrain(1, 'finished', 'failed');

    const execution = await run.perform(shard, decision);

    expect(decision.outcome).toBe('acting');
    expect(execution.kind).toBe('lostRace');
    expect(run.indices).toEqual([0, 2]);
  });

  test('a handler with an old spec makes nothing', async () => {
    const run = await aRunOf(3);
    run.scaleTo(5);
    const shard = run.shard;
    const decision = poolPods.decide(
      await poolPods.observe(present(shard), run.ports, signal, () => now),
      now,
    );
    run.scaleTo(3);

    const execution = await run.perform(shard, decision);

    expect(execution.kind).toBe('lostRace');
    expect(run.indices).toEqual([0, 1, 2]);
  });

  test('a foreign pod that takes the name in between is not touched, and blocks at the next look', async () => {
    const run = await aRunOf(3);
    run.stop(1);
    const foreign = aPod(run.shard, 1).controlledBy(null).withUid('foreign').build();
    run.kube.beforeWrite = (call) => {
      if (call === 'create') {
        run.kube.put('Pod', foreign);
      }
    };

    const decision = await run.look();

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'NameTaken' });
    expect(run.kube.the('Pod', run.pod(1))).toEqual(foreign);
  });

  test('X7: a settled shard is not written to, however often it is looked at', async () => {
    const run = await aRunOf(3);
    await run.look();
    const { resourceVersion } = run.shard.metadata;
    run.kube.calls.length = 0;

    await run.look();
    await run.look();

    expect(run.kube.calls.filter((call) => !/^(get|list) /.test(call))).toEqual([]);
    expect(run.shard.metadata.resourceVersion).toBe(resourceVersion);
  });
});

describe('what is made', () => {
  test('a pod is the template, with names, labels, owner, claim and the names in DNS added', async () => {
    const spec = {
      ...aTemplate('pooler:7'),
      terminationGracePeriodSeconds: 90,
      volumes: [{ name: 'scratch', emptyDir: {} }],
    };
    const podTemplate = { metadata: { labels: { team: 'orders' } }, spec };
    const run = new Run(aShard().withPool(1, { podTemplate }));

    await run.settle();

    const name = run.pod(0);
    expect(name).toMatch(/^orders-main-zone-a-[0-9a-f]{8}-0$/);
    expect(run.kube.the('Pod', name)).toMatchObject({
      metadata: {
        name,
        namespace: 'db',
        labels: {
          team: 'orders',
          'millrace.dev/shard': 'orders',
          'millrace.dev/pool': 'main',
          'millrace.dev/cell': 'zone-a',
          'millrace.dev/index': '0',
        },
        ownerReferences: [
          {
            apiVersion: 'millrace.dev/v1alpha1',
            kind: 'Shard',
            name: 'orders',
            uid: run.shard.metadata.uid,
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      },
      spec: {
        containers: spec.containers,
        terminationGracePeriodSeconds: 90,
        hostname: name,
        subdomain: serviceName('orders'),
        volumes: [
          { name: 'scratch', emptyDir: {} },
          { name: 'data', persistentVolumeClaim: { claimName: `data-${name}` } },
        ],
      },
    });
  });

  test('a claim has the storage of its pool, the labels of its member and no owner', async () => {
    const storage = { size: '5Gi', className: 'fast', accessModes: ['ReadWriteOnce' as const] };
    const run = new Run(aShard().withPool(1, { storage }));

    await run.settle();

    const claim = run.kube.the('PersistentVolumeClaim', `data-${run.pod(0)}`);
    expect(claim.metadata.ownerReferences).toBeUndefined();
    expect(claim.metadata.labels).toEqual({
      'millrace.dev/shard': 'orders',
      'millrace.dev/pool': 'main',
      'millrace.dev/cell': 'zone-a',
      'millrace.dev/index': '0',
    });
    expect(claim.spec).toEqual({
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: '5Gi' } },
      storageClassName: 'fast',
    });
  });

  test('the Service is headless, for members that are not ready as well', async () => {
    const run = await aRunOf(1);

    expect(run.kube.the('Service', serviceName('orders')).spec).toEqual({
      clusterIP: 'None',
      publishNotReadyAddresses: true,
      selector: { 'millrace.dev/shard': 'orders' },
    });
  });

  test('a budget lets one member of its pool and cell be disrupted', async () => {
    const run = await aRunOf(3);

    expect(run.kube.all('PodDisruptionBudget').map(({ spec }) => spec)).toEqual([
      {
        minAvailable: 2,
        selector: {
          matchLabels: {
            'millrace.dev/shard': 'orders',
            'millrace.dev/pool': 'main',
            'millrace.dev/cell': 'zone-a',
          },
        },
      },
    ]);
  });
});
