import type * as z from 'zod';

/**
 * What zod says by itself, in the words that Millrace uses everywhere else: the `error` of a parse whose problems people
 * read. A sentence that the schema brings goes before it; `undefined` leaves the word to zod. No value is repeated.
 */
export function plainIssue(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is missing' : typeSentence(issue.expected);
    case 'invalid_value':
      return `must be ${issue.values.length === 1 ? '' : 'one of '}${issue.values.join(', ')}`;
    case 'too_small':
      return boundSentence('at least', issue.minimum, issue.origin);
    case 'too_big':
      return boundSentence('at most', issue.maximum, issue.origin);
    case 'invalid_format':
      return issue.format === 'url' ? 'must be a URL' : undefined;
    case 'custom':
    case 'invalid_element':
    case 'invalid_key':
    case 'invalid_union':
    case 'not_multiple_of':
    case 'unrecognized_keys':
      return undefined;
  }
}

function typeSentence(expected: string): string {
  const type = expected === 'int' ? 'whole number' : expected;
  return `must be ${/^[aeio]/.test(type) ? 'an' : 'a'} ${type}`;
}

function boundSentence(bound: string, limit: number | bigint, origin: string): string {
  if (origin === 'string') {
    return `must have ${bound} ${limit} ${Number(limit) === 1 ? 'character' : 'characters'}`;
  }
  return origin === 'array' ? `must name ${bound} ${limit}` : `must be ${bound} ${limit}`;
}
