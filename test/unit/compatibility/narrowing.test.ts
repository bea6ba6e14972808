import { describe, expect, test } from 'vitest';
import { type JsonSchema, narrowings } from '#test/compatibility/narrowing.ts';

const schema = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 30 },
    mode: { type: 'string', enum: ['quick', 'clean'], default: 'quick' },
    cells: { type: 'array', items: { type: 'string' }, minItems: 1 },
    run: {
      oneOf: [
        { type: 'object', properties: { every: { type: 'integer' } }, required: ['every'] },
        { type: 'object', properties: { at: { type: 'string' } }, required: ['at'] },
      ],
    },
  },
  required: ['name'],
  additionalProperties: false,
} satisfies JsonSchema;

type Properties = Record<string, JsonSchema | undefined>;

/** The schema with some of its properties changed, or gone. */
function withProperties(changed: Properties, rest: JsonSchema = {}): JsonSchema {
  const properties = Object.fromEntries(
    Object.entries({ ...schema.properties, ...changed }).filter(([, each]) => each !== undefined),
  );
  return { ...schema, ...rest, properties };
}

describe('a change is additive', () => {
  test.each<[string, JsonSchema]>([
    ['where nothing changed', schema],
    ['with one more optional field', withProperties({ note: { type: 'string' } })],
    [
      'with one more value',
      withProperties({ mode: { ...schema.properties.mode, enum: ['clean', 'quick', 'later'] } }),
    ],
    ['with wider bounds', withProperties({ name: { type: 'string', maxLength: 60 } })],
    ['where a required field becomes optional', { ...schema, required: [] }],
    [
      'with one more alternative',
      withProperties({
        run: { oneOf: [...schema.properties.run.oneOf, { type: 'object', required: ['never'] }] },
      }),
    ],
    ['where it is only described otherwise', { ...schema, description: 'Otherwise.' }],
    ['without a rule', { ...schema, 'x-kubernetes-validations': [] }],
  ])('%s', (_, after) => {
    expect(narrowings(schema, after, 'spec')).toEqual([]);
  });
});

describe('a change is told, by its field', () => {
  test.each<[string, JsonSchema, string]>([
    ['a field is gone', withProperties({ mode: undefined }), 'spec.mode: is gone'],
    [
      'a field is required now',
      { ...schema, required: ['name', 'mode'] },
      'spec.mode: is required now',
    ],
    [
      'a type is another',
      withProperties({ name: { type: 'integer', maxLength: 30 } }),
      'spec.name: the type string became integer',
    ],
    [
      'a value is gone',
      withProperties({ mode: { ...schema.properties.mode, enum: ['quick'] } }),
      'spec.mode: the value clean is not admitted any more',
    ],
    [
      'a default is another',
      withProperties({ mode: { ...schema.properties.mode, default: 'clean' } }),
      'spec.mode: default quick became clean',
    ],
    [
      'a bound is tighter',
      withProperties({ name: { type: 'string', maxLength: 20 } }),
      'spec.name: maxLength 30 became 20',
    ],
    [
      'a bound is new',
      withProperties({ name: { type: 'string', maxLength: 30, minLength: 1 } }),
      'spec.name: minLength nothing became 1',
    ],
    [
      'a pattern is new',
      withProperties({ name: { type: 'string', maxLength: 30, pattern: '^a' } }),
      'spec.name: pattern nothing became ^a',
    ],
    [
      'what is in a list is another',
      withProperties({ cells: { type: 'array', items: { type: 'integer' }, minItems: 1 } }),
      'spec.cells[]: the type string became integer',
    ],
    [
      'an alternative is gone',
      withProperties({ run: { oneOf: [schema.properties.run.oneOf[0]] } }),
      'spec.run.at: is gone',
    ],
    [
      'a rule is new',
      { ...schema, 'x-kubernetes-validations': [{ rule: 'self.name != "x"' }] },
      'spec: the rule self.name != "x" is new',
    ],
    [
      'a keyword comes in that nobody compares',
      { ...schema, dependentRequired: {} },
      'spec: nobody compares the keyword dependentRequired',
    ],
  ])('%s', (_, after, change) => {
    expect(narrowings(schema, after, 'spec')).toContain(change);
  });

  test('other fields are refused now', () => {
    const { additionalProperties: _, ...open } = schema;

    expect(narrowings(open, schema, 'spec')).toEqual(['spec: other fields are refused now']);
  });
});
