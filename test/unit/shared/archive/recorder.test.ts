import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type DecisionEntry, maxEntryBytes } from '#shared/archive/entry.ts';
import { folderSegments } from '#shared/archive/folder-segments.ts';
import { openRecorder } from '#shared/archive/recorder.ts';
import { readSegment } from '#shared/archive/segment.ts';
import { settled } from '#shared/kernel/decision.ts';
import type { Instant } from '#shared/kernel/instant.ts';
import type { LookStory } from '#shared/kernel/look-story.ts';
import type { Step } from '#shared/kernel/step.ts';
import * as z from 'zod';

interface Seen {
  readonly name: string;
  readonly secret?: string;
}

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'recorder-'));
});

afterEach(() => rm(folder, { recursive: true }));

/** Decides by the secret, where it is told one. */
const step: Step<'Shard', Seen> = {
  name: 'drain-step',
  target: 'Shard',
  reads: [],
  writes: [],
  observe: () => Promise.reject(new Error('not asked')),
  decide: ({ name, secret }) =>
    settled(secret === undefined ? 'NobodyLeaves' : 'RecordForeign', `${name} is seen`),
  archived: async () => ({ schema: z.object({ name: z.string() }) }),
};

const at = Date.parse('2026-01-01T00:00:00Z') as Instant;
const uid = '0f8fad5b-d9cb-469f-a165-70867728950e';

function aStory(snapshot: Seen): LookStory<Seen> {
  return {
    hint: {
      specversion: '1.0',
      id: `${uid}/7/drain-step`,
      source: 'prod',
      type: 'dev.millrace.hint.changed',
      subject: 'shards/db/orders',
      time: '2026-01-01T00:00:00Z',
      datacontenttype: 'application/json',
      data: { kind: 'Shard', namespace: 'db', name: 'orders', uid, traceparent: 'tp' },
    },
    uid,
    at,
    snapshot,
    decision: step.decide(snapshot, at),
    result: { kind: 'done', effects: [] },
  };
}

async function recorded(...stories: LookStory<Seen>[]): Promise<DecisionEntry[]> {
  const environment = { MILLRACE_ARCHIVE: pathToFileURL(folder).href };
  await openRecorder(environment, 'prod')?.record(step, stories, AbortSignal.timeout(10_000));
  return entriesIn(folder);
}

async function entriesIn(path: string): Promise<DecisionEntry[]> {
  const archive = folderSegments(path);
  const entries: DecisionEntry[] = [];
  for await (const key of archive.list('decisions/prod/drain-step/')) {
    for await (const line of readSegment(archive.get(key))) {
      if (line.kind === 'entry' && line.entry.kind === 'decision') {
        entries.push(line.entry);
      }
    }
  }
  return entries;
}

describe('a recorder', () => {
  test('writes the looks of an invocation, with what of a snapshot may be kept and what is decided from that', async () => {
    const [entry, ...others] = await recorded(aStory({ name: 'orders' }));

    expect(others).toEqual([]);
    expect(entry).toMatchObject({
      at: '2026-01-01T00:00:00.000Z',
      cluster: 'prod',
      step: 'drain-step',
      target: { kind: 'Shard', namespace: 'db', name: 'orders', uid },
      hint: { id: `${uid}/7/drain-step`, type: 'dev.millrace.hint.changed' },
      snapshot: { name: 'orders' },
      decision: { outcome: 'settled', reason: 'NobodyLeaves', message: 'orders is seen' },
      result: { kind: 'done', effects: [] },
    });
    expect(entry).not.toHaveProperty('carriedOut');
    expect(JSON.stringify(entry)).not.toContain('tp');
  });

  test('says so where the decision hung on what is not kept', async () => {
    const [entry] = await recorded(aStory({ name: 'orders', secret: 'xyzzy' }));

    expect(entry).toMatchObject({
      snapshot: { name: 'orders' },
      decision: { reason: 'NobodyLeaves' },
      carriedOut: { outcome: 'settled', reason: 'RecordForeign', effects: [] },
    });
    expect(JSON.stringify(entry)).not.toContain('xyzzy');
  });

  test('leaves a snapshot out that is too long, and says so', async () => {
    const [entry] = await recorded(aStory({ name: 'x'.repeat(maxEntryBytes) }));

    expect(entry).toMatchObject({ cut: true, decision: { reason: 'NobodyLeaves' } });
    expect(entry).not.toHaveProperty('snapshot');
  });

  test('keeps the other looks where one has no form that can be archived, and says which field it is', async () => {
    const odd: LookStory<Seen> = { ...aStory({ name: 'odd' }), snapshot: JSON.parse('{"name":7}') };

    await expect(recorded(odd, aStory({ name: 'orders' }))).rejects.toThrow(
      '1 without what was seen: a snapshot of drain-step has no form that can be archived: name',
    );
    const entries = await entriesIn(folder);

    expect(entries).toMatchObject([
      { step: 'drain-step', result: { kind: 'done' } },
      { snapshot: { name: 'orders' } },
    ]);
    expect(entries[0]).not.toHaveProperty('decision');
  });

  test('is there only where an archive is named, and by default for failures', () => {
    const named = { MILLRACE_ARCHIVE: 's3://records' };

    expect(openRecorder({}, 'prod')).toBeUndefined();
    expect(openRecorder({ ...named, MILLRACE_ARCHIVE_DECISIONS: 'off' }, 'prod')).toBeUndefined();
    expect(openRecorder(named, 'prod')?.recorded).toBe('failures');
    expect(openRecorder({ ...named, MILLRACE_ARCHIVE_DECISIONS: 'all' }, 'prod')?.recorded).toBe(
      'all',
    );
  });

  test('of an environment that is wrong names every problem', () => {
    const wrong = { MILLRACE_ARCHIVE: 'my bucket', MILLRACE_ARCHIVE_DECISIONS: 'some' };

    expect(() => openRecorder(wrong, 'prod')).toThrow(
      /MILLRACE_ARCHIVE: is no archive[\s\S]*MILLRACE_ARCHIVE_DECISIONS: must be one of failures, all, off/,
    );
  });
});
