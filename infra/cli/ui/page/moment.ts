import { element, setText } from './element.ts';
import { distanceText, instantText } from './time-text.ts';

/** How long ago or how soon something is, kept true by {@link refreshMoments}; the exact time shows as its title. */
export function moment(text: string): HTMLElement {
  const at = Date.parse(text);
  return Number.isNaN(at)
    ? element('span', {}, text)
    : element(
        'time',
        { datetime: text, title: instantText(at), 'data-at': at },
        distanceText(at, Date.now()),
      );
}

/** A time as it was on the clock. */
export function exactMoment(at: number): HTMLElement {
  return element('time', { datetime: new Date(at).toISOString() }, instantText(at));
}

/** Writes every distance anew, where it has become another. */
export function refreshMoments(): void {
  const now = Date.now();
  for (const node of document.querySelectorAll<HTMLElement>('time[data-at]')) {
    setText(node, distanceText(Number(node.dataset['at']), now));
  }
}
