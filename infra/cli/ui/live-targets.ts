import { Reflector, type ReflectorNews, type ReflectorSink } from '#events/relay/reflector.ts';
import { type Timers, systemTimers } from '#events/relay/timers.ts';
import type { WatchedObject } from '#events/relay/watched-object.ts';
import { type Instant, toText } from '#shared/kernel/instant.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import { type TargetKind, shortNames } from '#shared/kube/resources.ts';
import { kindsInOrder, scenesOf } from '../sight/read.ts';
import { type SeenTarget, seenTarget } from '../sight/seen.ts';
import { sightOf } from '../sight/sight.ts';
import type { ListNews, TargetList } from './ports.ts';
import type { Health, TargetRow } from './protocol.ts';
import { rowOf } from './tell-target.ts';

/** A time that passes changes what is said of a target, too: every so often all are told anew, in milliseconds. */
const tellAgainMs = 15_000;

/** Changes within this time are told together, in milliseconds. */
const togetherMs = 100;

interface Kept {
  readonly seen: SeenTarget;
  readonly version: string;
}

/** What is followed: one kind in one namespace, or in all. */
interface Source {
  readonly kind: TargetKind;
  readonly namespace?: string;
  isListed: boolean;
  lostSince?: { readonly at: Instant; readonly why: string };
}

/**
 * Every target of some namespaces, as it changes: followed by watches, so nothing is asked for again and again.
 */
export class LiveTargets implements TargetList {
  readonly #timers: Timers;
  readonly #kept = new Map<string, Kept>();
  readonly #rows = new Map<string, TargetRow>();
  readonly #listeners = new Set<(news: ListNews) => void>();
  readonly #sources: readonly Source[];
  /** Targets that changed since they were told of, and those that went. */
  readonly #changed = new Set<string>();
  readonly #gone = new Set<string>();
  #cancelTelling: (() => void) | undefined;
  #health: Health = { kind: 'listing' };

  constructor(namespaces: readonly string[], timers: Timers = systemTimers) {
    this.#timers = timers;
    this.#sources = kindsInOrder.flatMap((kind) =>
      namespaces.length === 0
        ? [{ kind, isListed: false }]
        : namespaces.map((namespace) => ({ kind, namespace, isListed: false })),
    );
  }

  get rows(): readonly TargetRow[] {
    return [...this.#rows.values()];
  }

  get health(): Health {
    return this.#health;
  }

  follow(listener: (news: ListNews) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Follows the API server until the signal aborts. */
  async run(connection: KubeConnection, signal: AbortSignal): Promise<void> {
    const again = setInterval(() => this.#tell([...this.#kept.keys()]), tellAgainMs);
    const ports = { connection, timers: this.#timers, random: Math.random };
    try {
      await Promise.all(
        this.#sources.map((source) => {
          const { kind, namespace } = source;
          const resource = {
            kind,
            isMetadataOnly: false,
            ...(namespace === undefined ? {} : { namespace }),
          };
          const report = (news: ReflectorNews) => this.#hear(source, news);
          return new Reflector(resource, ports, this.#sinkOf(source), report).run(signal);
        }),
      );
    } finally {
      clearInterval(again);
      this.#cancelTelling?.();
    }
  }

  #sinkOf(source: Source): ReflectorSink {
    const { kind, namespace } = source;
    let unseen = new Set<string>();
    const take = (object: WatchedObject): void => {
      const id = idOf(kind, object);
      unseen.delete(id);
      this.#kept.set(id, {
        seen: seenTarget(kind, object),
        version: object.metadata.resourceVersion,
      });
      this.#note(id);
    };
    const drop = (id: string): void => {
      this.#kept.delete(id);
      this.#note(id);
    };
    return {
      began: () => {
        unseen = new Set(
          [...this.#kept]
            .filter(
              ([, { seen }]) =>
                seen.kind === kind && (namespace === undefined || seen.namespace === namespace),
            )
            .map(([id]) => id),
        );
      },
      listed: take,
      changed: take,
      removed: (object) => drop(idOf(kind, object)),
      completed: () => {
        unseen.forEach(drop);
        source.isListed = true;
        this.#sayHealth();
      },
    };
  }

  /** What a target says depends on its Database, so Shards of a changed Database are told anew. */
  #note(id: string): void {
    const kept = this.#kept.get(id);
    (kept === undefined ? this.#gone : this.#changed).add(id);
    (kept === undefined ? this.#changed : this.#gone).delete(id);
    if (id.startsWith(`${shortNames.Database}/`) && this.#health.kind !== 'listing') {
      const [, namespace, name] = id.split('/');
      for (const [other, { seen }] of this.#kept) {
        if (seen.namespace === namespace && seen.spec.databaseRef?.name === name) {
          this.#changed.add(other);
        }
      }
    }
    this.#cancelTelling ??= this.#timers.after(togetherMs, () => this.#tellChanges());
  }

  #tellChanges(): void {
    this.#cancelTelling = undefined;
    const changed = [...this.#changed];
    this.#changed.clear();
    if (this.#health.kind !== 'listing') {
      this.#tell(changed);
    }
  }

  /** Tells of those whose row is another one now, and of those that went. */
  #tell(ids: readonly string[]): void {
    const changed = this.#computed(ids);
    const gone = [...this.#gone];
    this.#gone.clear();
    gone.forEach((id) => this.#rows.delete(id));
    if (changed.length + gone.length > 0) {
      this.#send({ kind: 'changes', changed, gone });
    }
  }

  #computed(ids: readonly string[]): TargetRow[] {
    const targets = ids.flatMap((id) => this.#kept.get(id) ?? []);
    const databases = [...this.#kept.values()].filter(({ seen }) => seen.kind === 'Database');
    const asked = new Set(targets.map(({ seen }) => seen));
    const scenes = scenesOf(
      [...new Set([...databases, ...targets].map(({ seen }) => seen))],
      this.#timers.now(),
    ).filter(({ target }) => asked.has(target));
    return scenes.flatMap((scene) => {
      const sight = sightOf(scene);
      const version = this.#kept.get(sight.target)?.version ?? '';
      const row = rowOf(sight, scene.target, version);
      const isSame = JSON.stringify(this.#rows.get(row.id)) === JSON.stringify(row);
      this.#rows.set(row.id, row);
      return isSame ? [] : [row];
    });
  }

  #hear(source: Source, news: ReflectorNews): void {
    if (news.kind === 'heard') {
      delete source.lostSince;
    } else if (news.kind !== 'gone') {
      const why = news.kind === 'failed' ? news.why : 'the watch fell silent';
      source.lostSince ??= { at: this.#timers.now(), why };
    }
    this.#sayHealth();
  }

  #sayHealth(): void {
    const lost = this.#sources.find(({ lostSince }) => lostSince !== undefined)?.lostSince;
    const isListed = this.#sources.every((source) => source.isListed);
    const health: Health =
      lost !== undefined
        ? { kind: 'lost', since: toText(lost.at), why: lost.why }
        : { kind: isListed ? 'live' : 'listing' };
    const before = this.#health;
    this.#health = health;
    if (before.kind === 'listing' && health.kind !== 'listing') {
      this.#changed.clear();
      this.#computed([...this.#kept.keys()]);
      this.#send({ kind: 'targets', rows: this.rows });
    }
    if (JSON.stringify(before) !== JSON.stringify(health)) {
      this.#send({ kind: 'health', health });
    }
  }

  #send(news: ListNews): void {
    this.#listeners.forEach((listener) => listener(news));
  }
}

function idOf(kind: TargetKind, { metadata }: WatchedObject): string {
  return `${shortNames[kind]}/${metadata.namespace}/${metadata.name}`;
}
