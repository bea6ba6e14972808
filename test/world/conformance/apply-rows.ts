import type { JsonObject } from '#shared/kube/json.ts';
import { aCondition, aShard, guardOf, versionOf } from './manifests.ts';
import type { Row, Script } from './script.ts';

const primary = { pod: 'a-0', pooler: 'zone-a/a-0', rule: '3.1' };
const inA = { name: 'main', cell: 'zone-a', desired: 3, ready: 3 };
const inB = { name: 'main', cell: 'zone-b', desired: 3, ready: 0 };

function conditions(...types: readonly string[]): JsonObject {
  return { conditions: types.map((type) => aCondition(type)) };
}

async function aTarget(script: Script): Promise<JsonObject> {
  return script.create('Shard', aShard('a'));
}

/** Server-side apply of a Shard's status: two steps write one status, and neither touches the other's. */
export const applyRows: readonly Row[] = [
  {
    name: 'two managers have a condition each',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', { ...conditions('Drained'), primary });
      await script.apply('a', 'pool-pods', { ...conditions('Ready'), observedGeneration: 1 });
      await script.apply('a', 'drain-step', {
        conditions: [aCondition('Drained', { status: 'False' })],
        primary,
      });
      await script.get('Shard', 'a');
    },
  },
  {
    name: 'applying the same again keeps the version',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', { ...conditions('Drained'), primary });
      await script.apply('a', 'drain-step', { primary, ...conditions('Drained') });
    },
  },
  {
    name: 'applying does not move the generation',
    play: async (script) => {
      await aTarget(script);
      await script.merge('Shard', 'a', { spec: { paused: true } });
      await script.apply('a', 'pool-pods', { observedGeneration: 2 });
    },
  },
  {
    name: 'what a manager does not apply any more is taken away',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', { ...conditions('Drained', 'Stuck'), primary });
      await script.apply('a', 'drain-step', conditions('Drained'));
      await script.apply('a', 'drain-step', { primary });
      await script.apply('a', 'drain-step', {});
    },
  },
  {
    name: 'a field of an object can be taken away by itself',
    play: async (script) => {
      await aTarget(script);
      const drain = { pod: 'a-1', cause: 'surplus', since: '2001-01-01T00:00:00Z' };
      await script.apply('a', 'drain-step', { drain: { ...drain, waitsFor: 'quorum' } });
      await script.apply('a', 'drain-step', { drain });
    },
  },
  {
    name: 'items of a list are told apart by all of their keys',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'pool-pods', { pools: [inA, inB] });
      await script.apply('a', 'pool-pods', { pools: [inA, { ...inB, ready: 2 }] });
      await script.apply('a', 'pool-pods', { pools: [inB] });
    },
  },
  {
    name: 'what two managers apply alike belongs to both until both leave it',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', { primary });
      await script.apply('a', 'pool-pods', { primary }, { query: {} });
      await script.apply('a', 'drain-step', {});
      await script.apply('a', 'pool-pods', {});
    },
  },
  {
    name: 'another value of somebody else is a conflict, and nothing is written',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', { primary, observedGeneration: 1 });
      await script.apply('a', 'pool-pods', { observedGeneration: 2 }, { query: {} });
      await script.apply(
        'a',
        'pool-pods',
        { observedGeneration: 2, primary: { ...primary, rule: '4.1' } },
        { query: {} },
      );
      await script.get('Shard', 'a');
    },
  },
  {
    name: 'by force a field changes hands, and its former owner cannot take it away',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', { primary });
      await script.apply('a', 'pool-pods', { primary: { ...primary, rule: '4.1' } });
      await script.apply('a', 'drain-step', {});
    },
  },
  {
    name: 'a field that was lost by force goes with the one who took it',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', { observedGeneration: 1, primary });
      await script.apply('a', 'pool-pods', { observedGeneration: 2 });
      await script.apply('a', 'pool-pods', conditions('Ready'));
    },
  },
  {
    name: 'a condition that somebody else half owns stays with what is theirs',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', conditions('Ready'));
      await script.apply('a', 'pool-pods', {
        conditions: [aCondition('Ready', { status: 'False' })],
      });
      await script.apply('a', 'drain-step', {});
    },
  },
  {
    name: 'an order of items is that of who applied last',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', conditions('A', 'B'));
      await script.apply('a', 'pool-pods', conditions('C', 'A', 'D'));
      await script.apply('a', 'drain-step', conditions('B', 'E', 'A'));
      await script.apply('a', 'third', conditions('F', 'C', 'A', 'B'));
    },
  },
  {
    name: 'an empty list applies nothing',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', { conditions: [] });
      await script.apply('a', 'pool-pods', { ...conditions('Ready'), pools: [] });
      await script.apply('a', 'pool-pods', { conditions: [], pools: [] });
    },
  },
  {
    name: 'applying nothing at all leaves an empty status',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', {});
      await script.apply('a', 'drain-step', {});
    },
  },
  {
    name: 'applying loses under an old version and lets another uid pass',
    play: async (script) => {
      const shard = await aTarget(script);
      await script.merge('Shard', 'a', { metadata: { labels: { a: 'b' } } });
      const status = { observedGeneration: 1 };
      await script.apply('a', 'pool-pods', status, { metadata: guardOf(shard) });
      const fresh = await script.get('Shard', 'a');
      await script.apply('a', 'pool-pods', status, {
        metadata: { uid: 'another', resourceVersion: versionOf(fresh) },
      });
    },
  },
  {
    name: 'applying under an old version loses although nothing would change',
    play: async (script) => {
      const shard = await aTarget(script);
      await script.apply('a', 'pool-pods', { observedGeneration: 1 }, { metadata: guardOf(shard) });
      await script.apply('a', 'pool-pods', { observedGeneration: 1 }, { metadata: guardOf(shard) });
    },
  },
  {
    name: 'applying with a field that the schema does not know, or an item twice, fails',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', { nonsense: 1 });
      await script.apply('a', 'drain-step', conditions('Ready', 'Ready'));
      await script.get('Shard', 'a');
    },
  },
  {
    name: 'an applied status is validated',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', { conditions: [{ type: 'Ready' }] });
      await script.apply('a', 'drain-step', {
        conditions: [aCondition('Ready', { status: 'Maybe' })],
      });
      await script.apply('a', 'drain-step', { primary: null });
      await script.apply('a', 'drain-step', { observedGeneration: 'one' });
      await script.apply('a', 'drain-step', { observedGeneration: -1 });
      await script.get('Shard', 'a');
    },
  },
  {
    name: 'applying needs a manager and the name of the path',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', '', { observedGeneration: 1 });
      await script.apply('a', 'drain-step', { observedGeneration: 1 }, { metadata: { name: 'b' } });
    },
  },
  {
    name: 'whoever writes a status otherwise owns what it changes',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', { primary, observedGeneration: 1 });
      await script.merge(
        'Shard',
        'a',
        { status: { observedGeneration: 9, primary: { rule: '4.1' } } },
        { subresource: 'status' },
      );
      await script.apply(
        'a',
        'drain-step',
        { primary: { ...primary, rule: '5.1' } },
        { query: {} },
      );
      await script.apply('a', 'drain-step', {});
    },
  },
  {
    name: 'a status that was written otherwise is not taken away by applying nothing',
    play: async (script) => {
      await aTarget(script);
      await script.merge(
        'Shard',
        'a',
        { status: { ...conditions('Ready'), observedGeneration: 1 } },
        { subresource: 'status' },
      );
      await script.apply('a', 'drain-step', conditions('Drained'));
      await script.apply('a', 'drain-step', {});
    },
  },
  {
    name: 'who wrote the whole status away owns nothing of it any more',
    play: async (script) => {
      await aTarget(script);
      await script.apply('a', 'drain-step', { ...conditions('Drained'), primary });
      await script.merge('Shard', 'a', { status: null }, { subresource: 'status' });
      await script.apply('a', 'pool-pods', { primary }, { query: {} });
      await script.apply('a', 'drain-step', {});
    },
  },
  {
    name: 'an object that is on its way out takes a status still',
    play: async (script) => {
      await script.create('Shard', aShard('a', { metadata: { finalizers: ['example.dev/keep'] } }));
      await script.delete('Shard', 'a');
      await script.apply('a', 'drain-step', { observedGeneration: 1 });
    },
  },
];
