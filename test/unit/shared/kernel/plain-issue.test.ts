import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { ConfigurationError, readConfig } from '#shared/kernel/config.ts';
import { plainIssue } from '#shared/kernel/plain-issue.ts';

function problemOf(schema: z.ZodType, value: unknown): string | undefined {
  return schema.safeParse(value, { error: plainIssue }).error?.issues[0]?.message;
}

describe('a problem with a value', () => {
  test.each<[string, z.ZodType, unknown]>([
    ['is missing', z.string(), undefined],
    ['must be a number', z.coerce.number(), 'soon'],
    ['must be a whole number', z.coerce.number().int(), '1.5'],
    ['must be an object', z.object({}), 'a'],
    ['must be at least 1', z.coerce.number().min(1), '0'],
    ['must be at most 900', z.coerce.number().max(900), '901'],
    ['must have at least 1 character', z.string().min(1), ''],
    ['must have at most 100 characters', z.string().max(100), 'x'.repeat(101)],
    ['must name at least 1', z.array(z.string()).min(1), []],
    ['must be one of info, warn', z.enum(['info', 'warn']), 'loud'],
    ['must be yes', z.literal('yes'), 'no'],
    ['must be a URL', z.url(), 'here'],
  ])('%s', (sentence, schema, value) => {
    expect(problemOf(schema, value)).toBe(sentence);
  });

  test('is told in the schema’s own sentence where it has one', () => {
    expect(problemOf(z.string('is missing: the id'), undefined)).toBe('is missing: the id');
    expect(problemOf(z.string().regex(/^a/, 'must begin with a'), 'b')).toBe('must begin with a');
  });
});

test('a configuration names each problem in a line, and counts them', () => {
  const schema = z.object({ STAGE: z.string(), SECONDS: z.coerce.number() });

  const read = () => readConfig(schema, { SECONDS: 'soon' });

  expect(read).toThrow(ConfigurationError);
  expect(read).toThrow(
    'the configuration has 2 problems:\n  - STAGE: is missing\n  - SECONDS: must be a number',
  );
  expect(() => readConfig(schema, { STAGE: 'a', SECONDS: 'soon' })).toThrow(
    'the configuration has 1 problem:\n',
  );
});
