import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { catalogue } from '#test/world/mutants/catalogue.ts';
import { explorationsOf } from '#test/world/run/explorations.ts';
import type { Bounds } from '#test/world/run/interleavings.ts';
import { type LedgerEntry, readLedger } from './ledger.ts';

const path = fileURLToPath(new URL('../report.md', import.meta.url));

/** Writes the page that a person reads, from the last run of each part and scale in the ledger. */
export function writePage(): void {
  writeFileSync(path, pageOf(readLedger()));
}

export function pageOf(entries: readonly LedgerEntry[]): string {
  const last = [
    ...new Map(entries.map((entry) => [`${entry.part}/${entry.scale}`, entry])).values(),
  ];
  return [
    '# What the simulated world has shown',
    '',
    'Made from ledger.jsonl by `npm run verify -- --record`; the newest run of each part. What the world is, what it leaves',
    'out and within which bounds it looks: README.md beside this page.',
    '',
    ...partsTable(last.filter(({ mutants }) => mutants === undefined)),
    '',
    ...invariantsTable(last),
    '',
    ...boundsTable(),
    '',
    ...leftOut,
    '',
    ...mutantsTable(entries),
    '',
  ].join('\n');
}

function partsTable(entries: readonly LedgerEntry[]): string[] {
  return [
    '## Runs',
    '',
    '| part | scale | commit | violations | what was run | state × fault pairs | took |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    ...entries.map(
      ({ part, scale, commit, violations, figures, covered, seconds, jobs }) =>
        `| ${part} | ${scale} | ${commit} | ${violations} | ${figuresText(figures)} | ${covered === 0 ? '' : covered} | ${Math.round(seconds)} s, ${jobs} threads |`,
    ),
  ];
}

function figuresText(figures: LedgerEntry['figures']): string {
  return Object.entries(figures)
    .map(([name, value]) =>
      name === 'virtualSeconds'
        ? `${(value / 31_557_600).toFixed(1)} simulated years`
        : `${value.toLocaleString('en')} ${words(name)}`,
    )
    .join(', ');
}

/** `mostDeliveriesToConverge` → `most deliveries to converge` */
function words(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

/** Within which every interleaving was tried. */
function boundsTable(): string[] {
  const long = explorationsOf('long');
  return [
    '## Bounds of the explorer',
    '',
    'Handlers at a time, and how often each thing may happen in one run; everything within is tried in every order.',
    '',
    '| exploration | in CI | in the long run |',
    '| --- | --- | --- |',
    ...explorationsOf('short').map(
      ({ name, bounds }, index) =>
        `| ${name} | ${boundsText(bounds)} | ${boundsText(long[index]?.bounds ?? bounds)} |`,
    ),
  ];
}

function boundsText(bounds: Bounds): string {
  const { handlers, duplicates, crashes, lostAnswers, pauses, acts, answersIn } = bounds;
  const counts = { handlers, duplicates, crashes, 'lost answers': lostAnswers, pauses };
  const used = Object.entries(counts).filter(([, count]) => count > 0);
  const texts = [
    ...used.map(([name, count]) => `${name} ${count}`),
    ...acts.map(({ name }) => name),
    ...(answersIn === 'every order' ? ['answers in every order'] : []),
  ];
  return texts.join(', ');
}

const leftOut = [
  '## What this does not show',
  '',
  'Requests take no time but what a fault gives them. One shard, one node, no volumes that fail, no admission. The data',
  'plane is a stand-in, whose likeness ends where its README says. Losses beyond what it can bear are only held to the',
  'rules of safety. Where the clock of the API server itself jumps by an hour, waits that a clock measures are not checked.',
  'A record that somebody without any right to changes between a look and its write is not fenced by the look.',
];

function invariantsTable(entries: readonly LedgerEntry[]): string[] {
  const totals = new Map<string, { times: number; workloads: number }>();
  for (const { evaluated } of entries) {
    for (const [id, { times, workloads }] of Object.entries(evaluated)) {
      const total = totals.get(id) ?? { times: 0, workloads: 0 };
      totals.set(id, {
        times: total.times + times,
        workloads: Math.max(total.workloads, workloads),
      });
    }
  }
  const rows = [...totals].toSorted(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }));
  return [
    '## Invariants',
    '',
    '| id | evaluated | in workloads |',
    '| --- | --- | --- |',
    ...rows.map(
      ([id, { times, workloads }]) => `| ${id} | ${times.toLocaleString('en')} | ${workloads} |`,
    ),
  ];
}

type Row = NonNullable<LedgerEntry['mutants']>[number] & Pick<LedgerEntry, 'commit'>;

/** Each mutant of the catalogue with its newest verdict. */
function mutantsTable(entries: readonly LedgerEntry[]): string[] {
  const verdicts = new Map(
    entries.flatMap(({ commit, mutants = [] }) =>
      mutants.map((mutant) => [mutant.id, { commit, ...mutant }] as const),
    ),
  );
  const rows = catalogue.map(
    ({ id }): Row => verdicts.get(id) ?? { id, verdict: 'not tried', commit: '' },
  );
  const killed = rows.filter(({ verdict }) => verdict === 'killed');
  return verdicts.size === 0
    ? []
    : [
        '## Guards taken off one at a time',
        '',
        `${killed.length} of ${rows.length} were noticed.`,
        '',
        '| mutant | noticed by | after runs | first seen in | commit |',
        '| --- | --- | --- | --- | --- |',
        ...rows.map(
          ({ id, verdict, invariant = '', runs = 0, by = '', commit }) =>
            `| ${id} | ${verdict === 'killed' ? invariant : `**${verdict}**`} | ${runs} | ${by.replaceAll('|', '\\|')} | ${commit} |`,
        ),
      ];
}
