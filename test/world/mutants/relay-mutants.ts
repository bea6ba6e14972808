import type { Mutant } from './mutant.ts';

const dirtySet = 'events/relay/dirty-set.ts';
const sender = 'events/relay/sender.ts';
const knownWorld = 'events/relay/known-world.ts';
const reflector = 'events/relay/reflector.ts';
const wakes = 'events/relay/wakes.ts';
const digest = 'events/relay/digest.ts';
const relay = 'events/relay/relay.ts';

/** The relay: what it hears, what it owes, what it sends, and when it wakes somebody. */
export const relayMutants: readonly Mutant[] = [...hearing(), ...owing(), ...waking()];

/** Lists, watches, and who is told. */
function hearing(): readonly Mutant[] {
  return [
    {
      id: 'relay-gone-not-relisted',
      file: reflector,
      find: "      case 'gone':\n        this.#report(ending);\n        this.#version = undefined;\n",
      replace: "      case 'gone':\n        this.#report(ending);\n",
      breaks: 'A watch whose place in the history is gone is opened at that place again.',
      expected: ['L1', 'L3'],
    },
    {
      id: 'relay-gone-in-stream-is-end',
      file: reflector,
      find: "? { kind: 'gone', where: 'stream' }",
      replace: "? { kind: 'ended' }",
      breaks: 'A 410 inside a watch counts as the orderly end of the watch.',
      expected: ['L1', 'L3'],
    },
    {
      id: 'relay-old-list-kept',
      file: reflector,
      find: 'if (timers.monotonicMs() - this.#listedMs >= this.#limits.listsEveryMs) {',
      replace:
        'if (timers.monotonicMs() - this.#listedMs >= Infinity * this.#limits.listsEveryMs) {',
      breaks: 'What no event ever told of is never found.',
      expected: ['L1', 'L3'],
    },
    {
      id: 'relay-watchdog-off',
      file: reflector,
      find: '      silence.abort(),\n',
      replace: "      this.#report({ kind: 'silent' }),\n",
      breaks: 'A watch that went silent is listened to for ever.',
      expected: ['L4', 'L1'],
    },
    {
      id: 'relay-watchdog-not-fed-by-bookmarks',
      file: reflector,
      find: "allowWatchBookmarks: 'true',",
      replace: "allowWatchBookmarks: 'false',",
      breaks: 'A quiet watch says nothing at all, not even how far it is.',
      expected: ['L1', 'L4'],
    },
    {
      id: 'relay-deletes-not-synthesised',
      file: knownWorld,
      find: 'if (seenAt < beganAt && label',
      replace: 'if (seenAt < 0 * beganAt && label',
      breaks: 'What vanished while nobody watched is never noticed.',
      expected: ['L3'],
    },
    {
      id: 'relay-partial-list-deletes',
      file: knownWorld,
      find: 'if (seenAt < beganAt && label',
      replace: 'if (seenAt <= beganAt && label',
      breaks: 'Whatever a new list has just shown counts as vanished.',
      expected: ['L1', 'L3', 'L9'],
    },
    {
      id: 'relay-predecessor-not-reported',
      file: knownWorld,
      find: 'if (before !== undefined && before.object.uid !== uid) {',
      replace: "if (before !== undefined && uid === '') {",
      breaks: 'An object that was recreated under its name keeps the uid of the former one.',
      expected: ['L3', 'L1'],
    },
    {
      id: 'relay-digest-without-records',
      file: digest,
      find: '[route.step, ...route.records].map((step) => annotations[recordAnnotation(step)]),',
      replace: '[],',
      breaks: 'A step is not told when its own record moves, nor when one that it reads does.',
      expected: ['L1'],
    },
    {
      id: 'relay-digest-without-requests',
      file: digest,
      find: '    route.requests.map((key) => annotations[key]),\n',
      replace: '',
      breaks: 'What people ask by annotations on a target is not heard.',
      expected: ['L1'],
    },
    {
      id: 'relay-members-by-generation',
      file: digest,
      find: 'concerns.push({ audience, digest: resourceVersion });',
      replace:
        'concerns.push({ audience, digest: String(object.metadata.generation ?? resourceVersion) });',
      breaks:
        'Changes of a pod that do not move its generation, its readiness among them, are not heard.',
      expected: ['L1'],
    },
    {
      id: 'relay-former-owner-not-told',
      file: knownWorld,
      find: 'return [...gone, ...different];',
      replace: 'return gone.length < different.length ? different : [];',
      breaks: 'A target is not told that a pod has left it for another one.',
      expected: ['L1'],
    },
  ];
}

/** The dirty set and the sender. */
function owing(): readonly Mutant[] {
  return [
    {
      id: 'relay-forgotten-when-sent',
      file: sender,
      find: '        dirty.giveBack(each.dirty);\n',
      replace: '        dirty.acknowledge(each.dirty);\n',
      breaks: 'A hint counts as delivered when it was sent, whatever the queue answered.',
      expected: ['L2', 'L7'],
    },
    {
      id: 'relay-part-of-batch-is-all',
      file: sender,
      find: 'const acknowledged = new Set(outcome.acknowledged);',
      replace:
        'const acknowledged = new Set(outcome.acknowledged.length > 0 ? entries.map(({ id }) => id) : []);',
      breaks: 'A batch of which the queue took a part counts as taken.',
      expected: ['L2', 'L7'],
    },
    {
      id: 'relay-newer-mark-lost',
      file: dirtySet,
      find: 'lane.again.set(uid, renew(lane.again.get(uid)));',
      replace: 'lane.inFlight.set(uid, renew(lane.inFlight.get(uid)));',
      breaks: 'What changes while a hint is on its way goes with that hint.',
      expected: ['L1', 'L2'],
    },
    {
      id: 'relay-slowed-is-dropped',
      file: dirtySet,
      find: '    lane.held.set(uid, { dirty, untilMs: nowMs + this.#parts.pace.everyMs });\n',
      replace: '',
      breaks: 'The hint of a target that hints too often is dropped instead of held back.',
      expected: ['L1'],
    },
    {
      id: 'relay-memory-by-event',
      file: dirtySet,
      find: 'lane.ready.set(uid, renew(ready));',
      replace: 'lane.ready.set(`${uid}/${markedMs}`, renew(undefined));',
      breaks: 'Each event during an outage is kept on its own.',
      expected: ['L8', 'L2'],
    },
    {
      id: 'relay-standby-forgets',
      file: relay,
      find: 'if (marks.length === 0) {',
      replace: 'if (marks.length === 0 || !this.isLeading) {',
      breaks: 'A relay that stands by keeps nothing of what the leader may not have sent.',
      expected: ['L1', 'L2', 'L9'],
    },
    {
      id: 'relay-hint-says-more',
      file: sender,
      find: 'body: JSON.stringify(hint),',
      replace: 'body: JSON.stringify({ ...hint, step: lane.step }),',
      breaks: 'A hint holds a field that it must not hold.',
      expected: ['L6', 'P3', 'X8'],
    },
    {
      id: 'relay-never-resyncs',
      file: relay,
      find: 'this.#cancelResync = this.#parts.timers.after(delayMs, () => this.#resyncIfLeading());',
      replace:
        'this.#cancelResync = this.#parts.timers.after(delayMs, () =>\n      this.isLeading ? this.#sender.notice() : this.#resyncIfLeading(),\n    );',
      breaks: 'What changes without an event is never looked at.',
      expected: ['L1', 'X8'],
    },
  ];
}

/** Wakes, which come from the records. */
function waking(): readonly Mutant[] {
  return [
    {
      id: 'relay-wakes-not-rebuilt',
      file: knownWorld,
      find: 'wake: record === undefined ? undefined : wakeOf(record),',
      replace: "wake: record === undefined || cause === 'resync' ? undefined : wakeOf(record),",
      breaks: 'A relay that starts anew does not know who is to be woken.',
      expected: ['L9', 'X8'],
    },
    {
      id: 'relay-wakes-once',
      file: wakes,
      find: 'this.#add({ ...alarm, due: plusSeconds(now, seconds) });',
      replace:
        "if ('at' in alarm.wake) {\n        this.#add({ ...alarm, due: plusSeconds(now, seconds) });\n      } else {\n        this.#alarms.delete(keyOf(alarm));\n      }",
      breaks: 'A wake that is to come every few seconds comes once.',
      expected: ['L9', 'X8'],
    },
    {
      id: 'relay-latest-wake-first',
      file: wakes,
      find: 'if (parent === undefined || parent.due <= alarm.due) {',
      replace: 'if (parent === undefined || parent.due >= alarm.due) {',
      breaks: 'The wake that is due last stands before all others.',
      expected: ['L9', 'X8'],
    },
    {
      id: 'relay-wake-timer-set-once',
      file: relay,
      find: 'if (due === this.#nextWake?.due) {',
      replace: 'if (this.#nextWake !== undefined && due !== undefined) {',
      breaks: 'A wake that is due before the one that is waited for comes too late.',
      expected: ['L9'],
    },
  ];
}
