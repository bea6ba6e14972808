import * as z from 'zod';
import { describe, expect, test } from 'vitest';
import { envelopeSchema, readRecord, recordText } from '#shared/kernel/record.ts';
import type { StepRecord } from '#shared/kernel/record.ts';

const record: StepRecord = {
  v: 1,
  uid: 'a-shard',
  key: 'a-step/a-shard/1',
  state: 'resting',
  generation: 1,
  attempt: 0,
  since: '2026-01-01T00:00:00Z',
  reason: 'Nothing',
  data: { entries: { main: { count: 1 } } },
};

const schema = envelopeSchema.extend({
  data: z.strictObject({
    entries: z.record(z.string(), z.strictObject({ count: z.number() })),
  }),
}) as z.ZodType<StepRecord>;

function read(changes: object) {
  return readRecord(JSON.stringify({ ...record, ...changes }), 'a-shard', schema);
}

describe('a record that cannot be read', () => {
  test.each([
    ['a field that nobody knows', { canary: 'canary' }],
    ['a state that is no text', { state: { canary: 1 } }],
    [
      'another field under a name of its own',
      { data: { entries: { canary: { count: 'canary' } } } },
    ],
    ['a field beside it', { data: { entries: {}, canary: 'canary' } }],
  ])('%s: it is said what is wrong, and nothing of what stands there', (_situation, changes) => {
    const found = read(changes);

    expect(found).toMatchObject({ kind: 'unreadable', why: expect.stringMatching(/./) });
    expect(found).not.toMatchObject({ why: expect.stringContaining('canary') });
  });

  test('names the field down to where names may be somebody’s own', () => {
    const text = recordText({ ...record, data: { entries: { main: { count: 'many' } } } });

    expect(readRecord(text, 'a-shard', schema)).toMatchObject({
      why: 'data.entries: Invalid input: expected number, received string',
    });
  });
});
