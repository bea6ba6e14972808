import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { text, withRules } from '#shared/api/fields.ts';
import { rulesOf, structuralSchema } from '#infra/kubernetes/structural-schema.ts';

const rule = { rule: 'self == oldSelf', message: 'keep it' };

describe('the structural schema', () => {
  test('requires the fields without a default that are not optional', () => {
    const schema = structuralSchema(
      z.object({ a: z.string(), b: z.boolean().default(false), c: z.string().optional() }),
    );

    expect(schema).toEqual({
      type: 'object',
      required: ['a'],
      properties: {
        a: { type: 'string' },
        b: { type: 'boolean', default: false },
        c: { type: 'string' },
      },
    });
  });

  test('keeps meaning, limits and rules of a field, also where it is optional or has a default', () => {
    const expected = {
      type: 'string',
      description: 'Its name.',
      minLength: 1,
      maxLength: 9,
      'x-kubernetes-validations': [rule],
    };

    const schema = structuralSchema(
      z.object({
        a: text(9, 'Its name.', rule).optional(),
        b: text(9, 'Its name.', rule).default('b'),
      }),
    );

    expect(schema.properties).toEqual({ a: expected, b: { ...expected, default: 'b' } });
  });

  test('says which integers are meant, not what a number can hold', () => {
    const schema = structuralSchema(z.object({ port: z.int().min(1).max(9), any: z.int() }));

    expect(schema.properties).toEqual({
      port: { type: 'integer', minimum: 1, maximum: 9 },
      any: { type: 'integer' },
    });
  });

  test('keeps what it does not know of a loose object, and prunes the rest', () => {
    const schema = structuralSchema(
      z.object({ loose: z.looseObject({ a: z.string() }), map: z.record(z.string(), z.string()) }),
    );

    expect(schema.properties).toEqual({
      loose: {
        type: 'object',
        required: ['a'],
        'x-kubernetes-preserve-unknown-fields': true,
        properties: { a: { type: 'string' } },
      },
      map: { type: 'object', additionalProperties: { type: 'string' } },
    });
  });

  test.each([
    ['a union', z.object({ a: z.union([z.string(), z.number()]) })],
    ['a pattern', z.object({ a: z.array(z.string().regex(/a/)) })],
    ['a literal', z.object({ a: z.literal('a') })],
    ['anything', z.object({ a: z.unknown() })],
    ['null', z.object({ a: z.string().nullable() })],
  ])('is refused for %s, which it could not say or would hide from the user', (_what, schema) => {
    expect(() => structuralSchema(schema)).toThrow(/\.a/);
  });

  test('names each rule with the path of its field', () => {
    const other = { rule: 'self > 0', message: 'more' };
    const schema = structuralSchema(
      z
        .object({
          list: z
            .array(z.object({ name: text(9, 'Its name.', rule) }))
            .meta({ ...withRules(other) }),
          map: z.record(z.string(), text(9, 'A value.', rule)),
        })
        .meta({ ...withRules(rule) }),
    );

    expect(rulesOf(schema)).toEqual([
      { path: '', ...rule },
      { path: 'list', ...other },
      { path: 'list[].name', ...rule },
      { path: 'map.*', ...rule },
    ]);
  });
});
