import { describe, expect, test } from 'vitest';
import { recordAnnotation } from '#shared/api/annotations.ts';
import { claimName } from '#shared/api/names.ts';
import { present } from '#shared/kernel/read.ts';
import { decide } from '#functions/pool-pods/decide.ts';
import { observe } from '#functions/pool-pods/observe.ts';
import { aClaim, aPod, nameOfPod } from '#test/builders/pod.ts';
import { aShard } from '#test/builders/shard.ts';
import { Run } from './a-run.ts';
import { now, writesOf } from './a-snapshot.ts';

const signal = new AbortController().signal;

function look(run: Run) {
  run.kube.calls.length = 0;
  return observe(present(run.shard), run.ports, signal);
}

async function aConvergedRun(count: number): Promise<Run> {
  const run = new Run(aShard().withPool(count));
  await run.settle();
  await run.look();
  return run;
}

describe('what a look costs', () => {
  test('a converged shard costs four reads besides its own, and no write', async () => {
    const run = await aConvergedRun(3);
    run.kube.calls.length = 0;

    await run.look();

    expect(run.kube.calls.toSorted()).toEqual([
      'get Database',
      'get Service',
      'list Pod',
      'list PodDisruptionBudget',
    ]);
    expect(run.questions).toBe(0);
  });

  test('while a member has yet to start its claim is looked for, which is one read more', async () => {
    const run = await aConvergedRun(3);
    run.kube.change('Pod', nameOfPod(run.shard, 1), (pod) => ({
      ...pod,
      status: { phase: 'Pending' },
    }));

    await look(run);

    expect(run.kube.calls.toSorted()).toEqual([
      'get Database',
      'get Service',
      'list PersistentVolumeClaim',
      'list Pod',
      'list PodDisruptionBudget',
    ]);
  });

  test('a shard that is being deleted costs nothing', async () => {
    const run = new Run(aShard().withPool(3).beingDeleted());

    await look(run);

    expect(run.kube.calls).toEqual([]);
  });

  test('a paused shard costs two reads, for its status', async () => {
    const run = new Run(aShard().withPool(3).paused());

    await look(run);

    expect(run.kube.calls).toEqual(['list Pod', 'get Database']);
  });

  test('an attached shard costs one read, for its status', async () => {
    const run = new Run(aShard().withAttachedPool(3));

    await look(run);

    expect(run.kube.calls).toEqual(['list Pod']);
  });

  test('a record of another object is not worth a read', async () => {
    const record = { v: 1, uid: 'another', key: 'x', state: 'waiting' };
    const run = new Run(
      aShard().withPool(3).withAnnotation(recordAnnotation('pool-pods'), JSON.stringify(record)),
    );

    const snapshot = await look(run);

    expect(snapshot.record.kind).toBe('foreign');
    expect(run.kube.calls).toEqual([]);
  });
});

describe('where something is missing', () => {
  test('claims are read before the pods that say whether they are in use', async () => {
    const run = await aConvergedRun(3);
    run.stop(1);

    await look(run);

    const { calls } = run.kube;
    expect(calls.lastIndexOf('list Pod')).toBeGreaterThan(
      calls.indexOf('list PersistentVolumeClaim'),
    );
    expect(calls).toContain('get Database');
  });

  test('a pod that was made between the two lists is not made again', async () => {
    const run = await aConvergedRun(3);
    const pod = run.kube.the('Pod', run.pod(1));
    run.stop(1);
    const list = run.kube.list.bind(run.kube);
    run.kube.list = async (kind, options) => {
      const answer = await list(kind, options);
      if (kind === 'PersistentVolumeClaim') {
        run.kube.put('Pod', pod);
      }
      return answer;
    };

    const decision = decide(await look(run), now);

    expect(decision).toMatchObject({ outcome: 'settled', reason: 'MembersReady' });
  });

  test('a foreign pod without our labels is found by its name', async () => {
    const run = new Run(aShard().withPool(1));
    run.kube.put('Pod', aPod(run.shard, 0).withLabels({}).controlledBy(null).build());

    const snapshot = await look(run);

    expect(snapshot.pods).toMatchObject({
      kind: 'present',
      value: [{ name: run.pod(0), owner: 'foreign' }],
    });
  });

  test('a pod of ours that lost its labels is found by its name and labelled again', async () => {
    const run = await aConvergedRun(3);
    run.kube.change('Pod', run.pod(1), (pod) => ({
      ...pod,
      metadata: { ...pod.metadata, labels: {} },
    }));

    await run.settle();

    expect(run.indices).toEqual([0, 1, 2]);
    expect(run.kube.the('Pod', run.pod(1)).metadata.labels).toMatchObject({
      'millrace.dev/shard': 'orders',
      'millrace.dev/index': '1',
    });
  });

  test('a claim of the right name without our labels is found and not used', async () => {
    const run = new Run(aShard().withPool(1));
    run.kube.put('PersistentVolumeClaim', aClaim(run.shard, 0).withLabels({}).build());

    const decision = await run.settle();

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'NameTaken' });
    expect(run.indices).toEqual([]);
  });

  test('names that others have make room for further ones, which are asked for as well (S5)', async () => {
    const run = new Run(aShard().withPool(8));
    for (const index of [0, 1, 2, 3]) {
      run.kube.put('PersistentVolumeClaim', aClaim(run.shard, index).withLabels({}).build());
    }

    const decision = decide(await look(run), now);

    const asked = run.kube.calls.filter((call) => call === 'get PersistentVolumeClaim').length;
    const foreign = 4;
    expect(writesOf(decision).filter((write) => write.startsWith('create Pers'))).toHaveLength(
      asked - foreign,
    );
    expect(asked).toBeGreaterThan(foreign);
  });

  test('a budget of the right name without our labels is found and not touched', async () => {
    const run = await aConvergedRun(1);
    const [budget] = run.kube.all('PodDisruptionBudget');
    const name = budget?.metadata.name ?? '';
    run.kube.change('PodDisruptionBudget', name, (object) => ({
      ...object,
      metadata: { ...object.metadata, labels: {}, ownerReferences: [] },
    }));
    const before = run.kube.the('PodDisruptionBudget', name);

    const decision = await run.settle();

    expect(decision).toMatchObject({ outcome: 'blocked', reason: 'NameTaken' });
    expect(run.kube.the('PodDisruptionBudget', name)).toEqual(before);
  });

  test('a name that cannot be asked for makes the pods unknown, and nothing is made', async () => {
    const run = new Run(aShard().withPool(1));
    run.kube.makeUnknown('get Pod');

    const decision = decide(await look(run), now);

    expect(decision).toMatchObject({ outcome: 'waiting', reason: 'MembersUnknown' });
  });

  test.each([
    ['list Pod', 'MembersUnknown'],
    ['list PersistentVolumeClaim', 'ClaimsUnknown'],
    ['get Database', 'DatabaseUnknown'],
  ])('when %s is refused no member is made', async (call, reason) => {
    const run = new Run(aShard().withPool(1));
    run.kube.makeUnknown(call);

    const decision = await run.settle();

    expect(decision).toMatchObject({ outcome: 'waiting', reason });
    expect(run.indices).toEqual([]);
  });

  test('a pod of an earlier Shard of this name is former, one of any other controller foreign', async () => {
    const run = new Run(aShard().withPool(1));
    run.kube.put('Pod', aPod(run.shard, 0).controlledBy({ name: 'orders', uid: 'old' }).build());
    run.kube.put('Pod', aPod(run.shard, 1).controlledBy({ name: 'other', uid: 'x' }).build());

    const snapshot = await look(run);

    expect(snapshot.pods).toMatchObject({
      kind: 'present',
      value: [{ owner: 'former' }, { owner: 'foreign' }],
    });
  });

  test('the mark on a claim and the readiness of a pod are read', async () => {
    const run = new Run(aShard().withPool(3));
    run.kube.put('Pod', aPod(run.shard, 0).ready().build());
    run.kube.put('Pod', aPod(run.shard, 1).failed().build());
    run.kube.put('PersistentVolumeClaim', aClaim(run.shard, 2).released('a-uid').build());

    const snapshot = await look(run);

    expect(snapshot.pods).toMatchObject({ value: [{ isReady: true }, { isReady: false }] });
    expect(snapshot.claims).toMatchObject({
      value: [{ name: claimName(nameOfPod(run.shard, 2)), released: 'a-uid' }],
    });
  });
});

test('conditions that no step writes are not looked at: nobody knows whose words they hold', async () => {
  const stalled = {
    status: 'False',
    observedGeneration: 1,
    lastTransitionTime: '2026-01-01T00:00:00Z',
    reason: 'MembersUnknown',
    message: 'of somebody else',
  } as const;
  const shard = aShard()
    .withPool(1)
    .withCondition({ ...stalled, type: 'Drained' })
    .withCondition({ ...stalled, type: 'SomebodyElses' });

  const snapshot = await look(new Run(shard));

  expect(snapshot.shard.conditions.map(({ type }) => type)).toEqual(['Drained']);
});
