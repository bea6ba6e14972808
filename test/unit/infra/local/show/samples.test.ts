import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { chooseSamples } from '#infra/local/show/samples.ts';
import { aSnapshotOf } from '#test/unit/functions/pool-pods/a-snapshot.ts';
import { anEntry, recorded } from '#test/unit/infra/cli/replay/a-recording.ts';

const room = 100_000;

const settled = await anEntry();
const longer = await anEntry(aSnapshotOf(4));
const making = await anEntry(aSnapshotOf(2).wanting(3));

function reasonsIn(lines: string | Uint8Array | undefined): readonly string[] {
  return String(lines)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line).decision.reason);
}

describe('samples of a recording', () => {
  test('are one look of each sort, the shortest, in whichever order they were recorded', async () => {
    const one = await chooseSamples(recorded(longer, settled, making, settled), room);
    const other = await chooseSamples(recorded(making, settled, longer), room);

    expect(one).toEqual(other);
    expect([one.looks, [...one.files.keys()]]).toEqual([2, ['pool-pods.jsonl']]);
    expect(reasonsIn(one.files.get('pool-pods.jsonl'))).toEqual(['MembersReady', 'ObjectsMade']);
    expect(one.files.get('pool-pods.jsonl')).not.toContain(JSON.stringify(longer));
  });

  test('have a look of each reason, also where there is no room', async () => {
    const { looks, bytes } = await chooseSamples(recorded(settled, making), 0);

    expect(looks).toBe(2);
    expect(bytes).toBeGreaterThan(0);
  });

  test('that nobody would read are compressed', async () => {
    const { files } = await chooseSamples(recorded(await anEntry(aSnapshotOf(60))), room);

    const content = files.get('pool-pods.jsonl.gz');

    expect(files.size).toBe(1);
    expect(reasonsIn(gunzipSync(content ?? '').toString())).toHaveLength(1);
  });

  test('name looks whose archived form is decided otherwise, and leave out those without a snapshot', async () => {
    const carriedOut = { outcome: 'settled', reason: 'Other', effects: [] } as const;

    const { looks, unfaithful } = await chooseSamples(
      recorded({ ...settled, carriedOut: { ...carriedOut, effects: [] }, snapshot: undefined }),
      room,
    );

    expect([looks, unfaithful]).toEqual([0, ['pool-pods Other']]);
  });
});
