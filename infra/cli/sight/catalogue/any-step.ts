import { type Entries, askDoctor } from './meaning.ts';

/** Reasons that every step can give. */
export const anyStep = {
  Paused: {
    brief: 'paused by a person',
    means:
      'A person has paused it: every step may look and none acts. What had begun before stays as it is.',
    attention: 'none',
    waitsFor: 'a person to end the pause',
    next: 'Nothing, until the pause ends. Then it goes on from what it sees.',
  },
  RecordUnreadable: {
    brief: 'its notes cannot be read',
    means:
      "The step's own notes on the object cannot be read: a newer version of Millrace wrote them, or somebody changed them. It leaves everything alone.",
    attention: 'needed',
    waitsFor: 'notes that it can read',
    todo: ({ resource, step, namespace }) => [
      { text: 'if a newer Millrace wrote them, run that version again' },
      {
        text: 'if not, see what is there and clear it; the step then starts over from what it sees',
        command: `millrace reset ${resource} ${step} -n ${namespace}`,
      },
    ],
    next: 'It looks again by itself and does nothing until then.',
  },
  RecordForeign: {
    brief: 'notes of another object are cleared',
    means:
      "The step's notes on the object are those of another one: it was copied or restored from there. They are not obeyed.",
    attention: 'none',
    waitsFor: 'its next look',
    next: 'The next look clears them and starts from what it sees.',
  },
  DatabaseMissing: {
    brief: 'its Database does not exist',
    means:
      'The Database that the Shard names does not exist, so nobody knows how to reach the data plane.',
    attention: 'needed',
    waitsFor: 'the Database',
    todo: ({ namespace, database }) => [
      {
        text: `create ${database ?? 'the Database'}; a Shard cannot be moved to another one`,
        command: `kubectl get mdb -n ${namespace}`,
      },
    ],
    next: 'Once the Database is there it goes on by itself.',
  },
  DatabaseUnknown: {
    brief: 'its Database cannot be read',
    means:
      'The Database that the Shard names could not be read: the API server refused or did not answer.',
    attention: 'needed',
    waitsFor: 'an answer about its Database',
    todo: (names) => [askDoctor(names)],
    next: 'It asks again by itself.',
  },
  TargetBeingDeleted: {
    brief: 'is being deleted',
    means: 'The object is being deleted: nothing more is done for it.',
    attention: 'none',
    next: 'It goes once its finalizers are gone.',
  },
} as const satisfies Entries;
