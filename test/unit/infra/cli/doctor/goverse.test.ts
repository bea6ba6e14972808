import { describe, expect, test } from 'vitest';
import { checkGraceOfNodes, checkKeys, checkMembers } from '#infra/cli/doctor/goverse.ts';
import { unknown } from '#shared/kernel/read.ts';
import { aPod, aReleaseOf, shardCount } from '#test/unit/functions/shard-release/a-release.ts';

const { cluster, view } = aReleaseOf('a', 'b').build();
const pods = [aPod('a'), aPod('b')];

describe('the keys of a GoverseCluster', () => {
  test('are told when they are whole', () => {
    expect(checkKeys(cluster, view)).toEqual({
      name: 'keys of gvc/world',
      result: 'ok',
      found: `2 nodes, a leads, ${shardCount} shards`,
    });
  });

  test('that cannot be read fail, with where to look', () => {
    const check = checkKeys(cluster, unknown('etcd does not answer'));

    expect(check).toMatchObject({ result: 'failed', found: 'etcd does not answer' });
    expect(check.advice).toContain('spec.topology');
  });

  test('that lack shards, as under another prefix, fail', () => {
    const { view: keys } = aReleaseOf('a', 'b')
      .withView(({ shards }) => ({ shards: shards.slice(1) }))
      .build();

    expect(checkKeys(cluster, keys)).toMatchObject({
      result: 'failed',
      found: `${shardCount - 1} of ${shardCount} shards have a key`,
    });
  });

  test('that have parts of unknown meaning fail by their name', () => {
    const { view: keys } = aReleaseOf('a', 'b')
      .withView(() => ({ unreadable: [{ key: '/goverse/shard/7', why: 'it is odd' }] }))
      .build();

    expect(checkKeys(cluster, keys).found).toContain('/goverse/shard/7: it is odd');
  });
});

describe('the pods of a GoverseCluster', () => {
  test('are each a node', () => {
    expect(checkMembers(cluster, view, pods)).toMatchObject({ result: 'ok' });
  });

  test('fail where a node has none', () => {
    const check = checkMembers(cluster, view, [aPod('a'), aPod('c')]);

    expect(check).toMatchObject({
      result: 'failed',
      found: 'it cannot be told which pod b is',
    });
    expect(check.advice).toContain('millrace.dev/goverse: world');
  });

  test('are not judged where they, or the nodes, are not known', () => {
    expect(checkMembers(cluster, view, 'forbidden')).toMatchObject({ result: 'skipped' });
    expect(checkMembers(cluster, unknown('gone'), pods)).toMatchObject({ result: 'skipped' });
  });
});

describe('the grace period of a node', () => {
  test('is longer than a hand-over may take', () => {
    const found = checkGraceOfNodes(cluster, [aPod('a', { graceSeconds: 31 })]);

    expect(found).toMatchObject({ result: 'ok', found: 'longer than the 30 s of a hand-over' });
  });

  test('fails where it is not', () => {
    const check = checkGraceOfNodes(cluster, [aPod('a', { graceSeconds: 30 }), aPod('b')]);

    expect(check.result).toBe('failed');
    expect(check.found).toBe('a has 30 s, a hand-over may take 30 s');
    expect(check.advice).toContain('terminationGracePeriodSeconds');
  });

  test('does not matter to a pod that is shut down quickly', () => {
    const quick = [aPod('a', { graceSeconds: 1, mode: 'quick' })];

    expect(checkGraceOfNodes(cluster, quick)).toMatchObject({ result: 'skipped' });
    expect(
      checkGraceOfNodes({ ...cluster, mode: 'quick' }, [aPod('a', { graceSeconds: 1 })]),
    ).toMatchObject({
      result: 'skipped',
    });
  });
});
