import type { Session, TargetRow } from '../protocol.ts';
import { byId, element, fill, setText } from './element.ts';
import { LettersView } from './letters-view.ts';
import { refreshMoments } from './moment.ts';
import { type FeedListener, listen } from './server-feed.ts';
import { TargetView } from './target-view.ts';
import { TargetsView } from './targets-view.ts';

/** How often distances in time are written anew, in milliseconds. */
const refreshMs = 5_000;

const targets = new TargetsView();
const target = new TargetView();
const letters = new LettersView();
let isFirstPaint = true;

/** What the address asks for: the letters, a target, or the list alone. */
function placeInPage(): { readonly isLetters: boolean; readonly id: string } {
  const path = location.hash.replace(/^#\/?/, '');
  return path === 'letters' ? { isLetters: true, id: '' } : { isLetters: false, id: path };
}

/** Shows what the address asks for. Who came by a link finds the focus at the beginning of what it leads to. */
function show(isByLink: boolean): void {
  const { isLetters, id } = placeInPage();
  byId('targets').hidden = isLetters;
  byId('target').hidden = isLetters || id === '';
  byId('letters').hidden = !isLetters;
  document.body.classList.toggle('has-target', id !== '');
  mark('to-targets', !isLetters);
  mark('to-letters', isLetters);
  targets.select(id);
  target.open(id);
  if (id !== '') {
    target.heard(targets.get(id)?.version);
  }
  if (isLetters) {
    letters.open();
  }
  document.title = isLetters
    ? 'Dead letters · Millrace'
    : id === ''
      ? 'Millrace'
      : `${id} · Millrace`;
  if (isByLink) {
    (isLetters ? byId('letters-title') : id === '' ? byId('main') : byId('target-title')).focus();
  }
}

function mark(id: string, isHere: boolean): void {
  if (isHere) {
    byId(id).setAttribute('aria-current', 'page');
  } else {
    byId(id).removeAttribute('aria-current');
  }
}

function introduce(session: Session): void {
  const { server, context, namespaces, version } = session;
  const where = namespaces.length === 0 ? 'every namespace' : namespaces.join(', ');
  fill(
    byId('place'),
    element('span', { title: `${server}, Millrace ${version}` }, `${context}: ${where}`),
    session.canWrite && element('strong', { class: 'writes' }, 'may write'),
  );
  letters.introduce(session);
}

function sayHealth(text: string, isWell: boolean): void {
  setText(byId('health'), text);
  byId('health').classList.toggle('is-lost', !isWell);
}

const listener: FeedListener = {
  session: introduce,
  targets(rows) {
    targets.replace(rows);
    afterChange();
    if (isFirstPaint) {
      isFirstPaint = false;
      requestAnimationFrame(() => requestAnimationFrame(() => performance.mark('targets painted')));
    }
  },
  changes({ changed, gone }) {
    announce(
      changed.filter(
        (row) => row.standing === 'stuck' && targets.get(row.id)?.standing !== 'stuck',
      ),
    );
    targets.change(changed, gone);
    afterChange();
  },
  health(health) {
    switch (health.kind) {
      case 'listing':
        return sayHealth('reading the targets', true);
      case 'live':
        return sayHealth('live', true);
      case 'lost':
        return sayHealth(
          `not heard since ${new Date(health.since).toLocaleTimeString()}: ${health.why}`,
          false,
        );
    }
  },
};

/** Says aloud who needs a person from now on; whoever looks sees it at the top of the list. */
function announce(rows: readonly TargetRow[]): void {
  const [first] = rows;
  if (first !== undefined) {
    const more = rows.length === 1 ? '' : `, and ${rows.length - 1} more`;
    setText(byId('news'), `${first.id} needs you: ${first.headline}${more}`);
  }
}

function afterChange(): void {
  const { id } = placeInPage();
  if (id !== '') {
    target.heard(targets.get(id)?.version);
  }
}

listen(listener, () => sayHealth('cut off: millrace ui does not answer', false));
addEventListener('hashchange', () => show(true));
addEventListener('keydown', (event) => {
  const isTyping =
    event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (event.key === '/' && !isTyping && !byId('targets').hidden) {
    event.preventDefault();
    targets.focusFilter();
  }
});
setInterval(() => {
  if (!document.hidden) {
    refreshMoments();
  }
}, refreshMs);
show(false);
