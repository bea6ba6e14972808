import { describe, expect, test } from 'vitest';
import { etcdRemoval } from '#infra/local/data-plane/etcd-removal.ts';
import {
  EtcdFailure,
  type EtcdStore,
  type SwapRequest,
  within,
} from '#shared/topology/etcd-store.ts';

const key = '/multigres/lock';
const limits = within(5_000, undefined);

/** A store that holds the key at each of these revisions in turn, one per read; after the last it holds it no more. */
function aStore(revisions: readonly string[]) {
  const left = [...revisions];
  const swaps: SwapRequest[] = [];
  const store: EtcdStore = {
    async range() {
      const [modRevision] = left;
      return {
        revision: '9',
        entries:
          modRevision === undefined
            ? []
            : [{ key: Buffer.from(key), value: Buffer.of(1), modRevision }],
        more: false,
      };
    },
    async swap(request) {
      swaps.push(request);
      left.shift();
      return left.length === 0 ? { kind: 'swapped', modRevision: '10' } : { kind: 'moved' };
    },
    swapAll: () => expect.unreachable('one key is removed'),
    close: () => undefined,
  };
  return { store, swaps };
}

describe('the removal of a key', () => {
  test('is of that key alone, as it was found', async () => {
    const { store, swaps } = aStore(['7']);

    await etcdRemoval(store)(key, limits);

    expect(swaps).toEqual([{ key, value: null, modRevision: '7' }]);
  });

  test('begins again where the key was written meanwhile', async () => {
    const { store, swaps } = aStore(['7', '8']);

    await etcdRemoval(store)(key, limits);

    expect(swaps.map(({ modRevision }) => modRevision)).toEqual(['7', '8']);
  });

  test('of a key that is not there is no failure', async () => {
    const { store, swaps } = aStore([]);

    await etcdRemoval(store)(key, limits);

    expect(swaps).toEqual([]);
  });

  test('that etcd refuses is a failure', async () => {
    const { store } = aStore(['7']);
    const refusing: EtcdStore = {
      ...store,
      swap: () => Promise.reject(new EtcdFailure('failed', 'etcd answers 503')),
    };

    await expect(etcdRemoval(refusing)(key, limits)).rejects.toThrow('etcd answers 503');
  });
});
