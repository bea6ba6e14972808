import type {
  DeadLetterQueue,
  DeadLetters,
  LetterGroup,
  LetterPreview,
  ReplayOutcome,
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

/** The most targets that one order names. */
const maxOrder = 100;

/** What lies in the dead-letter queues, what would become of it now, and the way back to the steps. */
export class LettersView {
  readonly #body = byId('letters-body');
  #canWrite = false;
  #isOpen = false;
  /** Counts what was asked: an answer to an earlier question is no answer any more. */
  #asked = 0;

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
    this.#asked += 1;
    const asked = this.#asked;
    fill(this.#body, element('p', { class: 'reading' }, 'Reading the queues …'));
    const answer = await read<DeadLetters>('/api/letters', {});
    if (asked === this.#asked) {
      fill(this.#body, ...this.#drawn(answer));
    }
  }

  #drawn(answer: Answer<DeadLetters>): Node[] {
    if (answer.kind === 'failed') {
      return [element('p', { class: 'problem' }, ...sentence(answer.why)), this.#again()];
    }
    if (answer.value.kind === 'unconfigured') {
      return [element('p', { class: 'empty' }, ...sentence(answer.value.how))];
    }
    const { queues } = answer.value;
    const holding = queues.filter(({ seen }) => seen > 0);
    const empty = queues.filter(({ seen }) => seen === 0).map(({ step }) => step);
    return [
      element(
        'p',
        { class: 'lead' },
        'Hints that their steps could not work off. A replay sends them to their step again; it reads everything anew, so an old hint does no harm.',
        !this.#canWrite &&
          ' This page may only look: started with --write it can replay them, too.',
      ),
      ...holding.map((queue) => new QueueView(queue, this.#canWrite).node),
      empty.length > 0 && element('p', { class: 'quiet' }, emptyText(empty, queues.length)),
      this.#again(),
    ].filter((node) => node !== false);
  }

  #again(): HTMLElement {
    return element('button', { type: 'button', onclick: () => void this.#load() }, 'Read again');
  }
}

function emptyText(empty: readonly string[], all: number): string {
  return empty.length === all ? 'Every dead-letter queue is empty.' : `Empty: ${empty.join(', ')}.`;
}

/** The letters of one step, by their targets. */
class QueueView {
  readonly node: HTMLElement;
  readonly #queue: DeadLetterQueue;
  readonly #chosen = new Set<string>();
  readonly #told = new Map<string, HTMLElement>();
  readonly #replayed = new Set<string>();
  readonly #body = element('tbody');
  readonly #news = element('div', { class: 'news', role: 'status' });
  readonly #pages = new Pages('Pages of letters', pageSize, () => this.#draw());
  readonly #preview: HTMLButtonElement;
  readonly #replay: HTMLButtonElement | undefined;
  readonly #all: HTMLInputElement;

  constructor(queue: DeadLetterQueue, canWrite: boolean) {
    this.#queue = queue;
    this.#pages.size = queue.groups.length;
    this.#preview = element('button', { type: 'button', onclick: () => void this.#askPreview() });
    this.#replay = canWrite
      ? element('button', { type: 'button', class: 'does', onclick: () => void this.#askReplay() })
      : undefined;
    this.#all = element('input', {
      type: 'checkbox',
      'aria-label': `Choose every target of ${queue.step} on this page`,
      onchange: () => this.#chooseAll(this.#all.checked),
    });
    this.node = this.#made(queue);
    this.#draw();
  }

  #made({ step, groups, refused }: DeadLetterQueue): HTMLElement {
    const title = `queue-${step}`;
    const head = ['Target', 'Letters', 'Why they are here', 'Sent', 'What it would decide now'];
    const table = element(
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
    );
    return element(
      'section',
      { class: 'queue', 'aria-labelledby': title },
      element(
        'div',
        { class: 'queue-head' },
        element('h2', { id: title }, step),
        element('p', { class: 'quiet' }, countText(this.#queue)),
      ),
      groups.length > 0 && element('div', { class: 'tools' }, this.#preview, this.#replay),
      this.#news,
      groups.length > 0 &&
        element(
          'div',
          { class: 'wide', role: 'region', 'aria-label': `Letters of ${step}`, tabindex: 0 },
          table,
        ),
      this.#pages.node,
      refused.length > 0 &&
        element(
          'ul',
          { class: 'gaps' },
          ...refused.map((why) => element('li', {}, `stays: ${why}`)),
        ),
    );
  }

  get #shown(): readonly LetterGroup[] {
    return this.#queue.groups.slice(this.#pages.from, this.#pages.to);
  }

  #draw(): void {
    fill(this.#body, ...this.#shown.map((group) => this.#rowOf(group)));
    this.#drawButtons();
  }

  #drawButtons(): void {
    const targets = this.#order();
    setText(this.#preview, `What would it decide now (${targets.length})`);
    this.#preview.disabled = targets.length === 0;
    if (this.#replay !== undefined) {
      setText(this.#replay, `Replay ${lettersText(this.#lettersOf(targets))} …`);
      this.#replay.disabled = targets.length === 0;
    }
    this.#all.checked =
      this.#shown.length > 0 && this.#shown.every(({ target }) => this.#chosen.has(target));
  }

  /** Those that were chosen; where none is, all on this page. What was replayed is no longer there. */
  #order(): readonly string[] {
    const groups = this.#chosen.size > 0 ? this.#queue.groups : this.#shown;
    return groups
      .map(({ target }) => target)
      .filter((target) => !this.#replayed.has(target))
      .filter((target) => this.#chosen.size === 0 || this.#chosen.has(target))
      .slice(0, maxOrder);
  }

  #lettersOf(targets: readonly string[]): number {
    return this.#queue.groups
      .filter(({ target }) => targets.includes(target))
      .reduce((sum, { letters }) => sum + letters, 0);
  }

  #rowOf({ target, letters, cause, newest, failure }: LetterGroup): HTMLElement {
    const isGone = this.#replayed.has(target);
    const choice = element('input', {
      type: 'checkbox',
      'aria-label': `Choose ${target}`,
      disabled: isGone,
      onchange: () => this.#choose(target, choice.checked),
    });
    choice.checked = this.#chosen.has(target);
    return element(
      'tr',
      { class: isGone ? 'is-replayed' : undefined },
      element('td', {}, choice),
      element('th', { scope: 'row' }, element('a', { href: `#/${target}` }, ...nameOf(target))),
      element('td', { class: 'figure' }, letters.toLocaleString()),
      element('td', { class: 'long' }, failure ?? 'no archive says why'),
      element('td', {}, moment(newest), element('span', { class: 'quiet' }, ` for ${cause}`)),
      element('td', { class: 'long told' }, this.#told.get(target)),
    );
  }

  #choose(target: string, isChosen: boolean): void {
    if (isChosen) {
      this.#chosen.add(target);
    } else {
      this.#chosen.delete(target);
    }
    this.#drawButtons();
  }

  #chooseAll(isChosen: boolean): void {
    for (const { target } of this.#shown.filter((group) => !this.#replayed.has(group.target))) {
      this.#choose(target, isChosen);
    }
    this.#draw();
  }

  async #askPreview(): Promise<void> {
    const { step } = this.#queue;
    const targets = this.#order();
    setText(this.#news, `Looking at ${targets.length} …`);
    const answer = await tell<readonly LetterPreview[]>('/api/preview', { step, targets });
    if (answer.kind === 'failed') {
      fill(this.#news, ...sentence(answer.why));
      return;
    }
    for (const preview of answer.value) {
      this.#told.set(preview.target, previewText(preview));
    }
    setText(
      this.#news,
      `Looked at ${answer.value.length}. Nothing was written, and no letter was moved.`,
    );
    this.#draw();
  }

  async #askReplay(): Promise<void> {
    const { step } = this.#queue;
    const targets = this.#order();
    const isWanted = await confirmed(
      `Replay ${lettersText(this.#lettersOf(targets))} of ${step}?`,
      `Each is sent to the queue of ${step} again, and deleted here once that queue has it. The step then reads its target anew and does what it decides.`,
      'Replay',
    );
    if (!isWanted) {
      setText(this.#news, 'Nothing was replayed.');
      return;
    }
    setText(this.#news, 'Replaying …');
    const answer = await tell<ReplayOutcome>('/api/replay', { step, targets });
    if (answer.kind === 'failed') {
      fill(this.#news, ...sentence(answer.why));
      return;
    }
    if (answer.value.sent > 0) {
      for (const target of targets) {
        this.#replayed.add(target);
        this.#told.set(
          target,
          element('span', { class: 'quiet' }, 'replayed; read again to see what is left'),
        );
      }
    }
    this.#chosen.clear();
    fill(this.#news, ...answer.value.says.map((line) => element('p', {}, line)));
    this.#draw();
  }
}

function countText({ seen, groups, isCut }: DeadLetterQueue): string {
  const about = groups.length === 1 ? 'one target' : `${groups.length.toLocaleString()} targets`;
  return `${lettersText(seen)} about ${about}${isCut ? '; there are more' : ''}`;
}

function lettersText(count: number): string {
  return count === 1 ? 'one letter' : `${count.toLocaleString()} letters`;
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
