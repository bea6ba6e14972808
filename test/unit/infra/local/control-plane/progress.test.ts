import { describe, expect, test } from 'vitest';
import {
  type ProgressUpdate,
  plainLines,
  reportProgress,
} from '#infra/local/control-plane/progress.ts';

/** What the printer writes about an activity that reports every second, up to and including `seconds`. */
function printed(...activities: readonly (readonly [activity: string, seconds: number])[]) {
  const lines: string[] = [];
  const printer = plainLines((line) => lines.push(line));
  for (const [activity, seconds] of activities) {
    for (let second = 0; second <= seconds; second++) {
      printer.onProgress({ activity, elapsedMs: second * 1000 });
    }
  }
  printer.close();
  return lines;
}

describe('progress in plain lines', () => {
  test('is silent about what is done within two seconds', () => {
    const lines = printed(['starting etcd', 1], ['starting the API server', 1]);

    expect(lines).toEqual([]);
  });

  test('is one line after two seconds and one for each further 15 seconds', () => {
    const lines = printed(['building etcd', 70]);

    expect(lines).toEqual([
      'building etcd … 2 s',
      'building etcd … 17 s',
      'building etcd … 32 s',
      'building etcd … 47 s',
      'building etcd … 1 m 2 s',
    ]);
  });

  test('starts anew with each activity', () => {
    const lines = printed(['building etcd', 5], ['building kube-apiserver', 5]);

    expect(lines).toEqual(['building etcd … 2 s', 'building kube-apiserver … 2 s']);
  });
});

describe('work that reports its progress', () => {
  test('reports at its begin and at its end, and hands on what it resolves with', async () => {
    const updates: ProgressUpdate[] = [];

    const result = await reportProgress(
      (update) => updates.push(update),
      'counting',
      async () => 42,
    );

    expect(result).toBe(42);
    expect(updates.map(({ activity }) => activity)).toEqual(['counting', 'counting']);
  });

  test('reports its end and throws on when it fails', async () => {
    const updates: ProgressUpdate[] = [];

    const work = reportProgress(
      (update) => updates.push(update),
      'counting',
      () => Promise.reject(new Error('lost count')),
    );

    await expect(work).rejects.toThrow('lost count');
    expect(updates).toHaveLength(2);
  });
});
