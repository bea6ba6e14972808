import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { describe, expect, test, vi } from 'vitest';
import { catalogue } from '#test/world/mutants/catalogue.ts';
import { type Mutant, filesOf, mutantOf, mutatedSource } from '#test/world/mutants/mutant.ts';

const root = new URL('../../../../', import.meta.url);

function sourceOf(file: string): string {
  return readFileSync(new URL(file, root), 'utf8');
}

const aMutant: Mutant = {
  id: 'a-mutant',
  file: 'a.ts',
  find: 'const limit = 5;',
  replace: 'const limit = 0;',
  breaks: 'There is no limit.',
  expected: ['D4'],
};

describe('the catalogue', () => {
  test.each(catalogue)(
    '$id fits the source once, and what it makes of it is TypeScript',
    (mutant) => {
      // Node tells that the function may change; that is no news to every test.
      vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
      for (const file of filesOf(mutant)) {
        const source = sourceOf(file);

        const mutated = mutatedSource(mutant, file, source);

        expect(mutated).not.toBe(source);
        expect(() => stripTypeScriptTypes(mutated)).not.toThrow();
      }
    },
  );

  test('names each mutant once, by the part it is in, what it breaks, and ids of invariants', () => {
    const ids = catalogue.map(({ id }) => id);

    expect(new Set(ids).size).toBe(ids.length);
    for (const { id, breaks, expected } of catalogue) {
      expect(id).toMatch(
        /^(execute|pipeline|record|kube|topology|admin|drain|pods|backup|relay|repository|cleanup|goverse)(-[a-z]+)+$/,
      );
      expect(breaks, id).toMatch(/^[A-Z].+\.$/);
      expect(expected.length, id).toBeGreaterThan(0);
      expect(expected.join(' '), id).toMatch(/^[XDSRGLPZBCH]\d+( [XDSRGLPZBCH]\d+)*$/);
    }
  });

  test('takes guards off in every part of the product that decides, writes or hears', () => {
    const files = new Set(catalogue.flatMap(filesOf));

    expect([...files]).toEqual(
      expect.arrayContaining([
        'shared/kernel/execute.ts',
        'shared/kernel/pipeline.ts',
        'shared/kernel/record.ts',
        'shared/kube/http-kube.ts',
        'shared/topology/connect.ts',
        'functions/drain-step/decide.ts',
        'functions/drain-step/before-return.ts',
        'functions/drain-step/after-return.ts',
        'functions/drain-step/gates.ts',
        'functions/drain-step/leaving.ts',
        'functions/drain-step/moves.ts',
        'functions/drain-step/observe.ts',
        'functions/backup-trigger/accounts.ts',
        'functions/backup-trigger/decide.ts',
        'functions/backup-trigger/hold-ups.ts',
        'functions/backup-trigger/observe.ts',
        'functions/backup-trigger/watching.ts',
        'functions/etcd-cleanup/decide.ts',
        'functions/etcd-cleanup/moves.ts',
        'functions/etcd-cleanup/observe.ts',
        'functions/etcd-cleanup/stale.ts',
        'functions/shard-release/books.ts',
        'functions/shard-release/decide.ts',
        'functions/shard-release/plan.ts',
        'functions/pool-pods/decide.ts',
        'functions/pool-pods/plan.ts',
        'functions/pool-pods/observe.ts',
        'events/relay/dirty-set.ts',
        'events/relay/known-world.ts',
        'events/relay/reflector.ts',
        'events/relay/sender.ts',
        'events/relay/wakes.ts',
      ]),
    );
  });
});

describe('a mutant', () => {
  test('replaces its text as it stands, also where it looks like a pattern', () => {
    const mutant: Mutant = { ...aMutant, find: 'a(b)', replace: '$& $1 $$' };

    const mutated = mutatedSource(mutant, 'a.ts', 'const c = a(b);');

    expect(mutated).toBe('const c = $& $1 $$;');
  });

  test('leaves files alone that are not its own', () => {
    expect(mutatedSource(aMutant, 'b.ts', 'const limit = 5;')).toBe('const limit = 5;');
  });

  test('of several edits makes each in its file', () => {
    const mutant: Mutant = {
      ...aMutant,
      also: [{ file: 'b.ts', find: 'true', replace: 'false' }],
    };

    expect(filesOf(mutant)).toEqual(['a.ts', 'b.ts']);
    expect(mutatedSource(mutant, 'a.ts', 'const limit = 5; true')).toBe('const limit = 0; true');
    expect(mutatedSource(mutant, 'b.ts', 'const limit = 5; true')).toBe('const limit = 5; false');
  });

  test.each([
    ['not at all', 'const limit = 6;', 'occurs 0 times'],
    ['twice', 'const limit = 5; const limit = 5;', 'occurs 2 times'],
  ])('is refused where its text is there %s', (_, source, problem) => {
    expect(() => mutatedSource(aMutant, 'a.ts', source)).toThrow(
      new RegExp(`mutant a-mutant: its text ${problem} in a\\.ts`),
    );
  });

  test('that the catalogue does not have is refused by name', () => {
    expect(() => mutantOf(catalogue, 'drain-settel-zero')).toThrow(
      'there is no mutant drain-settel-zero in the catalogue',
    );
  });
});
