import * as z from 'zod';

/**
 * What a replay writes down about messages, before and after what it does with them: `sending` before their hints are sent,
 * `sent` when the queue has taken them, `notSent` when it certainly has not, `deleted` when the letters are gone.
 */
export const journalWords = ['sending', 'sent', 'notSent', 'deleted'] as const;
export type JournalWord = (typeof journalWords)[number];

const ids = z.array(z.string());

/** One line of a journal. What else a line says, or a newer release writes, is for people. */
const lineSchema = z.looseObject({
  sending: ids.optional(),
  sent: ids.optional(),
  notSent: ids.optional(),
  deleted: ids.optional(),
});

/** What is known of a letter that an earlier replay, or this one, had begun with. */
export type LetterState = 'sending' | 'sent';

/** A journal as whoever replays uses it. */
export interface ReplayJournal {
  /** `sending`: its hint may have been sent. `sent`: it was, and the letter was not seen to be deleted. */
  stateOf(letter: string): LetterState | undefined;
  /** Resolves when it is written. */
  note(word: JournalWord, letters: readonly string[]): Promise<void>;
}

/** What journals leave open: every letter that was begun with and neither deleted nor certainly not sent. */
export class OpenLetters {
  readonly #states = new Map<string, LetterState>();

  stateOf(letter: string): LetterState | undefined {
    return this.#states.get(letter);
  }

  get size(): number {
    return this.#states.size;
  }

  note(word: JournalWord, letters: readonly string[]): void {
    for (const letter of letters) {
      if (word === 'sent') {
        this.#states.set(letter, 'sent');
      } else if (word === 'sending') {
        // A letter that was sent once stays sent, whatever is tried later.
        this.#states.set(letter, this.#states.get(letter) ?? 'sending');
      } else if (word === 'deleted' || this.#states.get(letter) === 'sending') {
        this.#states.delete(letter);
      }
    }
  }

  /** One line of an earlier journal; what cannot be read is left out: a process that was killed leaves half a line. */
  read(text: string): void {
    let json: unknown;
    try {
      json = JSON.parse(text);
    } catch {
      return;
    }
    const parsed = lineSchema.safeParse(json);
    for (const word of parsed.success ? journalWords : []) {
      this.note(word, parsed.data?.[word] ?? []);
    }
  }
}
