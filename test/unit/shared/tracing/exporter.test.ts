import { expect, test } from 'vitest';
import { PatientExporter } from '#shared/tracing/exporter.ts';

/** An exporter over a collector that a test can take away, with a clock that a test sets. */
function setUp() {
  const state = { isUp: true, nowMs: 0, sent: 0 };
  const news: string[] = [];
  const exporter = new PatientExporter(
    {
      export(_spans, done) {
        state.sent += 1;
        done(state.isUp ? { code: 0 } : { code: 1, error: new Error('socket hang up') });
      },
      shutdown: () => Promise.resolve(),
    },
    () => state.nowMs,
    (why) => news.push(why),
  );
  const send = (): number => {
    let code = -1;
    exporter.export([], (result) => (code = result.code));
    return code;
  };
  return { state, news, send };
}

test('an outage is told once, and the next one again', () => {
  const { state, news, send } = setUp();
  state.isUp = false;
  send();
  state.nowMs = 31_000;
  send();
  state.isUp = true;
  state.nowMs = 62_000;
  send();
  state.isUp = false;
  send();

  expect(news).toEqual(Array(2).fill('the collector cannot be reached: socket hang up'));
});

test('for half a minute after a failure nothing is sent, and what comes is dropped', () => {
  const { state, send } = setUp();
  state.isUp = false;
  send();
  state.isUp = true;

  state.nowMs = 29_999;
  const during = send();
  state.nowMs = 30_000;
  const after = send();

  expect([during, after]).toEqual([1, 0]);
  expect(state.sent).toBe(2);
});
