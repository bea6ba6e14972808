import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { Reflector, type ReflectorSink } from '#events/relay/reflector.ts';
import type { WatchedObject } from '#events/relay/watched-object.ts';
import { ModelApiServer } from './model-api-server.ts';
import { VirtualTimers } from './virtual-timers.ts';

const name = fc.constantFrom('a', 'b', 'c', 'd', 'e');
const operation = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('write' as const), name }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remove' as const), name }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('end' as const),
      how: fc.constantFrom(
        'clean' as const,
        'gone' as const,
        'garbage' as const,
        'broken' as const,
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('refuse' as const),
      statuses: fc.array(fc.constantFrom(0, 403, 410, 429, 500), { maxLength: 4 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'compact' as const,
        'silence' as const,
        'bookmark' as const,
        'hold' as const,
        'release' as const,
      ),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('pass' as const),
      ms: fc.constantFrom(0, 150, 3_000, 80_000),
    }),
  },
);
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

async function apply(operation: Operation, server: ModelApiServer, timers: VirtualTimers) {
  switch (operation.do) {
    case 'write':
      return server.write(operation.name);
    case 'remove':
      return server.remove(operation.name);
    case 'end':
      return server.endWatches(operation.how);
    case 'refuse':
      server.refusals.push(...operation.statuses);
      return undefined;
    case 'compact':
      return server.compact();
    case 'silence':
      return server.silenceWatches();
    case 'bookmark':
      return server.sendBookmarks();
    case 'hold':
      server.isHolding = true;
      return undefined;
    case 'release':
      return server.releaseLists();
    case 'pass':
      return timers.pass(operation.ms);
  }
}

function toText({ metadata }: WatchedObject): string {
  return `${metadata.uid}@${metadata.resourceVersion}`;
}

/** Knows what a list or an event has told of, until a complete list does not name it. */
class KnownObjects implements ReflectorSink {
  readonly texts = new Map<string, string>();
  #unseen = new Set<string>();

  began(): void {
    this.#unseen = new Set(this.texts.keys());
  }

  listed(object: WatchedObject): void {
    this.changed(object);
  }

  completed(): void {
    for (const name of this.#unseen) {
      this.texts.delete(name);
    }
  }

  changed(object: WatchedObject): void {
    this.texts.set(object.metadata.name, toText(object));
    this.#unseen.delete(object.metadata.name);
  }

  removed({ metadata }: WatchedObject): void {
    this.texts.delete(metadata.name);
  }
}

test.each(['served', 'refused', 'ignored'] as const)(
  'F8, F13, F16, L3, L4: whatever happened to lists and watches, the end is known within 90 s of calm, streaming lists %s',
  async (streaming) => {
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { maxLength: 60 }), async (operations) => {
        const server = new ModelApiServer();
        server.streaming = streaming;
        const timers = new VirtualTimers();
        const known = new KnownObjects();
        const stopping = new AbortController();
        const ports = { connection: server, timers, random: () => 0.5 };
        const resource = { kind: 'Shard', isMetadataOnly: false } as const;
        const reflector = new Reflector(resource, ports, known, () => {});
        const play = async () => {
          for (const operation of operations) {
            await apply(operation, server, timers);
          }
          server.refusals.length = 0;
          server.releaseLists();
          for (let second = 0; second < 90; second += 1) {
            await timers.pass(1_000);
          }
          stopping.abort();
        };

        await Promise.all([reflector.run(stopping.signal), play()]);

        const expected = [...server.objects.values()].map(
          ({ metadata }) => [metadata.name, `${metadata.uid}@${metadata.resourceVersion}`] as const,
        );
        expect(known.texts).toEqual(new Map(expected));
      }),
      { numRuns: 300 },
    );
  },
);
