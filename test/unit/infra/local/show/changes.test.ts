import { describe, expect, test } from 'vitest';
import { Changes } from '#infra/local/show/changes.ts';

describe('waiting for a change', () => {
  test('ends at once where the condition holds already', async () => {
    const changes = new Changes();

    await expect(changes.until('it is so', 60, () => true)).resolves.toBeUndefined();
  });

  test('ends with the change that makes the condition true', async () => {
    const changes = new Changes();
    let count = 0;
    const waiting = changes.until('two changes', 60, () => count === 2);

    const looksAfter = [1, 2].map((next) => {
      count = next;
      changes.touch();
      return count;
    });

    await expect(waiting).resolves.toBeUndefined();
    expect(looksAfter).toEqual([1, 2]);
  });

  test('gives up after its time and names what it waited for', async () => {
    const changes = new Changes();

    await expect(changes.until('pigs fly', 0.01, () => false)).rejects.toThrow(
      'after 0.01 s still not so: pigs fly',
    );
  });

  test('a listener that was taken away hears nothing more', () => {
    const changes = new Changes();
    let heard = 0;
    const remove = changes.onChange(() => {
      heard += 1;
    });

    changes.touch();
    remove();
    changes.touch();

    expect(heard).toBe(1);
  });
});
