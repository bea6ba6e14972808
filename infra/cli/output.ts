import { type Command, Option } from 'commander';
import { stringify } from 'yaml';
import { print, printJson } from './terminal.ts';
import { UsageError } from './usage-error.ts';

/** The forms of a command's output: `table` is for people, and not always one; `wide` is one with more columns. */
export type OutputFormat = 'table' | 'wide' | 'json' | 'yaml';

/** What {@link withOutput} adds to a command's flags. */
export interface OutputFlags {
  readonly output: OutputFormat;
}

const everyFormat = ['table', 'json', 'yaml'] as const;

/**
 * Adds `-o, --output`, and `--json` as its short form. The command is handed {@link OutputFlags}, whichever was given.
 *
 * @param formats those that the command has, the one that holds when none is given first
 */
export function withOutput(
  command: Command,
  formats: readonly [OutputFormat, ...OutputFormat[]] = everyFormat,
): Command {
  return command
    .addOption(
      new Option('-o, --output <format>', 'the form of the output')
        .choices(formats)
        .default(formats[0])
        .helpGroup('Output:'),
    )
    .addOption(
      new Option('--json', 'short for --output json')
        .implies({ output: 'json' })
        .helpGroup('Output:'),
    )
    .hook('preAction', () => {
      const { json, output } = command.opts<OutputFlags & { readonly json?: true }>();
      if (json === true && output !== 'json') {
        throw new UsageError(`--json and --output ${output} contradict each other: give one`);
      }
    });
}

/**
 * Prints a value in the form that was asked for. JSON is one line, YAML one document, and both say the same.
 *
 * @param table what people read
 */
export function show(value: unknown, format: OutputFormat, table: () => string): void {
  if (format === 'json') {
    printJson(value);
  } else if (format === 'yaml') {
    print(yamlOf(value));
  } else {
    print(table());
  }
}

/** By way of JSON, so that what JSON leaves out or writes in another way is no different here. */
function yamlOf(value: unknown): string {
  const plain: unknown = JSON.parse(JSON.stringify(value));
  return stringify(plain, { lineWidth: 0, aliasDuplicateObjects: false }).trimEnd();
}
