import type { Argument, Command, Option } from 'commander';

/** One word that may stand where the cursor is. */
export interface Candidate {
  readonly word: string;
  readonly description: string;
}

/** What may stand where the cursor is: words, or a name that the shell itself knows how to complete. */
export type Suggestion =
  | { readonly kind: 'words'; readonly candidates: readonly Candidate[] }
  | { readonly kind: 'files' | 'folders' };

/**
 * What may come next on a command line, by what the program declares. Nothing else is asked: an answer that takes the
 * cluster's time comes too late for a key press.
 *
 * @param words the command line behind the program's name, the word at the cursor last, `''` where none is begun
 */
export function suggest(program: Command, words: readonly string[]): Suggestion {
  const current = words.at(-1) ?? '';
  const { command, operands, open, isOptionsEnd } = read(program, words.slice(0, -1));
  if (open !== undefined && takes(open, current)) {
    return valuesOf(program, open, current);
  }
  const [name, value] = splitAtEquals(current);
  const assigned = value === undefined ? undefined : optionOf(command, name);
  if (assigned !== undefined && value !== undefined) {
    return valuesOf(program, assigned, value);
  }
  if (current.startsWith('-') && !isOptionsEnd) {
    return starting(current, optionsOf(command));
  }
  if (command.commands.length > 0) {
    return operands === 0 ? starting(current, commandsOf(command)) : none;
  }
  const argument = command.registeredArguments[operands];
  return argument === undefined ? none : valuesOf(program, argument, current);
}

const none: Suggestion = { kind: 'words', candidates: [] };

/** Where a command line stands: which command, how many operands, and the option that still waits for its value. */
interface Place {
  readonly command: Command;
  readonly operands: number;
  readonly open?: Option;
  readonly isOptionsEnd: boolean;
}

function read(program: Command, words: readonly string[]): Place {
  return words.reduce(step, { command: program, operands: 0, isOptionsEnd: false });
}

function step({ command, operands, open, isOptionsEnd }: Place, word: string): Place {
  const isOption = word.startsWith('-') && !isOptionsEnd;
  if (open !== undefined && takes(open, word)) {
    return { command, operands, isOptionsEnd, ...(open.variadic ? { open } : {}) };
  }
  if (isOption) {
    const option = optionOf(command, word);
    return {
      command,
      operands,
      isOptionsEnd: word === '--',
      ...(option?.required === true || option?.optional === true ? { open: option } : {}),
    };
  }
  const next = command.commands.find((each) => each.name() === word);
  return next === undefined
    ? { command, operands: operands + 1, isOptionsEnd }
    : { command: next, operands: 0, isOptionsEnd };
}

/** An option whose value may be left out, or that has had one of several, takes none where another option follows. */
function takes(open: Option, word: string): boolean {
  return !word.startsWith('-') || (open.required && !open.variadic);
}

function optionOf(command: Command, word: string): Option | undefined {
  return command.options.find(({ long, short }) => word === long || word === short);
}

function splitAtEquals(word: string): readonly [string, string | undefined] {
  const [, name, value] = /^(--[^=]+)=(.*)$/s.exec(word) ?? [];
  return [name ?? word, value];
}

/** By its choices, else by the name of what it stands for: `<file>` or `<path>`, `<folder>`, `<command>`. */
function valuesOf(program: Command, place: Option | Argument, begun: string): Suggestion {
  if (place.argChoices !== undefined) {
    const words = place.argChoices.map((word) => ({ word, description: '' }));
    return starting(begun, words);
  }
  const name = 'flags' in place ? (/[<[]([^\]>]+)/.exec(place.flags)?.[1] ?? '') : place.name();
  if (name === 'file' || name === 'path') {
    return { kind: 'files' };
  }
  if (name === 'folder') {
    return { kind: 'folders' };
  }
  return name === 'command' ? starting(begun, commandsOf(program)) : none;
}

function commandsOf(command: Command): readonly Candidate[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .map((each) => ({ word: each.name(), description: each.summary() || each.description() }));
}

function optionsOf(command: Command): readonly Candidate[] {
  return command
    .createHelp()
    .visibleOptions(command)
    .map(({ long, short, description }) => ({ word: long ?? short ?? '', description }));
}

function starting(begun: string, candidates: readonly Candidate[]): Suggestion {
  return { kind: 'words', candidates: candidates.filter(({ word }) => word.startsWith(begun)) };
}
