import type { ServerResponse } from 'node:http';
import { safeHeaders } from './gate.ts';
import type { ListNews, PagePorts } from './ports.ts';
import type { FeedEvents } from './protocol.ts';

/**
 * Changes that come within this time are told together, in milliseconds: a thousand targets that change at once are one
 * paint, and nobody reads faster.
 */
const togetherMs = 200;

/** A browser that has taken so little is let go, in bytes; it connects again by itself and is told everything anew. */
const maxUnreadBytes = 32 * 1024 * 1024;

/** Tells a browser everything once and then what changes, as server-sent events, until it goes away. */
export function feed({ session, targets }: PagePorts, response: ServerResponse): void {
  response.writeHead(200, { ...safeHeaders, 'content-type': 'text/event-stream; charset=utf-8' });
  const send = <Name extends keyof FeedEvents>(name: Name, data: FeedEvents[Name]): void => {
    response.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
    if (response.writableLength > maxUnreadBytes) {
      response.destroy();
    }
  };
  send('session', session);
  send('health', targets.health);
  if (targets.health.kind !== 'listing') {
    send('targets', targets.rows);
  }
  const changes = gathered((batch) => send('changes', batch));
  const leave = targets.follow((news) => {
    if (news.kind === 'changes') {
      changes.add(news);
    } else if (news.kind === 'targets') {
      changes.drop();
      send('targets', news.rows);
    } else {
      send('health', news.health);
    }
  });
  response.on('close', () => {
    leave();
    changes.drop();
  });
}

/** Keeps the newest of each target, and hands all on together. */
function gathered(send: (batch: FeedEvents['changes']) => void) {
  const changed = new Map<string, FeedEvents['changes']['changed'][number]>();
  const gone = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const flush = (): void => {
    timer = undefined;
    send({ changed: [...changed.values()], gone: [...gone] });
    changed.clear();
    gone.clear();
  };
  return {
    add(news: Extract<ListNews, { kind: 'changes' }>): void {
      for (const row of news.changed) {
        changed.set(row.id, row);
        gone.delete(row.id);
      }
      for (const id of news.gone) {
        changed.delete(id);
        gone.add(id);
      }
      timer ??= setTimeout(flush, togetherMs);
    },
    drop(): void {
      clearTimeout(timer);
      timer = undefined;
      changed.clear();
      gone.clear();
    },
  };
}
