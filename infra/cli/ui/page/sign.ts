import type { Attention, Outcome } from '../protocol.ts';
import { element, svg } from './element.ts';
import { attentionWords, outcomeWords, shapeAt } from './shapes.ts';

/** The shape of an outcome, as it is in the picture. It stands beside its word, so it says nothing itself. */
export function sign(outcome: Outcome): SVGSVGElement {
  return svg(
    'svg',
    { class: 'sign', viewBox: '0 0 12 12', width: 12, height: 12, 'aria-hidden': 'true' },
    svg('path', { class: `mark ${outcome}`, d: shapeAt(outcome, 6, 6) }),
  );
}

/** An outcome: shape and word. */
export function outcomeSign(outcome: Outcome): HTMLElement {
  return element('span', { class: `state ${outcome}` }, sign(outcome), outcomeWords[outcome]);
}

/** How much a target wants of a person: shape and word. */
export function attentionSign(attention: Attention): HTMLElement {
  const { word, shape } = attentionWords[attention];
  return element('span', { class: `state ${shape}` }, sign(shape), word);
}
