import { describe, expect, test } from 'vitest';
import type { QueueEntry } from '#shared/queue/queue.ts';
import { type ObservedRelay, RelayOracles } from '#test/world/relay/relay-oracles.ts';
import type { ToldKind, ToldObject } from '#test/world/relay/told-world.ts';
import type { Commit } from '#test/world/model/api-server.ts';

/** A relay of which only numbers are seen. */
class SeenRelay implements ObservedRelay {
  readonly name = 'relay';
  readonly isAlive = true;
  isLeading = true;
  pendingTimers = 3;
  dirty = 0;
  shards = 0;

  state() {
    return {
      dirty: new Map([
        ['drain-step' as const, this.dirty],
        ['pool-pods' as const, this.dirty],
      ]),
      wakes: 0,
      objects: new Map([
        ['Shard' as const, this.shards],
        ['Pod' as const, 0],
        ['Database' as const, 0],
      ]),
    };
  }
}

function aShard(version: number, annotations: Record<string, string> = {}, uid = 'uid-a') {
  const metadata = { name: 'a', namespace: 'db', uid, resourceVersion: String(version) };
  return { metadata: { ...metadata, generation: version, annotations }, spec: {} };
}

function aCommit(kind: ToldKind, before: ToldObject | null, after: ToldObject | null): Commit {
  const { name, namespace } = (after ?? before)?.metadata ?? { name: '', namespace: '' };
  return { kind, name, namespace, before, after } as Commit;
}

function aHint(uid: string, step = 'drain-step', changes: object = {}): QueueEntry {
  const hint = {
    specversion: '1.0',
    id: `${uid}/1/${step}`,
    source: 'world',
    type: 'dev.millrace.hint.changed',
    subject: 'shards/db/a',
    time: '2026-01-01T00:00:00Z',
    datacontenttype: 'application/json',
    data: { kind: 'Shard', namespace: 'db', name: 'a', uid, resourceVersion: '1' },
    ...changes,
  };
  return { id: '0', body: JSON.stringify(hint), group: uid };
}

const steps = ['drain-step', 'pool-pods'] as const;

/** One relay that has been told of one Shard, and has sent and got acknowledged what it owed for that. */
function setUp(annotations: Record<string, string> = {}) {
  let nowMs = 0;
  const oracles = new RelayOracles({ nowMs: () => nowMs, slackMs: 0, isLeased: true });
  const relay = new SeenRelay();
  const shard = aShard(1, annotations);
  const send = (uid: string): void => {
    for (const step of steps) {
      const entries = [aHint(uid, step)];
      oracles.asked(entries);
      oracles.taken(relay.name, step, entries[0] ?? aHint(uid, step));
      oracles.answered(relay, step, entries, ['0']);
    }
  };
  const pass = (ms: number): void => {
    nowMs += ms;
    oracles.check([]);
  };
  oracles.started(relay);
  oracles.committed(aCommit('Shard', null, shard));
  oracles.told(relay, 'Shard', { type: 'ADDED', object: shard });
  relay.shards = 1;
  send('uid-a');
  pass(0);
  return { oracles, relay, shard, send, pass };
}

function laws({ violations }: RelayOracles): readonly string[] {
  return [...new Set(violations.map(({ law }) => law))];
}

describe('the oracles say which promise was broken:', () => {
  test('none where each write is followed by a hint', () => {
    const { oracles, relay, shard, send, pass } = setUp();
    const changed = aShard(2);
    oracles.committed(aCommit('Shard', shard, changed));
    oracles.told(relay, 'Shard', { type: 'MODIFIED', object: changed });
    relay.dirty = 1;
    pass(500);

    relay.dirty = 0;
    send('uid-a');
    pass(5_000);
    oracles.checkEnd();

    expect(oracles.violations).toEqual([]);
  });

  test('L1: no hint within a second after a write', () => {
    const { oracles, shard, pass } = setUp();
    oracles.committed(aCommit('Shard', shard, aShard(2)));

    pass(1_001);

    expect(laws(oracles)).toEqual(['L1']);
  });

  test('L1: a hint may be late while a fault lasts and is recovered from, and no longer', () => {
    const { oracles, shard, pass } = setUp();
    oracles.committed(aCommit('Shard', shard, aShard(2)));
    oracles.loosen(2_000, 3_000);

    pass(5_999);
    const during = laws(oracles);
    pass(2);

    expect([during, laws(oracles)]).toEqual([[], ['L1']]);
  });

  test('L1: no hint for half an hour although nothing changed', () => {
    const { oracles, pass } = setUp();

    pass(30 * 60_000 + 1_001);

    expect(laws(oracles)).toEqual(['L1']);
  });

  test('L2: a relay forgets what it was told before the queue has it', () => {
    const { oracles, relay, shard, pass } = setUp();
    const changed = aShard(2);
    oracles.committed(aCommit('Shard', shard, changed));
    oracles.told(relay, 'Shard', { type: 'MODIFIED', object: changed });

    pass(10);

    expect(laws(oracles)).toEqual(['L2']);
  });

  test('L2: an acknowledgement counts for nothing that was told after the batch had left', () => {
    const { oracles, relay, shard, pass } = setUp();
    const entries = [aHint('uid-a')];
    const changed = aShard(2);
    oracles.committed(aCommit('Shard', shard, changed));
    oracles.asked(entries);
    oracles.told(relay, 'Shard', { type: 'MODIFIED', object: changed });
    oracles.answered(relay, 'drain-step', entries, ['0']);

    pass(10);

    expect(laws(oracles)).toEqual(['L2']);
  });

  test('L2: a relay that was asked to stop ends without having sent what it owes', () => {
    const { oracles, relay, shard } = setUp();
    const changed = aShard(2);
    oracles.committed(aCommit('Shard', shard, changed));
    oracles.told(relay, 'Shard', { type: 'MODIFIED', object: changed });
    oracles.stopping();
    oracles.loosen(0, 2_000);

    oracles.stopped(relay);

    expect(laws(oracles)).toEqual(['L2']);
  });

  test('L3: a target that a list no longer names is never hinted at', () => {
    const { oracles, relay, shard, pass } = setUp();
    oracles.committed(aCommit('Shard', shard, null));
    oracles.listBegan(relay, 'Shard');
    oracles.listEnded(relay, 'Shard');
    relay.shards = 0;
    relay.dirty = 1;

    pass(1_001);

    expect(laws(oracles)).toEqual(['L3']);
  });

  test('L4: a client waits for a silent watch', () => {
    const { oracles, relay } = setUp();

    oracles.check([{ process: relay, kind: 'Pod', heardMs: -70_002 }]);

    expect(laws(oracles)).toEqual(['L4']);
  });

  test('L4: a client ends a watch that works', () => {
    const { oracles, relay } = setUp();

    oracles.gaveUp(relay, 'Pod');

    expect(laws(oracles)).toEqual(['L4']);
  });

  test('L5: a hint names a target that never was', () => {
    const { oracles } = setUp();

    oracles.taken('relay', 'drain-step', aHint('uid-of-nobody'));

    expect(laws(oracles)).toEqual(['L5']);
  });

  test('L5: two relays lead at a time although they have a Lease', () => {
    const { oracles, pass } = setUp();
    oracles.started(new SeenRelay());

    pass(1);

    expect(laws(oracles)).toEqual(['L5']);
  });

  test.each([
    ['has a field of its own', { labels: {} }],
    ['has more than a kibibyte', { source: 'x'.repeat(1_000) }],
    ['is for another step', { id: 'uid-a/1/pool-pods' }],
    ['says why in words of its own', { type: 'dev.millrace.hint.guess' }],
  ])('L6: a hint %s', (_, changes) => {
    const { oracles } = setUp();

    oracles.taken('relay', 'drain-step', aHint('uid-a', 'drain-step', changes));

    expect(laws(oracles)).toEqual(['L6']);
  });

  test('L7: what became owed while the queues were down is never sent', () => {
    const { oracles, shard, pass } = setUp();
    oracles.loosen(60_000, 6_000);
    oracles.loseQueues(60_000);
    oracles.committed(aCommit('Shard', shard, aShard(2)));

    pass(67_001);

    expect(laws(oracles)).toEqual(['L7']);
  });

  test.each([
    ['keeps more hints than it has targets', { dirty: 2 }],
    ['knows an object that it was told is gone', { shards: 2 }],
    ['has ever more timers', { pendingTimers: 50 }],
  ])('L8: a relay %s', (_, numbers) => {
    const { oracles, relay, shard, pass } = setUp();
    Object.assign(relay, numbers);
    oracles.told(relay, 'Shard', { type: 'MODIFIED', object: shard });

    pass(0);

    expect(laws(oracles)).toEqual(['L8']);
  });

  test('L9: a record asks for a look every ten seconds and gets none', () => {
    const record = JSON.stringify({ v: 1, wake: { every: 10 } });
    const { oracles, pass } = setUp({ 'step.millrace.dev/drain-step': record });

    pass(11_001);

    expect(laws(oracles)).toEqual(['L9']);
  });

  test('L9: a look before the instant that a record asks for is none at that instant', () => {
    const record = JSON.stringify({ v: 1, wake: { at: '2026-01-01T00:01:00Z' } });
    const { oracles, send, pass } = setUp({ 'step.millrace.dev/drain-step': record });
    pass(59_000);
    send('uid-a');

    pass(2_001);

    expect(laws(oracles)).toEqual(['L9']);
  });

  test('nothing where a target came and went while nobody was told of it', () => {
    const { oracles, pass } = setUp();
    const other = aShard(5, {}, 'uid-other');
    oracles.committed(aCommit('Shard', null, other));
    oracles.committed(aCommit('Shard', other, null));

    pass(1_001);

    expect(oracles.violations.filter(({ message }) => message.includes('uid-other'))).toEqual([]);
  });
});
