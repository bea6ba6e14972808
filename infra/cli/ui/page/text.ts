import { element } from './element.ts';

/** A sentence in which what stands between backquotes is something to type. */
export function sentence(text: string): (Node | string)[] {
  return text.split('`').map((part, place) => (place % 2 === 1 ? element('code', {}, part) : part));
}
