import { test, expect } from 'vitest';
import { SimulatedCluster } from './simulated-cluster.ts';

test('try', () => {
  for (let seed = 1; seed < 30; seed++) {
    const c = new SimulatedCluster({}, seed);
    c.startPod('a');
    c.startPod('b');
    c.startPod('c');
    const primary = c.runUntil(() => c.primaries().length === 1);
    const ready = primary + c.runUntil(() => c.areAllReady());
    c.runFor(10_000);
    const l = c.leaderPod();
    const r = c.replicaPods()[0]!;
    c.deletePod(r);
    const shut = c.runUntil(() => c.recordOf(r)?.lifecycle === 'shutdown');
    const out = shut + c.runUntil(() => c.cohort().length === 2);
    const gone = out + c.runUntil(() => c.podView(r)?.phase === 'ended');
    c.removePod(r);
    c.runFor(1000);
    c.startPod(r);
    const back = c.runUntil(() => c.cohort().length === 3);
    c.runUntil(() => c.areAllReady());
    c.startPod('d');
    const fourth = c.runUntil(() => c.cohort().length === 4);
    c.runUntil(() => c.areAllReady());
    const l2 = c.leaderPod();
    c.deletePod(l2);
    const lshut = c.runUntil(() => c.recordOf(l2)?.lifecycle === 'shutdown');
    const nl = lshut + c.runUntil(() => c.primaries().length === 1);
    c.runUntil(() => c.podView(l2)?.phase === 'ended');
    c.removePod(l2);
    c.runFor(20_000);
    const sw = c.ask(
      'POST',
      '/api/v1/shards/postgres/default/0-inf/switch-primary',
      '{"reason":"x"}',
    );
    const p0 = c.primaries().length;
    const again = c.ask(
      'POST',
      '/api/v1/shards/postgres/default/0-inf/switch-primary',
      '{"reason":"x"}',
    );
    const nl2 = c.runUntil(() => c.primaries().length === 1);
    c.runFor(20_000);
    const cut = c.leaderPod();
    c.inject({ kind: 'cutOff', pod: cut, from: 'everyone' });
    const nl3 = c.runUntil(() => c.primaries().length === 2);
    console.log(
      seed,
      [
        primary,
        ready,
        shut,
        out,
        gone,
        back,
        fourth,
        lshut,
        nl,
        sw.afterMs,
        p0,
        (again.reply as any).status,
        nl2,
        nl3,
      ]
        .map(Math.round)
        .join(' '),
      l,
      JSON.stringify(c.view.rule),
    );
  }
  expect(1).toBe(1);
});
