import { Reflector, type ReflectorNews, type ReflectorSink } from '#events/relay/reflector.ts';
import { backoffMs, pause, systemTimers } from '#events/relay/timers.ts';
import type { WatchedObject } from '#events/relay/watched-object.ts';
import { type Instant, wallClock } from '#shared/kernel/instant.ts';
import type { KubeConnection } from '#shared/kube/connection.ts';
import type { TargetKind } from '#shared/kube/resources.ts';
import { kindsInOrder } from './read.ts';
import { type SeenTarget, seenTarget } from './seen.ts';

/** What a watch hears from the API server besides the targets. */
export type WatchNews = { readonly kind: 'lost'; readonly why: string } | { readonly kind: 'back' };

/** Every target as the API server last told it. */
export class Targets {
  readonly #found = new Map<string, SeenTarget>();

  /** @param first what a list has told, in full: where a watch leaves out who changed what and when, that stays */
  constructor(first: readonly SeenTarget[]) {
    for (const target of first) {
      this.#found.set(keyOf(target), target);
    }
  }

  all(): readonly SeenTarget[] {
    return [...this.#found.values()];
  }

  put(target: SeenTarget, now: Instant): void {
    const before = this.#found.get(keyOf(target));
    const isSameSpec = before?.uid === target.uid && before.generation === target.generation;
    this.#found.set(keyOf(target), {
      ...target,
      changedAt: isSameSpec ? before.changedAt : (target.changedAt ?? now),
    });
  }

  remove(target: SeenTarget): void {
    this.#found.delete(keyOf(target));
  }

  /** Forgets those of a kind and place that are not named. */
  keepOnly(isOfList: (target: SeenTarget) => boolean, keys: ReadonlySet<string>): void {
    for (const [key, target] of this.#found) {
      if (isOfList(target) && !keys.has(key)) {
        this.#found.delete(key);
      }
    }
  }
}

function keyOf({ kind, namespace, name }: SeenTarget): string {
  return `${kind}/${namespace}/${name}`;
}

/**
 * Follows every target by list and watch until the signal aborts, whatever becomes of the API server meanwhile.
 *
 * @param namespaces all where none is named
 * @param onChange told after each change, and once a list is complete
 */
export async function followTargets(
  { connection, namespaces, targets }: Followed,
  signal: AbortSignal,
  onChange: () => void,
  onNews: (news: WatchNews) => void,
): Promise<void> {
  const outage = outageOf(connection, signal, onNews);
  const places = namespaces.length === 0 ? [undefined] : namespaces;
  await Promise.all(
    kindsInOrder.flatMap((kind) =>
      places.map((namespace) => {
        const reflector = new Reflector(
          { kind, isMetadataOnly: false, ...(namespace === undefined ? {} : { namespace }) },
          { connection, timers: systemTimers, random: Math.random },
          sinkFor(kind, namespace, targets, onChange),
          outage,
        );
        return reflector.run(signal);
      }),
    ),
  );
}

interface Followed {
  readonly connection: KubeConnection;
  readonly namespaces: readonly string[];
  readonly targets: Targets;
}

function sinkFor(
  kind: TargetKind,
  namespace: string | undefined,
  targets: Targets,
  onChange: () => void,
): ReflectorSink {
  let listed = new Set<string>();
  const put = (object: WatchedObject): SeenTarget => {
    const target = seenTarget(kind, object);
    targets.put(target, wallClock());
    return target;
  };
  return {
    began() {
      listed = new Set();
    },
    listed(object) {
      listed.add(keyOf(put(object)));
    },
    completed() {
      targets.keepOnly(
        (target) =>
          target.kind === kind && (namespace === undefined || target.namespace === namespace),
        listed,
      );
      onChange();
    },
    changed(object) {
      listed.add(keyOf(put(object)));
      onChange();
    },
    removed(object) {
      const target = seenTarget(kind, object);
      listed.delete(keyOf(target));
      targets.remove(target);
      onChange();
    },
  };
}

/** How long it is waited between two questions whether the API server answers again, in milliseconds. */
const backoff = { baseMs: 500, limitMs: 5_000 };

/**
 * Says once that the API server is lost, and once that it is back. A watch that goes on hears nothing before something
 * changes, so whether it is back is asked for.
 */
function outageOf(
  connection: KubeConnection,
  signal: AbortSignal,
  onNews: (news: WatchNews) => void,
): (news: ReflectorNews) => void {
  let isLost = false;
  const untilBack = async () => {
    for (let tries = 1; !signal.aborted; tries += 1) {
      await pause(systemTimers, backoffMs(tries, backoff, Math.random), signal);
      const isBack = await connection
        .request({ method: 'GET', path: '/version', signal })
        .then(({ status }) => status < 500)
        .catch(() => false);
      if (isBack) {
        isLost = false;
        onNews({ kind: 'back' });
        return;
      }
    }
  };
  return (news) => {
    if (isLost || signal.aborted || (news.kind !== 'failed' && news.kind !== 'silent')) {
      return;
    }
    isLost = true;
    onNews({ kind: 'lost', why: whyOf(news) });
    void untilBack();
  };
}

function whyOf(news: Extract<ReflectorNews, { kind: 'failed' | 'silent' }>): string {
  if (news.kind === 'silent') {
    return 'it has gone silent';
  }
  // What Node says of an answer that breaks off.
  return news.why === 'aborted' ? 'the connection broke' : news.why;
}
