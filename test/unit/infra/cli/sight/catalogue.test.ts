import { readFileSync, readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { catalogue, isReason, meaningOf } from '#infra/cli/sight/catalogue/catalogue.ts';
import { slotMeanings } from '#infra/cli/sight/catalogue/slot-reasons.ts';
import { slotReasons } from '#functions/backup-trigger/record.ts';
import { isStalled, reasons } from '#shared/api/reasons.ts';
import { stepNames } from '#shared/api/steps.ts';

const functions = new URL('../../../../../functions/', import.meta.url);

/** Where the step says itself what to do, better than could be said without its look. */
const advisedByStep: ReadonlySet<string> = new Set([
  'QuorumTooSmall',
  'NoStandbyReady',
  'NodeUnproven',
  'ClaimInUse',
  'DrainStuck',
  'NameTaken',
  'RepositoryInvalid',
  'CredentialsMissing',
  'BucketMissing',
  'BucketInOtherRegion',
  'RepositoryForbidden',
  'RepositoryReadOnly',
  'ConditionalWritesIgnored',
  'RepositoryOwnerUnreadable',
  'RepositoryOfOthers',
  'RepositoryTaken',
  'BucketUnencrypted',
  'BackupsWouldBeOrphaned',
  'RepositoryUnclaimable',
  'BackupsMissed',
]);

describe('the catalogue of reasons', () => {
  test.each(reasons)('%s says in plain words what it means and what comes next', (reason) => {
    const { byStep = {}, ...usual } = catalogue[reason];
    for (const meaning of [usual, ...Object.values(byStep).map((own) => ({ ...usual, ...own }))]) {
      expect(meaning.brief).toMatch(/^[a-z’]/);
      expect(meaning.brief.length).toBeLessThanOrEqual(48);
      expect(meaning.brief).not.toMatch(/[.:;]$/);
      expect(meaning.means).toMatch(/^(?:[A-Z]|spec\.).*\.$/);
      expect(meaning.next).toMatch(/^[A-Za-z].*\.$/);
      expect(meaning.waitsFor ?? 'x').not.toMatch(/[.]$/);
    }
  });

  test.each(reasons.filter(isStalled))(
    '%s, under which nothing moves, needs a person',
    (reason) => {
      expect(catalogue[reason].attention).toBe('needed');
      expect(catalogue[reason].waitsFor).toBeDefined();
    },
  );

  test.each(reasons.filter((reason) => catalogue[reason].attention === 'needed'))(
    'whoever reads %s is told what to do',
    (reason) => {
      const names = {
        step: 'drain-step',
        namespace: 'db',
        resource: 'shd/a',
        database: null,
      } as const;

      expect(advisedByStep.has(reason) || (catalogue[reason].todo?.(names) ?? []).length > 0).toBe(
        true,
      );
    },
  );

  test('a reason that only a newer version knows is said to be that', () => {
    expect(meaningOf('SomethingNew', 'drain-step')).toMatchObject({
      attention: 'advised',
      brief: 'a reason this version does not know',
    });
    expect(isReason('SomethingNew')).toBe(false);
  });

  test.each(stepNames)('every reason in the source of %s is explained', (step) => {
    const folder = new URL(`${step}/`, functions);
    const source = readdirSync(folder)
      .filter((file) => file.endsWith('.ts'))
      .map((file) => readFileSync(new URL(file, folder), 'utf8'))
      .join('\n');
    const named = reasons.filter((reason) => source.includes(`'${reason}'`));

    expect(named.length).toBeGreaterThan(4);
    for (const reason of named) {
      expect(meaningOf(reason, step).means).not.toBe('');
    }
  });

  test.each(slotReasons)('why a slot made no backup is said: %s', (reason) => {
    expect(slotMeanings[reason].means).toMatch(/^[a-z].*[^.]$/);
  });
});
