import type { Standing, Outcome } from '../protocol.ts';
import { element, svg } from './element.ts';
import { standingWords, outcomeWords, shapeAt } from './shapes.ts';

/** A shape as it is in the picture. It stands beside its word, so it says nothing itself. */
export function sign(outcome: Outcome, path = shapeAt(outcome, 6, 6)): SVGSVGElement {
  return svg(
    'svg',
    { class: 'sign', viewBox: '0 0 12 12', width: 12, height: 12, 'aria-hidden': 'true' },
    svg('path', { class: `mark ${outcome}`, d: path }),
  );
}

/** An outcome: shape and word. */
export function outcomeSign(outcome: Outcome): HTMLElement {
  return element('span', { class: `state ${outcome}` }, sign(outcome), outcomeWords[outcome]);
}

/** Where a target stands: shape and word. */
export function standingSign(standing: Standing): HTMLElement {
  const { word, like, path } = standingWords[standing];
  return element('span', { class: `state ${like}` }, sign(like, path), word);
}
