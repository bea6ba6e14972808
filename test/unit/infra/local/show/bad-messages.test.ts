import { describe, expect, test } from 'vitest';
import { hintSchema, maxHintBytes } from '#events/hint.ts';
import { makeWave, mixed } from '#infra/local/show/bad-messages.ts';
import { parseInstant } from '#shared/kernel/instant.ts';

const now = parseInstant('2026-01-01T00:00:00Z');
const target = {
  clusterId: 'show',
  namespace: 'demo',
  name: 'orders',
  uid: '6c1f1f6e-0000-4000-8000-000000000001',
  resourceVersion: '4711',
};

function aWave() {
  expect(now).toBeDefined();
  return makeWave('drain-step', target, now ?? (0 as never));
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

describe('a wave of bad messages', () => {
  test('holds hints that a step accepts: copies, old ones the newest first, and forged ones', () => {
    const { hints } = aWave();

    const read = hints.map((body) => hintSchema.parse(JSON.parse(body)));
    const old = read.filter(({ time }) => time < '2025-06-01');
    const names = new Set(read.map(({ data }) => data.name));
    const uids = new Set(read.map(({ data }) => data.uid));

    expect(read.every(({ source }) => source === 'show')).toBe(true);
    expect(read.every(({ data }) => data.namespace === 'demo')).toBe(true);
    expect(hints.length - new Set(hints).size).toBeGreaterThan(50);
    expect(old.map(({ time }) => time)).toEqual(
      old
        .map(({ time }) => time)
        .toSorted()
        .toReversed(),
    );
    expect(old.every(({ data }) => Number(data.resourceVersion) < 4711)).toBe(true);
    expect(new Set(old.map(({ type }) => type)).size).toBe(5);
    expect(names).toEqual(new Set(['orders', 'nobody']));
    expect(uids.size).toBe(2);
  });

  test('holds garbage that is no hint about a Shard of this cluster in this namespace (Z1)', () => {
    const { garbage } = aWave();

    const accepted = garbage.filter((body) => {
      const { success, data } = hintSchema.safeParse(parse(body));
      return (
        success &&
        Buffer.byteLength(body) <= maxHintBytes &&
        data.source === target.clusterId &&
        data.data.namespace === target.namespace &&
        data.data.kind === 'Shard'
      );
    });

    expect(accepted).toEqual([]);
    expect(new Set(garbage).size).toBe(garbage.length);
    expect(garbage.some((body) => body.length >= 200_000)).toBe(true);
  });

  test('holds nothing that SQS would not take', () => {
    const { hints, garbage } = aWave();

    for (const body of [...hints, ...garbage]) {
      expect(Buffer.byteLength(body)).toBeGreaterThan(0);
      expect(Buffer.byteLength(body)).toBeLessThanOrEqual(256 * 1024);
      // SQS API reference, SendMessage, MessageBody: the characters that are allowed.
      expect(body).toMatch(/^[\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]*$/u);
    }
  });

  test('is mixed without loss, with garbage in every tenth place at least', () => {
    const wave = aWave();

    const all = mixed(wave);
    const batches = Array.from({ length: Math.floor(all.length / 10) }, (_, batch) =>
      all.slice(batch * 10, (batch + 1) * 10),
    );

    expect(all.toSorted()).toEqual([...wave.hints, ...wave.garbage].toSorted());
    for (const batch of batches) {
      expect(batch.some((body) => wave.garbage.includes(body))).toBe(true);
    }
  });
});
