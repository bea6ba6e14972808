import type { FeedEvents } from '../protocol.ts';

/** Who is told what the server says. */
export type FeedListener = {
  readonly [Name in keyof FeedEvents]: (data: FeedEvents[Name]) => void;
};

/** Listens for as long as the page is open. The browser connects again by itself, and is told everything anew then. */
export function listen(listener: FeedListener, cutOff: () => void): void {
  const source = new EventSource('/feed');
  const hear = (name: keyof FeedEvents, tell: (data: string) => void): void => {
    source.addEventListener(name, ({ data }: MessageEvent<string>) => tell(data));
  };
  hear('session', (data) => listener.session(JSON.parse(data)));
  hear('targets', (data) => listener.targets(JSON.parse(data)));
  hear('changes', (data) => listener.changes(JSON.parse(data)));
  hear('health', (data) => listener.health(JSON.parse(data)));
  source.addEventListener('error', cutOff);
}
