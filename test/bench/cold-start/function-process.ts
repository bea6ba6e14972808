import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { once } from 'node:events';
import { readLastLines } from '#infra/local/control-plane/log-tail.ts';
import { usageOf } from '../process-usage.ts';
import { type Invocation, RuntimeApi } from './runtime-api.ts';

/** A function as it is packaged, and what it is told and asked. */
export interface Contender {
  readonly name: string;
  /** Holds `index.mjs`, which exports `handler`. */
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly event: unknown;
}

/** One cold start, in milliseconds. */
export interface ColdStart {
  /** From before the process is made until it asks for its first event. */
  readonly firstPollMs: number;
  /** From the first event until its answer. */
  readonly firstAnswerMs: number;
  /** Processor time of the whole process until then. */
  readonly cpuMs: number;
  readonly rssMib: number;
}

/** A function in a process of its own under Lambda's runtime client, as Lambda starts one. */
export class FunctionProcess implements AsyncDisposable {
  readonly #api: RuntimeApi;
  readonly #contender: Contender;
  readonly #child: ReturnType<typeof spawn>;
  readonly #startedMs: number;

  private constructor(
    api: RuntimeApi,
    contender: Contender,
    child: ReturnType<typeof spawn>,
    startedMs: number,
  ) {
    this.#api = api;
    this.#contender = contender;
    this.#child = child;
    this.#startedMs = startedMs;
  }

  static async start(
    contender: Contender,
    client: string,
    logPath: string,
  ): Promise<FunctionProcess> {
    const api = await RuntimeApi.start();
    const output = openSync(logPath, 'a', 0o600);
    const startedMs = performance.now();
    const child = spawn(process.execPath, [client], {
      cwd: contender.folder,
      env: {
        ...contender.environment,
        AWS_LAMBDA_RUNTIME_API: api.address,
        AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs24.x',
        AWS_LAMBDA_FUNCTION_NAME: contender.name,
        AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
        AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '512',
        AWS_LAMBDA_LOG_GROUP_NAME: 'bench',
        AWS_LAMBDA_LOG_STREAM_NAME: 'bench',
        LAMBDA_TASK_ROOT: contender.folder,
        _HANDLER: 'index.handler',
      },
      stdio: ['ignore', output, output],
    });
    closeSync(output);
    child.once('exit', () => {
      void readLastLines(logPath, 10).then((lines) =>
        api.fail(`the process of ${contender.name} has ended:\n${lines.join('\n')}`),
      );
    });
    return new FunctionProcess(api, contender, child, startedMs);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async coldStart(): Promise<ColdStart> {
    const polledMs = await this.#api.polled();
    const { givenMs, answeredMs } = await this.invoke();
    const { cpuMs, rssMib } = await usageOf(this.pid);
    return {
      firstPollMs: polledMs - this.#startedMs,
      firstAnswerMs: answeredMs - givenMs,
      cpuMs,
      rssMib,
    };
  }

  /** Rejects where a message of the event is given back: what was measured would be a failure. */
  async invoke(): Promise<Invocation> {
    const invocation = await this.#api.invoke(this.#contender.event);
    const text = JSON.stringify(invocation.answer);
    if (text.includes('itemIdentifier')) {
      throw new Error(`${this.#contender.name} gave its message back: ${text}`);
    }
    return invocation;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.removeAllListeners('exit');
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      this.#child.kill('SIGKILL');
      await once(this.#child, 'exit');
    }
    await this.#api[Symbol.asyncDispose]();
  }
}
