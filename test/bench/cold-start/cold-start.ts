import { join } from 'node:path';
import { median, percentile } from '../distribution.ts';
import { type Figure, figure } from '../figure.ts';
import { startCluster } from '../installation.ts';
import { type Part, type PartOptions, scaled } from '../part.ts';
import { Packaged, bundlePeers, createTargets } from './contenders.ts';
import { type ColdStart, type Contender, FunctionProcess } from './function-process.ts';
import { ReplayingServer } from './replaying-server.ts';
import { obtainRuntimeClient } from './runtime-client.ts';

/** Cold starts of each contender. All are taken in turn, so that a machine that drifts drifts for all. */
const rounds = 15;

/** The same for each function, where only the order of size is asked. */
const fewRounds = 5;

/** Invocations of a warm function before those that count, and those. */
const warmUps = 300;
const invocations = 500;

const goals = { firstPollOfEmpty: 2, answerOfNaive: 0.333, overheadMs: 3 };

type Column = keyof ColdStart;

/**
 * What a function costs when Lambda starts it: the packaged bundles under Lambda's own runtime client, each sample a
 * process of its own, with a real API server to read from. Beside them, in turn: a function that does nothing, one that reads
 * the same object with what Node has, and one that loads all client libraries first.
 *
 * Then what a warm look takes besides waiting: from its event to its answer, less the time in which its requests were at a
 * server that answers from memory, less what an empty function takes for the same way. The loopback's and TLS's own time
 * is in it, so it is rather too much.
 */
export const coldStart: Part = {
  name: 'cold-start',
  title: 'cold starts on Lambda’s runtime client, beside an empty and a naive function',
  async measure(options) {
    const { log } = options;
    const client = await obtainRuntimeClient(log);
    await using stack = new AsyncDisposableStack();
    const cluster = stack.use(await startCluster(options, { isAudited: false }));
    log('building the bundles');
    const packaged = await Packaged.build(cluster);
    const { empty, get, naive } = await bundlePeers(cluster, packaged.peerEnvironment);
    const targets = await createTargets(cluster);
    const start = (contender: Contender) =>
      FunctionProcess.start(contender, client, join(cluster.folder, `${contender.name}.log`));

    const ours = packaged.step('drain-step', targets.paused);
    const whole = { ...packaged.step('drain-step', targets.whole), name: 'drain-step, whole look' };
    const samples = await inTurn([empty, get, ours, whole, naive], rounds, start, options);
    log('warm looks');
    const server = stack.use(await ReplayingServer.start(cluster.controlPlane));
    const warm = await warmTimes(
      { empty, look: packaged.step('drain-step', targets.paused, server.url) },
      server,
      start,
      options,
    );
    const each = await inTurn(
      packaged.each(cluster.topologyEtcd.endpoint),
      fewRounds,
      start,
      options,
    );
    return [
      ...startFigures(samples),
      ...warmFigures(warm),
      ...[...each].flatMap(([name, taken]) => [
        figure(`cold-start: each, ${name}, to its first poll`, middle(taken, 'firstPollMs'), 'ms'),
        figure(`cold-start: each, ${name}, first answer`, middle(taken, 'firstAnswerMs'), 'ms'),
      ]),
    ];
  },
};

/** Samples by the contender's name. */
type Samples = ReadonlyMap<string, readonly ColdStart[]>;

async function inTurn(
  contenders: readonly Contender[],
  usualRounds: number,
  start: (contender: Contender) => Promise<FunctionProcess>,
  options: PartOptions,
): Promise<Samples> {
  const samples = new Map(contenders.map(({ name }): [string, ColdStart[]] => [name, []]));
  const count = scaled(usualRounds, options);
  options.log(`${count} cold starts of ${[...samples.keys()].join('; ')}`);
  // The first round reads the files from the disk.
  for (let round = 0; round <= count; round += 1) {
    for (const contender of contenders) {
      await using running = await start(contender);
      const sample = await running.coldStart();
      if (round > 0) {
        samples.get(contender.name)?.push(sample);
      }
    }
  }
  return samples;
}

function startFigures(samples: Samples): Figure[] {
  const of = (name: string): readonly ColdStart[] => samples.get(name) ?? [];
  const [ours, empty, naive] = [of('drain-step'), of('empty'), of('naive')];
  const told = [...samples].flatMap(([name, taken]) => [
    figure(`cold-start: ${name}, to its first poll`, middle(taken, 'firstPollMs'), 'ms'),
    figure(`cold-start: ${name}, first answer`, middle(taken, 'firstAnswerMs'), 'ms'),
    figure(`cold-start: ${name}, spread of both (p90 / p10)`, spread(taken), 'ratio'),
    figure(`cold-start: ${name}, processor time of both`, middle(taken, 'cpuMs'), 'ms'),
    figure(`cold-start: ${name}, memory`, middle(taken, 'rssMib'), 'MiB'),
  ]);
  return [
    ...told,
    figure(
      'cold-start: drain-step to its first poll, part of the empty function’s',
      ratio(ours, empty, ({ firstPollMs }) => firstPollMs),
      'ratio',
      { goal: goals.firstPollOfEmpty },
    ),
    figure(
      'cold-start: drain-step from nothing to its answer, part of the naive function’s',
      ratio(ours, naive, both),
      'ratio',
      { goal: goals.answerOfNaive },
    ),
    // A first invocation has less than a third of a processor, so this is what it waits for most.
    figure(
      'cold-start: the same in processor time',
      ratio(ours, naive, ({ cpuMs }) => cpuMs),
      'ratio',
      { goal: goals.answerOfNaive },
    ),
  ];
}

function middle(taken: readonly ColdStart[], column: Column): number {
  return median(taken.map((sample) => sample[column]));
}

function both({ firstPollMs, firstAnswerMs }: ColdStart): number {
  return firstPollMs + firstAnswerMs;
}

function spread(taken: readonly ColdStart[]): number {
  const totals = taken.map(both);
  return percentile(totals, 0.9) / percentile(totals, 0.1);
}

/** The median of the ratios of each round: what slowed a round down slowed both. */
function ratio(
  ours: readonly ColdStart[],
  theirs: readonly ColdStart[],
  value: (sample: ColdStart) => number,
): number {
  return median(
    ours.flatMap((sample, round) => {
      const other = theirs[round];
      return other === undefined ? [] : [value(sample) / value(other)];
    }),
  );
}

/** Milliseconds of each invocation. */
interface Warm {
  readonly empty: readonly number[];
  /** Without what the server took. */
  readonly look: readonly number[];
}

/** Both are invoked in turn. */
async function warmTimes(
  contenders: { readonly empty: Contender; readonly look: Contender },
  server: ReplayingServer,
  start: (contender: Contender) => Promise<FunctionProcess>,
  options: PartOptions,
): Promise<Warm> {
  await using empty = await start(contenders.empty);
  await using look = await start(contenders.look);
  const times: { empty: number[]; look: number[] } = { empty: [], look: [] };
  const [before, counted] = [scaled(warmUps, options), scaled(invocations, options)];
  for (let turn = 0; turn < before + counted; turn += 1) {
    const emptyMs = await timeOf(empty);
    const held = server.held();
    const lookMs = await timeOf(look);
    const now = server.held();
    if (now.requests === held.requests) {
      throw new Error('the look has read nothing');
    }
    if (turn >= before) {
      times.empty.push(emptyMs);
      times.look.push(lookMs - (now.ms - held.ms));
    }
  }
  return times;
}

async function timeOf(running: FunctionProcess): Promise<number> {
  const { givenMs, answeredMs } = await running.invoke();
  return answeredMs - givenMs;
}

function warmFigures({ empty, look }: Warm): Figure[] {
  const over = (share: number) => percentile(look, share) - percentile(empty, share);
  return [
    figure('cold-start: a warm look besides waiting, median', over(0.5), 'ms', {
      goal: goals.overheadMs,
    }),
    figure('cold-start: a warm look besides waiting, 99 of 100', over(0.99), 'ms'),
    figure('cold-start: a warm empty function, median', median(empty), 'ms'),
  ];
}
