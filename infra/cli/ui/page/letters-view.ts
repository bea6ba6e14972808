import type {
  DeadLetter,
  DeadLetterQueue,
  DeadLetters,
  LetterPreview,
  ReplayedLetter,
  Session,
} from '../protocol.ts';
import { type Answer, read, tell } from './ask.ts';
import { confirmed } from './confirmed.ts';
import { byId, element, fill, setText } from './element.ts';
import { moment } from './moment.ts';
import { Pages } from './pages.ts';
import { outcomeSign } from './sign.ts';
import { sentence } from './text.ts';
import { nameOf } from './targets-view.ts';

const pageSize = 100;

/** The most letters that one order names. */
const maxOrder = 100;

/** What lies in the dead-letter queues, what would become of it now, and the way back to the steps. */
export class LettersView {
  readonly #body = byId('letters-body');
  #canWrite = false;
  #isOpen = false;

  introduce({ canWrite }: Session): void {
    if (canWrite !== this.#canWrite) {
      this.#canWrite = canWrite;
      if (this.#isOpen) {
        this.open();
      }
    }
  }

  open(): void {
    this.#isOpen = true;
    void this.#load();
  }

  async #load(): Promise<void> {
    fill(this.#body, element('p', { class: 'reading' }, 'Reading the queues …'));
    const answer = await read<DeadLetters>('/api/letters', {});
    fill(this.#body, ...this.#drawn(answer));
  }

  #drawn(answer: Answer<DeadLetters>): Node[] {
    if (answer.kind === 'failed') {
      return [element('p', { class: 'problem' }, ...sentence(answer.why)), this.#again()];
    }
    if (answer.value.kind === 'unconfigured') {
      return [element('p', { class: 'empty' }, ...sentence(answer.value.how))];
    }
    const { queues } = answer.value;
    const holding = queues.filter(({ count, problem }) => count > 0 || problem !== undefined);
    const empty = queues.filter((queue) => !holding.includes(queue)).map(({ step }) => step);
    return [
      element(
        'p',
        { class: 'lead' },
        this.#canWrite
          ? 'Hints that their steps could not work off. A replay sends a hint to its step again; the step reads everything anew, so an old hint does no harm.'
          : 'Hints that their steps could not work off. This page may only look: started with --write it has buttons that replay them.',
      ),
      ...holding.map((queue) => new QueueView(queue, this.#canWrite).node),
      empty.length > 0 &&
        element(
          'p',
          { class: 'quiet' },
          `Nothing lies in ${empty.length === queues.length ? 'any queue' : `those of ${empty.join(', ')}`}.`,
        ),
      this.#again(),
    ].filter((node) => node !== false);
  }

  #again(): HTMLElement {
    return element('button', { type: 'button', onclick: () => void this.#load() }, 'Read again');
  }
}

/** The letters of one step. */
class QueueView {
  readonly node: HTMLElement;
  readonly #queue: DeadLetterQueue;
  readonly #chosen = new Set<string>();
  readonly #told = new Map<string, HTMLElement>();
  readonly #body = element('tbody');
  readonly #news = element('p', { class: 'news', role: 'status' });
  readonly #pages = new Pages('Pages of letters', pageSize, () => this.#draw());
  readonly #preview: HTMLButtonElement;
  readonly #replay: HTMLButtonElement | undefined;
  readonly #all: HTMLInputElement;

  constructor(queue: DeadLetterQueue, canWrite: boolean) {
    this.#queue = queue;
    this.#pages.size = queue.letters.length;
    this.#preview = element(
      'button',
      { type: 'button', onclick: () => void this.#askPreview() },
      'What would it decide now',
    );
    this.#replay = canWrite
      ? element(
          'button',
          { type: 'button', class: 'does', onclick: () => void this.#askReplay() },
          'Replay',
        )
      : undefined;
    this.#all = element('input', {
      type: 'checkbox',
      'aria-label': `Choose every letter of ${queue.step} on this page`,
      onchange: () => this.#chooseAll(this.#all.checked),
    });
    this.node = this.#made(queue);
    this.#draw();
  }

  #made({ step, count, letters, problem }: DeadLetterQueue): HTMLElement {
    const title = `queue-${step}`;
    const head = ['Target', 'Why it is here', 'Sent', 'Tries', 'What it would decide now'];
    return element(
      'section',
      { class: 'queue', 'aria-labelledby': title },
      element(
        'div',
        { class: 'queue-head' },
        element('h2', { id: title }, step),
        element('p', { class: 'quiet' }, countText(count, letters.length)),
      ),
      problem !== undefined && element('p', { class: 'problem' }, ...sentence(problem)),
      letters.length > 0 && element('div', { class: 'tools' }, this.#preview, this.#replay),
      this.#news,
      letters.length > 0 &&
        element(
          'div',
          { class: 'wide', role: 'region', 'aria-labelledby': title, tabindex: 0 },
          element(
            'table',
            { 'aria-labelledby': title },
            element(
              'thead',
              {},
              element(
                'tr',
                {},
                element('td', {}, this.#all),
                ...head.map((name) => element('th', { scope: 'col' }, name)),
              ),
            ),
            this.#body,
          ),
        ),
      this.#pages.node,
    );
  }

  get #shown(): readonly DeadLetter[] {
    return this.#queue.letters.slice(this.#pages.from, this.#pages.to);
  }

  #draw(): void {
    fill(this.#body, ...this.#shown.map((letter) => this.#rowOf(letter)));
    this.#drawButtons();
  }

  #drawButtons(): void {
    const count = this.#order().length;
    setText(this.#preview, `What would it decide now: ${count}`);
    this.#preview.disabled = count === 0;
    if (this.#replay !== undefined) {
      setText(this.#replay, `Replay ${count} …`);
      this.#replay.disabled = count === 0;
    }
    this.#all.checked =
      this.#shown.length > 0 && this.#shown.every(({ id }) => this.#chosen.has(id));
  }

  /** Those that were chosen; where none is, all on this page that are hints. */
  #order(): readonly string[] {
    const letters = this.#chosen.size > 0 ? this.#queue.letters : this.#shown;
    return letters
      .filter(
        ({ id, invalid }) =>
          invalid === undefined && (this.#chosen.size === 0 || this.#chosen.has(id)),
      )
      .map(({ id }) => id)
      .slice(0, maxOrder);
  }

  #rowOf(letter: DeadLetter): HTMLElement {
    const { id, target, cause, sentAt, receives, failure, invalid } = letter;
    const choice = element('input', {
      type: 'checkbox',
      'aria-label': `Choose the letter of ${target ?? 'no target'}`,
      disabled: invalid !== undefined,
      onchange: () => this.#choose(id, choice.checked),
    });
    choice.checked = this.#chosen.has(id);
    const why = invalid ?? failure ?? 'no archive says why';
    return element(
      'tr',
      { 'data-letter': id },
      element('td', {}, choice),
      element(
        'th',
        { scope: 'row' },
        target === undefined ? 'no hint' : element('a', { href: `#/${target}` }, ...nameOf(target)),
        cause !== undefined && element('span', { class: 'quiet' }, ` ${cause}`),
      ),
      element('td', { class: 'long' }, why),
      element('td', {}, sentAt !== undefined && moment(sentAt)),
      element('td', { class: 'figure' }, receives === undefined ? '' : String(receives)),
      element('td', { class: 'long told' }, this.#told.get(id)),
    );
  }

  #choose(id: string, isChosen: boolean): void {
    if (isChosen) {
      this.#chosen.add(id);
    } else {
      this.#chosen.delete(id);
    }
    this.#drawButtons();
  }

  #chooseAll(isChosen: boolean): void {
    for (const { id, invalid } of this.#shown) {
      if (invalid === undefined) {
        this.#choose(id, isChosen);
      }
    }
    this.#draw();
  }

  async #askPreview(): Promise<void> {
    const { step } = this.#queue;
    const ids = this.#order();
    setText(this.#news, `Looking at ${ids.length} …`);
    this.#preview.disabled = true;
    const answer = await tell<readonly LetterPreview[]>('/api/preview', { step, ids });
    this.#preview.disabled = false;
    if (answer.kind === 'failed') {
      fill(this.#news, ...sentence(answer.why));
      return;
    }
    for (const preview of answer.value) {
      this.#told.set(preview.id, previewText(preview));
    }
    setText(
      this.#news,
      `Looked at ${answer.value.length}. Nothing was written, and no letter was moved.`,
    );
    this.#draw();
  }

  async #askReplay(): Promise<void> {
    const { step } = this.#queue;
    const ids = this.#order();
    const isWanted = await confirmed(
      `Replay ${ids.length === 1 ? 'one letter' : `${ids.length} letters`} of ${step}?`,
      `Each is sent to the queue of ${step} again, and deleted here once that queue has it. The step then reads its target anew and does what it decides.`,
      'Replay',
    );
    if (!isWanted) {
      setText(this.#news, 'Nothing was replayed.');
      return;
    }
    setText(this.#news, `Replaying ${ids.length} …`);
    this.#take(await tell<readonly ReplayedLetter[]>('/api/replay', { step, ids }));
  }

  #take(answer: Answer<readonly ReplayedLetter[]>): void {
    if (answer.kind === 'failed') {
      fill(this.#news, ...sentence(answer.why));
      return;
    }
    for (const { id, message } of answer.value) {
      this.#told.set(id, element('span', {}, message));
      this.#chosen.delete(id);
    }
    const replayed = answer.value.filter(({ isReplayed }) => isReplayed).length;
    setText(this.#news, `Replayed ${replayed} of ${answer.value.length}.`);
    this.#draw();
  }
}

function countText(count: number, shown: number): string {
  const all = `${count.toLocaleString()} ${count === 1 ? 'letter' : 'letters'}`;
  return shown < count ? `${all}; the first ${shown.toLocaleString()} are shown` : all;
}

function previewText({ outcome, reason, message, effects }: LetterPreview): HTMLElement {
  return element(
    'div',
    {},
    outcome !== undefined && outcomeSign(outcome),
    reason !== undefined && element('code', {}, ` ${reason}`),
    element('p', {}, message),
    effects.length > 0 && element('p', { class: 'quiet' }, `would write: ${effects.join(', ')}`),
  );
}
