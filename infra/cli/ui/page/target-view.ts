import type { StepStory, TargetStory, Timeline, Todo, ToldCondition } from '../protocol.ts';
import { type Answer, read } from './ask.ts';
import { byId, element, fill } from './element.ts';
import { moment } from './moment.ts';
import { standingSign } from './sign.ts';
import { nameOf } from './targets-view.ts';
import { sentence } from './text.ts';
import { TimelineView } from './timeline-view.ts';

/** How far back is looked, in hours, and how that is called. */
const spans: readonly (readonly [number, string])[] = [
  [1, 'last hour'],
  [6, 'last 6 hours'],
  [24, 'last day'],
  [24 * 7, 'last 7 days'],
  [24 * 30, 'last 30 days'],
];
const usualHours = 24;
const hourMs = 3_600_000;

/** A target that goes on changing is asked about once in this time, in milliseconds. */
const restMs = 1_000;

/** One target: why it is as it is, and what became of it. */
export class TargetView {
  readonly #story = element('div', { class: 'story' });
  readonly #conditions = element('div', { class: 'all-conditions' });
  readonly #timeline = new TimelineView();
  readonly #span = element(
    'select',
    { id: 'span', onchange: () => void this.#loadTimeline() },
    ...spans.map(([hours, name]) =>
      element('option', { value: hours, selected: hours === usualHours }, name),
    ),
  );
  #id = '';
  #version: string | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Counts what was asked: an answer to an earlier question is no answer any more. */
  #asked = 0;

  constructor() {
    this.#timeline.tools.prepend(element('label', { for: 'span' }, 'Shows the '), this.#span);
    fill(byId('target-body'), this.#story, this.#timeline.node, this.#conditions);
  }

  /** Opens a target; `''` closes it. */
  open(id: string): void {
    if (id === this.#id) {
      return;
    }
    clearTimeout(this.#timer);
    this.#id = id;
    this.#version = undefined;
    fill(byId('target-title'), ...nameOf(id));
    fill(this.#story, element('p', { class: 'reading' }, 'Reading …'));
    fill(this.#conditions);
    this.#timeline.clear();
    if (id !== '') {
      void this.#loadStory();
      void this.#loadTimeline();
    }
  }

  /** Told the version of the open target that is in the list: where it is another, everything is asked anew. */
  heard(version: string | undefined): void {
    if (this.#id === '' || version === this.#version) {
      return;
    }
    const isFirst = this.#version === undefined;
    this.#version = version;
    if (!isFirst) {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => {
        void this.#loadStory();
        void this.#loadTimeline();
      }, restMs);
    }
  }

  async #loadStory(): Promise<void> {
    const id = this.#id;
    const answer = await read<TargetStory>('/api/story', { id });
    if (id === this.#id) {
      this.#drawStory(answer);
    }
  }

  async #loadTimeline(): Promise<void> {
    this.#asked += 1;
    const asked = this.#asked;
    const from = String(Date.now() - Number(this.#span.value) * hourMs);
    const answer = await read<Timeline>('/api/timeline', { id: this.#id, from });
    if (asked !== this.#asked) {
      return;
    }
    if (answer.kind === 'told') {
      this.#timeline.show(this.#id, answer.value);
    } else {
      this.#timeline.fail(answer.why);
    }
  }

  #drawStory(answer: Answer<TargetStory>): void {
    if (answer.kind === 'failed') {
      fill(this.#story, element('p', { class: 'problem' }, ...sentence(answer.why)));
      return;
    }
    const { standing, summary, notes, database, members, steps, conditions } = answer.value;
    fill(
      this.#story,
      element('p', { class: 'headline' }, standingSign(standing), ' ', ...sentence(summary)),
      notes.length + members.length > 0 &&
        element(
          'ul',
          { class: 'notes' },
          ...notes.map((note) => element('li', {}, ...sentence(note))),
          ...members.map(({ pod, says }) =>
            element('li', {}, element('code', {}, pod), ` ${says}`),
          ),
        ),
      database !== undefined &&
        element(
          'p',
          { class: 'related' },
          'Database ',
          element('a', { href: `#/${database.id}` }, database.id),
          ' ',
          standingSign(database.standing),
          ` ${database.brief}`,
        ),
      element('h3', {}, 'Steps'),
      element('div', { class: 'steps' }, ...steps.map(stepStory)),
    );
    fill(
      this.#conditions,
      element('h3', { id: 'conditions-title' }, 'Conditions'),
      conditionTable(conditions),
    );
  }
}

function stepStory(story: StepStory): HTMLElement {
  const { step, standing, reason, says, told, notes } = story;
  return element(
    'article',
    { class: `step is-${standing}`, 'aria-labelledby': `step-${step}` },
    element(
      'div',
      { class: 'step-head' },
      element('h4', { id: `step-${step}` }, step),
      standingSign(standing),
      reason !== undefined && element('code', { class: 'reason' }, reason),
    ),
    element(
      'div',
      { class: 'step-text' },
      element('p', {}, ...sentence(says)),
      told !== undefined && element('p', { class: 'quiet' }, ...sentence(told)),
      ...notes.map((note) => element('p', { class: 'quiet' }, ...sentence(note))),
      element('dl', {}, ...factsOf(story)),
    ),
  );
}

function factsOf({ waitsFor, since, todo, next, look }: StepStory): HTMLElement[] {
  return [
    ...(waitsFor === undefined ? [] : fact('Waits for', ...sentence(waitsFor))),
    ...(since === undefined ? [] : fact('Since', moment(since))),
    ...(todo.length === 0 ? [] : fact('What to do', todoList(todo))),
    ...fact('Next', ...sentence(next)),
    ...(look === undefined ? [] : fact('Looks again', ...sentence(look))),
  ];
}

function fact(name: string, ...value: readonly (Node | string)[]): HTMLElement[] {
  return [element('dt', {}, name), element('dd', {}, ...value)];
}

function todoList(todo: readonly Todo[]): HTMLElement {
  const items = todo.map(({ text, command }) =>
    element(
      'li',
      {},
      ...sentence(text),
      command !== undefined && element('code', { class: 'command' }, command),
    ),
  );
  return element(todo.length === 1 ? 'ul' : 'ol', {}, ...items);
}

function conditionTable(conditions: readonly ToldCondition[]): HTMLElement {
  if (conditions.length === 0) {
    return element('p', { class: 'empty' }, 'It has no conditions: no step has looked at it yet.');
  }
  const rows = conditions.map(({ type, status, reason, message, since }) =>
    element(
      'tr',
      {},
      element('th', { scope: 'row' }, type),
      element('td', {}, status),
      element('td', {}, element('code', {}, reason)),
      element('td', { class: 'long' }, message),
      element('td', {}, moment(since)),
    ),
  );
  const head = ['Type', 'Status', 'Reason', 'Message', 'Since'].map((name) =>
    element('th', { scope: 'col' }, name),
  );
  return element(
    'div',
    { class: 'wide', role: 'region', 'aria-labelledby': 'conditions-title', tabindex: 0 },
    element(
      'table',
      { 'aria-labelledby': 'conditions-title' },
      element('thead', {}, element('tr', {}, ...head)),
      element('tbody', {}, ...rows),
    ),
  );
}
