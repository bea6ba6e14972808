import type { JsonObject } from '#shared/kube/json.ts';
import { objectAt, textAt } from '#test/world/model/json-data.ts';
import { aLease, aShard, versionOf } from './manifests.ts';
import { type Row, type Script, metadataListOnly, metadataOnly } from './script.ts';

async function shards(script: Script, labels: { readonly [name: string]: JsonObject }) {
  for (const [name, own] of Object.entries(labels)) {
    await script.create('Shard', aShard(name, { metadata: { labels: own } }));
  }
}

async function tokenOf(page: Promise<JsonObject>): Promise<string> {
  return textAt(objectAt(await page, 'metadata'), 'continue') ?? '';
}

/** A token as the server makes them, for a version that everybody has forgotten. */
const oldToken = Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv: 1, start: 'a' })).toString(
  'base64url',
);

/** Lists, their pages and their selectors. */
export const listRows: readonly Row[] = [
  {
    name: 'a list has the objects of its namespace in the order of their names',
    play: async (script) => {
      await shards(script, { b: {}, a: {}, 'a-b': {} });
      await script.list('Shard');
    },
  },
  {
    name: 'items of a list of built-in objects do not say their kind, and no list of them says that it is complete',
    play: async (script) => {
      await script.create('Lease', aLease('a'));
      await script.list('Lease');
    },
  },
  {
    name: 'a list without an object is an empty list, and null where only metadata was asked for',
    play: async (script) => {
      await script.list('Shard');
      await script.list('Pod');
      await script.list('Shard', { accept: metadataListOnly });
    },
  },
  {
    name: 'a label can be asked for by its value and by its presence',
    play: async (script) => {
      await shards(script, { a: { x: '1', y: '1' }, b: { x: '2' }, c: { y: '' }, d: {} });
      for (const labelSelector of ['x=1', 'x==2', 'x!=1', 'x', '!x', 'x,y', 'x=1,!y', 'y=', '']) {
        await script.list('Shard', { query: { labelSelector } });
      }
    },
  },
  {
    name: 'metadata alone has no spec',
    play: async (script) => {
      await shards(script, { a: { x: '1' } });
      await script.get('Shard', 'a', { accept: metadataOnly });
      await script.list('Shard', { accept: metadataListOnly });
    },
  },
  {
    name: 'a list comes in pages, and the last one names no other',
    play: async (script) => {
      await shards(script, { a: {}, b: {}, c: {} });
      const next = await tokenOf(script.list('Shard', { query: { limit: '2' } }));
      await script.list('Shard', { query: { limit: '2', continue: next } });
      await script.list('Shard', { query: { limit: '3' } });
      await script.list('Shard', { query: { limit: '0' } });
    },
  },
  {
    name: 'pages of built-in objects are the same',
    play: async (script) => {
      await script.create('Lease', aLease('a'));
      await script.create('Lease', aLease('b'));
      await script.create('Lease', aLease('c'));
      const next = await tokenOf(script.list('Lease', { query: { limit: '1' } }));
      await script.list('Lease', { query: { limit: '5', continue: next } });
    },
  },
  {
    name: 'a page is full of what the selector leaves',
    play: async (script) => {
      await shards(script, { a: { x: '1' }, b: {}, c: { x: '1' }, d: { x: '1' } });
      const query = { limit: '2', labelSelector: 'x=1' };
      const next = await tokenOf(script.list('Shard', { query }));
      await script.list('Shard', { query: { ...query, continue: next } });
    },
  },
  {
    name: 'every page shows the moment of the first one',
    play: async (script) => {
      await shards(script, { a: {}, b: {}, c: {}, d: {} });
      const next = await tokenOf(script.list('Shard', { query: { limit: '1' } }));
      await script.delete('Shard', 'b');
      await script.merge('Shard', 'c', { spec: { paused: true } });
      await script.create('Shard', aShard('bb'));
      await script.list('Shard', { query: { limit: '9', continue: next } });
      await script.list('Shard');
    },
  },
  {
    name: 'a token older than what is remembered is answered with 410',
    play: async (script) => {
      await shards(script, { a: {}, b: {} });
      await script.compact();
      await script.list('Shard', { query: { limit: '1', continue: oldToken } });
    },
  },
  {
    name: 'a limit that is no number and a selector that is none are refused',
    play: async (script) => {
      await script.list('Shard', { query: { limit: 'x' } });
    },
  },
  {
    name: 'a list over all namespaces has those of all',
    play: async (script) => {
      await script.create(
        'Shard',
        aShard('a', { metadata: { labels: { all: script.namespace } } }),
      );
      await script.ask({
        method: 'GET',
        path: '/apis/millrace.dev/v1alpha1/shards',
        query: { labelSelector: `all=${script.namespace}`, limit: '500' },
      });
    },
  },
];

/** Watches: what they begin with, what they tell, and how they end. */
export const watchRows: readonly Row[] = [
  {
    name: 'a watch from a version tells every write after it, once and in order',
    play: async (script) => {
      await shards(script, { a: {} });
      const list = await script.list('Shard');
      await script.merge('Shard', 'a', { metadata: { labels: { x: '1' } } });
      const watch = await script.watch('Shard', { query: { resourceVersion: versionOf(list) } });
      await script.create('Shard', aShard('b'));
      await script.merge('Shard', 'a', { spec: { paused: true } });
      await script.merge('Shard', 'a', { spec: { paused: true } });
      await script.apply('a', 'drain-step', { observedGeneration: 1 });
      await script.delete('Shard', 'b');
      await watch.take(5);
      watch.close();
    },
  },
  {
    name: 'a watch without a version, or from version 0, begins with what is there',
    play: async (script) => {
      await shards(script, { b: {}, a: {} });
      for (const query of [{}, { resourceVersion: '0' }]) {
        const watch = await script.watch('Shard', { query });
        await watch.take(2);
        watch.close();
      }
    },
  },
  {
    name: 'a streaming list ends with a marked bookmark and goes on with changes',
    play: async (script) => {
      await shards(script, { b: {}, a: { x: '1' } });
      const watch = await script.watch('Shard', {
        query: {
          sendInitialEvents: 'true',
          resourceVersionMatch: 'NotOlderThan',
          allowWatchBookmarks: 'true',
        },
      });
      await watch.take(3);
      await script.merge('Shard', 'a', { spec: { paused: true } });
      await watch.take(1);
      watch.close();
    },
  },
  {
    name: 'a streaming list of metadata has a bookmark of metadata',
    play: async (script) => {
      await shards(script, { a: {} });
      const watch = await script.watch('Shard', {
        accept: metadataOnly,
        query: {
          sendInitialEvents: 'true',
          resourceVersionMatch: 'NotOlderThan',
          allowWatchBookmarks: 'true',
        },
      });
      await watch.take(2);
      await script.delete('Shard', 'a');
      await watch.take(1);
      watch.close();
    },
  },
  {
    name: 'a streaming list of nothing is a bookmark',
    play: async (script) => {
      const watch = await script.watch('Shard', {
        query: {
          sendInitialEvents: 'true',
          resourceVersionMatch: 'NotOlderThan',
          allowWatchBookmarks: 'true',
        },
      });
      await watch.take(1);
      watch.close();
    },
  },
  {
    name: 'a streaming list of what a label selects goes on with what comes into the selection',
    play: async (script) => {
      await shards(script, { a: { x: '1' }, b: {} });
      const watch = await script.watch('Shard', {
        accept: metadataOnly,
        query: {
          labelSelector: 'x',
          sendInitialEvents: 'true',
          resourceVersionMatch: 'NotOlderThan',
          allowWatchBookmarks: 'true',
          timeoutSeconds: '300',
        },
      });
      await watch.take(2);
      await script.merge('Shard', 'b', { metadata: { labels: { x: '2' } } });
      await script.merge('Shard', 'a', { metadata: { labels: { x: null } } });
      await watch.take(2);
      watch.close();
    },
  },
  {
    name: 'a watch from a version that is no number is refused',
    play: async (script) => {
      await script.watch('Shard', { query: { resourceVersion: 'x' } });
    },
  },
  {
    name: 'a streaming list must say how old it may be',
    play: async (script) => {
      await script.watch('Shard', { query: { sendInitialEvents: 'true' } });
    },
  },
  {
    name: 'an object that comes into a selection is added, and one that leaves it deleted as it was',
    play: async (script) => {
      await shards(script, { a: {}, b: { x: '1' } });
      const list = await script.list('Shard');
      const watch = await script.watch('Shard', {
        query: { labelSelector: 'x', resourceVersion: versionOf(list) },
      });
      await script.merge('Shard', 'a', { spec: { paused: true } });
      await script.merge('Shard', 'a', { metadata: { labels: { x: '2' } } });
      await script.merge('Shard', 'a', { metadata: { labels: { y: '2' } } });
      await script.merge('Shard', 'a', { metadata: { labels: { x: null, z: '3' } } });
      await script.delete('Shard', 'a');
      await script.delete('Shard', 'b');
      await watch.take(4);
      watch.close();
    },
  },
  {
    name: 'a deletion is told with the object as it was, under a newer version',
    play: async (script) => {
      await script.create('Shard', aShard('a', { metadata: { finalizers: ['example.dev/keep'] } }));
      const list = await script.list('Shard');
      const watch = await script.watch('Shard', { query: { resourceVersion: versionOf(list) } });
      await script.delete('Shard', 'a');
      await script.merge('Shard', 'a', { metadata: { finalizers: null, labels: { last: '1' } } });
      await watch.take(2);
      watch.close();
    },
  },
  {
    name: 'a watch from a version that is forgotten ends with a 410 inside',
    play: async (script) => {
      await shards(script, { a: {} });
      await script.compact();
      const watch = await script.watch('Shard', { query: { resourceVersion: '1' } });
      await watch.take(2);
      watch.close();
    },
  },
];
