import { Argument, Command, Option } from 'commander';
import { describe, expect, test } from 'vitest';
import { suggest } from '#infra/cli/completion/suggest.ts';

function aProgram(): Command {
  const program = new Command('tool').version('1');
  program
    .command('paint')
    .summary('paint a wall')
    .addOption(new Option('-c, --colour <name>', 'which').choices(['red', 'rose', 'blue']))
    .addOption(new Option('--gloss [degree]', 'how much').choices(['high', 'low']))
    .option('--plan <file>', 'what is where')
    .addOption(new Option('--with <tool...>', 'by what').choices(['brush', 'roll']))
    .option('--wet', 'do not wait')
    .addOption(new Option('--secret <word>').hideHelp())
    .addArgument(new Argument('<side>').choices(['inside', 'outside']))
    .argument('[folder]');
  program.command('about').argument('<command>');
  program.command('inner', { hidden: true });
  return program;
}

function wordsAt(...words: string[]): readonly string[] | string {
  const suggestion = suggest(aProgram(), words);
  return suggestion.kind === 'words'
    ? suggestion.candidates.map(({ word }) => word)
    : suggestion.kind;
}

describe('what may come next', () => {
  test('is a command first, and no hidden one', () => {
    expect(wordsAt('')).toEqual(['paint', 'about', 'help']);
    expect(wordsAt('pa')).toEqual(['paint']);
    expect(wordsAt('in')).toEqual([]);
  });

  test('comes with what it means', () => {
    expect(suggest(aProgram(), ['pai'])).toEqual({
      kind: 'words',
      candidates: [{ word: 'paint', description: 'paint a wall' }],
    });
  });

  test('is an option where a dash is begun, and no hidden one', () => {
    expect(wordsAt('paint', '-')).toEqual([
      '--colour',
      '--gloss',
      '--plan',
      '--with',
      '--wet',
      '--help',
    ]);
    expect(wordsAt('paint', '--we')).toEqual(['--wet']);
    expect(wordsAt('-')).toEqual(['--version', '--help']);
  });

  test('is the value of an option, however it is written', () => {
    expect(wordsAt('paint', '-c', 'r')).toEqual(['red', 'rose']);
    expect(wordsAt('paint', '--colour=r')).toEqual(['red', 'rose']);
    expect(wordsAt('paint', '--colour', '')).toEqual(['red', 'rose', 'blue']);
    expect(wordsAt('paint', '--plan', '')).toBe('files');
  });

  test('is the value of an option that may have none, or what follows it', () => {
    expect(wordsAt('paint', '--gloss', 'h')).toEqual(['high']);
    expect(wordsAt('paint', '--gloss', '--we')).toEqual(['--wet']);
    expect(wordsAt('paint', '--gloss', '--wet', '')).toEqual(['inside', 'outside']);
  });

  test('is one more value of an option that takes several, until another option follows', () => {
    expect(wordsAt('paint', '--with', 'brush', '')).toEqual(['brush', 'roll']);
    expect(wordsAt('paint', '--with', 'brush', '--we')).toEqual(['--wet']);
    expect(wordsAt('paint', '--with', 'brush', '--wet', 'in')).toEqual(['inside']);
  });

  test('is the operand whose turn it is', () => {
    expect(wordsAt('paint', '')).toEqual(['inside', 'outside']);
    expect(wordsAt('paint', '--colour', 'red', 'ins')).toEqual(['inside']);
    expect(wordsAt('paint', '--wet', 'inside', '')).toBe('folders');
    expect(wordsAt('paint', 'inside', 'here', '')).toEqual([]);
  });

  test('is no option behind two dashes', () => {
    expect(wordsAt('paint', '--', '-')).toEqual([]);
    expect(wordsAt('paint', '--', 'o')).toEqual(['outside']);
  });

  test('is a command where a command is named', () => {
    expect(wordsAt('about', 'p')).toEqual(['paint']);
  });

  test('is nothing behind what nobody knows', () => {
    expect(wordsAt('no-such', '')).toEqual([]);
    expect(wordsAt('paint', '--no-such=')).toEqual([]);
  });
});
