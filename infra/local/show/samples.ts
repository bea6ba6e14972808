import { gzipSync } from 'node:zlib';
import type { StepName } from '#shared/api/steps.ts';
import type { DecisionEntry } from '#shared/archive/entry.ts';
import type { Recorded } from '#shared/archive/read-archive.ts';

/** Recorded looks, chosen to be kept in the repository. */
export interface Samples {
  /** What each file holds, in the order of reasons. Lines that nobody would read are in files of their own, compressed. */
  readonly files: ReadonlyMap<string, string | Uint8Array>;
  readonly looks: number;
  readonly bytes: number;
  /** Looks whose archived form leads to another decision than was carried out: defects, each by its step and reason. */
  readonly unfaithful: readonly string[];
}

/** A longer line is not read by people, in characters. */
const longestLine = 16_000;

interface Candidate {
  readonly step: StepName;
  readonly line: string;
  /** Of its step, reason and outcome; and of the kinds of its effects too. */
  readonly reason: string;
  readonly sort: string;
}

/**
 * Of each step, reason and outcome the shortest look; then, the shortest first, one for each other list of kinds of effects, as
 * long as there is room. Of the same length it is the first in the order of texts, so the same recording always gives the
 * same samples.
 *
 * @param room in bytes; what is kept of each reason may need more
 */
export async function chooseSamples(
  recorded: AsyncIterable<Recorded>,
  room: number,
): Promise<Samples> {
  const ofReason = new Map<string, Candidate>();
  const ofSort = new Map<string, Candidate>();
  const unfaithful = new Set<string>();
  for await (const each of recorded) {
    if (each.kind === 'entry' && each.entry.kind === 'decision') {
      const { step, carriedOut } = each.entry;
      if (carriedOut !== undefined) {
        unfaithful.add(`${step} ${carriedOut.reason}`);
      }
      const candidate = candidateOf(each.entry);
      if (candidate !== undefined) {
        keepShorter(ofReason, candidate.reason, candidate);
        keepShorter(ofSort, candidate.sort, candidate);
      }
    }
  }
  const chosen = chosenOf([...ofReason.values()], [...ofSort.values()], room);
  return { ...chosen, unfaithful: [...unfaithful].toSorted() };
}

function candidateOf(entry: DecisionEntry): Candidate | undefined {
  const { step, decision, snapshot } = entry;
  if (decision === undefined || snapshot === undefined) {
    return undefined;
  }
  const reason = `${step} ${decision.reason} ${decision.outcome}`;
  const sort = [reason, ...decision.effects.map(({ kind }) => kind)].join(' ');
  return { step, line: `${JSON.stringify(entry)}\n`, reason, sort };
}

function keepShorter(kept: Map<string, Candidate>, key: string, candidate: Candidate): void {
  const before = kept.get(key);
  if (before === undefined || byLength(candidate, before) < 0) {
    kept.set(key, candidate);
  }
}

function byLength(a: Candidate, b: Candidate): number {
  return a.line.length - b.line.length || (a.line < b.line ? -1 : 1);
}

function chosenOf(
  needed: readonly Candidate[],
  further: readonly Candidate[],
  room: number,
): Omit<Samples, 'unfaithful'> {
  const chosen = new Set(needed);
  let bytes = needed.reduce((sum, { line }) => sum + weightOf(line), 0);
  for (const candidate of further.toSorted(byLength)) {
    const weight = chosen.has(candidate) ? 0 : weightOf(candidate.line);
    if (weight > 0 && bytes + weight <= room) {
      chosen.add(candidate);
      bytes += weight;
    }
  }
  const inOrder = [...chosen].toSorted((a, b) => (a.sort < b.sort ? -1 : 1));
  const ofFile = Map.groupBy(
    inOrder,
    ({ step, line }) => `${step}.jsonl${isLong(line) ? '.gz' : ''}`,
  );
  const files = [...ofFile].map(([name, candidates]): [string, string | Uint8Array] => {
    const text = candidates.map(({ line }) => line).join('');
    return [name, name.endsWith('.gz') ? gzipSync(text, { level: 9 }) : text];
  });
  return { files: new Map(files), looks: chosen.size, bytes };
}

/** Bytes that it takes in its file; about as many, where it is compressed. */
function weightOf(line: string): number {
  return isLong(line) ? gzipSync(line, { level: 9 }).length : Buffer.byteLength(line);
}

function isLong(line: string): boolean {
  return line.length > longestLine;
}
