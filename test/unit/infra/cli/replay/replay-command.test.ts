import { once } from 'node:events';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { deadLetterQueueName, queueName } from '#events/hint.ts';
import { segmentKey } from '#shared/archive/archive.ts';
import { folderSegments } from '#shared/archive/folder-segments.ts';
import { encodeSegment } from '#shared/archive/segment.ts';
import { anEntry } from '../../../events/replay/an-archive.ts';
import { aHint, cluster, start } from '../../../events/replay/letter-world.ts';
import { QueueOfLetters, stage, step } from './queue-of-letters.ts';

const source = queueName(stage, step);
const dead = deadLetterQueueName(stage, step);
const at = '2026-01-01T00:00:00Z';

function hints(count: number): readonly string[] {
  return Array.from({ length: count }, (_, place) =>
    JSON.stringify(aHint(step, `orders-${place}`)),
  );
}

describe('millrace replay', { timeout: 120_000 }, () => {
  test('of dead letters says what was sent and what stays, and ends with 1 for what cannot be', async () => {
    const letters = await QueueOfLetters.open();
    await letters.put([...hints(3), 'garbage']);

    const { exitCode, stdout, stderr } = await letters.run('--dlq', '--yes');

    expect(exitCode).toBe(1);
    expect(stdout).toBe(
      '3 hints sent again, and their letters deleted\n1 letter cannot be replayed, and stays\n',
    );
    expect(stderr).toMatch(/^pool-pods, letter \S+: the message is not JSON$/m);
    expect(stderr).toMatch(/^written down in \S+\.jsonl$/m);
    expect(await letters.take(source)).toHaveLength(3);
    expect(await letters.take(dead)).toEqual(['garbage']);
  });

  test('of one target leaves the others, and what is no hint is none of its concern', async () => {
    const letters = await QueueOfLetters.open();
    await letters.put([...hints(25), 'garbage']);

    const words = ['--dlq', step, '--target', 'shd/db/orders-7', '--yes', '--json'];
    const { exitCode, stdout } = await letters.run(...words);

    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      counts: { seen: 26, sent: 1, left: 24, refused: 1 },
    });
    expect(await letters.take(dead)).toHaveLength(25);
  });

  test('of one reason sends what an archive says failed for it; without an archive nobody could say', async () => {
    const letters = await QueueOfLetters.open();
    await letters.put(hints(3));
    const archive = join(letters.home, 'archive');
    const failed = anEntry({
      target: { kind: 'Shard', namespace: 'db', name: 'orders-1', uid: 'u' },
      hint: { id: aHint(step, 'orders-1').id, type: 'dev.millrace.hint.changed', time: at },
      result: { kind: 'failed', ending: 'returned', reason: 'WriteForbidden' },
    });
    const shelf = { kind: 'decision', cluster, step: 'pool-pods' } as const;
    await folderSegments(archive).put(
      segmentKey(shelf, start, 'w'),
      await encodeSegment([anEntry(), failed]),
      AbortSignal.timeout(10_000),
    );
    const words = ['--dlq', step, '--reason', 'WriteForbidden', '--yes', '--json'];

    const blind = await letters.run(...words);
    const { exitCode, stdout } = await letters.run(...words, '--archive', `file://${archive}`);

    expect([blind.exitCode, blind.stderr]).toEqual([
      2,
      'millrace: a letter does not say why it failed: give --archive <url> beside --reason, which does\n',
    ]);
    expect([exitCode, JSON.parse(stdout)]).toMatchObject([0, { counts: { sent: 1, left: 2 } }]);
    expect(await letters.take(source)).toMatchObject([expect.stringContaining('orders-1')]);
  });

  test('with --discard-invalid deletes what is no hint, and keeps a copy that can be replayed', async () => {
    const letters = await QueueOfLetters.open();
    const elsewhere = JSON.stringify(aHint(step, 'orders-0', { source: 'elsewhere' }));
    await letters.put(['garbage', elsewhere]);

    const { exitCode } = await letters.run('--dlq', step, '--discard-invalid', '--yes');

    const journals = join(letters.home, 'millrace', cluster, 'replay');
    const copies = (await readdir(journals)).filter((name) => name.startsWith('discarded-'));
    const copy = await readFile(join(journals, copies[0] ?? ''), 'utf8');
    expect(exitCode).toBe(1);
    expect(JSON.parse(copy)).toMatchObject({ queue: dead, body: 'garbage' });
    expect(await letters.take(dead)).toEqual([elsewhere]);
  });

  test('of a file names each line that is none by its number, and sends the others', async () => {
    const letters = await QueueOfLetters.open();
    const file = join(letters.home, 'hints.jsonl');
    await writeFile(file, [hints(1)[0], 'garbage', ...hints(12)].join('\n'));

    const { exitCode, stdout, stderr } = await letters.run('--file', file, '--yes');

    expect(exitCode).toBe(1);
    expect(stdout).toBe(
      '13 hints sent again\n1 place could not be read as a hint of this cluster\n',
    );
    expect(stderr).toContain('line 2: it is not JSON');
    expect(await letters.take(source)).toHaveLength(13);
  });

  test('ends at a Ctrl-C with what was done, and shows the rest at once', async () => {
    const letters = await QueueOfLetters.open();
    await letters.put(hints(60));

    const replay = letters.begin('--dlq', step, '--yes', '--rate', '10');
    const [output, errors] = [text(replay.stdout), text(replay.stderr)];
    await letters.untilLines(replay, 4);
    replay.kill('SIGINT');
    const [exitCode] = await once(replay, 'exit');

    const sent = (await letters.take(source)).length;
    const left = (await letters.take(dead)).length;
    expect(exitCode).toBe(1);
    expect(sent).toBeGreaterThan(0);
    expect([sent + left, left > 0]).toEqual([60, true]);
    expect(await output).toContain(`${sent} hints sent again, and their letters deleted`);
    expect(await errors).toContain('stopped: what was begun was finished, and the rest stays');
  });

  test('of a cluster whose id is an ARN keeps its journal under a name of one folder', async () => {
    const letters = await QueueOfLetters.open();
    const source = 'arn:aws:eks:eu-central-1:123456789012:cluster/prod';
    await letters.put([JSON.stringify(aHint(step, 'orders-0', { source }))]);

    const { exitCode, stdout } = await letters.run('--dlq', step, '--yes', '--cluster-id', source);

    expect([exitCode, stdout]).toEqual([0, '1 hint sent again, and its letter deleted\n']);
    expect(await readdir(join(letters.home, 'millrace'))).toEqual([encodeURIComponent(source)]);
  });

  test('asks nobody who is not there', async () => {
    const letters = await QueueOfLetters.open();
    await letters.put(hints(1));

    const { exitCode, stderr } = await letters.run('--dlq');

    expect([exitCode, stderr]).toEqual([
      2,
      'millrace: there is no terminal to ask on; give --yes to send the hints again\n',
    ]);
    expect(await letters.take(dead)).toHaveLength(1);
  });

  test.each([
    [
      'a stage without queues',
      ['--stage', 'nobodys'],
      /there is no queue millrace-nobodys-\S+-dlq: check MILLRACE_STAGE/,
    ],
    [
      'a server that is not there',
      ['--queue-endpoint', 'http://127.0.0.1:1'],
      /nothing answers for the queues at 127\.0\.0\.1:1: check MILLRACE_QUEUE_URL_PREFIX, or MILLRACE_QUEUE_ENDPOINT/,
    ],
    [
      'another region than the queues’',
      ['--queue-url-prefix', 'https://sqs.eu-west-1.amazonaws.com/123456789012/'],
      /--region: is not the region in MILLRACE_QUEUE_URL_PREFIX/,
    ],
  ])('says of %s in one sentence which setting to look at', async (_, words, says) => {
    const letters = await QueueOfLetters.open();

    const { exitCode, stderr } = await letters.run('--dlq', '--yes', ...words);

    expect(exitCode).toBe(2);
    expect(stderr).toMatch(says);
  });
});
