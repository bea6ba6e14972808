import { describe, expect, test } from 'vitest';
import { type ArchivePlace, parsePlace, textOfPlace } from '#shared/archive/place.ts';
import { keyBefore, segmentKey, shelfPrefix } from '#shared/archive/archive.ts';
import type { Instant } from '#shared/kernel/instant.ts';

describe('the place of an archive', () => {
  test.each<[string, ArchivePlace]>([
    ['s3://millrace-prod', { kind: 's3', bucket: 'millrace-prod', prefix: '' }],
    ['s3://millrace-prod/', { kind: 's3', bucket: 'millrace-prod', prefix: '' }],
    ['s3://a.b-c/team/one/', { kind: 's3', bucket: 'a.b-c', prefix: 'team/one/' }],
    ['file:///var/lib/millrace', { kind: 'folder', path: '/var/lib/millrace' }],
    ['file:///with%20space', { kind: 'folder', path: '/with space' }],
  ])('%s is read, and written back', (text, place) => {
    const parsed = parsePlace(text);

    expect(parsed).toEqual(place);
    expect(parsePlace(textOfPlace(place))).toEqual(place);
  });

  test.each([
    '',
    'bucket',
    's3://',
    's3://UPPER',
    's3://b/../other',
    's3://user:secret@bucket/x?y',
    'file://host/path',
    'file:///',
    'https://bucket.s3.amazonaws.com',
  ])('%j is none', (text) => {
    expect(parsePlace(text)).toBeUndefined();
  });
});

describe('the key of a segment', () => {
  const shelf = { kind: 'decision', cluster: 'prod', step: 'drain-step' } as const;
  const at = (text: string) => Date.parse(text) as Instant;

  test('sorts by time', () => {
    expect(segmentKey(shelf, at('2026-01-02T03:04:05.006Z'), 'w')).toBe(
      'decisions/prod/drain-step/2026/01/02/03/2026-01-02T03:04:05.006Z-w.jsonl.gz',
    );
  });

  test('of a time stands behind the place that a search from that time begins at, earlier ones before', () => {
    const from = keyBefore(shelfPrefix(shelf), at('2026-01-02T00:00:00Z'));

    expect(segmentKey(shelf, at('2026-01-02T00:00:00Z'), 'a') > from).toBe(true);
    expect(segmentKey(shelf, at('2026-01-01T23:59:59.999Z'), 'z') > from).toBe(false);
  });

  test.each(['..', '../../etc', 'a/b', '.'])(
    'stays in its folder for the cluster %j',
    (cluster) => {
      const key = segmentKey({ ...shelf, cluster }, at('2026-01-01T00:00:00Z'), 'w');

      expect(new URL(key, 'file:///top/').pathname).toMatch(
        /^\/top\/decisions\/[^/]+\/drain-step\/2026\//,
      );
    },
  );
});
