import { beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { hintSchema } from '#events/hint.ts';
import { stepNames } from '#shared/api/steps.ts';
import { type RecordRead, readRecord, wakeOf } from '#shared/kernel/record.ts';
import { changesSince } from '#test/compatibility/changes.ts';
import { harvest } from '#test/compatibility/harvest.ts';
import { lastReleased } from '#test/compatibility/released.ts';
import { type Speech, recordSchemas, schemaIn, speechOf } from '#test/compatibility/speech.ts';

/**
 * What runs now against what the last release left behind, and the other way round, because the two run side by side while
 * one takes the place of the other, and change places again when that is taken back.
 */
const released = lastReleased();
let written: Awaited<ReturnType<typeof harvest>>;
let today: Speech;

beforeAll(async () => {
  written = await harvest();
  today = speechOf(written);
});

/** Reads what a release wrote, or says why it cannot. */
function read(step: (typeof stepNames)[number], text: string): RecordRead {
  const { uid } = z.looseObject({ uid: z.string() }).parse(JSON.parse(text));
  return readRecord(text, uid, recordSchemas[step]);
}

function withoutShards(speech: Speech): Speech {
  const schemas = Object.fromEntries(
    Object.entries(speech.schemas).filter(([name]) => name !== 'Shard'),
  );
  return { ...speech, schemas };
}

const samples = stepNames.flatMap((step) =>
  (released.records[step] ?? []).map((text) => ({ step, text })),
);

describe(`beside ${released.version}`, () => {
  test('every change is additive', () => {
    expect(changesSince(released, today)).toEqual([]);
  });

  test.each(stepNames)('each record that it wrote as %s is read whole', (step) => {
    const texts = released.records[step] ?? [];

    expect(texts.length).toBeGreaterThan(0);
    for (const text of texts) {
      const record = read(step, text);
      expect(record).toMatchObject({ kind: 'ours' });
      expect(record.kind === 'ours' ? record.record : record).toEqual(JSON.parse(text));
    }
  });

  test.each(stepNames)('it reads each record that is written as %s now', (step) => {
    const reader = z.fromJSONSchema(schemaIn(released, `record of ${step}`));
    const texts = [...(written.records.get(step) ?? [])];

    expect(texts.length).toBeGreaterThan(0);
    for (const text of texts) {
      expect(reader.safeParse(JSON.parse(text)).error, text).toBeUndefined();
    }
  });

  test('its hints are read, and it reads those of now', () => {
    const reader = z.fromJSONSchema(schemaIn(released, 'hint'));
    const hint = (speech: Speech): unknown => JSON.parse(speech.examples['a hint'] ?? '');

    expect(hintSchema.safeParse(hint(released)).success).toBe(true);
    expect(reader.safeParse(hint(today)).success).toBe(true);
  });
});

describe('a change is noticed', () => {
  test.each<[string, (speech: Speech) => Speech, string]>([
    [
      'an annotation that has another name',
      (speech) => ({
        ...speech,
        names: {
          ...speech.names,
          annotations: speech.names['annotations']?.filter((key) => !key.endsWith('/drain')) ?? [],
        },
      }),
      'annotations: millrace.dev/drain is gone',
    ],
    [
      'a name that comes out otherwise',
      (speech) => ({ ...speech, examples: { ...speech.examples, 'name of a pod': 'x' } }),
      'name of a pod: orders-main-zone-a-0df9c5c5-0 became x',
    ],
    ['a kind that is gone', withoutShards, 'Shard: is gone'],
  ])('%s', (_, change, told) => {
    expect(changesSince(released, change(today))).toEqual([told]);
  });

  test('and not where the release had retired it', () => {
    const changes = changesSince({ ...released, retired: ['Shard'] }, withoutShards(today));

    expect(changes).toEqual([]);
  });
});

describe('a record of a newer release', () => {
  const newer: readonly (readonly [string, (record: Record<string, unknown>) => object])[] = [
    ['another field', (record) => ({ ...record, priority: 'high' })],
    [
      'another field in what it is about',
      (record) => ({ ...record, data: { ...Object(record['data']), note: 'new' } }),
    ],
    ['another state', (record) => ({ ...record, state: 'confirming' })],
    ['another wake', (record) => ({ ...record, wake: { every: 5, until: 'noon' } })],
    ['another version', (record) => ({ ...record, v: 2 })],
  ];

  test.each(newer)('with %s is for nobody here to act on, in any state', (_, change) => {
    for (const { step, text } of samples) {
      const body = z.record(z.string(), z.unknown()).parse(JSON.parse(text));

      const record = read(step, JSON.stringify(change(body)));

      expect(record, `${step}: ${text}`).toMatchObject({ kind: 'unreadable' });
    }
  });

  test.each(newer)('with %s wakes its step all the same', (_, change) => {
    const body = { v: 1, uid: 'u', state: 'draining', wake: { every: 5 }, data: {} };

    expect(wakeOf(JSON.stringify(change(body)))).toEqual({ every: 5 });
  });
});
