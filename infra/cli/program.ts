import { Argument, Command, CommanderError, Option } from 'commander';
import { type StepName, stepNames } from '#shared/api/steps.ts';
import { version } from '#shared/api/version.ts';
import { ConfigurationError } from '#shared/kernel/config.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { type Shell, shells } from './completion/shells.ts';
import { completeHelp, example, layOutHelp, variables } from './help.ts';
import { withOutput } from './output.ts';
import { heedReaders } from './terminal.ts';
import { UsageError } from './usage-error.ts';

/** 0 done, 1 ran and failed or found a difference, 2 usage or configuration. */
type ExitCode = 0 | 1 | 2;

/**
 * Runs one command line and returns the process's exit code. Each command's code is loaded only when it is the one
 * that was asked for.
 *
 * @param words the command line without the interpreter and the script
 */
export async function runProgram(words: readonly string[]): Promise<ExitCode> {
  heedReaders();
  let exitCode: ExitCode = 0;
  const program = makeProgram((code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync(words, { from: 'user' });
    return exitCode;
  } catch (error) {
    return exitCodeOf(error);
  }
}

/** Every command with its options, none of which is run yet. */
export function makeProgram(finish: Finish): Command {
  const program = new Command('millrace')
    .description('Day-2 operations for sharded databases on Kubernetes, one short step at a time.')
    .version(version, '-V, --version')
    .helpOption('-h, --help', 'say all this')
    .helpCommand(false)
    .exitOverride()
    .configureOutput({
      outputError: (text, write) => write(text.replace(/^error: /, 'millrace: ')),
    })
    .showHelpAfterError('(add --help for the options and an example)')
    .addHelpText('after', variables(everywhere));
  layOutHelp(program);
  addCommands(program, finish);
  completeHelp(program);
  return program;
}

function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CommanderError) {
    // Commander has written what there is to say.
    return error.exitCode === 0 ? 0 : 2;
  }
  process.stderr.write(`millrace: ${describeError(error)}\n`);
  return error instanceof ConfigurationError || error instanceof UsageError ? 2 : 1;
}

type Finish = (code: ExitCode) => void;

function addCommands(program: Command, finish: Finish): void {
  addDev(program, finish);
  addStatus(program, finish);
  addExplain(program, finish);
  addRelay(program, finish);
  addManifests(program, finish);
  addConfig(program, finish);
  addDoctor(program, finish);
  addReset(program, finish);
  addReplay(program, finish);
  addUi(program, finish);
  addCompletion(program, finish);
  addHelp(program);
}

function addDev(program: Command, finish: Finish): void {
  withSettings(program.command('dev'), variablesOfDev)
    .summary('run relay, queue and steps against a cluster')
    .description('Run relay, queue and steps against a cluster until Ctrl-C.')
    .option('--install', "apply Millrace's custom resource definitions first")
    .option('--record', 'record every decision and hint in the data folder, not only what fails')
    .option('--json', 'write JSON lines: one when ready, then one per decision')
    .addHelpText('after', example('millrace dev --kubeconfig ~/.kube/config --install'))
    .action(async (flags) => {
      const { dev } = await import('./commands/dev.ts');
      finish(await dev(flags));
    });
}

const variablesOfDev = {
  MILLRACE_FUNCTION_TIMEOUT_SECONDS: 'how long one look may take (30)',
  MILLRACE_FUNCTION_CONCURRENCY: 'how many looks of a step run at once (2)',
  MILLRACE_SWEEP_SECONDS: 'how often overdue looks are searched for (300)',
  MILLRACE_VISIBILITY_SECONDS: 'how long a message in work stays hidden (180)',
  MILLRACE_LOG_LEVEL: 'from which level on log lines are written (info)',
  MILLRACE_ARCHIVE_DECISIONS: 'which looks are recorded: failures, all or off (failures)',
  OTEL_EXPORTER_OTLP_ENDPOINT: 'the collector that traces go to (none)',
};

function addStatus(program: Command, finish: Finish): void {
  withOutput(withCluster(program.command('status'), namespaces()), [
    'table',
    'wide',
    'json',
    'yaml',
  ])
    .summary('what every target is at and waits for')
    .description('Say what every target is at and what it waits for, problems first.')
    .option('-w, --watch', 'go on until Ctrl-C: redraw on a terminal, else a line per change')
    .addHelpText('after', example('millrace status -n db', 'millrace status --watch -o wide'))
    .action(async (flags) => {
      const { status } = await import('./commands/status.ts');
      finish(await status(flags));
    });
}

function addExplain(program: Command, finish: Finish): void {
  const namespace = new Option('-n, --namespace <namespace>', "the target's namespace");
  withOutput(withCluster(program.command('explain'), namespace))
    .argument('<target>', 'shd/<name>, mdb/<name> or gvc/<name>')
    .summary('what one target waits for, and what to do')
    .description('Say what one target waits for, since when, and what a person can do about it.')
    .addHelpText('after', example('millrace explain shd/orders-0 -n db'))
    .action(async (target: string, flags) => {
      const { explain } = await import('./commands/explain.ts');
      finish(await explain(target, flags));
    });
}

function addRelay(program: Command, finish: Finish): void {
  withSettings(program.command('relay'))
    .summary('run the relay alone')
    .description(
      'Run the relay in the foreground; its own variables are in events/relay/README.md.',
    )
    .option('--queue-endpoint <url>', 'the SQS endpoint to send hints to')
    .option('--json', 'accepted for symmetry: the relay always writes JSON lines')
    .addHelpText(
      'after',
      example('millrace relay --kubeconfig ~/.kube/config --queue-endpoint http://127.0.0.1:4566'),
    )
    .action(async (flags) => {
      const { relay } = await import('./commands/relay.ts');
      finish(await relay(flags));
    });
}

function addManifests(program: Command, finish: Finish): void {
  withOutput(program.command('manifests'), ['yaml', 'json'])
    .summary('print what is to be applied to a cluster')
    .description(
      "Print Millrace's custom resource definitions; with options about the installation, all that runs in the cluster.",
    )
    .optionsGroup('Relay:')
    .option('-n, --namespace <namespace>', "Millrace's own namespace (else millrace)")
    .option('--cluster-id <id>', 'the source of every hint')
    .option('--stage <name>', 'the part of every queue name (else prod)')
    .option('--image <reference>', "the relay's image")
    .option('--queue-url-prefix <url>', "what the stack's output QueueUrlPrefix says")
    .option('--queue-endpoint <url>', "an SQS endpoint other than AWS's")
    .option(
      '--otel-endpoint <url>',
      'the collector that the relay sends traces to; none when absent',
    )
    .option('--archive <url>', 'where the relay records the hints that it sends: s3://bucket')
    .option('--region <region>', 'the region of the queues')
    .option('--relay-role-arn <arn>', 'the role of AWS that the relay sends with, by IRSA')
    .optionsGroup('Rights:')
    .option('--work-namespace <namespace>', 'work in this namespace only; repeats', appended)
    .option(
      '--secret <namespace/name>',
      'a Secret that a Database or GoverseCluster names; repeats',
      appended,
    )
    .option(
      '--service <namespace/name:port>',
      "a Service to reach by the API server's proxy, https: before its name for TLS; repeats",
      appended,
    )
    .option(
      '--user <identity=user>',
      'who else signs in as a step, sweep or relay, besides its service account; repeats',
      appended,
    )
    .addHelpText(
      'after',
      example(
        'millrace manifests | kubectl apply --server-side -f -',
        'millrace manifests --cluster-id prod-eu --image relay@sha256:… --region eu-west-1 \\\n      --queue-url-prefix https://sqs.eu-west-1.amazonaws.com/123456789012/',
      ),
    )
    .action(async (flags) => {
      const { manifests } = await import('./commands/manifests.ts');
      finish(await manifests(flags));
    });
}

function addConfig(program: Command, finish: Finish): void {
  withOutput(withSettings(program.command('config')))
    .summary('print the configuration in force and its sources')
    .description('Print the configuration in force and where each value came from, secrets hidden.')
    .addHelpText('after', example('millrace config --stage staging', 'millrace config -o yaml'))
    .action(async (flags) => {
      const { config } = await import('./commands/config.ts');
      finish(await config(flags));
    });
}

function addDoctor(program: Command, finish: Finish): void {
  withOutput(withSettings(program.command('doctor')))
    .summary('check that Millrace can work here')
    .description('Check that Millrace can work here: the cluster, the permissions, each Database.')
    .option(
      '--accounts [namespace]',
      'ask for the service accounts that `millrace manifests` makes there, not for you (else millrace)',
    )
    .addHelpText(
      'after',
      example(
        'millrace doctor --kubeconfig ~/.kube/config -n db',
        'millrace doctor --accounts millrace --json',
      ),
    )
    .action(async ({ accounts, ...flags }) => {
      const { doctor } = await import('./commands/doctor.ts');
      const { defaultNamespace } = await import('#infra/kubernetes/base.ts');
      const asked = accounts === true ? defaultNamespace : accounts;
      finish(await doctor({ ...flags, ...(asked === undefined ? {} : { accounts: asked }) }));
    });
}

function addReset(program: Command, finish: Finish): void {
  const namespace = new Option(
    '-n, --namespace <namespace>',
    "the target's namespace",
  ).makeOptionMandatory();
  withOutput(withClusterOptions(program.command('reset'), namespace))
    .argument('<target>', 'shd/<name>, mdb/<name> or gvc/<name>')
    .addArgument(new Argument('<step>', 'the step whose record is cleared').choices(stepNames))
    .summary("clear a step's record on a target, by compare-and-swap")
    .description(
      "Clear a step's record on a target, so that the step starts over from what it sees.",
    )
    .option('--yes', 'do not ask')
    .addHelpText('after', variables({ KUBECONFIG: variablesOfCluster.KUBECONFIG }))
    .addHelpText('after', example('millrace reset shd/orders-0 drain-step -n db'))
    .action(async (target: string, step: StepName, flags) => {
      const { reset } = await import('./commands/reset.ts');
      finish(await reset(target, step, flags));
    });
}

function addReplay(program: Command, finish: Finish): void {
  const replay = withOutput(withSettings(program.command('replay'), variablesOfReplay))
    .summary('send hints again: dead letters, an archive, a file')
    .description(
      'Send hints again, from dead-letter queues, an archive or a file; or say what that would lead to.',
    );
  const groups = { 'Source:': sources(), 'Selection:': selections(), 'Queues:': queues() };
  for (const [group, options] of Object.entries(groups)) {
    for (const option of options) {
      replay.addOption(option.helpGroup(group));
    }
  }
  replay
    .option('--dry-run', 'send nothing: say what each step would decide now; 1 where that differs')
    .option('--rate <count>', 'hints a second, at most 500 (else 50)')
    .option('--discard-invalid', 'copy letters that are no hint, and delete them')
    .option(
      '--decisions',
      'send nothing: decide anew about what was recorded; 1 where that differs',
    )
    .option('--ignore-words', 'with --decisions: sentences for people may differ')
    .option('--yes', 'do not ask')
    .addHelpText(
      'after',
      example(
        'millrace replay --dlq --dry-run',
        'millrace replay --dlq pool-pods --target shd/db/orders-0',
        'millrace replay --archive s3://backups/archive --reason TargetUnknown --since 2h --yes',
        'millrace replay --file hints.jsonl --limit 10',
        'millrace replay --decisions --archive s3://backups/archive --since 3d',
      ),
    )
    .action(async (flags) => {
      if (flags.decisions === true) {
        const { replayRecordedDecisions } = await import('./commands/replay-decisions.ts');
        finish(await replayRecordedDecisions(flags));
        return;
      }
      const { replay: run } = await import('./commands/replay.ts');
      finish(await run(flags));
    });
}

function sources(): readonly Option[] {
  return [
    new Option('--dlq [step...]', 'dead letters of these steps, else of every step').choices(
      stepNames,
    ),
    new Option('--archive <url>', 'hints in an archive; beside --dlq or --file: what was decided'),
    new Option('--file <path>', 'hints, archive entries or messages as JSON lines; - is stdin'),
  ];
}

function selections(): readonly Option[] {
  return [
    new Option(
      '--target <target>',
      'only shd/<namespace>/<name>, mdb/… or gvc/…; repeats',
    ).argParser(appended),
    new Option('--step <step...>', 'only these steps').choices(stepNames),
    new Option(
      '--reason <reason>',
      'only what an archive says was decided, or failed, so; repeats',
    ).argParser(appended),
    new Option('--since <time>', 'only from then on: 2026-01-31T12:00:00Z, or 30m, 2h, 3d ago'),
    new Option('--until <time>', 'only before then'),
    new Option('--limit <count>', 'no more than so many'),
    new Option('--every', 'every hint of an archive, not only the newest for target and step'),
  ];
}

function addUi(program: Command, finish: Finish): void {
  const page = withSettings(program.command('ui'), variablesOfReplay)
    .summary('show targets, their past and dead letters as a page')
    .description(
      'Serve a page for this machine alone: what every target waits for, what became of it, and the dead letters.',
    );
  for (const option of queues()) {
    page.addOption(option.helpGroup('Queues:'));
  }
  page
    .option('--port <port>', 'where it listens on 127.0.0.1 (else any free port)')
    .option('--write', 'let the page replay dead letters; it only looks without')
    .option('--archive <url>', 'where decisions are archived (else what dev recorded here)')
    .option('--json', 'print one JSON line when it is ready')
    .addHelpText('after', example('millrace ui -n db --archive s3://millrace-archive'))
    .action(async (flags) => {
      const { ui } = await import('./commands/ui.ts');
      finish(await ui(flags));
    });
}

function queues(): readonly Option[] {
  return [
    new Option(
      '--queue-url-prefix <url>',
      "the stack's output QueueUrlPrefix (else MILLRACE_QUEUE_URL_PREFIX, else a running dev's)",
    ),
    new Option('--queue-endpoint <url>', 'another SQS endpoint (else MILLRACE_QUEUE_ENDPOINT)'),
    new Option('--region <region>', "the queues' region (else AWS_REGION, else the URL's)"),
  ];
}

const variablesOfReplay = {
  MILLRACE_QUEUE_URL_PREFIX: 'the URL, without --queue-url-prefix',
  MILLRACE_QUEUE_ENDPOINT: 'the endpoint, without --queue-endpoint',
};

function addCompletion(program: Command, finish: Finish): void {
  program
    .command('completion')
    .addArgument(new Argument('<shell>', 'the shell that shall complete').choices(shells))
    .summary('print what makes a shell complete command lines')
    .description(
      'Print the script by which a shell completes commands, options, choices and files of `millrace`.',
    )
    .addHelpText(
      'after',
      example(
        'source <(millrace completion bash)',
        'source <(millrace completion zsh)',
        'millrace completion fish | source',
      ),
    )
    .action(async (shell: Shell) => {
      const { completion } = await import('./commands/completion.ts');
      finish(completion(shell));
    });
  // What those scripts ask at each press of the key.
  program
    .command('complete', { hidden: true })
    .addArgument(new Argument('<shell>').choices(shells))
    .argument('[words...]')
    .action(async (shell: Shell, words: readonly string[]) => {
      const { complete } = await import('./commands/completion.ts');
      finish(complete(program, shell, words));
    });
}

/** Commander's own takes the name of no command for a wish to see the whole. */
function addHelp(program: Command): void {
  program
    .command('help')
    .argument('[command]', 'the command to tell about; else what commands there are')
    .summary('say what there is, or all about one command')
    .description('Say what commands there are, or all about one of them.')
    .addHelpText('after', example('millrace help doctor'))
    .action(async (name: string | undefined) => {
      const asked = program.commands.find((command) => command.name() === name);
      if (name !== undefined && asked === undefined) {
        // Refused in the words in which it would be refused as a command.
        await program.parseAsync([name], { from: 'user' });
      }
      (asked ?? program).outputHelp();
    });
}

/** What every command heeds. */
const everywhere = {
  KUBECONFIG: 'the kubeconfig, where --kubeconfig is not given',
  NO_COLOR: 'when set, nothing is coloured',
  FORCE_COLOR: 'when set to 1, 2 or 3, colours also where stdout is no terminal',
};

/**
 * The options of every command that works with a whole cluster; see settings.ts for the variables behind them.
 *
 * @param own further variables that matter to this command
 */
function withSettings(command: Command, own: Readonly<Record<string, string>> = {}): Command {
  const clusterId = new Option(
    '--cluster-id <id>',
    "the source of every hint (else the kube-system namespace's uid)",
  );
  const installation = [
    new Option('--stage <name>', 'the part of every queue name (else MILLRACE_STAGE, else local)'),
    new Option('--data-dir <folder>', "what dev keeps (else the user's state folder)"),
  ];
  for (const option of installation) {
    command.addOption(option.helpGroup('Installation:'));
  }
  return withClusterOptions(command, namespaces(), clusterId).addHelpText(
    'after',
    variables({
      ...variablesOfCluster,
      MILLRACE_CLUSTER_ID: 'the id, without --cluster-id',
      MILLRACE_STAGE: 'the stage, without --stage',
      MILLRACE_DATA_DIR: 'the folder, without --data-dir',
      XDG_STATE_HOME: "the user's state folder (~/.local/state)",
      AWS_REGION: 'the region of the queues (us-east-1)',
      ...own,
    }),
  );
}

/** The options and variables of a command that looks at a cluster, and at nothing else of an installation. */
function withCluster(command: Command, namespace: Option): Command {
  return withClusterOptions(command, namespace).addHelpText('after', variables(variablesOfCluster));
}

const variablesOfCluster = {
  KUBECONFIG: 'the kubeconfig, without --kubeconfig',
  MILLRACE_NAMESPACES: 'the namespaces, with commas, without --namespace',
};

function withClusterOptions(command: Command, ...further: readonly Option[]): Command {
  const options = [
    new Option(
      '--kubeconfig <file>',
      'how to reach the cluster (else KUBECONFIG, else ~/.kube/config)',
    ),
    new Option('--context <name>', "the kubeconfig's context (else its current one)"),
    ...further,
  ];
  for (const option of options) {
    command.addOption(option.helpGroup('Cluster:'));
  }
  return command;
}

/** Which namespaces a command looks at. */
function namespaces(): Option {
  return new Option(
    '-n, --namespace <namespace>',
    'look at this namespace only; repeats (else MILLRACE_NAMESPACES, else all)',
  ).argParser(appended);
}

/** Of an option that repeats: all its values. */
function appended(value: string, previous: string[] | undefined): string[] {
  return [...(previous ?? []), value];
}
