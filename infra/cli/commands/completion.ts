import type { Command } from 'commander';
import { type Shell, answer, scriptOf } from '../completion/shells.ts';
import { print } from '../terminal.ts';

/** Prints what a shell loads to complete command lines. */
export function completion(shell: Shell): 0 {
  print(scriptOf(shell).trimEnd());
  return 0;
}

/** Answers a shell that completes the words of a command line. */
export function complete(program: Command, shell: Shell, words: readonly string[]): 0 {
  for (const line of answer(program, shell, words)) {
    print(line);
  }
  return 0;
}
