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
 * @param about hints of a file or an archive leave nothing open: there is nothing to delete
 */
export async function openJournal(
  folder: string,
  at: Instant,
  facts: Readonly<Record<string, unknown>>,
  about: 'letters' | 'hints' = 'letters',
): Promise<JournalFile> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await removeOld(folder, at);
  const letters = await readOpenLetters(folder);
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
        const line = { [word]: ids };
        // What is about to be sent must be known even where the machine ends with the process.
        await lines.append(about === 'letters' ? line : { hints: line }, word === 'sending');
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

/** What all journals in a folder leave open; nothing where there is no such folder. */
export async function readOpenLetters(folder: string): Promise<OpenLetters> {
  const letters = new OpenLetters();
  for (const { path } of await journalsIn(folder)) {
    for await (const line of readLines(createReadStream(path))) {
      if (line.kind === 'line') {
        letters.read(line.text);
      }
    }
  }
  return letters;
}

async function removeOld(folder: string, now: Instant): Promise<void> {
  for (const { path, at } of await journalsIn(folder)) {
    if (at < now - keptMs) {
      await rm(path, { force: true });
    }
  }
}

/** The journals of a folder, the oldest first. */
async function journalsIn(
  folder: string,
): Promise<readonly { readonly path: string; readonly at: Instant }[]> {
  const names = await readdir(folder).catch((error: unknown): string[] => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') {
      return [];
    }
    throw error;
  });
  return names.toSorted().flatMap((name) => {
    const at = timeIn(name);
    return at === undefined ? [] : [{ path: join(folder, name), at }];
  });
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
