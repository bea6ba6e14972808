import { type Standing, type TargetRow, standings } from '../protocol.ts';
import { byId, element, fill, setText } from './element.ts';
import { moment } from './moment.ts';
import {
  type Filter,
  conditionText,
  countsOf,
  filtered,
  inOrder,
  listedConditions,
  pageSize,
} from './rows.ts';
import { standingWords } from './shapes.ts';
import { standingSign, sign } from './sign.ts';
import { Pages } from './pages.ts';

const columns = [
  'State',
  'Target',
  'What goes on',
  'Waits for',
  'Since',
  'Next look',
  'Conditions',
];

/** The list of all targets: filtered, in order, a page at a time. */
export class TargetsView {
  readonly #rows = new Map<string, TargetRow>();
  readonly #drawn = new WeakMap<TargetRow, HTMLTableRowElement>();
  readonly #table = element('tbody');
  readonly #empty = element('p', { class: 'empty', hidden: true });
  readonly #count = element('p', { class: 'count', role: 'status' });
  readonly #choices = element('div', { class: 'choices', role: 'group', 'aria-label': 'State' });
  readonly #search = element('input', {
    type: 'search',
    id: 'filter',
    placeholder: 'name, namespace, reason …',
    autocomplete: 'off',
    spellcheck: 'false',
    oninput: () => this.#refilter({ words: this.#search.value }),
  });
  readonly #pages = new Pages('Pages of targets', pageSize, () => this.#draw());
  #filter: Filter = { words: '', standing: 'all' };
  #current = '';
  #isListed = false;

  constructor() {
    const head = columns.map((name) =>
      element('th', { scope: 'col', class: columnClass(name) }, name),
    );
    fill(
      byId('targets-body'),
      element(
        'div',
        { class: 'tools' },
        element('label', { class: 'search', for: 'filter' }, 'Filter'),
        this.#search,
        this.#choices,
      ),
      this.#count,
      element(
        'table',
        { class: 'list', 'aria-label': 'Targets' },
        element('thead', {}, element('tr', {}, ...head)),
        this.#table,
      ),
      this.#empty,
      this.#pages.node,
    );
    this.#draw();
  }

  focusFilter(): void {
    this.#search.focus();
  }

  /** Takes these for all there are. */
  replace(rows: readonly TargetRow[]): void {
    this.#rows.clear();
    this.#isListed = true;
    this.change(rows, []);
  }

  change(changed: readonly TargetRow[], gone: readonly string[]): void {
    for (const row of changed) {
      this.#rows.set(row.id, row);
    }
    for (const id of gone) {
      this.#rows.delete(id);
    }
    this.#draw();
  }

  get(id: string): TargetRow | undefined {
    return this.#rows.get(id);
  }

  /** Marks the target that is open beside the list. */
  select(id: string): void {
    this.#current = id;
    this.#draw();
  }

  #refilter(change: Partial<Filter>): void {
    this.#filter = { ...this.#filter, ...change };
    this.#pages.first();
    this.#draw();
  }

  #draw(): void {
    const found = filtered(inOrder(this.#rows.values()), this.#filter);
    this.#pages.size = found.length;
    const shown = found.slice(this.#pages.from, this.#pages.to);
    // A row that changed is made anew; the one with the focus keeps it.
    const focused = this.#table.querySelector('a:focus')?.getAttribute('href');
    placeRows(
      this.#table,
      shown.map((row) => this.#rowOf(row)),
    );
    if (focused !== undefined && focused !== null) {
      const links = this.#table.querySelectorAll<HTMLAnchorElement>('th a');
      Array.from(links)
        .find((link) => link.getAttribute('href') === focused)
        ?.focus({ preventScroll: true });
    }
    this.#drawChoices();
    setText(this.#count, this.#countText(found.length));
    this.#empty.hidden = found.length > 0 || !this.#isListed;
    setText(
      this.#empty,
      this.#rows.size === 0
        ? 'There are no Databases, Shards or GoverseClusters here.'
        : 'Nothing is called like that, or is in that state.',
    );
  }

  #countText(found: number): string {
    if (!this.#isListed) {
      return 'reading the targets';
    }
    const all = this.#rows.size.toLocaleString();
    return found === this.#rows.size
      ? `${all} targets`
      : `${found.toLocaleString()} of ${all} targets`;
  }

  #rowOf(row: TargetRow): HTMLTableRowElement {
    const known = this.#drawn.get(row);
    const made = known ?? makeRow(row);
    this.#drawn.set(row, made);
    const link = made.querySelector('a');
    if (row.id === this.#current) {
      made.classList.add('current');
      link?.setAttribute('aria-current', 'true');
    } else {
      made.classList.remove('current');
      link?.removeAttribute('aria-current');
    }
    return made;
  }

  /** Buttons that are kept, so that the one with the focus keeps it. */
  #drawChoices(): void {
    const counts = countsOf(this.#rows.values());
    for (const standing of standings) {
      const button =
        this.#choices.querySelector<HTMLButtonElement>(`[data-state="${standing}"]`) ??
        this.#choices.appendChild(this.#choiceOf(standing));
      const isChosen = this.#filter.standing === standing;
      button.setAttribute('aria-pressed', String(isChosen));
      const count = counts.get(standing) ?? 0;
      button.hidden = count === 0 && !isChosen;
      setText(button.lastElementChild ?? button, count.toLocaleString());
    }
  }

  #choiceOf(standing: Standing): HTMLButtonElement {
    const { word, like, path } = standingWords[standing];
    return element(
      'button',
      {
        type: 'button',
        'data-state': standing,
        class: `choice state ${like}`,
        onclick: () =>
          this.#refilter({ standing: this.#filter.standing === standing ? 'all' : standing }),
      },
      sign(like, path),
      `${word} `,
      element('span', { class: 'number' }),
    );
  }
}

/** Puts the rows in order, and moves only what is elsewhere: a row with the focus that stays where it is keeps it. */
function placeRows(body: HTMLElement, rows: readonly HTMLTableRowElement[]): void {
  const wanted = new Set<Element>(rows);
  for (const row of Array.from(body.children)) {
    if (!wanted.has(row)) {
      row.remove();
    }
  }
  rows.forEach((row, place) => {
    const there = body.children[place];
    if (there !== row) {
      body.insertBefore(row, there ?? null);
    }
  });
}

function makeRow(row: TargetRow): HTMLTableRowElement {
  return element(
    'tr',
    {},
    element('td', { class: columnClass('State') }, standingSign(row.standing)),
    element(
      'th',
      { scope: 'row', class: columnClass('Target') },
      element('a', { href: `#/${row.id}` }, ...nameOf(row.id)),
    ),
    element('td', { class: columnClass('What goes on') }, row.headline),
    element('td', { class: columnClass('Waits for') }, row.waitsFor ?? ''),
    element('td', { class: columnClass('Since') }, row.since !== undefined && moment(row.since)),
    element('td', { class: columnClass('Next look') }, row.next !== undefined && moment(row.next)),
    element('td', { class: columnClass('Conditions') }, conditionList(row)),
  );
}

/** The name stands out; kind and namespace are what many have in common. */
export function nameOf(id: string): (Node | string)[] {
  const parts = id.split('/');
  return [
    element('span', { class: 'kin' }, `${parts.slice(0, -1).join('/')}/`),
    element('span', { class: 'own' }, parts.at(-1) ?? ''),
  ];
}

function conditionList({ conditions }: TargetRow): HTMLElement {
  const items = listedConditions(conditions).map((condition) => {
    const { text, isOdd } = conditionText(condition);
    return element('li', { class: isOdd ? 'odd' : 'usual', title: condition.message }, text);
  });
  return element('ul', { class: 'conditions' }, ...items);
}

function columnClass(name: string): string {
  return `column-${name.toLowerCase().replaceAll(' ', '-')}`;
}
