import { createReadStream } from 'node:fs';
import { type FileHandle, appendFile, mkdir, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readLines } from '#shared/archive/lines.ts';
import { type Instant, parseInstant, toText } from '#shared/kernel/instant.ts';
import { type LetterState, OpenLetters, type ReplayJournal } from './journal.ts';

/** A dead letter is kept for fourteen days: what an older journal leaves open is no letter any more. */
const keptMs = 15 * 24 * 3600 * 1000;

const namePattern = /^replay-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z)-\d+\.jsonl$/;

/** One line for each replay that begins and that ends, of all replays. It is only ever added to. */
export const auditName = 'replays.jsonl';

export interface JournalFile extends ReplayJournal {
  readonly path: string;
  /** Copies of letters, and why they were not sent; written before any of them is deleted. */
  keep(letters: readonly KeptLetter[]): Promise<string>;
  /** The last line; the file is closed with it. */
  end(facts: Readonly<Record<string, unknown>>): Promise<void>;
}

/** A letter that is no hint, as it was. */
export interface KeptLetter {
  readonly queue: string;
  readonly id: string;
  readonly why: string;
  readonly body: string;
}

/**
 * Begins a journal of its own beside those of earlier replays, and reads what these have left open. A journal that cannot be
 * written is an error: without it a replay that is killed could not say what it had done.
 *
 * @param facts of the first line: who replays what
 */
export async function openJournal(
  folder: string,
  at: Instant,
  facts: Readonly<Record<string, unknown>>,
): Promise<JournalFile> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const letters = await readEarlier(folder, at);
  const run = `${new Date(at).toISOString().replaceAll(':', '-')}-${process.pid}`;
  const path = join(folder, `replay-${run}.jsonl`);
  const file = await open(path, 'ax', 0o600);
  const lines = new Appender(file);
  const audit = (line: object): Promise<void> =>
    appendFile(join(folder, auditName), `${JSON.stringify(line)}\n`, { mode: 0o600 });
  const begin = { v: 1, at: toText(at), run, begin: facts };
  await lines.append(begin, true);
  await audit(begin);
  return {
    path,
    stateOf: (letter): LetterState | undefined => letters.stateOf(letter),
    async note(word, ids) {
      if (ids.length > 0) {
        letters.note(word, ids);
        // What is about to be sent must be known even where the machine ends with the process.
        await lines.append({ [word]: ids }, word === 'sending');
      }
    },
    async keep(kept) {
      const copies = join(folder, `discarded-${run}.jsonl`);
      const text = kept.map((letter) => `${JSON.stringify(letter)}\n`).join('');
      const handle = await open(copies, 'a', 0o600);
      try {
        await handle.appendFile(text);
        await handle.datasync();
      } finally {
        await handle.close();
      }
      return copies;
    },
    async end(said) {
      await lines.append({ v: 1, run, ...said }, true);
      await audit({ v: 1, run, ...said });
      await file.close();
    },
  };
}

/** Reads every journal that may still matter, and removes the others. */
async function readEarlier(folder: string, now: Instant): Promise<OpenLetters> {
  const letters = new OpenLetters();
  for (const name of (await readdir(folder)).toSorted()) {
    const at = timeIn(name);
    if (at === undefined) {
      continue;
    }
    const path = join(folder, name);
    if (at < now - keptMs) {
      await rm(path, { force: true });
      continue;
    }
    for await (const line of readLines(createReadStream(path))) {
      if (line.kind === 'line') {
        letters.read(line.text);
      }
    }
  }
  return letters;
}

function timeIn(name: string): Instant | undefined {
  const [date, clock] = (namePattern.exec(name)?.[1] ?? '').split('T');
  return clock === undefined ? undefined : parseInstant(`${date}T${clock.replaceAll('-', ':')}`);
}

/** Appends lines, those that are waiting in one write. After a failure every further one fails. */
class Appender {
  readonly #file: FileHandle;
  #waiting = '';
  #mustSync = false;
  #last: Promise<void> = Promise.resolve();
  /** The write that takes along what waits now. */
  #next: Promise<void> | undefined;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  append(line: object, mustSync: boolean): Promise<void> {
    this.#waiting += `${JSON.stringify(line)}\n`;
    this.#mustSync ||= mustSync;
    if (this.#next === undefined) {
      this.#next = this.#last.then(() => this.#write());
      this.#last = this.#next;
    }
    return this.#next;
  }

  async #write(): Promise<void> {
    const [text, mustSync] = [this.#waiting, this.#mustSync];
    this.#waiting = '';
    this.#mustSync = false;
    this.#next = undefined;
    await this.#file.appendFile(text);
    if (mustSync) {
      await this.#file.datasync();
    }
  }
}
