import type { Mark, Outcome, Timeline } from '../protocol.ts';
import { outcomes } from '../protocol.ts';
import { DecisionTable } from './decision-table.ts';
import { element, fill } from './element.ts';
import { exactMoment } from './moment.ts';
import { outcomeSign, sign } from './sign.ts';
import { outcomeWords } from './shapes.ts';
import { TimelinePicture } from './timeline-picture.ts';

const help =
  'Left and right go from one decision to the next, up and down choose a lane, plus and minus zoom, 0 shows all, Shift with left and right moves the picture, Enter goes to the decision in the list below.';

/** What became of a target: the picture, the decision that is pointed at, and the same as a list. */
export class TimelineView {
  readonly node: HTMLElement;
  readonly tools = element('div', { class: 'tools' });
  readonly #legend = element('div', {
    class: 'choices',
    role: 'group',
    'aria-label': 'Outcomes that are shown',
  });
  readonly #strip = element('div', { class: 'strip', role: 'status' });
  readonly #gaps = element('ul', { class: 'gaps' });
  readonly #picture: TimelinePicture;
  readonly #table: DecisionTable;
  readonly #hidden = new Set<Outcome>();
  #timeline: Timeline | undefined;

  constructor() {
    const isShown = (outcome: Outcome): boolean => !this.#hidden.has(outcome);
    this.#picture = new TimelinePicture(isShown, {
      pointed: (place, count) => this.#point(place, count),
      moved: (window) => this.#table.show(window),
      opened: (place) => this.#table.open(place),
    });
    this.#table = new DecisionTable(isShown, (place) => this.#picture.select(place));
    const zoom = (name: string, label: string, run: () => void) =>
      element('button', { type: 'button', 'aria-label': label, title: label, onclick: run }, name);
    this.tools.append(
      element(
        'div',
        { class: 'zoom', role: 'group', 'aria-label': 'Zoom' },
        zoom('−', 'Zoom out', () => this.#picture.zoom(2)),
        zoom('+', 'Zoom in', () => this.#picture.zoom(0.5)),
        zoom('All', 'Show all', () => this.#picture.showAll()),
      ),
      this.#legend,
    );
    this.node = element(
      'section',
      { class: 'past', 'aria-labelledby': 'timeline-title' },
      element('h3', { id: 'timeline-title' }, 'Timeline'),
      this.tools,
      this.#picture.node,
      element('p', { class: 'unseen', id: 'timeline-help' }, help),
      this.#strip,
      this.#gaps,
      this.#table.node,
    );
    this.clear();
  }

  clear(): void {
    this.#timeline = undefined;
    this.#picture.show(undefined, '');
    this.#table.take(undefined);
    fill(this.#gaps);
    fill(this.#legend);
    fill(this.#strip, 'Reading what became of it …');
  }

  fail(why: string): void {
    this.clear();
    fill(this.#strip, why);
  }

  show(id: string, timeline: Timeline): void {
    this.#timeline = timeline;
    fill(this.#gaps, ...timeline.gaps.map((gap) => element('li', {}, gap)));
    this.#drawLegend(timeline);
    this.#table.take(timeline);
    this.#picture.show(timeline, id);
    this.#point(undefined, 0);
  }

  #drawLegend({ marks }: Timeline): void {
    const counts = new Map<Outcome, number>();
    for (const { outcome } of marks) {
      counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
    }
    const buttons = outcomes.flatMap((outcome) => {
      const count = counts.get(outcome);
      return count === undefined ? [] : [this.#legendButton(outcome, count)];
    });
    fill(this.#legend, ...buttons);
  }

  #legendButton(outcome: Outcome, count: number): HTMLButtonElement {
    const button = element(
      'button',
      {
        type: 'button',
        class: `choice state ${outcome}`,
        'aria-pressed': String(!this.#hidden.has(outcome)),
        onclick: () => {
          if (!this.#hidden.delete(outcome)) {
            this.#hidden.add(outcome);
          }
          button.setAttribute('aria-pressed', String(!this.#hidden.has(outcome)));
          this.#picture.redraw();
          this.#table.redraw();
        },
      },
      sign(outcome),
      `${outcomeWords[outcome]} `,
      element('span', { class: 'number' }, count.toLocaleString()),
    );
    return button;
  }

  /** Says which decision is pointed at, and how many others are too near to be told apart. */
  #point(place: number | undefined, count: number): void {
    const mark = place === undefined ? undefined : this.#timeline?.marks[place];
    if (mark === undefined) {
      const none = this.#timeline?.marks.length === 0;
      fill(
        this.#strip,
        element(
          'p',
          { class: 'quiet' },
          none
            ? 'Nothing is known of this time.'
            : 'Point at a mark, or press Tab to the picture and use the arrow keys.',
        ),
      );
      return;
    }
    fill(this.#strip, ...describe(mark, this.#timeline, count));
  }
}

function describe(mark: Mark, timeline: Timeline | undefined, count: number): Node[] {
  const lane = timeline?.lanes[mark.lane]?.id ?? '';
  const member = mark.member === undefined ? undefined : timeline?.lanes[mark.member]?.id;
  const head = element(
    'p',
    { class: 'strip-head' },
    outcomeSign(mark.outcome),
    ' ',
    element('code', {}, mark.reason),
    ' ',
    element('span', { class: 'quiet' }, member === undefined ? lane : `${lane} on ${member}`),
    ' ',
    exactMoment(mark.at),
    count > 1 &&
      element(
        'span',
        { class: 'quiet' },
        ` and ${(count - 1).toLocaleString()} more at this place`,
      ),
  );
  const effects =
    mark.effects.length > 0 &&
    element('p', { class: 'quiet' }, `wrote: ${mark.effects.join(', ')}`);
  const body = element('div', {}, element('p', {}, mark.message), effects);
  return [head, ...body.childNodes];
}
