import type { Bar, Outcome, Timeline } from '../protocol.ts';
import { firstFrom } from './bins.ts';
import { element, fill, setText } from './element.ts';
import { exactMoment } from './moment.ts';
import { Pages } from './pages.ts';
import { outcomeSign } from './sign.ts';
import { durationText } from './time-text.ts';
import type { TimeWindow } from './window.ts';

const pageSize = 50;

/** What the picture shows, as tables: the decisions of the same stretch of time, newest first, and the backups. */
export class DecisionTable {
  readonly node: HTMLElement;
  readonly #isShown: (outcome: Outcome) => boolean;
  readonly #chosen: (place: number) => void;
  readonly #title = element('h3', { id: 'decisions-title' }, 'Decisions');
  readonly #body = element('tbody');
  readonly #backups = element('div', {});
  readonly #pages = new Pages('Pages of decisions', pageSize, () => this.#draw());
  #timeline: Timeline | undefined;
  #window: TimeWindow = { from: 0, to: 0 };
  /** Places in the list of marks, newest first. */
  #places: readonly number[] = [];
  #frame = 0;

  constructor(isShown: (outcome: Outcome) => boolean, chosen: (place: number) => void) {
    this.#isShown = isShown;
    this.#chosen = chosen;
    const head = ['Time', 'Step', 'Outcome', 'Reason', 'What it says and wrote'].map((name) =>
      element('th', { scope: 'col' }, name),
    );
    this.node = element(
      'div',
      { class: 'decisions' },
      this.#title,
      element(
        'div',
        { class: 'wide', role: 'region', 'aria-labelledby': 'decisions-title', tabindex: 0 },
        element(
          'table',
          { 'aria-labelledby': 'decisions-title' },
          element('thead', {}, element('tr', {}, ...head)),
          this.#body,
        ),
      ),
      this.#pages.node,
      this.#backups,
    );
  }

  take(timeline: Timeline | undefined): void {
    this.#timeline = timeline;
    this.node.hidden = timeline === undefined;
    fill(this.#backups, ...backupTable(timeline));
    this.redraw();
  }

  /** Shows what is in this stretch of time. */
  show(window: TimeWindow): void {
    this.#window = window;
    this.#pages.first();
    this.redraw();
  }

  /** Turns to a decision and gives it the focus. */
  open(place: number): void {
    cancelAnimationFrame(this.#frame);
    this.#places = this.#placesInView();
    const at = this.#places.indexOf(place);
    if (at !== -1) {
      this.#pages.show(at);
      this.#draw();
      this.#focus(String(place));
    }
  }

  #focus(place: string): void {
    this.#body.querySelector<HTMLElement>(`[data-place="${place}"]`)?.focus();
  }

  redraw(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => {
      this.#places = this.#placesInView();
      this.#draw();
    });
  }

  #placesInView(): number[] {
    const marks = this.#timeline?.marks ?? [];
    const places: number[] = [];
    for (let place = firstFrom(marks, this.#window.to + 1) - 1; place >= 0; place -= 1) {
      const mark = marks[place];
      if (mark === undefined || mark.at < this.#window.from) {
        break;
      }
      if (this.#isShown(mark.outcome)) {
        places.push(place);
      }
    }
    return places;
  }

  #draw(): void {
    this.#pages.size = this.#places.length;
    setText(this.#title, `Decisions in view: ${this.#places.length.toLocaleString()}`);
    const shown = this.#places.slice(this.#pages.from, this.#pages.to);
    // Rows are made anew; the one with the focus keeps it.
    const focused = this.#body.querySelector<HTMLElement>(':focus')?.dataset['place'];
    fill(this.#body, ...shown.flatMap((place) => this.#rowOf(place) ?? []));
    if (focused !== undefined) {
      this.#focus(focused);
    }
  }

  #rowOf(place: number): HTMLTableRowElement | undefined {
    const mark = this.#timeline?.marks[place];
    if (mark === undefined) {
      return undefined;
    }
    return element(
      'tr',
      {},
      element(
        'td',
        {},
        element(
          'button',
          {
            type: 'button',
            class: 'plain',
            'data-place': place,
            title: 'Show it in the picture',
            onclick: () => this.#chosen(place),
          },
          exactMoment(mark.at),
        ),
      ),
      element('td', {}, this.#timeline?.lanes[mark.lane]?.id ?? ''),
      element('td', {}, outcomeSign(mark.outcome)),
      element('td', {}, element('code', {}, mark.reason)),
      element(
        'td',
        { class: 'long' },
        mark.message,
        ...(mark.effects.length === 0
          ? []
          : [element('p', { class: 'quiet' }, `wrote: ${mark.effects.join(', ')}`)]),
      ),
    );
  }
}

function backupTable(timeline: Timeline | undefined): HTMLElement[] {
  const backups = (timeline?.bars ?? []).filter(({ kind }) => kind !== 'state').toReversed();
  if (backups.length === 0) {
    return [];
  }
  const newest = backups.slice(0, pageSize);
  const head = ['Backup', 'Started', 'Took', 'Ended'].map((name) =>
    element('th', { scope: 'col' }, name),
  );
  return [
    element(
      'h3',
      { id: 'backups-title' },
      newest.length < backups.length
        ? `Backups: the newest ${newest.length} of ${backups.length.toLocaleString()}`
        : 'Backups',
    ),
    element(
      'div',
      { class: 'wide', role: 'region', 'aria-labelledby': 'backups-title', tabindex: 0 },
      element(
        'table',
        { 'aria-labelledby': 'backups-title' },
        element('thead', {}, element('tr', {}, ...head)),
        element('tbody', {}, ...newest.map(backupRow)),
      ),
    ),
  ];
}

function backupRow({ title, from, to, kind }: Bar): HTMLElement {
  return element(
    'tr',
    {},
    element('th', { scope: 'row' }, title),
    element('td', {}, exactMoment(from)),
    element('td', {}, to === undefined ? 'runs' : durationText(to - from)),
    element('td', {}, kind),
  );
}
