import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import type { Readable } from 'node:stream';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as immediate } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { deadLetterQueueName } from '#events/hint.ts';
import { type QueueProcess, startQueue } from '#infra/local/queue/start.ts';
import { connectSqsLetters } from '#shared/queue/sqs-letters.ts';
import { connectSqsSender, embeddedQueueUrlPrefix } from '#shared/queue/sqs-sender.ts';
import { cluster } from '../../../events/replay/letter-world.ts';
import { type Run, runMillrace } from '../run-millrace.ts';

const binary = fileURLToPath(new URL('../../../../../infra/cli/millrace.mjs', import.meta.url));

/** Of a cluster that nobody asks: a replay needs none. */
const kubeconfig = `
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: one, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: one, context: {cluster: one, user: one}}]
users: [{name: one, user: {token: none}}]
`;

export const stage = 'letters';
export const step = 'pool-pods';
const region = 'us-east-1';
const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };

/** The queue server of a stage, with dead letters of one step, and `millrace replay` over them. It goes with the test. */
export class QueueOfLetters {
  readonly #folder: string;
  #queue: QueueProcess;

  private constructor(folder: string, queue: QueueProcess) {
    this.#folder = folder;
    this.#queue = queue;
  }

  static async open(): Promise<QueueOfLetters> {
    const folder = await mkdtemp(join(tmpdir(), 'millrace-letters-'));
    writeFileSync(join(folder, 'kubeconfig'), kubeconfig);
    mkdirSync(join(folder, 'home'));
    const letters = new QueueOfLetters(folder, await startOn(folder, 0));
    onTestFinished(async () => {
      await letters.#queue.stop(0);
      await rm(folder, { recursive: true, force: true });
    });
    return letters;
  }

  /** Where whoever runs `millrace replay` is at home. */
  get home(): string {
    return join(this.#folder, 'home');
  }

  async put(bodies: readonly string[]): Promise<void> {
    const sender = connectSqsSender(this.#access, this.#prefix);
    for (let place = 0; place < bodies.length; place += 10) {
      const entries = bodies
        .slice(place, place + 10)
        .map((body, id) => ({ id: String(id), body, group: 'g' }));
      await sender.send(deadLetterQueueName(stage, step), entries);
    }
    sender.close();
  }

  /** The bodies of what a queue shows; they are gone afterwards. */
  async take(queue: string): Promise<readonly string[]> {
    const letters = connectSqsLetters(this.#access, this.#prefix);
    const found: string[] = [];
    for (;;) {
      const received = await letters.receive(queue, { hiddenSeconds: 60, waitSeconds: 0 });
      if (received.length === 0) {
        letters.close();
        return found;
      }
      found.push(...received.map(({ body }) => body));
      await letters.delete(
        queue,
        received.map(({ receipt }) => receipt),
      );
    }
  }

  run(...words: readonly string[]): Promise<Run> {
    return runMillrace([...this.#words, ...words], this.#environment);
  }

  /** The same, without waiting for its end. */
  begin(...words: readonly string[]): ChildProcessByStdio<null, Readable, Readable> {
    return spawn(process.execPath, [binary, ...this.#words, ...words], {
      env: this.#environment,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  /** Lines that the journals of all replays have. */
  lines(): readonly string[] {
    try {
      const journals = join(this.home, 'millrace', cluster, 'replay');
      return readdirSync(journals)
        .filter((name) => name.startsWith('replay-'))
        .flatMap((name) => readFileSync(join(journals, name), 'utf8').split('\n'))
        .filter((line) => line.endsWith('}'));
    } catch {
      return [];
    }
  }

  /** Resolves when the journals have so many lines, or the replay has ended. */
  async untilLines(replay: ChildProcess, lines: number): Promise<void> {
    while (replay.exitCode === null && this.lines().length < lines) {
      await immediate();
    }
  }

  /** Ends a replay by SIGKILL once it has written so many lines. */
  async killAfter(lines: number, ...words: readonly string[]): Promise<void> {
    const before = this.lines().length;
    const replay = this.begin(...words);
    const exited = once(replay, 'exit');
    await this.untilLines(replay, before + lines);
    replay.kill('SIGKILL');
    await exited;
  }

  /** What a killed replay had in hand is hidden for two minutes: they are over. */
  async letTimePass(): Promise<void> {
    const { port } = new URL(this.#queue.announced.url);
    await this.#queue.stop(5_000);
    const store = new DatabaseSync(join(this.#folder, 'queue', 'fauxqs.db'));
    store.exec('UPDATE sqs_messages SET receipt_handle = NULL, visibility_deadline = NULL');
    store.close();
    this.#queue = await startOn(this.#folder, Number(port));
  }

  get #access() {
    return { region, endpoint: this.#queue.announced.url, credentials };
  }

  get #prefix(): string {
    return embeddedQueueUrlPrefix(this.#queue.announced.url);
  }

  get #words(): readonly string[] {
    const queues = ['--queue-endpoint', this.#queue.announced.url, '--region', region];
    return ['replay', '--kubeconfig', join(this.#folder, 'kubeconfig'), ...queues];
  }

  get #environment(): Record<string, string> {
    return {
      HOME: this.home,
      XDG_STATE_HOME: this.home,
      MILLRACE_STAGE: stage,
      MILLRACE_CLUSTER_ID: cluster,
    };
  }
}

function startOn(folder: string, port: number): Promise<QueueProcess> {
  const dataDir = join(folder, 'queue');
  return startQueue({ dataDir, port, stage, region, visibilitySeconds: 180 });
}
