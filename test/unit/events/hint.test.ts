import { readFileSync, readdirSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type HintFacts, hintCauses, hintSchema, makeHint, maxHintBytes } from '#events/hint.ts';
import type { Instant } from '#shared/kernel/instant.ts';

const facts: HintFacts = {
  step: 'drain-step',
  cause: 'changed',
  source: 'prod-eu',
  target: {
    kind: 'Shard',
    plural: 'shards',
    namespace: 'db',
    name: 'orders-0',
    uid: '0f3c1f1e-7d0a-4c8e-9a54-2f6f1f0f8f11',
    resourceVersion: '4711',
  },
  token: '4711',
  at: Date.parse('2026-01-01T00:00:00Z') as Instant,
};

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

function fits(given: HintFacts): boolean {
  try {
    makeHint(given);
    return true;
  } catch {
    return false;
  }
}

describe('a hint', () => {
  test('has the public form', () => {
    const hint = makeHint(facts);

    expect(hint).toEqual({
      specversion: '1.0',
      id: '0f3c1f1e-7d0a-4c8e-9a54-2f6f1f0f8f11/4711/drain-step',
      source: 'prod-eu',
      type: 'dev.millrace.hint.changed',
      subject: 'shards/db/orders-0',
      time: '2026-01-01T00:00:00Z',
      datacontenttype: 'application/json',
      data: {
        kind: 'Shard',
        namespace: 'db',
        name: 'orders-0',
        uid: '0f3c1f1e-7d0a-4c8e-9a54-2f6f1f0f8f11',
        resourceVersion: '4711',
      },
    });
    expect(hintSchema.parse(hint)).toEqual(hint);
  });

  test('carries a trace context when there is one', () => {
    const hint = makeHint({ ...facts, traceparent });

    expect(hintSchema.parse(hint).data.traceparent).toBe(traceparent);
  });

  test('of a newer version is read, without what is new in it', () => {
    const hint = makeHint(facts);
    const newer = {
      ...hint,
      type: 'dev.millrace.hint.drift',
      priority: 'high',
      data: { ...hint.data, shardCount: 3 },
    };

    expect(hintSchema.parse(newer)).toEqual({ ...hint, type: 'dev.millrace.hint.drift' });
  });

  test.each([
    ['another type of message', { type: 'com.example.order.created' }],
    ['a type that says more than a cause', { type: 'dev.millrace.hint.delete-everything' }],
    ['another version of CloudEvents', { specversion: '2.0' }],
    ['no target', { data: null }],
  ])('is none with %s', (_, part) => {
    expect(hintSchema.safeParse({ ...makeHint(facts), ...part }).success).toBe(false);
  });

  test('L6: goes without its trace context where there is no room for both', () => {
    const target = { ...facts.target, namespace: 'n'.repeat(63), name: 'a'.repeat(63) };
    const most = { ...facts, source: 'c'.repeat(100), token: '9'.repeat(20), traceparent };

    const hint = makeHint({ ...most, target });
    const longest = Array.from({ length: 100 }).flatMap((_, place) => {
      const source = 'c'.repeat(place + 1);
      const tight = { ...facts, source, target: { ...target, name: 'a'.repeat(253) } };
      return fits(tight) ? [makeHint({ ...tight, traceparent })] : [];
    });

    expect(hint.data.traceparent).toBe(traceparent);
    expect(longest.length).toBeGreaterThan(0);
    expect(longest.every(({ data }) => data.traceparent === undefined)).toBe(true);
    for (const each of [hint, ...longest]) {
      expect(Buffer.byteLength(JSON.stringify(each))).toBeLessThanOrEqual(maxHintBytes);
    }
  });

  test('L6: is valid and fits its limit for every name the API server admits in a label', () => {
    const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);
    const anyFacts = fc.record({
      namespace: label,
      name: label,
      source: fc.string({ minLength: 1, maxLength: 100, unit: 'grapheme-ascii' }),
      cause: fc.constantFrom(...hintCauses),
      uid: fc.uuid(),
      token: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String),
    });

    fc.assert(
      fc.property(anyFacts, ({ namespace, name, source, cause, uid, token }) => {
        const target = { ...facts.target, namespace, name, uid, resourceVersion: token };

        const hint = makeHint({ ...facts, source, cause, target, token });

        expect(hintSchema.safeParse(hint).success).toBe(true);
        expect(Buffer.byteLength(JSON.stringify(hint))).toBeLessThanOrEqual(maxHintBytes);
      }),
    );
  });

  test('L6: that would be longer than its limit is not made', () => {
    const name = 'a'.repeat(253);

    const make = () =>
      makeHint({
        ...facts,
        source: 'c'.repeat(100),
        target: { ...facts.target, name, namespace: 'n'.repeat(63) },
      });

    expect(make).toThrow(RangeError);
  });
});

describe('the sample hints', () => {
  const folder = new URL('../../../events/samples/', import.meta.url);
  const samples = readdirSync(folder).filter((file) => file.endsWith('.json'));

  test('show every cause', () => {
    const causes = samples.map((file) => file.replace('.json', ''));

    expect(causes.toSorted()).toEqual(hintCauses.toSorted());
  });

  test.each(samples)('%s is valid', (file) => {
    const body: unknown = JSON.parse(readFileSync(new URL(file, folder), 'utf8'));

    const hint = hintSchema.parse(body);

    expect(hint.type).toBe(`dev.millrace.hint.${file.replace('.json', '')}`);
  });
});
