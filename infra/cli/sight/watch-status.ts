import { setInterval as ticks } from 'node:timers/promises';
import { createLogUpdate } from 'log-update';
import { type Instant, toText, wallClock } from '#shared/kernel/instant.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import type { OutputFormat } from '../output.ts';
import { print, printJson, remark } from '../terminal.ts';
import type { Sight } from './model.ts';
import { scenesOf } from './read.ts';
import type { SeenTarget } from './seen.ts';
import { sightOf } from './sight.ts';
import { type StatusForm, inOrder, rowOf, statusColumns, statusText, tableOf } from './tell.ts';
import { Targets, type WatchNews, followTargets } from './watch.ts';
import { ageText } from './words.ts';

export interface WatchOptions {
  readonly connection: KubeConnection;
  readonly namespaces: readonly string[];
  /** What a first list has told. */
  readonly first: readonly SeenTarget[];
  readonly form: StatusForm;
  readonly output: OutputFormat;
  /** Ends the watch. */
  readonly signal: AbortSignal;
}

/** How often a picture is drawn anew though nothing changes, in milliseconds: ages grow, and looks become overdue. */
const redrawMs = 2_000;

/** Changes that come together are shown together, in milliseconds. */
const togetherMs = 150;

/**
 * Shows how every target stands, and what changes, until the signal aborts. On a terminal the table is redrawn in place;
 * elsewhere each line is a row that has changed.
 */
export async function watchStatus(options: WatchOptions): Promise<void> {
  const { connection, namespaces, signal } = options;
  const targets = new Targets(options.first);
  const face =
    options.output === 'json'
      ? jsonFace()
      : canRedraw()
        ? drawnFace(options.form)
        : rowsFace(options.form);
  const show = () => {
    const now = wallClock();
    face.show(scenesOf(targets.all(), now).map(sightOf), now);
  };
  show();
  let pending: NodeJS.Timeout | undefined;
  const soon = () => {
    pending ??= setTimeout(() => {
      pending = undefined;
      show();
    }, togetherMs);
  };
  try {
    await Promise.all([
      followTargets({ connection, namespaces, targets }, signal, soon, (news) => {
        face.news(news, wallClock());
        soon();
      }),
      everySoOften(show, signal),
    ]);
  } finally {
    clearTimeout(pending);
    face.end();
  }
}

/** A terminal, and one that has a size. */
function canRedraw(): boolean {
  return process.stdout.isTTY && process.stdout.columns > 0;
}

async function everySoOften(show: () => void, signal: AbortSignal): Promise<void> {
  try {
    for await (const _ of ticks(redrawMs, undefined, { signal })) {
      show();
    }
  } catch {
    // The watch has ended.
  }
}

interface Face {
  show(sights: readonly Sight[], now: Instant): void;
  news(news: WatchNews, now: Instant): void;
  end(): void;
}

/** Of a terminal that does not tell. */
const usualRows = 24;

/** The table's head, what is not shown, the summary, what to do, an outage, and the cursor. */
const linesBesides = 6;

/** One table, redrawn in place, as much of it as there is room for: what scrolls away cannot be redrawn. */
function drawnFace(form: StatusForm): Face {
  const draw = createLogUpdate(process.stdout);
  let lostSince: { readonly at: string; readonly why: string } | undefined;
  return {
    show(sights, now) {
      const loss =
        lostSince === undefined
          ? []
          : [
              `no news from the API server for ${ageText(lostSince.at, now)} (${lostSince.why}); this is what it told before`,
            ];
      const most = Math.max(1, (process.stdout.rows ?? usualRows) - linesBesides);
      draw([statusText(sights, form, now, most), ...loss].join('\n'));
    },
    news(news, now) {
      lostSince = news.kind === 'lost' ? { at: toText(now), why: news.why } : undefined;
    },
    end: () => draw.done(),
  };
}

/** All rows once, then each that has changed. */
function rowsFace(form: StatusForm): Face {
  const changes = changesOf();
  let hasHead = false;
  return {
    show(sights, now) {
      const { changed, gone } = changes(sights);
      const rows = changed.map((sight) => rowOf(sight, form, now));
      if (!hasHead || rows.length > 0) {
        print(tableOf(hasHead ? rows : [statusColumns[form], ...rows], form));
      }
      hasHead = true;
      gone.forEach((target) => print(`- gone  ${target}`));
    },
    news: remarkNews,
    end: () => {},
  };
}

/** One line of JSON for each target, then one for each change. */
function jsonFace(): Face {
  const changes = changesOf();
  return {
    show(sights, now) {
      const { changed, gone } = changes(sights);
      const at = toText(now);
      changed.forEach((sight) => printJson({ at, ...sight }));
      gone.forEach((target) => printJson({ at, target, gone: true }));
    },
    news: remarkNews,
    end: () => {},
  };
}

function remarkNews(news: WatchNews): void {
  remark(
    news.kind === 'back'
      ? 'the API server is back'
      : `no news from the API server (${news.why}); waiting until it is back`,
  );
}

/** What is new since the last time. That time passes is not: only what a person would see as a change. */
function changesOf() {
  let before = new Map<string, string>();
  return (sights: readonly Sight[]) => {
    const after = new Map(sights.map((sight) => [sight.target, essenceOf(sight)]));
    const changed = inOrder(sights).filter(
      (sight) => before.get(sight.target) !== after.get(sight.target),
    );
    const gone = [...before.keys()].filter((target) => !after.has(target));
    before = after;
    return { changed, gone };
  };
}

function essenceOf({ look, waitsFor, ...sight }: Sight): string {
  const wake = look === null ? null : [look.wake, look.isOverdue];
  // Distances of time go on by themselves.
  const waits = waitsFor?.replaceAll(/\([^)]*\)/g, '');
  return JSON.stringify([sight, wake, waits]);
}
