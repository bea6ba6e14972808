import { element, setText } from './element.ts';

/** Which part of a long list is in the document, and the buttons that change it. */
export class Pages {
  readonly node: HTMLElement;
  readonly #pageSize: number;
  readonly #turned: () => void;
  readonly #where = element('span', { class: 'where' });
  readonly #back = element(
    'button',
    { type: 'button', onclick: () => this.#turn(-1) },
    'Previous page',
  );
  readonly #on = element('button', { type: 'button', onclick: () => this.#turn(1) }, 'Next page');
  #page = 0;
  #size = 0;

  constructor(label: string, pageSize: number, turned: () => void) {
    this.#pageSize = pageSize;
    this.#turned = turned;
    this.node = element(
      'nav',
      { class: 'pages', 'aria-label': label },
      this.#back,
      this.#where,
      this.#on,
    );
  }

  get from(): number {
    return this.#page * this.#pageSize;
  }

  get to(): number {
    return Math.min(this.#size, this.from + this.#pageSize);
  }

  /** How many there are in all. A page that no longer exists gives way to the last that does. */
  set size(size: number) {
    this.#size = size;
    this.#page = Math.min(this.#page, Math.max(0, Math.ceil(size / this.#pageSize) - 1));
    this.node.hidden = size <= this.#pageSize;
    this.#back.disabled = this.#page === 0;
    this.#on.disabled = this.to >= size;
    setText(
      this.#where,
      `${(this.from + 1).toLocaleString()} to ${this.to.toLocaleString()} of ${size.toLocaleString()}`,
    );
  }

  first(): void {
    this.#page = 0;
  }

  /** Turns to the page that holds a place of the list. */
  show(place: number): void {
    this.#page = Math.floor(place / this.#pageSize);
  }

  #turn(by: 1 | -1): void {
    this.#page = Math.max(0, this.#page + by);
    this.#turned();
  }
}
