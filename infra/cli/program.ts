import { Command, CommanderError } from 'commander';
import { version } from '#shared/api/version.ts';
import { ConfigurationError } from '#shared/kernel/config.ts';
import { describeError } from '#shared/kernel/errors.ts';
import { withOutput } from './output.ts';
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
    .exitOverride()
    .showHelpAfterError('(add --help for the options and an example)');
  addCommands(program, finish);
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
}

function addDev(program: Command, finish: Finish): void {
  withSettings(program.command('dev'))
    .description('Run relay, queue and steps against a cluster until Ctrl-C.')
    .option('--install', "apply Millrace's custom resource definitions first")
    .option(
      '--record',
      'record every decision and hint in the data folder, not only what fails (else MILLRACE_ARCHIVE_DECISIONS)',
    )
    .option('--json', 'write JSON lines: one when ready, then one per decision')
    .addHelpText('after', example('millrace dev --kubeconfig ~/.kube/config --install'))
    .action(async (flags) => {
      const { dev } = await import('./commands/dev.ts');
      finish(await dev(flags));
    });
}

function addStatus(program: Command, finish: Finish): void {
  withOutput(withCluster(program.command('status')))
    .description('Say what every target is at and what it waits for, problems first.')
    .option('-n, --namespace <namespace>', namespacesText, appended)
    .option('--wide', 'with every column, and no text cut')
    .addHelpText(
      'after',
      `\nExits with 1 where a target needs a person.\n${example('millrace status -n db')}`,
    )
    .action(async (flags) => {
      const { status } = await import('./commands/status.ts');
      finish(await status(flags));
    });
}

function addExplain(program: Command, finish: Finish): void {
  withOutput(withCluster(program.command('explain')))
    .argument('<target>', 'shd/<name>, mdb/<name> or gvc/<name>')
    .description('Say what one target waits for, since when, and what a person can do about it.')
    .option('-n, --namespace <namespace>', "the target's namespace")
    .addHelpText(
      'after',
      `\nExits with 1 where a person is needed.\n${example('millrace explain shd/orders-0 -n db')}`,
    )
    .action(async (target: string, flags) => {
      const { explain } = await import('./commands/explain.ts');
      finish(await explain(target, flags));
    });
}

function addRelay(program: Command, finish: Finish): void {
  withSettings(program.command('relay'))
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
    .description(
      "Print Millrace's custom resource definitions; with options about the installation, all that runs in the cluster.",
    )
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
    .addHelpText('after', example('millrace manifests | kubectl apply --server-side -f -'))
    .action(async (flags) => {
      const { manifests } = await import('./commands/manifests.ts');
      finish(await manifests(flags));
    });
}

function addConfig(program: Command, finish: Finish): void {
  withOutput(withSettings(program.command('config')))
    .description('Print the configuration in force and where each value came from, secrets hidden.')
    .addHelpText('after', example('millrace config --stage staging'))
    .action(async (flags) => {
      const { config } = await import('./commands/config.ts');
      finish(await config(flags));
    });
}

function addDoctor(program: Command, finish: Finish): void {
  withOutput(withSettings(program.command('doctor')))
    .description('Check that Millrace can work here: the cluster, the permissions, each Database.')
    .option(
      '--accounts [namespace]',
      'ask for the service accounts that `millrace manifests` makes there, not for you (else millrace)',
    )
    .addHelpText('after', example('millrace doctor --kubeconfig ~/.kube/config -n db'))
    .action(async ({ accounts, ...flags }) => {
      const { doctor } = await import('./commands/doctor.ts');
      const { defaultNamespace } = await import('#infra/kubernetes/base.ts');
      const asked = accounts === true ? defaultNamespace : accounts;
      finish(await doctor({ ...flags, ...(asked === undefined ? {} : { accounts: asked }) }));
    });
}

function addReset(program: Command, finish: Finish): void {
  withOutput(program.command('reset'))
    .argument('<target>', 'shd/<name>')
    .argument('<step>', 'the step whose record is cleared')
    .description(
      "Clear a step's record on a target, so that the step starts over from what it sees.",
    )
    .option(
      '--kubeconfig <file>',
      'how to reach the cluster (else KUBECONFIG, else ~/.kube/config)',
    )
    .option('--context <name>', "the kubeconfig's context (else its current one)")
    .requiredOption('-n, --namespace <namespace>', "the target's namespace")
    .option('--yes', 'do not ask')
    .addHelpText('after', example('millrace reset shd/orders-0 drain-step -n db'))
    .action(async (target: string, step: string, flags) => {
      const { reset } = await import('./commands/reset.ts');
      finish(await reset(target, step, flags));
    });
}

function addReplay(program: Command, finish: Finish): void {
  withOutput(withSettings(program.command('replay')))
    .description(
      'Send hints again: from dead-letter queues, an archive or a file; or say what that would lead to.',
    )
    .option('--dlq [step...]', 'the letters in the dead-letter queues of these steps (else of all)')
    .option(
      '--archive <url>',
      'the hints in an archive; beside --dlq or --file what was decided then',
    )
    .option('--file <path>', 'hints, archive entries or messages as JSON lines; - is stdin')
    .option('--target <target>', 'only this target: shd/<namespace>/<name>; repeats', appended)
    .option('--step <step>', 'only this step; repeats', appended)
    .option('--reason <reason>', 'only what was decided, or failed, for this reason', appended)
    .option('--since <time>', 'only from then on: an RFC 3339 time, or 30m, 2h, 3d ago')
    .option('--until <time>', 'only before then')
    .option('--limit <count>', 'send no more than so many')
    .option('--every', 'every hint of an archive, not only the newest of each target and step')
    .option('--dry-run', 'send nothing: say what each step would decide now; 1 where that differs')
    .option('--rate <count>', 'hints a second, at most 500 (else 50)')
    .option('--discard-invalid', 'copy and delete letters that are no hint')
    .option('--yes', 'do not ask')
    .option(
      '--queue-url-prefix <url>',
      "the stack's output QueueUrlPrefix (else MILLRACE_QUEUE_URL_PREFIX, else a running dev's)",
    )
    .option('--queue-endpoint <url>', 'another SQS endpoint (else MILLRACE_QUEUE_ENDPOINT)')
    .option('--region <region>', "the queues' region (else AWS_REGION, else the URL's)")
    .addHelpText('after', example('millrace replay --dlq pool-pods --dry-run'))
    .action(async (flags) => {
      const { replay } = await import('./commands/replay.ts');
      finish(await replay(flags));
    });
}

function addUi(program: Command, finish: Finish): void {
  withSettings(program.command('ui'))
    .summary('show targets, their past and dead letters as a page')
    .description(
      'Serve a page for this machine alone: what every target waits for, what became of it, and the dead letters.',
    )
    .option('--port <port>', 'where it listens on 127.0.0.1 (else any free port)')
    .option('--write', 'let the page replay dead letters; it only looks without')
    .option('--archive <url>', 'where decisions are archived (else what dev recorded here)')
    .option(
      '--queue-url-prefix <url>',
      "the stack's output QueueUrlPrefix (else MILLRACE_QUEUE_URL_PREFIX, else a running dev's)",
    )
    .option('--queue-endpoint <url>', 'another SQS endpoint (else MILLRACE_QUEUE_ENDPOINT)')
    .option('--region <region>', "the queues' region (else AWS_REGION, else the URL's)")
    .option('--json', 'print one JSON line when it is ready')
    .addHelpText('after', example('millrace ui -n db --archive s3://millrace-archive'))
    .action(async (flags) => {
      const { ui } = await import('./commands/ui.ts');
      finish(await ui(flags));
    });
}

/** The options of every command that works with a whole cluster; see settings.ts for the variables behind them. */
function withSettings(command: Command): Command {
  return withCluster(command)
    .option('-n, --namespace <namespace>', namespacesText, appended)
    .option('--stage <name>', 'the part of every queue name (else MILLRACE_STAGE, else local)')
    .option('--cluster-id <id>', "the source of every hint (else the kube-system namespace's uid)")
    .option('--data-dir <folder>', "what dev keeps (else the user's state folder)");
}

const namespacesText = 'look at this namespace only; repeats (else MILLRACE_NAMESPACES, else all)';

function withCluster(command: Command): Command {
  return command
    .option(
      '--kubeconfig <file>',
      'how to reach the cluster (else KUBECONFIG, else ~/.kube/config)',
    )
    .option('--context <name>', "the kubeconfig's context (else its current one)");
}

/** Of an option that repeats: all its values. */
function appended(value: string, previous: string[] | undefined): string[] {
  return [...(previous ?? []), value];
}

function example(line: string): string {
  return `\nExample:\n  $ ${line}\n`;
}
