import { describe, expect, test } from 'vitest';
import { parseTarget } from '#infra/cli/target.ts';
import { UsageError } from '#infra/cli/usage-error.ts';

describe('a target on the command line', () => {
  test.each([
    ['shd/orders-0', 'db', { kind: 'Shard', namespace: 'db', name: 'orders-0' }],
    ['mdb/orders', 'db', { kind: 'Database', namespace: 'db', name: 'orders' }],
    ['gvc/world', 'games', { kind: 'GoverseCluster', namespace: 'games', name: 'world' }],
    ['shd/db/orders-0', undefined, { kind: 'Shard', namespace: 'db', name: 'orders-0' }],
    ['shd/db/orders-0', 'db', { kind: 'Shard', namespace: 'db', name: 'orders-0' }],
  ])('%s in namespace %s is read', (text, namespace, ref) => {
    expect(parseTarget(text, namespace)).toEqual(ref);
  });

  test.each([
    ['orders-0', 'db', 'write it as: '],
    ['pod/orders-0', 'db', 'shd/<name>'],
    ['shd/', 'db', 'shd/<name>'],
    ['shd/a/b/c', 'db', 'shd/<name>'],
    ['shd/other/orders-0', 'db', 'write it as shd/<name>'],
    ['shd/orders-0', undefined, '-n <namespace>'],
    ['shd//orders-0', undefined, 'write it as: '],
  ])('%s in namespace %s is refused, and how it is written is said', (text, namespace, words) => {
    expect(() => parseTarget(text, namespace)).toThrow(UsageError);
    expect(() => parseTarget(text, namespace)).toThrow(words);
  });
});
