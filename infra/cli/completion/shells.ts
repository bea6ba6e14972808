import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { suggest } from './suggest.ts';

export const shells = ['bash', 'zsh', 'fish'] as const;

export type Shell = (typeof shells)[number];

/**
 * What a shell loads. The scripts are only the way to `millrace complete` and back, so that a script once loaded stays
 * right when commands and options change.
 */
export function scriptOf(shell: Shell): string {
  return readFileSync(new URL(`millrace.${shell}`, import.meta.url), 'utf8');
}

/**
 * What `millrace complete` answers a shell with: one line per word, behind a tab what it means; `:files` and `:folders`
 * leave the word to the shell.
 *
 * @param words the command line behind the program's name, as the shell takes it apart, the word at the cursor last
 */
export function answer(
  program: Command,
  shell: Shell,
  words: readonly string[],
): readonly string[] {
  const line = shell === 'bash' ? joinedAtEquals(words) : words;
  const suggestion = suggest(program, line);
  if (suggestion.kind !== 'words') {
    return [`:${suggestion.kind}`];
  }
  // Of `--output=js` bash completes what is behind the sign, the others the whole word.
  const [assigned = ''] = shell === 'bash' ? [] : (/^--[^=]+=/.exec(line.at(-1) ?? '') ?? []);
  return suggestion.candidates.map(({ word, description }) => `${assigned}${word}\t${description}`);
}

/** Bash takes `--output=js` for three words. */
function joinedAtEquals(words: readonly string[]): readonly string[] {
  return words.reduce<readonly string[]>((joined, word) => {
    const last = joined.at(-1);
    const isPart =
      last?.startsWith('--') === true && (word === '=' ? !last.includes('=') : last.endsWith('='));
    return isPart ? [...joined.slice(0, -1), last + word] : [...joined, word];
  }, []);
}
