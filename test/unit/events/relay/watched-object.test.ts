import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseServed, readObject, textAt } from '#events/relay/watched-object.ts';
import { aPod, aShard } from './objects.ts';

describe('what the API server sends', () => {
  test('is parsed with its managed fields taken for empty', () => {
    const managedFields = [
      {
        manager: 'kubelet',
        fieldsV1: { 'k:{"name":"a]"}': { 'v:["\\"]': {} }, list: [['x'], []] },
      },
    ];
    const text = JSON.stringify({ metadata: { name: 'a', managedFields, labels: { b: 'c' } } });

    const parsed = parseServed(text);

    expect(parsed).toEqual({ metadata: { name: 'a', managedFields: [], labels: { b: 'c' } } });
  });

  test('keeps every string that only looks like managed fields', () => {
    const look = '"managedFields":[';
    const annotations = { [look]: look, managedFields: look, 'a\\': `\\${look}]` };

    expect(parseServed(JSON.stringify({ annotations }))).toEqual({ annotations });
  });

  test.each(['', '{"metadata":{"managedFields":[', '{"managedFields":[]', '{"managedFields":[}'])(
    'is no JSON in %j',
    (text) => {
      expect(() => parseServed(text)).toThrow(SyntaxError);
    },
  );

  test('is what JSON.parse reads in everything else, whatever the fields are', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue()),
        fc.array(fc.jsonValue()),
        fc.dictionary(fc.string(), fc.jsonValue()),
        (before, managedFields, after) => {
          const whole = (list: unknown[]) =>
            JSON.stringify({ before, metadata: { managedFields: list, after } });

          expect(parseServed(whole(managedFields))).toEqual(JSON.parse(whole([])));
        },
      ),
      { numRuns: 1_000 },
    );
  });
});

describe('a watched object', () => {
  test('is read whatever else is in it', () => {
    const shard = aShard(
      'a',
      { labels: { b: 'c' } },
      { spec: { databaseRef: { name: 'orders' } } },
    );

    const read = readObject(JSON.parse(JSON.stringify(shard)));

    expect(read).toEqual(shard);
    expect(read && textAt(read, ['spec', 'databaseRef', 'name'])).toBe('orders');
    expect(read && textAt(read, ['spec', 'pools', 'name'])).toBeUndefined();
  });

  test.each([
    null,
    'text',
    {},
    { metadata: null },
    aPod('', 'a'),
    aPod('p', 'a', { uid: '' }),
    { metadata: { ...aPod('p', 'a').metadata, resourceVersion: 7 } },
    { metadata: { ...aPod('p', 'a').metadata, generation: '1' } },
    { metadata: { ...aPod('p', 'a').metadata, deletionTimestamp: 1 } },
    { metadata: { ...aPod('p', 'a').metadata, labels: { a: 1 } } },
    { metadata: { ...aPod('p', 'a').metadata, annotations: 'a' } },
  ])('is not one without the metadata that every object has: %j', (value) => {
    expect(readObject(value)).toBeUndefined();
  });

  test.each(['text', { conditions: 'all' }, { conditions: [null] }, { conditions: [{ type: 1 }] }])(
    'is read without a status of the form %j',
    (status) => {
      const read = readObject(aShard('a', {}, { status }));

      expect(read?.metadata.name).toBe('a');
      expect(read?.status).toBeUndefined();
    },
  );
});
