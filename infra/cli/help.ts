import { type Command, Help, type Option } from 'commander';

/** What people come to do, and the commands that do it, in the order in which the help tells them. */
const groups = {
  'Run:': ['dev', 'relay'],
  'Look:': ['status', 'explain', 'ui', 'doctor', 'config'],
  'Repair:': ['reset', 'replay'],
  'Install:': ['manifests', 'completion', 'help'],
} as const;

/** A command's own options come first, wherever they were declared: what it works on, then how. */
const headings: readonly string[] = [
  'Source:',
  'Selection:',
  'Options:',
  'Queues:',
  ...Object.keys(groups),
];

/** What 0 says, and 1 where it can be. */
type Exits = readonly [done: string, failed?: string];

const usualExits: Exits = ['done', 'it ran and failed, or found a difference'];

/** What the exit codes of a command say, where the usual words would say less. */
const exits: Readonly<Record<string, Exits>> = {
  dev: [
    'ended by Ctrl-C, SIGTERM or a closed terminal',
    'it could not start, or Ctrl-C came twice',
  ],
  relay: ['ended by Ctrl-C or SIGTERM', 'it could not start, or ended by itself'],
  manifests: ['printed'],
  config: ['printed'],
  status: ['no target needs a person', 'a target does, or the cluster could not be asked'],
  explain: ['no person is needed', 'one is, or there is no such target'],
  ui: ['ended by Ctrl-C or SIGTERM', 'it could not start'],
  doctor: ['nothing stands in the way', 'a check failed, or could not be made'],
  reset: ['cleared, or there was nothing to clear', 'left as it was, with the reason'],
  replay: [
    'every hint was sent; of a dry run: nothing would be decided otherwise',
    'something could not be read or sent, or would be decided otherwise',
  ],
  completion: ['printed'],
  help: ['printed'],
};

/** The layout of every help. To be called before there are commands, which inherit it. */
export function layOutHelp(program: Command): void {
  program.configureHelp({
    subcommandTerm: (command) => command.name(),
    groupItems<Item extends Command | Option>(
      all: Item[],
      visible: Item[],
      groupOf: (item: Item) => string,
    ): Map<string, Item[]> {
      const grouped = new Help().groupItems(all, visible, groupOf);
      return new Map([...grouped].toSorted(([one], [other]) => placeOf(one) - placeOf(other)));
    },
  });
}

function placeOf(heading: string): number {
  const place = headings.indexOf(heading);
  return place === -1 ? headings.length : place;
}

/** Puts every command into its group, and says what its exit codes mean. To be called when all commands are there. */
export function completeHelp(program: Command): void {
  for (const command of program.commands) {
    const name = command.name();
    const group = Object.entries(groups).find(([, names]) => names.some((each) => each === name));
    if (group !== undefined) {
      command.helpGroup(group[0]);
    }
    command.addHelpText('after', exitCodes(exits[name] ?? usualExits));
  }
  program.addHelpText('after', exitCodes(usualExits));
}

function exitCodes([done, failed]: Exits): string {
  return section('Exit codes', [
    ['0', done],
    ...(failed === undefined ? [] : ([['1', failed]] as const)),
    ['2', 'the command line or the configuration is wrong'],
  ]);
}

/** Command lines that work as they stand, once the names in them are one's own. */
export function example(...lines: readonly string[]): string {
  const heading = lines.length === 1 ? 'Example' : 'Examples';
  return `\n${heading}:\n${lines.map((line) => `  $ ${line}`).join('\n')}`;
}

/** The environment variables that matter to a command, each with what it says. */
export function variables(meanings: Readonly<Record<string, string>>): string {
  return section('Environment', Object.entries(meanings));
}

/** As commander lays out its own lists. */
function section(
  heading: string,
  rows: readonly (readonly [term: string, text: string])[],
): string {
  const width = Math.max(...rows.map(([term]) => term.length));
  const help = new Help();
  const items = rows.map(([term, text]) => help.formatItem(term, width, text, help));
  return `\n${heading}:\n${items.join('\n')}`;
}
