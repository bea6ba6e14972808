import { element } from './element.ts';

/**
 * Asks before something is done. The browser's own dialogue keeps the focus inside and gives it back; Escape and the safe
 * button, which has the focus at first, mean no.
 */
export function confirmed(question: string, consequence: string, doIt: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const dialogue = element(
    'dialog',
    { 'aria-labelledby': 'question', 'aria-describedby': 'consequence' },
    element('h2', { id: 'question' }, question),
    element('p', { id: 'consequence' }, consequence),
    element(
      'div',
      { class: 'tools' },
      element(
        'button',
        { type: 'button', autofocus: true, onclick: () => dialogue.close() },
        'Leave it',
      ),
      element(
        'button',
        { type: 'button', class: 'does', onclick: () => dialogue.close('yes') },
        doIt,
      ),
    ),
  );
  dialogue.addEventListener('close', () => {
    dialogue.remove();
    resolve(dialogue.returnValue === 'yes');
  });
  document.body.append(dialogue);
  dialogue.showModal();
  return promise;
}
