/** What an element may be given: attributes by name, and listeners as `onclick`. */
type Attributes = Readonly<Record<string, string | number | boolean | undefined | Listener>>;
type Listener = (event: Event) => void;
export type Child = Node | string | undefined | false;

/**
 * Makes an element. Text is always text: nothing that came from a server is ever read as markup.
 *
 * A value of `undefined` or `false` leaves an attribute out, `true` sets it without a value.
 */
export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Name] {
  return filled(document.createElement(name), attributes, children);
}

const svgNamespace = 'http://www.w3.org/2000/svg';

/** Makes an element of a picture. */
export function svg<Name extends keyof SVGElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[Name] {
  return filled(document.createElementNS(svgNamespace, name), attributes, children);
}

/** The one element of this id. The page's own file has it, so that it is missing is a defect. */
export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) {
    throw new Error(`the page has no ${id}`);
  }
  return found;
}

/** Puts the children in the place of what was there. */
export function fill(parent: Element, ...children: readonly Child[]): void {
  parent.replaceChildren(...present(children));
}

/** Changes a text only where it is another one: what stands is not read out again. */
export function setText(node: Node, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

function filled<T extends Element>(made: T, attributes: Attributes, children: readonly Child[]): T {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') {
      made.addEventListener(name.slice(2), value);
    } else if (value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? '' : String(value));
    }
  }
  made.append(...present(children));
  return made;
}

function present(children: readonly Child[]): (Node | string)[] {
  return children.filter((child) => child !== undefined && child !== false);
}
