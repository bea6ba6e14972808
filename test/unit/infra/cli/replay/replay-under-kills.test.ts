import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import * as z from 'zod';
import { type Hint, deadLetterQueueName, queueName } from '#events/hint.ts';
import { embeddedQueueUrlPrefix, connectSqsSender } from '#shared/queue/sqs-sender.ts';
import { connectSqsLetters } from '#shared/queue/sqs-letters.ts';
import { type QueueProcess, startQueue } from '#infra/local/queue/start.ts';
import { aHint, cluster } from '../../../events/replay/letter-world.ts';
import { runMillrace } from '../run-millrace.ts';

const binary = fileURLToPath(new URL('../../../../../infra/cli/millrace.mjs', import.meta.url));

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: one, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: one, context: {cluster: one, user: one}}]
users: [{name: one, user: {token: none}}]
`;

const stage = 'killed';
const step = 'pool-pods';
const region = 'us-east-1';
const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
const hintCount = 60;

const resultSchema = z.looseObject({
  counts: z.looseObject({ sent: z.number(), finished: z.number(), perhapsTwice: z.number() }),
});

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-kills-'));
  await writeFile(join(folder, 'kubeconfig'), kubeconfig);
});

afterAll(() => rm(folder, { recursive: true, force: true }));

/** The queue of a stage, with one step's dead letters, and `millrace replay` over them. */
class Letters {
  readonly #dataDir: string;
  readonly #stateHome: string;
  #queue: QueueProcess;

  private constructor(dataDir: string, stateHome: string, queue: QueueProcess) {
    this.#dataDir = dataDir;
    this.#stateHome = stateHome;
    this.#queue = queue;
  }

  static async open(name: string): Promise<Letters> {
    const dataDir = join(folder, name);
    const queue = await startQueue({ dataDir, port: 0, stage, region, visibilitySeconds: 180 });
    const letters = new Letters(dataDir, join(folder, `${name}-state`), queue);
    onTestFinished(() => letters.#queue.stop(0));
    return letters;
  }

  get #access() {
    return { region, endpoint: this.#queue.announced.url, credentials };
  }

  get #prefix(): string {
    return embeddedQueueUrlPrefix(this.#queue.announced.url);
  }

  async put(hints: readonly Hint[]): Promise<void> {
    const sender = connectSqsSender(this.#access, this.#prefix);
    for (let place = 0; place < hints.length; place += 10) {
      const entries = hints.slice(place, place + 10).map((hint, id) => ({
        id: String(id),
        body: JSON.stringify(hint),
        group: hint.data.uid,
      }));
      await sender.send(deadLetterQueueName(stage, step), entries);
    }
    sender.close();
  }

  /** The ids of the hints in a queue; they are gone afterwards. */
  async take(queue: string): Promise<readonly string[]> {
    const letters = connectSqsLetters(this.#access, this.#prefix);
    const found: string[] = [];
    for (;;) {
      const received = await letters.receive(queue, { hiddenSeconds: 60, waitSeconds: 0 });
      if (received.length === 0) {
        letters.close();
        return found;
      }
      for (const { body } of received) {
        found.push(z.looseObject({ id: z.string() }).parse(JSON.parse(body)).id);
      }
      await letters.delete(
        queue,
        received.map(({ receipt }) => receipt),
      );
    }
  }

  get words(): readonly string[] {
    const options = {
      '--dlq': step,
      '--stage': stage,
      '--rate': '500',
      '--kubeconfig': join(folder, 'kubeconfig'),
      '--cluster-id': cluster,
      '--queue-endpoint': this.#queue.announced.url,
      '--region': region,
    };
    return ['replay', '--yes', '--json', ...Object.entries(options).flat()];
  }

  get environment(): Record<string, string> {
    return { HOME: this.#stateHome, XDG_STATE_HOME: this.#stateHome };
  }

  /** How many lines the journals of all replays have. */
  lines(): number {
    try {
      const journals = join(this.#stateHome, 'millrace', cluster, 'replay');
      return readdirSync(journals)
        .filter((name) => name.startsWith('replay-'))
        .reduce(
          (sum, name) => sum + readFileSync(join(journals, name), 'utf8').split('\n').length,
          0,
        );
    } catch {
      return 0;
    }
  }

  /** Ends a replay by SIGKILL once it has written so many lines more. */
  async killAfter(lines: number): Promise<void> {
    const before = this.lines();
    const child = spawn(process.execPath, [binary, ...this.words], {
      env: this.environment,
      stdio: 'ignore',
    });
    const exited = once(child, 'exit');
    while (child.exitCode === null && this.lines() < before + lines) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    child.kill('SIGKILL');
    await exited;
  }

  /** What a killed replay had in hand is hidden for two minutes: they are over. */
  async letTimePass(): Promise<void> {
    const { port } = new URL(this.#queue.announced.url);
    await this.#queue.stop(5_000);
    const store = new DatabaseSync(join(this.#dataDir, 'fauxqs.db'));
    store.exec('UPDATE sqs_messages SET receipt_handle = NULL, visibility_deadline = NULL');
    store.close();
    const dataDir = this.#dataDir;
    this.#queue = await startQueue({
      dataDir,
      port: Number(port),
      stage,
      region,
      visibilitySeconds: 180,
    });
  }
}

describe('replays killed with SIGKILL, one after another', { timeout: 240_000 }, () => {
  test('lose no letter, and what arrives more than once was announced', async () => {
    const letters = await Letters.open('letters');
    const hints = Array.from({ length: hintCount }, (_, place) => aHint(step, `orders-${place}`));
    await letters.put(hints);

    for (const lines of [2, 3, 4, 5, 6, 7, 9, 12]) {
      await letters.killAfter(lines);
      await letters.letTimePass();
    }
    const last = await runMillrace(letters.words, letters.environment);

    const arrived = await letters.take(queueName(stage, step));
    const journal = z.looseObject({ journal: z.string() }).parse(JSON.parse(last.stdout)).journal;
    expect(last.exitCode, last.stderr).toBe(0);
    expect(resultSchema.parse(JSON.parse(last.stdout)).counts.sent).toBeLessThan(hintCount);
    expect(await letters.take(deadLetterQueueName(stage, step))).toEqual([]);
    expect(new Set(arrived)).toEqual(new Set(hints.map(({ id }) => id)));
    expect(arrived.length - hintCount).toBeLessThanOrEqual(begunTwice(journal));
  });
});

/** How often a letter was begun with that another replay had begun with as well. */
function begunTwice(journal: string): number {
  const line = z.looseObject({ sending: z.array(z.string()).default([]) });
  const begun = readdirSync(join(journal, '..'))
    .filter((name) => name.startsWith('replay-'))
    .flatMap((name) => readFileSync(join(journal, '..', name), 'utf8').split('\n'))
    .filter((text) => text.endsWith('}'))
    .flatMap((text) => line.parse(JSON.parse(text)).sending);
  return begun.length - new Set(begun).size;
}
