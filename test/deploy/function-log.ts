import { watch } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import * as z from 'zod';
import { Changes } from '#infra/local/show/changes.ts';

const lineSchema = z.looseObject({
  msg: z.string(),
  step: z.string().optional(),
  target: z.string().optional(),
  /** The id of the hint that a look was made for. */
  hint: z.string().optional(),
  messageId: z.string().optional(),
  why: z.string().optional(),
  message: z.string().optional(),
  effects: z.array(z.string()).default([]),
});

/** One line that a deployed function has written. */
export type FunctionLine = z.infer<typeof lineSchema>;

/** What the deployed functions write, as it is written: the stand-in puts it into its own log at an invocation's end. */
export class FunctionLog implements AsyncDisposable {
  readonly lines: FunctionLine[] = [];
  readonly #changes = new Changes();
  readonly #file: FileHandle;
  readonly #stopWatching: () => void;
  #rest = '';
  #reading: Promise<void> = Promise.resolve();

  private constructor(path: string, file: FileHandle) {
    this.#file = file;
    const watcher = watch(path, () => this.#readOn());
    this.#stopWatching = () => watcher.close();
    this.#readOn();
  }

  static async follow(path: string): Promise<FunctionLog> {
    return new FunctionLog(path, await open(path, 'r'));
  }

  /** As {@link Changes.until}, looked at after every line. */
  until(what: string, seconds: number, holds: () => boolean): Promise<void> {
    return this.#changes.until(what, seconds, holds);
  }

  /** The decisions of a step so far, in the order in which they were told. */
  decisions(step: string): readonly FunctionLine[] {
    return this.lines.filter((line) => line.msg === 'decision' && line.step === step);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopWatching();
    await this.#reading;
    await this.#file.close();
  }

  #readOn(): void {
    this.#reading = this.#reading.then(() => this.#read());
  }

  async #read(): Promise<void> {
    for (;;) {
      const { buffer, bytesRead } = await this.#file.read(Buffer.alloc(65_536), 0, 65_536, null);
      if (bytesRead === 0) {
        return;
      }
      this.#take(buffer.toString('latin1', 0, bytesRead));
    }
  }

  /** Taken as bytes, since a piece may end within a character; a line is text again. */
  #take(piece: string): void {
    const lines = `${this.#rest}${piece}`.split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) {
      const parsed = lineSchema.safeParse(jsonIn(Buffer.from(line, 'latin1').toString()));
      if (parsed.success) {
        this.lines.push(parsed.data);
      }
    }
    this.#changes.touch();
  }
}

function jsonIn(line: string): unknown {
  try {
    return JSON.parse(line.slice(line.indexOf('{')));
  } catch {
    return undefined;
  }
}
